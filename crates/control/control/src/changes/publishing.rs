//! From a change set to a version of its app; and the changes that are published in the call that makes them.

use serde_json::json;
use tollgate_db::{Tx, query_int};
use tollgate_model::audit_sides::{RuleSides, differing};
use tollgate_model::change_set::{ChangeOp, ChangeSet, State, content_hash};
use tollgate_model::rollout::Plan;
use tollgate_model::{App, Compiled, Content, Role, RuleKind};

use crate::access::actor::{Actor, EVERY_APP};
use crate::access::users::{self, User};
use crate::audit::{self, Note};
use crate::changes::apps;
use crate::changes::change_set::{conflicts_with, current_of, get};
use crate::changes::drafts::{self, ChangeInput};
use crate::changes::file_rules::MAX_FILES;
use crate::changes::known::known;
use crate::changes::operations;
use crate::changes::staging::Staged;
use crate::changes::steps::{event, in_state};
use crate::changes::stored::{ByName, Op, Stored};
use crate::changes::versions::{self, Ahead, VersionOrigin};
use crate::error::{ControlError, Fault, invalid};
use crate::ids::new_id;
use crate::published::{AppDocuments, Committed};
use crate::rollouts::{self, rollout_rows};

/// Most rules of an app.
pub const MAX_RULES: i64 = 20_000;

/// The state that a change reaches in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// It becomes a draft, or part of the author's newest draft of the app.
    Draft,
    /// It is published; where the app needs approvals, it is submitted instead.
    Publish,
}

/// Makes an approved change set the next version of its app, by the app's plan of rollouts. Needs editor.
/// Changes of other rules since its base do not matter.
///
/// # Errors
/// [`ControlError::Conflict`] with all sides of each rule that was changed meanwhile, and others.
pub fn publish(
    tx: &mut dyn Tx,
    actor: &Actor,
    id: &str,
    etag: i64,
) -> Result<Committed<ChangeSet>, ControlError> {
    publish_by(tx, actor, id, etag, None)
}

/// [`publish`] by a plan. Needs approver for another plan than that of the app.
///
/// # Errors
/// As [`publish`]; [`ControlError::RolloutOpen`] while a version of the app is being rolled out.
pub fn publish_by(
    tx: &mut dyn Tx,
    actor: &Actor,
    id: &str,
    etag: i64,
    plan: Option<&Plan>,
) -> Result<Committed<ChangeSet>, ControlError> {
    let open = [State::Draft, State::Submitted, State::Approved];
    let before = in_state(tx, actor, id, etag, &open, "it cannot be published")?;
    if before.ops.is_empty() {
        return Err(invalid("ops", Fault::Required));
    }
    // Counted again: the app may need more approvals by now.
    let is_asked = before.state != State::Draft || before.needed == 0;
    if !is_asked || approvals_now(tx, &before)? < before.needed {
        return Err(ControlError::NeedsApproval { app: before.app, approvals: before.needed });
    }
    let app = apps::get(tx, actor, Role::Editor, &before.app)?;
    let plan = plan.unwrap_or(&app.rollout);
    if *plan != app.rollout {
        actor.must(Role::Approver, &app.name)?;
        plan.check()?;
    }
    event(tx, actor, id, "publish", "")?;
    let documents = put_in_force(tx, actor, &app, &before, plan)?;
    let change = get(tx, actor, id)?;
    note_published(tx, actor, &app, &change, &before.ops)?;
    Ok(Committed { value: change, documents: Some(documents) })
}

/// Both sides of each rule of a change, for the audit.
fn sides(ops: &[ChangeOp]) -> serde_json::Value {
    fn one(op: &ChangeOp) -> RuleSides<'_> {
        RuleSides { kind: op.kind, key: &op.key, before: op.before.as_ref(), after: op.after.as_ref() }
    }
    differing(ops.iter().map(one))
}

/// The approvals of users who may still approve: who lost the role, or was disabled, approves no more.
fn approvals_now(tx: &mut dyn Tx, change: &ChangeSet) -> Result<i64, ControlError> {
    let mut approvals = 0;
    for name in change.approved_by() {
        let user = users::find(tx, name)?.filter(|user| user.state == "active");
        let is_of_app = |app: &str| app == EVERY_APP || app == change.app;
        let may =
            |user: &User| user.roles.iter().any(|(app, role)| is_of_app(app) && *role >= Role::Approver);
        approvals += i64::from(user.is_some_and(|user| may(&user)));
    }
    Ok(approvals)
}

