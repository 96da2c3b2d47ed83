//! Change sets as JSON.

use hyper::StatusCode;
use hyper::header::{HeaderValue, LOCATION};
use tollgate_api::params::{
    ChangeBody, ChangesQuery, ChoiceBody, CommentBody, PreviewBody, PublishBody, ResolveBody,
};
use tollgate_api::{ChangeCall, views};
use tollgate_control::actor::EVERY_APP;
use tollgate_control::change_set::{self, ChangeSet, Query};
use tollgate_control::changes::{self, ChangeInput, Choice, Keep, Look};
use tollgate_control::publishing::{self, Intent};
use tollgate_control::rules::may_create;
use tollgate_control::{Actor, Committed, ControlError, Role, checks, reviews};
use tollgate_db::Tx;
use tollgate_http_kit::Reply;

use super::body::read;
use super::etag::{if_match, tagged};
use super::json::ok;
use super::ops::{faults_of, input, inputs};
use crate::console::Console;
use crate::replaying::{NotReplayed, ReplayJob};
use crate::web::{Failure, Visit, unless_stale};

type Done = Result<Committed<ChangeSet>, ControlError>;

pub(super) async fn answer(console: &Console, call: ChangeCall, visit: &Visit) -> Result<Reply, Failure> {
    match call {
        ChangeCall::List => list(console, visit).await,
        ChangeCall::Create => create(console, visit).await,
        ChangeCall::Get => Ok(shown(StatusCode::OK, current(console, visit).await?)),
        ChangeCall::Edit => edit(console, visit).await,
        ChangeCall::Diff => {
            let found = current(console, visit).await?;
            Ok(ok(&views::Diff { diff: views::RuleDiff::of_ops(&found.ops) }))
        }
        ChangeCall::Check => check_set(console, visit).await,
        ChangeCall::CheckOps | ChangeCall::Preview => check_ops(console, visit, call).await,
        ChangeCall::Traces => traces(console, visit).await,
        ChangeCall::Comment => {
            visit.claim()?;
            let id = visit.segment(3);
            let text = comment(visit)?;
            let done =
                console.commit(visit, move |tx, actor| changes::comment(tx, actor, &id, &text)).await?;
            Ok(shown(StatusCode::OK, done))
        }
        ChangeCall::Submit => {
            step(console, visit, |tx, by, id, etag| changes::submit(tx, by, id, etag)).await
        }
        ChangeCall::Publish => {
            let plan = match visit.body.is_empty() {
                true => None,
                false => read::<PublishBody>(visit)?.rollout,
            };
            step(console, visit, move |tx, by, id, etag| {
                publishing::publish_by(tx, by, id, etag, plan.as_ref())
            })
            .await
        }
        ChangeCall::Approve => {
            let text = comment(visit)?;
            step(console, visit, move |tx, by, id, etag| reviews::approve(tx, by, id, etag, &text)).await
        }
        ChangeCall::Reject => {
            let text = comment(visit)?;
            step(console, visit, move |tx, by, id, etag| reviews::reject(tx, by, id, etag, &text)).await
        }
        ChangeCall::Abandon => {
            let text = comment(visit)?;
            step(console, visit, move |tx, by, id, etag| changes::abandon(tx, by, id, etag, &text)).await
        }
        ChangeCall::Resolve => {
            let choices = choices_of(read(visit)?)?;
            step(console, visit, move |tx, by, id, etag| changes::resolve(tx, by, id, etag, &choices)).await
        }
    }
}

/// The comment of the body, which may be left out.
fn comment(visit: &Visit) -> Result<String, Failure> {
    if visit.body.is_empty() {
        return Ok(String::new());
    }
    Ok(read::<CommentBody>(visit)?.comment)
}

fn choices_of(body: ResolveBody) -> Result<Vec<Choice>, Failure> {
    let read = |ChoiceBody { kind, key, keep }| {
        let kind = kind.as_deref().unwrap_or("car").parse().ok();
        let keep = match &*keep {
            "yours" => Some(Keep::Yours),
            "theirs" => Some(Keep::Theirs),
            _ => None,
        };
        let detail = "invalid choice: expected kind car or file, and keep yours or theirs";
        kind.zip(keep)
            .map(|(kind, keep)| Choice { kind, key, keep })
            .ok_or_else(|| Failure::Bad(detail.to_owned()))
    };
    body.choices.into_iter().map(read).collect()
}

async fn current(console: &Console, visit: &Visit) -> Result<ChangeSet, Failure> {
    let claim = visit.claim()?;
    let id = visit.segment(3);
    Ok(console.control.read_as(&claim, move |tx, actor| change_set::get(tx, actor, &id)).await?)
}

/// Runs what moves a change set on, under the etag that the caller has seen.
async fn step(
    console: &Console,
    visit: &Visit,
    work: impl Fn(&mut dyn Tx, &Actor, &str, i64) -> Done + Send + 'static,
) -> Result<Reply, Failure> {
    let id = visit.segment(3);
    let etag = if_match(visit)?;
    let done = console.commit(visit, move |tx, actor| work(tx, actor, &id, etag)).await;
    Ok(match unless_stale(done)? {
        Some(done) => shown(StatusCode::OK, done),
        None => shown(StatusCode::PRECONDITION_FAILED, current(console, visit).await?),
    })
}

fn shown(status: StatusCode, change: ChangeSet) -> Reply {
    let etag = change.etag;
    tagged(status, &views::ChangeSet::from(change), etag)
}

