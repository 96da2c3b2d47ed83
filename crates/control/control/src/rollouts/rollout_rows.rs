//! Rollouts as rows, and what needs no version: reading them, writing a move, ending one for another version.

use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_db::{Tx, insert, row, select};
use tollgate_model::rollout::{Machine, Plan, Progress, Sides, State, Why};
use tollgate_model::{App, Role};

use crate::access::actor::Actor;
use crate::audit::{self, Note};
use crate::changes::{apps, stored};
use crate::error::ControlError;
use crate::published::{Reach, Selector};

/// Most rollouts of a list.
const MOST: i64 = 500;

/// The end of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepEnd {
    /// Index of the step.
    pub step: usize,
    /// When it began, in ms UTC; `None` if it had yet to begin.
    pub begun_at: Option<i64>,
    /// When it ended.
    pub ended_at: i64,
    /// Decisions of both sides.
    pub sides: Sides,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    pub id: String,
    pub app: String,
    /// The version before.
    pub from_version: i64,
    /// The candidate version.
    pub to_version: i64,
    /// The version that restored the earlier content, if the rollout was withdrawn.
    pub withdrawn_version: Option<i64>,
    pub plan: Plan,
    /// Its current step and state.
    pub progress: Progress,
    /// The steps that have ended.
    pub ended: Vec<StepEnd>,
    /// Who published the candidate.
    pub author: String,
    /// Goes up with each move.
    pub etag: i64,
    /// Milliseconds UTC.
    pub created_at: i64,
    /// Milliseconds UTC.
    pub updated_at: i64,
}

row! {
    struct RolloutRow {
        id: String = "rollouts.id",
        app: String = "apps.name",
        from_version: i64,
        to_version: i64,
        withdrawn_version: Option<i64>,
        state: String = "rollouts.state",
        plan: String,
        step: i64,
        step_at: Option<i64>,
        reach: String,
        why: Option<String>,
        gates: String,
        author: String,
        etag: i64 = "rollouts.etag",
        created_at: i64 = "rollouts.created_at",
        updated_at: i64 = "rollouts.updated_at",
    }
}

row! {
    /// A rollout that a gate has ended or stopped.
    struct GateRow {
        app: String = "apps.name",
        to_version: i64,
        updated_at: i64 = "rollouts.updated_at",
        why: Option<String>,
    }
}

impl Rollout {
    /// A machine that carries on from here.
    #[must_use]
    pub fn machine(&self, now_ms: i64) -> Machine {
        Machine::new(self.plan.clone(), self.to_version.unsigned_abs(), self.progress.clone(), now_ms)
    }

    fn read(row: RolloutRow) -> Result<Self, ControlError> {
        let RolloutRow { id, app, state, .. } = row;
        let broken = |reason: String| ControlError::Document { app: app.clone(), reason };
        let json = |error: serde_json::Error| broken(error.to_string());
        let state =
            State::of(&state).ok_or_else(|| broken(format!("unknown state {state:?} of a rollout")))?;
        let reach: KeptReach = serde_json::from_str(&row.reach).map_err(json)?;
        let why = row.why.map(|why| serde_json::from_str(&why)).transpose().map_err(json)?;
        let step = usize::try_from(row.step).unwrap_or_default();
        let reach = reach.of(&id);
        Ok(Self {
            from_version: row.from_version,
            to_version: row.to_version,
            withdrawn_version: row.withdrawn_version,
            plan: Plan::read(&app, &row.plan)?,
            progress: Progress { state, step, step_at: row.step_at, reach, why },
            ended: serde_json::from_str(&row.gates).map_err(json)?,
            author: row.author,
            etag: row.etag,
            created_at: row.created_at,
            updated_at: row.updated_at,
            id,
            app,
        })
    }

    pub(crate) fn shown(&self) -> serde_json::Value {
        json!({
            "version": self.to_version, "state": self.progress.state.name(), "step": self.progress.step,
            "why": self.progress.why,
        })
    }
}

/// A reach as it is kept.
#[derive(Serialize, Deserialize)]
struct KeptReach {
    share: u16,
    labels: Vec<(String, Vec<String>)>,
}

