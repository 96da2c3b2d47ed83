//! Rollouts in the database: begun by a publication, moved on by the program or an operator, each move with
//! its entry in the audit.
//!
//! This file has the moves, which publish versions; `rollout_rows` the table, and `leases` which process may
//! move. Not here: the state machine (`rollout` of `tollgate-model`), and the loop that asks nodes and
//! carries out what comes of it (`tasks::rollout_task`).

pub(crate) mod leases;
pub(crate) mod rollout_rows;

use serde_json::json;
use tollgate_db::Tx;
use tollgate_model::rollout::{Action, Ask, Event, Plan, Progress, Sides, State};
use tollgate_model::{App, Role, fields};

use crate::access::actor::Actor;
use crate::audit::{self, Note};
use crate::changes::{apps, past, stored, versions};
use crate::error::{ControlError, Fault, invalid, must_match};
use crate::ids::new_id;
use crate::published::{AppDocuments, Candidate, Committed};
use crate::rollouts::rollout_rows::{last, note};

/// The job that moves rollouts on.
pub(crate) const JOB: &str = "rollouts";

pub use rollout_rows::{FailedRollout, Rollout, StepEnd, list};

/// The open rollout of an app, or else its last one. Needs viewer.
///
/// # Errors
/// [`ControlError`]; [`ControlError::NotFound`] if the app never had one.
pub fn get(tx: &mut dyn Tx, actor: &Actor, app: &str) -> Result<Rollout, ControlError> {
    let app = apps::get(tx, actor, Role::Viewer, app)?;
    let newest = last(tx, &app)?;
    newest.ok_or_else(|| ControlError::NotFound { what: "rollout of the app", name: app.name.clone() })
}

/// The documents for nodes of an app while it is rolled out.
pub(crate) fn documents_of(tx: &mut dyn Tx, rollout: &Rollout) -> Result<AppDocuments, ControlError> {
    let Rollout { app, from_version, to_version, progress, .. } = rollout;
    let candidate = Candidate {
        version: to_version.unsigned_abs(),
        documents: versions::kept(tx, app, *to_version)?,
        step: progress.number(),
        reach: progress.reach.clone(),
    };
    let before = versions::kept(tx, app, *from_version)?;
    let stable = AppDocuments::new(app, from_version.unsigned_abs(), before);
    Ok(AppDocuments { candidate: Some(Box::new(candidate)), ..stable })
}

/// Begins a rollout of the version after that of `app`, which has just been written.
pub(crate) fn start(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    plan: &Plan,
) -> Result<AppDocuments, ControlError> {
    let id = new_id(tx.now_ms())?;
    let now = tx.now_ms();
    let rollout = Rollout {
        app: app.name.clone(),
        from_version: app.version,
        to_version: app.next(),
        withdrawn_version: None,
        plan: plan.clone(),
        progress: Progress::new(&id),
        ended: Vec::new(),
        author: actor.name.clone(),
        etag: 1,
        created_at: now,
        updated_at: now,
        id,
    };
    let term = leases::term(tx, JOB)?;
    rollout_rows::insert(tx, app, &rollout, term)?;
    let note = Note {
        action: "rollout.start",
        target: app.name.clone(),
        app: Some(&app.name),
        after: Some(json!({"version": rollout.to_version, "plan": plan.json()})),
        ..Note::default()
    };
    audit::append(tx, actor, note)?;
    let documents = documents_of(tx, &rollout)?;
    stored::keep_domains(tx, &app.id, &documents.documents)?;
    Ok(documents)
}

/// Carries out the request of an operator about the open rollout of an app, whose step has seen `sides`.
/// Needs approver, and a reason to withdraw it.
///
/// # Errors
/// [`ControlError`]; [`ControlError::Stale`] when `etag` is not the current one,
/// [`ControlError::WrongRolloutState`] when it is not possible now.
pub fn ask(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    etag: i64,
    ask: &Ask,
    sides: Sides,
) -> Result<Committed<Rollout>, ControlError> {
    let app = apps::get(tx, actor, Role::Approver, app)?;
    let before = last(tx, &app)?
        .ok_or_else(|| ControlError::NotFound { what: "rollout of the app", name: app.name.clone() })?;
    must_match(etag, before.etag)?;
    let ask = match ask {
        Ask::Withdraw(reason) => {
            let reason =
                fields::text(reason, fields::MAX_DESCRIPTION).map_err(|fault| invalid("reason", fault))?;
            if reason.trim().is_empty() {
                return Err(invalid("reason", Fault::Required));
            }
            Ask::Withdraw(reason)
        }
        other => other.clone(),
    };
    let mut machine = before.machine(tx.now_ms());
    let (name, reason) = match &ask {
        Ask::Withdraw(reason) => ("rollout.withdraw", reason.clone()),
        Ask::Pause => ("rollout.pause", String::new()),
        Ask::Resume => ("rollout.resume", String::new()),
        Ask::Advance => ("rollout.advance", String::new()),
    };
    let asked = ask.name();
    let action = machine
        .on(Event::Asked(ask), tx.now_ms())
        .map_err(|wrong| ControlError::WrongRolloutState { state: wrong.0.name(), asked })?;
    let progress = machine.progress().clone();
    carry_out(tx, actor, &before, action.unwrap_or(Action::Keep), progress, sides, (name, &reason))
}