async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let ChangesQuery { app, state, cursor, limit } = ChangesQuery::read(visit)?;
    let query = Query { app, state, before: cursor, limit };
    let found = console.control.read_as(&claim, move |tx, actor| change_set::list(tx, actor, &query)).await?;
    let next = tollgate_api::query::next(&found, limit, |it| it.id.clone());
    Ok(ok(&views::ChangeSets { changes: found.into_iter().map(views::ChangeSet::listed).collect(), next }))
}

async fn create(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let ChangeBody { app, title, comment, intent, ops } = read(visit)?;
    let is_direct = match &*intent {
        "" | "draft" => false,
        "publish" => true,
        _ => return Err(Failure::Bad("unknown `intent`: expected draft or publish".to_owned())),
    };
    let input = ChangeInput { title, comment, ops: inputs(ops)? };
    let made = console.commit(visit, move |tx, actor| {
        if is_direct {
            publishing::propose(tx, actor, &app, &input, Intent::Publish)
        } else {
            changes::create(tx, actor, &app, &input)
        }
    });
    Ok(made_reply(StatusCode::CREATED, made.await?))
}

/// A change set with its place.
pub(super) fn made_reply(status: StatusCode, made: ChangeSet) -> Reply {
    let place = HeaderValue::try_from(format!("/api/v1/changes/{}", made.id));
    let mut reply = shown(status, made);
    if let Ok(place) = place {
        reply.headers_mut().insert(LOCATION, place);
    }
    reply
}

async fn edit(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    if_match(visit)?;
    let ChangeBody { title, comment, ops, .. } = read(visit)?;
    let input = ChangeInput { title, comment, ops: inputs(ops)? };
    step(console, visit, move |tx, by, id, etag| changes::update(tx, by, id, etag, &input)).await
}

async fn check_set(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let id = visit.segment(3);
    let read = console.control.read_as(&claim, move |tx, actor| {
        let found = change_set::get(tx, actor, &id)?;
        let preview = checks::preview(tx, actor, &found.app, &found.ops)?;
        Ok((preview, change_set::conflicts(tx, actor, &found)?))
    });
    let (preview, conflicts) = read.await?;
    let errors = preview.faults.into_iter().map(views::Fault::from).collect();
    let conflicts = conflicts.into_iter().map(views::Conflict::from).collect();
    Ok(ok(&views::Checked::new(errors, conflicts)))
}

/// The operations are at fault, so that nothing else is known of them.
fn at_fault(error: ControlError) -> Result<Reply, Failure> {
    Ok(ok(&views::Checked::new(faults_of(error)?, Vec::new())))
}

async fn check_ops(console: &Console, visit: &Visit, call: ChangeCall) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let PreviewBody { app, ops, trace, map, .. } = read(visit)?;
    let is_replay = matches!(call, ChangeCall::Preview) && !trace.is_empty();
    if is_replay {
        console.must(visit, Role::Editor, &app).await?; // a trace has the clients of every app in it
    }
    let asked_app = app.clone();
    let mut given = Vec::with_capacity(ops.len());
    for op in ops {
        match input(op) {
            Ok(op) => given.push(op),
            Err(Failure::Control(error)) => return at_fault(error),
            Err(other) => return Err(other),
        }
    }
    let looked = console.control.read_as(&claim, move |tx, actor| {
        let before = if is_replay { checks::preview(tx, actor, &app, &[])?.documents } else { Vec::new() };
        Ok((changes::look(tx, actor, &app, &given)?, before))
    });
    let (Look { ops, preview, conflicts }, before) = match looked.await {
        Ok(looked) => looked,
        Err(error) => return at_fault(error),
    };
    let errors = preview.faults.into_iter().map(views::Fault::from).collect();
    let conflicts = conflicts.into_iter().map(views::Conflict::from).collect();
    let mut checked = views::Checked::new(errors, conflicts);
    checked.diff = Some(views::RuleDiff::of_ops(&ops));
    if is_replay && checked.errors.is_empty() {
        let after = (!ops.is_empty()).then(|| preview.documents.clone());
        let replayed = replay_on(console, ReplayJob { trace, map, before, after }).await;
        console.must(visit, Role::Editor, &asked_app).await?; // a replay takes its time
        checked.replay = Some(Box::new(replayed?));
    }
    if matches!(call, ChangeCall::Preview) {
        checked.documents = Some(preview.documents.iter().map(views::Document::from).collect());
    }
    Ok(ok(&checked))
}

async fn traces(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (who, _) = console.who(visit).await?;
    if !may_create(&who) {
        return Err(ControlError::NoRight { need: Role::Editor, app: EVERY_APP.to_owned() }.into());
    }
    let traces = console.traces().await.into_iter();
    let traces = traces.map(|it| views::Trace { name: it.name, bytes: it.bytes }).collect();
    Ok(ok(&views::Traces { traces }))
}

async fn replay_on(console: &Console, asked: ReplayJob) -> Result<tollgate_replay::Previewed, Failure> {
    let name = asked.trace.clone();
    console.replay(asked).await.map_err(|why| match why {
        NotReplayed::Unknown => ControlError::NotFound { what: "trace", name }.into(),
        NotReplayed::Busy => ControlError::TooMany { seconds: 5 }.into(),
        NotReplayed::Why(why) => Failure::Bad(why),
    })
}