/// Makes a change in one call. Needs editor; of every app if the app is new. The change set that it returns
/// is published, or submitted where the app needs approvals, or a draft if that was asked for.
///
/// # Errors
/// [`ControlError`].
pub fn propose(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    input: &ChangeInput,
    intent: Intent,
) -> Result<Committed<ChangeSet>, ControlError> {
    let app = apps::get_or_create(tx, actor, app)?;
    if intent == Intent::Draft
        && let [op] = &*input.ops
        && let Some(draft) = drafts::own_draft(tx, actor, &app.name)?
    {
        return drafts::add_op(tx, actor, &draft.id, op);
    }
    if intent == Intent::Draft {
        return drafts::create(tx, actor, &app.name, input);
    }
    if app.approvals > 0 {
        let draft = drafts::insert(tx, actor, &app, input)?;
        if draft.ops.is_empty() {
            return Err(invalid("ops", Fault::Required));
        }
        return drafts::submit_new(tx, actor, draft);
    }
    let draft = drafts::insert(tx, actor, &app, input)?;
    if draft.ops.is_empty() {
        return Err(invalid("ops", Fault::Required));
    }
    let documents = put_in_force(tx, actor, &app, &draft, &app.rollout)?;
    note_direct(tx, actor, &app, &draft)?;
    Ok(Committed { value: get(tx, actor, &draft.id)?, documents: Some(documents) })
}

/// As [`propose`] with the intent to publish, of operations that were worked out before the transaction and
/// hold for this version of the app.
pub(crate) fn propose_ready(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    title: &str,
    ready: &Ready,
    staged: Option<&Staged>,
) -> Result<Committed<ChangeSet>, ControlError> {
    let app = apps::get_or_create_as(tx, actor, app, staged.map(Staged::app_id))?;
    drafts::must_have_room(tx, actor, &app)?;
    let texts = (title.to_owned(), String::new());
    let sha256 = ready.sha256.clone().unwrap_or_else(|| content_hash(&app.id, &ready.ops));
    let id = staged.map_or_else(|| new_id(tx.now_ms()), |it| Ok(it.change_id.clone()))?;
    let mut change = drafts::insert_checked(tx, actor, &app, &id, texts, &ready.ops, &sha256)?;
    if staged.is_none() {
        operations::write_ops(tx, &id, &ready.ops)?;
    }
    if app.approvals > 0 {
        staged.map(|it| it.use_ops(tx)).transpose()?;
        return drafts::submit_new(tx, actor, change);
    }
    rollout_rows::must_be_closed(tx, &app)?;
    within_caps(tx, &app, &change.ops)?;
    let app = staged.map_or_else(|| app.clone(), |it| it.app(&app));
    let ahead = Ahead { documents: Some(&ready.compiled), staged };
    let documents = put(tx, actor, &app, &change, &app.rollout, &ready.writes, ahead)?;
    note_direct(tx, actor, &app, &change)?;
    (change.state, change.etag) = (State::Published, change.etag + 1);
    change.published_version = Some(app.next());
    Ok(Committed { value: change, documents: Some(documents) })
}

/// A change that is worked out.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    /// By kind and key.
    pub(crate) ops: Vec<ChangeOp>,
    /// SHA-256 of operations and app; `None` while there is no app.
    pub(crate) sha256: Option<String>,
    /// In the order of the operations.
    pub(crate) writes: Vec<Op>,
    /// The app with them.
    pub(crate) compiled: Compiled,
}

/// Applies the operations of a change set as one version, and closes it.
fn put_in_force(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    change: &ChangeSet,
    plan: &Plan,
) -> Result<AppDocuments, ControlError> {
    rollout_rows::must_be_closed(tx, app)?;
    let name = || format!("writes of {} for {} {}", change.content_sha256, app.id, app.version);
    let writes = known(actor.known(), change.ops.len(), name, || {
        let mut current = current_of(tx, app, &change.ops)?;
        let found = conflicts_with(&current, &change.ops);
        if !found.is_empty() {
            return Err(ControlError::Conflict(found.into_iter().map(Into::into).collect()));
        }
        within_caps(tx, app, &change.ops)?;
        writes(&mut current, &change.ops, tx.now_ms())
    })?;
    put(tx, actor, app, change, plan, &writes, Ahead::default())
}

