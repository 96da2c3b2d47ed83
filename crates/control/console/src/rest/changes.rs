//! Change sets as JSON.

use hyper::header::{HeaderValue, LOCATION};
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_control::actor::EVERY_APP;
use tollgate_control::change_set::{self, ChangeSet, Conflict, Query};
use tollgate_control::changes::{self, ChangeInput, Keep, Look};
use tollgate_control::publishing::{self, Intent};
use tollgate_control::rollout::Plan;
use tollgate_control::rules::may_create;
use tollgate_control::{Committed, ControlError, Kind, Role, checks, hex, reviews};
use tollgate_db::Tx;
use tollgate_http_kit::{Reply, reply};

use super::body::read;
use super::content::{OpBody, change, conflict, differences, fault, faults_of, inputs};
use super::etag::{if_match, tagged};
use crate::console::Console;
use crate::replaying::{Asked, NotReplayed};
use crate::web::{Failure, Visit};

/// An operation on change sets.
#[derive(Clone, Copy, Debug)]
pub enum ChangeCall {
    /// Lists them.
    List,
    /// Begins one.
    Create,
    /// Returns one.
    Get,
    /// Replaces its content.
    Edit,
    /// What it changes.
    Diff,
    /// What nodes would say.
    Check,
    /// Asks for approvals.
    Submit,
    /// Approves its content.
    Approve,
    /// Rejects it.
    Reject,
    /// Makes it a version.
    Publish,
    /// Gives it up.
    Abandon,
    /// Adds a comment.
    Comment,
    /// Decides conflicts.
    Resolve,
    /// Checks operations without a change set.
    CheckOps,
    /// The documents that operations would make, and what they would have done to a trace.
    Preview,
    /// The traces that rules can be replayed on.
    Traces,
}