/// A move that the program itself makes.
pub(crate) struct Move {
    pub(crate) term: i64,
    /// As the machine knows it.
    pub(crate) before: Rollout,
    pub(crate) action: Action,
    pub(crate) progress: Progress,
    pub(crate) sides: Sides,
}

/// Moves a rollout on. Nothing happens if an operator was faster.
pub(crate) fn move_on(tx: &mut dyn Tx, actor: &Actor, it: &Move) -> Result<Committed<Rollout>, ControlError> {
    leases::must_hold(tx, JOB, it.term)?;
    let app = apps::get(tx, actor, Role::Viewer, &it.before.app)?;
    let now = last(tx, &app)?.filter(|now| now.id == it.before.id);
    must_match(it.before.etag, now.map_or(0, |now| now.etag))?;
    let name = match (it.action, it.progress.state) {
        (Action::Reach, _) => "rollout.step",
        (Action::Finish, _) => "rollout.finish",
        (Action::Withdraw, _) => "rollout.withdraw",
        (Action::Keep, State::Halted) => "rollout.halt",
        (Action::Keep, _) => "rollout.step",
    };
    let changed = carry_out(tx, actor, &it.before, it.action, it.progress.clone(), it.sides, (name, ""))?;
    tx.execute("UPDATE rollouts SET term = $1 WHERE id = $2", &[it.term.into(), (&it.before.id).into()])?;
    Ok(changed)
}

fn carry_out(
    tx: &mut dyn Tx,
    actor: &Actor,
    before: &Rollout,
    action: Action,
    progress: Progress,
    sides: Sides,
    (name, reason): (&str, &str),
) -> Result<Committed<Rollout>, ControlError> {
    let has_ended = progress.step != before.progress.step || !progress.state.is_open();
    let ended = if has_ended { rollout_rows::end_of_step(tx, before, sides) } else { before.ended.clone() };
    let app = apps::get(tx, actor, Role::Viewer, &before.app)?;
    let outcome = (action == Action::Withdraw).then_some(app.next());
    let written = rollout_rows::write(tx, before, progress, ended, outcome)?;
    let documents = match action {
        Action::Keep => None,
        Action::Reach => Some(documents_of(tx, &written)?),
        Action::Finish => {
            let documents = versions::kept(tx, &written.app, written.to_version)?;
            Some(AppDocuments::new(&written.app, written.to_version.unsigned_abs(), documents))
        }
        Action::Withdraw => {
            let found = versions::turned(tx, actor, &app, before.from_version)?;
            let comment = format!("version {} withdrawn", before.to_version);
            let comment = if reason.is_empty() { &comment } else { reason };
            Some(versions::publish(tx, actor, &app, "withdraw", comment, &found.0)?)
        }
    };
    if !written.progress.state.is_open() {
        stored::free_domains(tx, &app)?;
    }
    note(tx, actor, before, &written, name, reason)?;
    Ok(Committed { value: written, documents })
}

/// The documents for nodes of every app after a start: the newest version, or two while it is rolled out. For
/// the program itself.
pub(crate) fn published(tx: &mut dyn Tx) -> Result<Vec<AppDocuments>, ControlError> {
    let mut all = versions::newest(tx)?;
    for rollout in rollout_rows::open(tx)? {
        if let Some(app) = all.iter_mut().find(|it| it.app == rollout.app) {
            *app = documents_of(tx, &rollout)?;
        }
    }
    let forced = past::forced(tx)?;
    for app in &mut all {
        app.forced = forced.get(&app.app).copied().unwrap_or_default();
    }
    Ok(all)
}