/// The writes of operations, given the current rules that they name. The rules are taken from `current`.
pub(crate) fn writes(
    current: &mut ByName<Stored>,
    ops: &[ChangeOp],
    now_ms: i64,
) -> Result<Vec<Op>, ControlError> {
    let mut writes = Vec::with_capacity(ops.len());
    for op in ops {
        let now = current.remove(&(op.kind, op.key.clone()));
        match (now, &op.after) {
            (Some(now), Some(after)) => writes.push(Op::replace(now.rule_id, after.clone())),
            (None, Some(after)) => writes.push(Op::create(now_ms, after.clone())?),
            (Some(now), None) => {
                writes.push(Op::Delete { rule_id: now.rule_id, kind: op.kind, key: op.key.clone() });
            }
            (None, None) => {}
        }
    }
    Ok(writes)
}

/// Makes `ops` the next version, by `plan`, and closes the change set that they are of.
fn put(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    change: &ChangeSet,
    plan: &Plan,
    ops: &[Op],
    ahead: Ahead<'_>,
) -> Result<AppDocuments, ControlError> {
    let origin = VersionOrigin { kind: "publish", comment: &change.title, change_id: Some(&change.id) };
    let documents = versions::publish_as(tx, actor, app, origin, ops, ahead)?;
    let version = app.next();
    tx.execute(
        "UPDATE changes SET state = 'published', published_version = $1, etag = etag + 1, updated_at = $2 \
         WHERE id = $3",
        &[version.into(), tx.now_ms().into(), (&change.id).into()],
    )?;
    // A disabled app has no rule on any node, so there is nothing to try.
    if plan.is_at_once() || app.state != "active" {
        return Ok(documents);
    }
    rollouts::start(tx, actor, app, plan)
}

fn within_caps(tx: &mut dyn Tx, app: &App, ops: &[ChangeOp]) -> Result<(), ControlError> {
    for (kind, max, what) in [
        (RuleKind::TableRule, MAX_RULES, "rules of an app"),
        (RuleKind::File, i64::try_from(MAX_FILES).unwrap_or(i64::MAX), "files of an app"),
    ] {
        let added = |op: &&ChangeOp| op.kind == kind && op.base.is_none();
        let added = i64::try_from(ops.iter().filter(added).count()).unwrap_or(i64::MAX);
        if added == 0 {
            continue;
        }
        let count = match kind {
            RuleKind::TableRule => app.rules,
            RuleKind::File => {
                let files = "SELECT COUNT(*) FROM rule_files WHERE app_id = $1";
                query_int(tx, files, &[(&app.id).into()])?
            }
        };
        if count + added > max {
            return Err(ControlError::Cap { what, max });
        }
    }
    Ok(())
}

/// The entry of the audit of a change set, whose operations were `ops` before it was published.
fn note_published(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    change: &ChangeSet,
    ops: &[ChangeOp],
) -> Result<(), ControlError> {
    let note = Note {
        action: "change.publish",
        target: app.name.clone(),
        app: Some(&app.name),
        before: Some(json!({"version": app.version})),
        after: Some(json!({"version": app.next(), "published": change.shown(), "changes": sides(ops)})),
        reason: &change.comment,
    };
    audit::append(tx, actor, note)
}

/// The entry of the audit of a change that was made in one call: for one rule with its content.
fn note_direct(tx: &mut dyn Tx, actor: &Actor, app: &App, change: &ChangeSet) -> Result<(), ControlError> {
    let [op] = &*change.ops else {
        return note_published(tx, actor, app, change, &change.ops);
    };
    let action = match (op.kind, &op.before, &op.after) {
        (RuleKind::TableRule, None, _) => "rule.create",
        (RuleKind::TableRule, _, None) => "rule.delete",
        (RuleKind::TableRule, ..) => "rule.update",
        (RuleKind::File, None, _) => "file.create",
        (RuleKind::File, _, None) => "file.delete",
        (RuleKind::File, ..) => "file.update",
    };
    let note = Note {
        action,
        target: format!("{}/{}", app.name, op.key),
        app: Some(&app.name),
        before: op.before.as_ref().map(Content::json),
        after: op.after.as_ref().map(Content::json),
        reason: &change.comment,
    };
    audit::append(tx, actor, note)
}
