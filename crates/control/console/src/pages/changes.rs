//! Change sets: the list, and one with its difference, its checks and what was said of it.

use askama::Template;
use hyper::StatusCode;
use tollgate_control::change_set::{self, ChangeSet, Conflict, Event, Query, State};
use tollgate_control::changes::{self, Choice, Keep};
use tollgate_control::diff::by_field;
use tollgate_control::rollout::{Plan, PlanInput};
use tollgate_control::{
    Content, ControlError, FieldFault, ModelError, Role, Who, apps, checks, publishing, reviews, rollouts,
    versions,
};
use tollgate_http_kit::Reply;

use super::diffs::{Diffs, label};
use super::hrefs::{change_href, rollout_href, rule_or_file_href};
use super::parts::{Button, Check};
use super::rollouts::{plan_fields, plan_text};
use crate::console::Console;
use crate::field::Field;
use crate::frame::{Frame, page};
use crate::texts::changes::Texts;
use crate::texts::rollouts as rollout_texts;
use crate::texts::{Lang, grouped};
use crate::web::{Failure, Outcome, Visit, encoded, query_of, redirect, status_of};

/// Change sets of a page of the list.
const SIZE: usize = 50;

/// A page of change sets.
#[derive(Clone, Copy, Debug)]
pub enum ChangePage {
    List,
    /// A single change set.
    Show,
    /// Submits, reviews, publishes or comments one.
    Act,
    /// The differences of two versions.
    Versions,
}

pub(super) async fn answer(console: &Console, asked: ChangePage, visit: &Visit) -> Result<Reply, Failure> {
    match asked {
        ChangePage::List => list(console, visit).await,
        ChangePage::Show => show(console, visit, StatusCode::OK, None, Faults::default()).await,
        ChangePage::Act => act(console, visit).await,
        ChangePage::Versions => version_diff(console, visit).await,
    }
}

#[derive(Template)]
#[template(path = "changes.html")]
struct ListPage {
    f: Frame,
    c: &'static Texts,
    states: Vec<(&'static str, &'static str)>,
    state: String,
    app: String,
    rows: Vec<ChangeRow>,
    older: Option<String>,
}

pub(super) struct ChangeRow {
    pub(super) href: String,
    pub(super) title: String,
    pub(super) app: String,
    pub(super) state: &'static str,
    pub(super) class: &'static str,
    pub(super) rules: String,
    pub(super) author: String,
    pub(super) at: String,
    pub(super) ms: i64,
}

async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let c = Texts::of(visit.lang);
    let state =
        if visit.parameter("state").is_empty() { "open" } else { visit.parameter("state") }.to_owned();
    let app = visit.parameter("app").to_owned();
    let query = Query {
        app: app.clone(),
        state: if state == "all" { String::new() } else { state.clone() },
        before: visit.parameter("before").to_owned(),
        limit: SIZE as i64,
    };
    let found = console.control.read_as(&claim, move |tx, actor| change_set::list(tx, actor, &query)).await?;
    let mut states = vec![("open", c.open), ("all", c.all)];
    states.extend(State::ALL.map(|it| (it.name(), state_text(visit.lang, it).0)));
    let last = found.last().filter(|_| found.len() == SIZE);
    let list = ListPage {
        f: Frame::new(visit, "changes", c.title),
        c,
        states,
        older: last.map(|it| query_of("/changes", &[("app", &app), ("state", &state), ("before", &it.id)])),
        rows: found.iter().map(|it| row(visit, it)).collect(),
        state,
        app,
    };
    page(StatusCode::OK, &list)
}

pub(super) fn row(visit: &Visit, it: &ChangeSet) -> ChangeRow {
    let (state, class) = state_text(visit.lang, it.state);
    ChangeRow {
        href: change_href(&it.id),
        title: it.title.clone(),
        app: it.app.clone(),
        state,
        class,
        rules: grouped(it.rules),
        author: it.author.clone(),
        at: visit.time(it.updated_at),
        ms: it.updated_at,
    }
}