impl KeptReach {
    fn json(reach: &Reach) -> String {
        let labels = reach.selectors.iter().map(|it| (it.key.clone(), it.values.clone())).collect();
        serde_json::to_string(&Self { share: reach.share, labels }).unwrap_or_default() // texts cannot fail
    }

    fn of(self, rollout: &str) -> Reach {
        let selectors = self.labels.into_iter().map(|(key, values)| Selector { key, values }).collect();
        Reach { rollout: rollout.to_owned(), share: self.share, selectors }
    }
}

/// The newest rollout of an app.
pub(crate) fn last(tx: &mut dyn Tx, app: &App) -> Result<Option<Rollout>, ControlError> {
    let last = select!(RolloutRow:
        "FROM rollouts JOIN apps ON apps.id = rollouts.app_id WHERE rollouts.app_id = $1 \
         ORDER BY to_version DESC LIMIT 1");
    last.first(tx, &[(&app.id).into()])?.map(Rollout::read).transpose()
}

/// The newest rollouts of the apps that the actor may see, or of one `app`; at most `limit`, which is at
/// most 500.
///
/// # Errors
/// [`ControlError`].
pub fn list(tx: &mut dyn Tx, actor: &Actor, app: &str, limit: i64) -> Result<Vec<Rollout>, ControlError> {
    if !app.is_empty() {
        apps::get(tx, actor, Role::Viewer, app)?;
    }
    let newest = select!(RolloutRow:
        "FROM rollouts JOIN apps ON apps.id = rollouts.app_id WHERE ($1 = '' OR apps.name = $1) AND \
         (REPLACE($2, '/*/', '') <> $2 OR REPLACE($2, '/' || apps.name || '/', '') <> $2) \
         ORDER BY rollouts.created_at DESC, to_version DESC LIMIT $3");
    let rows = newest.all(tx, &[app.into(), actor.apps().into(), limit.clamp(1, MOST).into()])?;
    rows.into_iter().map(Rollout::read).collect()
}

/// Every open rollout. For the program itself.
pub(crate) fn open(tx: &mut dyn Tx) -> Result<Vec<Rollout>, ControlError> {
    let open = select!(RolloutRow:
        "FROM rollouts JOIN apps ON apps.id = rollouts.app_id \
         WHERE rollouts.state IN ('running', 'paused', 'halted') ORDER BY apps.name");
    open.all(tx, &[])?.into_iter().map(Rollout::read).collect()
}

/// A rollout of which a gate failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRollout {
    /// The name of the app.
    pub app: String,
    /// The version of the candidate.
    pub version: i64,
    /// When it failed, in ms UTC.
    pub at_ms: i64,
}

impl GateRow {
    fn failed(self) -> FailedRollout {
        FailedRollout { app: self.app, version: self.to_version, at_ms: self.updated_at }
    }
}

/// Rollouts that a gate withdrew and that nothing has been published after.
pub(crate) fn withdrawn(tx: &mut dyn Tx) -> Result<Vec<FailedRollout>, ControlError> {
    let withdrawn = select!(GateRow:
        "FROM rollouts JOIN apps ON apps.id = rollouts.app_id AND apps.version = rollouts.withdrawn_version \
         WHERE rollouts.state = 'withdrawn' ORDER BY apps.name");
    let by_gate = |row: &GateRow| {
        let why: Option<Why> = row.why.as_ref().and_then(|why| serde_json::from_str(why).ok());
        !matches!(why, Some(Why::Operator(_) | Why::Superseded(_)))
    };
    let rows = withdrawn.all(tx, &[])?.into_iter().filter(by_gate);
    Ok(rows.map(GateRow::failed).collect())
}

/// Rollouts of which a gate failed, and that wait for an operator.
pub(crate) fn halted(tx: &mut dyn Tx) -> Result<Vec<FailedRollout>, ControlError> {
    let halted = select!(GateRow:
        "FROM rollouts JOIN apps ON apps.id = rollouts.app_id WHERE rollouts.state = 'halted' \
         ORDER BY apps.name");
    Ok(halted.all(tx, &[])?.into_iter().map(GateRow::failed).collect())
}