type Row = (Method, &'static str, ChangeCall, &'static str, &'static str);

/// Method, path, call, id, summary.
pub(super) static ROWS: &[Row] = &[
    (Method::GET, "/api/v1/changes", ChangeCall::List, "listChanges", "Lists change sets, the newest first"),
    (
        Method::POST,
        "/api/v1/changes",
        ChangeCall::Create,
        "createChange",
        "Begins a change set; with `intent: publish` it is published at once where no approval is needed",
    ),
    (Method::GET, "/api/v1/changes/{id}", ChangeCall::Get, "getChange", "Returns a change set with its ETag"),
    (
        Method::PUT,
        "/api/v1/changes/{id}",
        ChangeCall::Edit,
        "editChange",
        "Replaces title, comment and operations, which voids approvals; needs If-Match",
    ),
    (
        Method::GET,
        "/api/v1/changes/{id}/diff",
        ChangeCall::Diff,
        "diffChange",
        "What it changes, by rule and field",
    ),
    (
        Method::POST,
        "/api/v1/changes/{id}/check",
        ChangeCall::Check,
        "checkChange",
        "Whether nodes would take it, with line and column, and its conflicts",
    ),
    (
        Method::POST,
        "/api/v1/changes/{id}/submit",
        ChangeCall::Submit,
        "submitChange",
        "Asks for approvals; needs If-Match",
    ),
    (
        Method::POST,
        "/api/v1/changes/{id}/approve",
        ChangeCall::Approve,
        "approveChange",
        "Approves its content; needs If-Match",
    ),
    (
        Method::POST,
        "/api/v1/changes/{id}/reject",
        ChangeCall::Reject,
        "rejectChange",
        "Rejects it with a comment; needs If-Match",
    ),
    (
        Method::POST,
        "/api/v1/changes/{id}/publish",
        ChangeCall::Publish,
        "publishChange",
        "Publishes it; needs If-Match; 409 with all sides of each conflict",
    ),
    (
        Method::POST,
        "/api/v1/changes/{id}/abandon",
        ChangeCall::Abandon,
        "abandonChange",
        "Gives it up; needs If-Match",
    ),
    (Method::POST, "/api/v1/changes/{id}/comment", ChangeCall::Comment, "commentChange", "Adds a comment"),
    (
        Method::POST,
        "/api/v1/changes/{id}/resolve",
        ChangeCall::Resolve,
        "resolveChange",
        "Decides conflicts: yours or theirs for each rule; needs If-Match",
    ),
    (
        Method::POST,
        "/api/v1/check",
        ChangeCall::CheckOps,
        "check",
        "Checks operations: faults with line and column, conflicts, differences",
    ),
    (
        Method::POST,
        "/api/v1/preview",
        ChangeCall::Preview,
        "preview",
        "The documents that nodes would get with these operations; with `trace`, what they would have done to it",
    ),
    (
        Method::GET,
        "/api/v1/traces",
        ChangeCall::Traces,
        "listTraces",
        "Lists the recorded traces that rules can be replayed on",
    ),
];

/// The example of a body.
pub(super) fn example(call: ChangeCall) -> Value {
    let ops = json!([{"op": "put", "key": "pushGeo", "base": 7, "rule": {"max_permits": 100, "rate": 50}}]);
    match call {
        ChangeCall::Create => json!({"app": "SIP_HOTEL", "title": "more for pushGeo", "ops": ops}),
        ChangeCall::Edit => json!({"title": "more for pushGeo", "comment": "measured", "ops": ops}),
        ChangeCall::Resolve => json!({"choices": [{"kind": "car", "key": "pushGeo", "keep": "yours"}]}),
        ChangeCall::Comment => json!({"comment": "too low for agoda"}),
        _ => json!({"app": "SIP_HOTEL", "ops": ops}),
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ChangeBody {
    app: String,
    title: String,
    comment: String,
    intent: String,
    ops: Vec<OpBody>,
}

/// As [`ChangeBody`], and the name of a trace with what its fields mean.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PreviewBody {
    app: String,
    #[serde(rename = "title")]
    _title: String,
    #[serde(rename = "comment")]
    _comment: String,
    ops: Vec<OpBody>,
    trace: String,
    map: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CommentBody {
    comment: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResolveBody {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice {
    #[serde(default)]
    kind: Option<String>,
    key: String,
    keep: String,
}

type Done = Result<Committed<ChangeSet>, ControlError>;

pub(super) async fn answer(console: &Console, call: ChangeCall, visit: &Visit) -> Result<Reply, Failure> {
    let comment = || -> Result<String, Failure> {
        if visit.body.is_empty() {
            return Ok(String::new());
        }
        Ok(read::<CommentBody>(visit)?.comment)
    };
    match call {
        ChangeCall::List => list(console, visit).await,
        ChangeCall::Create => create(console, visit).await,
        ChangeCall::Get => {
            let found = current(console, visit).await?;
            Ok(tagged(StatusCode::OK, &change(&found, true), found.etag))
        }
        ChangeCall::Edit => edit(console, visit).await,
        ChangeCall::Diff => {
            let found = current(console, visit).await?;
            Ok(reply::json(StatusCode::OK, &json!({"diff": differences(&found.ops)})))
        }
        ChangeCall::Check => check_set(console, visit).await,
        ChangeCall::CheckOps | ChangeCall::Preview => check_ops(console, visit, call).await,
        ChangeCall::Traces => traces(console, visit).await,
        ChangeCall::Comment => {
            visit.claim()?;
            let (id, text) = (visit.segment(3), comment()?);
            let done =
                console.change(visit, move |tx, actor| changes::comment(tx, actor, &id, &text)).await?;
            Ok(tagged(StatusCode::OK, &change(&done, true), done.etag))
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
            let text = comment()?;
            step(console, visit, move |tx, by, id, etag| reviews::approve(tx, by, id, etag, &text)).await
        }
        ChangeCall::Reject => {
            let text = comment()?;
            step(console, visit, move |tx, by, id, etag| reviews::reject(tx, by, id, etag, &text)).await
        }
        ChangeCall::Abandon => {
            let text = comment()?;
            step(console, visit, move |tx, by, id, etag| changes::abandon(tx, by, id, etag, &text)).await
        }
        ChangeCall::Resolve => {
            let choices = choices(read(visit)?)?;
            step(console, visit, move |tx, by, id, etag| changes::resolve(tx, by, id, etag, &choices)).await
        }
    }
}

/// How a change set is published.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishBody {
    /// Instead of the app's plan.
    #[serde(default)]
    rollout: Option<Plan>,
}

fn choices(body: ResolveBody) -> Result<Vec<(Kind, String, Keep)>, Failure> {
    let read = |Choice { kind, key, keep }| {
        let kind = kind.as_deref().unwrap_or("car").parse().ok();
        let keep = match &*keep {
            "yours" => Some(Keep::Yours),
            "theirs" => Some(Keep::Theirs),
            _ => None,
        };
        let detail = "invalid choice: expected kind car or file, and keep yours or theirs";
        kind.zip(keep).map(|(kind, keep)| (kind, key, keep)).ok_or_else(|| Failure::Bad(detail.to_owned()))
    };
    body.choices.into_iter().map(read).collect()
}

async fn current(console: &Console, visit: &Visit) -> Result<ChangeSet, Failure> {
    let (claim, id) = (visit.claim()?, visit.segment(3));
    Ok(console.control.read_as(&claim, move |tx, actor| change_set::get(tx, actor, &id)).await?)
}

/// Runs what moves a change set on, under the etag that the caller has seen.
async fn step(
    console: &Console,
    visit: &Visit,
    work: impl Fn(&mut dyn Tx, &tollgate_control::Actor, &str, i64) -> Done + Send + 'static,
) -> Result<Reply, Failure> {
    let (id, etag) = (visit.segment(3), if_match(visit)?);
    match console.change(visit, move |tx, actor| work(tx, actor, &id, etag)).await {
        Ok(done) => Ok(tagged(StatusCode::OK, &change(&done, true), done.etag)),
        Err(ControlError::Stale { .. }) => {
            let now = current(console, visit).await?;
            Ok(tagged(StatusCode::PRECONDITION_FAILED, &change(&now, true), now.etag))
        }
        Err(error) => Err(error.into()),
    }
}

async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let limit = match visit.parameter("limit") {
        "" => 50,
        text => text.parse().ok().filter(|it| (1..=500).contains(it)).ok_or_else(|| {
            Failure::Bad("invalid `limit`: expected a whole number from 1 to 500".to_owned())
        })?,
    };
    let query = Query {
        app: visit.parameter("app").to_owned(),
        state: visit.parameter("state").to_owned(),
        before: visit.parameter("cursor").to_owned(),
        limit,
    };
    let found = console.control.read_as(&claim, move |tx, actor| change_set::list(tx, actor, &query)).await?;
    let is_full = i64::try_from(found.len()).is_ok_and(|count| count == limit);
    let cursor = found.last().filter(|_| is_full).map(|last| last.id.clone());
    let all: Vec<Value> = found.iter().map(|it| change(it, false)).collect();
    Ok(reply::json(StatusCode::OK, &json!({"changes": all, "next": cursor})))
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
    let made = console.change(visit, move |tx, actor| {
        if is_direct {
            publishing::propose(tx, actor, &app, &input, Intent::Publish)
        } else {
            changes::create(tx, actor, &app, &input)
        }
    });
    Ok(made_reply(StatusCode::CREATED, &made.await?))
}

/// A change set with its place.
pub(super) fn made_reply(status: StatusCode, made: &ChangeSet) -> Reply {
    let mut reply = tagged(status, &change(made, true), made.etag);
    if let Ok(place) = HeaderValue::try_from(format!("/api/v1/changes/{}", made.id)) {
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
    let (claim, id) = (visit.claim()?, visit.segment(3));
    let read = console.control.read_as(&claim, move |tx, actor| {
        let found = change_set::get(tx, actor, &id)?;
        let preview = checks::preview(tx, actor, &found.app, &found.ops)?;
        Ok((preview, change_set::conflicts(tx, actor, &found)?))
    });
    let (preview, conflicts) = read.await?;
    let errors: Vec<Value> = preview.faults.iter().map(fault).collect();
    Ok(reply::json(StatusCode::OK, &checked(errors, &conflicts)))
}

fn checked(errors: Vec<Value>, conflicts: &[Conflict]) -> Value {
    let conflicts: Vec<Value> = conflicts.iter().map(conflict).collect();
    json!({"ok": errors.is_empty() && conflicts.is_empty(), "errors": errors, "conflicts": conflicts})
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
        match op.input() {
            Ok(op) => given.push(op),
            Err(Failure::Control(error)) => {
                let errors = faults_of(error)?;
                return Ok(reply::json(StatusCode::OK, &checked(errors, &[])));
            }
            Err(other) => return Err(other),
        }
    }
    let looked = console.control.read_as(&claim, move |tx, actor| {
        let before = if is_replay { checks::preview(tx, actor, &app, &[])?.documents } else { Vec::new() };
        Ok((changes::look(tx, actor, &app, &given)?, before))
    });
    let (Look { ops, preview, conflicts }, before) = match looked.await {
        Ok(looked) => looked,
        Err(error) => return Ok(reply::json(StatusCode::OK, &checked(faults_of(error)?, &[]))),
    };
    let errors: Vec<Value> = preview.faults.iter().map(fault).collect();
    let is_valid = errors.is_empty();
    let mut body = checked(errors, &conflicts);
    body["diff"] = differences(&ops).into();
    if is_replay && is_valid {
        let after = (!ops.is_empty()).then(|| preview.documents.clone());
        let replayed = replayed(console, Asked { trace, map, before, after }).await;
        console.must(visit, Role::Editor, &asked_app).await?; // a replay takes its time
        body["replay"] = replayed?;
    }
    if matches!(call, ChangeCall::Preview) {
        body["documents"] = preview
            .documents
            .iter()
            .map(|it| json!({"domain": it.domain(), "yaml": it.yaml(), "sha256": hex(it.sha256())}))
            .collect();
    }
    Ok(reply::json(StatusCode::OK, &body))
}

async fn traces(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let (who, _) = console.who(visit).await?;
    if !may_create(&who) {
        return Err(ControlError::NoRight { need: Role::Editor, app: EVERY_APP.to_owned() }.into());
    }
    let traces = console.traces().await;
    let traces: Vec<Value> =
        traces.into_iter().map(|it| json!({"name": it.name, "bytes": it.bytes})).collect();
    Ok(reply::json(StatusCode::OK, &json!({"traces": traces})))
}

async fn replayed(console: &Console, asked: Asked) -> Result<Value, Failure> {
    let name = asked.trace.clone();
    match console.replay(asked).await {
        Ok(previewed) => serde_json::to_value(previewed).map_err(|error| Failure::Page(error.to_string())),
        Err(NotReplayed::Unknown) => Err(ControlError::NotFound { what: "trace", name }.into()),
        Err(NotReplayed::Busy) => Err(ControlError::TooMany { seconds: 5 }.into()),
        Err(NotReplayed::Why(why)) => Err(Failure::Bad(why)),
    }
}