fn state_text(lang: Lang, state: State) -> (&'static str, &'static str) {
    let c = Texts::of(lang);
    match state {
        State::Draft => (c.state_draft, "tag"),
        State::Submitted => (c.state_submitted, "tag warn"),
        State::Approved => (c.state_approved, "tag info"),
        State::Published => (c.state_published, "tag ok"),
        State::Rejected => (c.state_rejected, "tag bad"),
        State::Abandoned => (c.state_abandoned, "tag"),
    }
}

#[derive(Template)]
#[template(path = "change.html")]
struct ShowPage {
    f: Frame,
    c: &'static Texts,
    app: String,
    state: (&'static str, &'static str),
    notice: Option<(&'static str, String)>,
    steps: Vec<(&'static str, &'static str)>,
    conflicts: Vec<ConflictView>,
    is_author: bool,
    comment: String,
    d: Diffs,
    checks: Vec<Check>,
    faults: Vec<String>,
    author: String,
    base: i64,
    published: Option<(i64, String)>,
    hash: String,
    may_edit: bool,
    action: String,
    etag: i64,
    said: String,
    fault: Option<String>,
    buttons: Vec<Button>,
    r: &'static rollout_texts::Texts,
    /// Where the rollout is that this change set began, or that it waits for.
    rollout: Option<String>,
    /// The plan of its publication, if it can be published.
    plan: Option<PlanView>,
    events: Vec<EventView>,
}

/// The faults of a form that was sent.
#[derive(Default)]
struct Faults {
    comment: Option<String>,
    plan: Vec<FieldFault>,
}

/// The plan of a publication, and its form.
struct PlanView {
    summary: String,
    inputs: Vec<Field>,
    is_open: bool,
    /// Another plan than that of the app may be chosen.
    may: bool,
}

impl PlanView {
    fn new(visit: &Visit, plan: &Plan, faults: &[FieldFault], may: bool) -> Self {
        let input = if visit.sent_field("steps").is_some() { sent_plan(visit) } else { plan.to_input() };
        let value = |name: &str| match name {
            "steps" => input.steps.clone(),
            "soak_s" => input.soak_s.clone(),
            _ => input.auto_rollback.clone(),
        };
        let inputs = plan_fields(visit.lang, faults, value);
        Self { summary: plan_text(visit.lang, plan), inputs, is_open: !faults.is_empty(), may }
    }
}

/// The plan of the form.
fn sent_plan(visit: &Visit) -> PlanInput {
    let field = |name: &str| visit.field(name).to_owned();
    PlanInput { steps: field("steps"), soak_s: field("soak_s"), auto_rollback: field("auto_rollback") }
}

struct ConflictView {
    href: String,
    key: String,
    name: String,
    rows: Vec<ConflictRow>,
}

/// The sides of a conflict in one field.
struct ConflictRow {
    field: &'static str,
    base: String,
    theirs: String,
    yours: String,
}

/// A step of the change set, and who made it.
struct EventView {
    class: &'static str,
    user: String,
    did: &'static str,
    at: String,
    at_ms: i64,
    comment: String,
}

async fn show(
    console: &Console,
    visit: &Visit,
    status: StatusCode,
    notice: Option<(&'static str, String)>,
    faults_of: Faults,
) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let id = visit.segment(1);
    let c = Texts::of(visit.lang);
    let who = visit.who()?;
    let Faults { comment: fault, plan: plan_faults } = faults_of;
    let read = console.control.read_as(&claim, move |tx, actor| {
        let found = change_set::get(tx, actor, &id)?;
        let app = apps::get(tx, actor, Role::Viewer, &found.app)?;
        let rollout = match rollouts::get(tx, actor, &found.app) {
            Ok(last) => Some(last),
            Err(ControlError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        if found.state.is_closed() {
            return Ok((found, Vec::new(), Vec::new(), app.rollout, rollout));
        }
        let faults = checks::preview(tx, actor, &found.app, &found.ops)?.faults;
        let conflicts = change_set::conflicts(tx, actor, &found)?;
        Ok((found, faults, conflicts, app.rollout, rollout))
    });
    let (found, faults, conflicts, plan, rollout) = read.await?;
    let approvers = found.approved_by();
    let approvals = format!("{}/{} {}", approvers.len(), found.needed, approvers.join(", "));
    let has_approvals = i64::try_from(approvers.len()).is_ok_and(|count| count >= found.needed);
    let no_more = |name, count: usize| Check {
        class: if count == 0 { "ok" } else { "bad" },
        name,
        outcome: if count == 0 { c.ok.to_owned() } else { count.to_string() },
    };
    let class = if has_approvals { "ok" } else { "" };
    let checks = vec![
        no_more(c.check_parser, faults.len()),
        no_more(c.check_conflicts, conflicts.len()),
        Check { class, name: c.check_approvals, outcome: approvals },
    ];
    let href = change_href(&found.id);
    let buttons = buttons_for(c, &found, who);
    let may_publish = buttons.iter().any(|it| it.value == "publish");
    let rollout = rollout.filter(|it| match found.published_version {
        Some(version) => it.to_version == version,
        None => it.progress.state.is_open(),
    });
    let versions = |version: i64| format!("/apps/{}/versions/{version}/diff", encoded(&found.app));
    let shown = ShowPage {
        f: Frame::new(visit, "changes", found.title.clone()),
        c,
        state: state_text(visit.lang, found.state),
        notice,
        steps: steps(c, found.state),
        conflicts: conflicts.iter().map(|it| conflict_view(visit.lang, &found.app, it)).collect(),
        is_author: found.is_by(&who.user_id) && who.may(Role::Editor, &found.app),
        r: rollout_texts::Texts::of(visit.lang),
        d: Diffs::of_ops(visit, &found.app, &found.ops, &href),
        checks: if found.state.is_closed() { Vec::new() } else { checks },
        faults: faults.iter().map(ToString::to_string).collect(),
        base: found.base_version,
        published: found.published_version.map(|it| (it, versions(it))),
        may_edit: who.may(Role::Editor, &found.app),
        action: href,
        etag: found.etag,
        said: if fault.is_some() { visit.field("comment").to_owned() } else { String::new() },
        fault,
        buttons,
        rollout: rollout.map(|_| rollout_href(&found.app)),
        plan: may_publish
            .then(|| PlanView::new(visit, &plan, &plan_faults, who.may(Role::Approver, &found.app))),
        events: found.events.iter().rev().map(|it| event(visit, c, &found, it)).collect(),
        app: found.app,
        comment: found.comment,
        author: found.author,
        hash: found.content_sha256,
    };
    page(status, &shown)
}

fn steps(c: &Texts, state: State) -> Vec<(&'static str, &'static str)> {
    let at = match state {
        State::Draft => 0,
        State::Submitted => 1,
        State::Approved => 2,
        State::Published => 4,
        State::Rejected | State::Abandoned => 1,
    };
    let is_bad = matches!(state, State::Rejected | State::Abandoned);
    let class = |index: usize| match index {
        _ if index < at => "done",
        _ if index == at && is_bad => "bad",
        _ if index == at => "now",
        _ => "",
    };
    let names = [c.step_draft, c.step_submitted, c.step_approved, c.step_published];
    names.into_iter().enumerate().map(|(index, name)| (name, class(index))).collect()
}

/// The actions that this actor may take now, the main one first.
fn buttons_for(c: &Texts, it: &ChangeSet, who: &Who) -> Vec<Button> {
    let may_approve = who.may(Role::Approver, &it.app);
    let is_author = it.is_by(&who.user_id);
    let is_free = it.needed == 0;
    let mut buttons = Vec::new();
    let waits = matches!(it.state, State::Submitted | State::Approved);
    let main = "btn primary";
    if it.state == State::Approved || (is_free && matches!(it.state, State::Draft | State::Submitted)) {
        buttons.push(Button { value: "publish", class: main, text: c.publish });
    } else if it.state == State::Draft {
        buttons.push(Button { value: "submit", class: main, text: c.submit });
    }
    if waits && may_approve && !is_author {
        let class = if buttons.is_empty() { main } else { "btn" };
        buttons.push(Button { value: "approve", class, text: c.approve });
    }
    buttons.push(Button { value: "comment", class: "btn", text: c.say });
    if waits && may_approve {
        buttons.push(Button { value: "reject", class: "btn danger", text: c.reject });
    }
    if !it.state.is_closed() && (is_author || who.may(Role::Admin, &it.app)) {
        buttons.push(Button { value: "abandon", class: "btn plain", text: c.abandon });
    }
    buttons
}

fn event(visit: &Visit, c: &Texts, change: &ChangeSet, it: &Event) -> EventView {
    let is_void = it.content_sha256 != change.content_sha256;
    let (class, did) = match &*it.verdict {
        "submit" => ("now", c.did_submit),
        "approve" if is_void => ("", c.did_approve_old),
        "approve" => ("ok", c.did_approve),
        "reject" => ("bad", c.did_reject),
        "publish" => ("ok", c.did_publish),
        "abandon" => ("bad", c.did_abandon),
        "edit" => ("", c.did_edit),
        _ => ("", c.did_comment),
    };
    EventView {
        class,
        user: it.user.clone(),
        did,
        at: visit.time(it.at),
        at_ms: it.at,
        comment: it.comment.clone(),
    }
}

fn conflict_view(lang: Lang, app: &str, it: &Conflict) -> ConflictView {
    let c = Texts::of(lang);
    let value = |side: Option<&Content>, field: &str| {
        let fields = by_field(None, side);
        if side.is_none() {
            c.absent.to_owned()
        } else {
            let found = fields.into_iter().find(|it| it.field == field).and_then(|it| it.after);
            super::diffs::value(lang, field, found.unwrap_or_default())
        }
    };
    let base = it.base.as_ref();
    let theirs = it.theirs.as_ref();
    let yours = it.yours.as_ref();
    let mut names: Vec<String> = Vec::new();
    for (old, new) in [(base, theirs), (base, yours), (theirs, yours)] {
        for field in by_field(old, new) {
            if !names.contains(&field.field) {
                names.push(field.field);
            }
        }
    }
    let row = |name: &String| ConflictRow {
        field: label(lang, name),
        base: value(base, name),
        theirs: value(theirs, name),
        yours: value(yours, name),
    };
    ConflictView {
        href: rule_or_file_href(app, it.kind, &it.key),
        key: it.key.clone(),
        name: format!("{}/{}", it.kind.name(), it.key),
        rows: names.iter().map(row).collect(),
    }
}

async fn act(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let id = visit.segment(1);
    let c = Texts::of(visit.lang);
    let etag: i64 = visit.field("etag").parse().map_err(|_| Failure::NoMatch)?;
    let action = visit.field("action").to_owned();
    let comment = visit.field("comment").to_owned();
    let choices = choices_of(visit);
    let is_planned = action == "publish" && visit.sent_field("steps").is_some();
    let plan = match is_planned {
        true => sent_plan(visit).check().map(Some),
        false => Ok(None),
    };
    let plan = match plan {
        Ok(plan) => plan,
        Err(ModelError::Invalid(plan)) => {
            let faults = Faults { plan, ..Faults::default() };
            return show(console, visit, StatusCode::UNPROCESSABLE_ENTITY, None, faults).await;
        }
        Err(error) => return Err(error.into()),
    };
    let done = console.commit(visit, move |tx, actor| match &*action {
        "submit" => changes::submit(tx, actor, &id, etag),
        "approve" => reviews::approve(tx, actor, &id, etag, &comment),
        "reject" => reviews::reject(tx, actor, &id, etag, &comment),
        "publish" => publishing::publish_by(tx, actor, &id, etag, plan.as_ref()),
        "abandon" => changes::abandon(tx, actor, &id, etag, &comment),
        "resolve" => changes::resolve(tx, actor, &id, etag, &choices),
        _ => changes::comment(tx, actor, &id, &comment),
    });
    let bad = |text: &'static str| Some(("bad", text.to_owned()));
    let (status, notice, fault) = match Outcome::of(done.await) {
        Ok(Outcome::Done(done)) => {
            // A rollout is worth watching, so its page comes next.
            let is_rolled_out = done.published_version.is_some_and(|version| {
                let published = console.control.published();
                let published = published.borrow();
                let of_app = published.apps.iter().find(|it| it.app == done.app);
                let candidate = of_app.and_then(|it| it.candidate.as_ref());
                candidate.is_some_and(|it| it.version == version.unsigned_abs())
            });
            let next = if is_rolled_out { rollout_href(&done.app) } else { change_href(&done.id) };
            return Ok(redirect(&next));
        }
        Ok(Outcome::Invalid(faults)) => {
            let fault = faults.first().map(|it| visit.lang.fault(&it.fault));
            (StatusCode::UNPROCESSABLE_ENTITY, None, fault)
        }
        Ok(Outcome::Stale) => (StatusCode::PRECONDITION_FAILED, bad(c.stale), None),
        Err(Failure::Control(error)) => {
            let notice = match error {
                ControlError::Faulty(_) => None, // the page shows the faults
                ControlError::Conflict(_) => bad(c.conflict),
                ControlError::OwnChange => bad(c.own_change),
                ControlError::NotAuthor { .. } => bad(c.not_author),
                ControlError::NeedsApproval { .. } => bad(c.needs_approval),
                ControlError::WrongState { .. } => bad(c.wrong_state),
                ControlError::RolloutOpen { .. } => bad(rollout_texts::Texts::of(visit.lang).is_open),
                error => return Err(error.into()),
            };
            (status_of(&error).0, notice, None)
        }
        Err(failure) => return Err(failure),
    };
    show(console, visit, status, notice, Faults { comment: fault, ..Faults::default() }).await
}

/// The sides that were chosen, by kind and key.
fn choices_of(visit: &Visit) -> Vec<Choice> {
    let read = |(name, value): (&str, &str)| {
        let (kind, key) = name.split_once('/')?;
        let keep = if value == "yours" { Keep::Yours } else { Keep::Theirs };
        Some(Choice { kind: kind.parse().ok()?, key: key.to_owned(), keep })
    };
    visit.fields("keep:").into_iter().filter_map(read).collect()
}

#[derive(Template)]
#[template(path = "version_diff.html")]
struct VersionsPage {
    f: Frame,
    app: String,
    versions_href: String,
    from: i64,
    to: i64,
    d: Diffs,
}

async fn version_diff(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(1);
    let c = Texts::of(visit.lang);
    // The form names both; a link has the newer one in its path.
    let in_path = visit.segment(3);
    let to = if in_path == "diff" { visit.parameter("version").to_owned() } else { in_path };
    let unknown = || ControlError::NotFound { what: "version", name: to.clone() };
    let to: i64 = to.parse().map_err(|_| unknown())?;
    let from = visit.number("against", to - 1);
    let name = app.clone();
    let found = console
        .control
        .read_as(&claim, move |tx, actor| versions::difference(tx, actor, &name, from, to))
        .await?;
    let versions_href = format!("/apps/{}/versions", encoded(&app));
    let path = query_of(&format!("{versions_href}/{to}/diff"), &[("against", &from.to_string())]);
    let shown = VersionsPage {
        f: Frame::new(visit, "versions", format!("{} · {from} → {to}", c.compare)),
        d: Diffs::of_versions(visit, &app, &found, &path),
        app,
        versions_href,
        from,
        to,
    };
    page(StatusCode::OK, &shown)
}