fn open_of(tx: &mut dyn Tx, app: &App) -> Result<Option<Rollout>, ControlError> {
    Ok(last(tx, app)?.filter(|it| it.progress.state.is_open()))
}

/// # Errors
/// [`ControlError::RolloutOpen`] while a version of the app is being rolled out.
pub(crate) fn must_be_closed(tx: &mut dyn Tx, app: &App) -> Result<(), ControlError> {
    match open_of(tx, app)? {
        None => Ok(()),
        Some(open) => Err(ControlError::RolloutOpen { app: app.name.clone(), version: open.to_version }),
    }
}

/// Writes a new rollout.
pub(crate) fn insert(tx: &mut dyn Tx, app: &App, rollout: &Rollout, term: i64) -> Result<(), ControlError> {
    insert!(tx, "rollouts" {
        id: &rollout.id,
        app_id: &app.id,
        from_version: rollout.from_version,
        to_version: rollout.to_version,
        withdrawn_version: None::<i64>,
        state: "running",
        plan: rollout.plan.json().to_string(),
        step: 0,
        step_at: None::<i64>,
        reach: KeptReach::json(&rollout.progress.reach),
        why: None::<String>,
        gates: "[]",
        term,
        author: &rollout.author,
        etag: 1,
        created_at: rollout.created_at,
        updated_at: rollout.created_at,
    })?;
    Ok(())
}

/// Ends an open rollout, since another version is about to be published for all nodes.
pub(crate) fn supersede(tx: &mut dyn Tx, actor: &Actor, app: &App, reason: &str) -> Result<(), ControlError> {
    let Some(rollout) = open_of(tx, app)? else { return Ok(()) };
    let why = Some(Why::Superseded(reason.to_owned()));
    let progress = Progress { state: State::Withdrawn, why, ..rollout.progress.clone() };
    let ended = end_of_step(tx, &rollout, Sides::default());
    let written = write(tx, &rollout, progress, ended, Some(app.next()))?;
    stored::free_domains(tx, app)?;
    note(tx, actor, &rollout, &written, "rollout.supersede", reason)
}

/// The steps that have ended, with the current one.
pub(crate) fn end_of_step(tx: &dyn Tx, rollout: &Rollout, sides: Sides) -> Vec<StepEnd> {
    let Progress { step, step_at, .. } = rollout.progress;
    let end = StepEnd { step, begun_at: step_at, ended_at: tx.now_ms(), sides };
    rollout.ended.iter().cloned().chain([end]).collect()
}

/// Writes a move.
pub(crate) fn write(
    tx: &mut dyn Tx,
    before: &Rollout,
    progress: Progress,
    ended: Vec<StepEnd>,
    withdrawn_version: Option<i64>,
) -> Result<Rollout, ControlError> {
    let now = tx.now_ms();
    let after = Rollout {
        progress,
        ended,
        withdrawn_version,
        etag: before.etag + 1,
        updated_at: now,
        ..before.clone()
    };
    let Progress { state, step, step_at, reach, why } = &after.progress;
    let why = why.as_ref().map(|why| json!(why).to_string());
    tx.execute(
        "UPDATE rollouts SET state = $1, step = $2, step_at = $3, reach = $4, why = $5, gates = $6, \
         withdrawn_version = $7, etag = $8, updated_at = $9 WHERE id = $10",
        &[
            state.name().into(),
            i64::try_from(*step).unwrap_or(i64::MAX).into(),
            (*step_at).into(),
            KeptReach::json(reach).into(),
            why.into(),
            json!(after.ended).to_string().into(),
            withdrawn_version.into(),
            after.etag.into(),
            now.into(),
            (&after.id).into(),
        ],
    )?;
    Ok(after)
}

/// The entry of the audit of a move.
pub(crate) fn note(
    tx: &mut dyn Tx,
    actor: &Actor,
    before: &Rollout,
    after: &Rollout,
    action: &str,
    reason: &str,
) -> Result<(), ControlError> {
    let note = Note {
        action,
        target: before.app.clone(),
        app: Some(&before.app),
        before: Some(before.shown()),
        after: Some(after.shown()),
        reason,
    };
    audit::append(tx, actor, note)
}
