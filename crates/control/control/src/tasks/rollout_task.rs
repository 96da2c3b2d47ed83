//! Moves rollouts on: asks every second what nodes hold and have decided, and carries out what comes of it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tollgate_db::Tx;
use tollgate_model::levels::level_of;
use tollgate_model::rollout::{
    Action, Ask, Event, LEAST_DECISIONS, Machine, SeenNode, Span, Stage, State, Tally, Why,
};

use crate::access::actor::Actor;
use crate::access::claim::Claim;
use crate::control::Control;
use crate::error::ControlError;
use crate::fleet::levels::{self, OldNodes};
use crate::fleet::nodes::{NodeState, voters};
use crate::history::{self, HistoryQuery, Scope};
use crate::ids::secret;
use crate::rollouts::{self, JOB, Move, Rollout, leases, rollout_rows};
use crate::tasks::events::Topic;
use crate::tasks::rollout_counts::{Count, Observed, RolloutCounts};

/// Time between two looks at the nodes.
const EVERY: Duration = Duration::from_secs(1);

/// The time before a rollout that shows how much the version before denies.
const BEFORE_MS: i64 = 3_600_000;

/// A rollout and its machine.
struct OpenRollout {
    rollout: Rollout,
    /// The level of the rule language that a node must read for the candidate.
    level: u32,
    machine: Machine,
    /// Decisions in the hour before the rollout.
    hour_before: Tally,
}

impl OpenRollout {
    /// A last step has no other side. It is compared with that of a step before, or else with the hour before
    /// the rollout.
    fn compare(&mut self) {
        let others = self.rollout.ended.iter().rev().map(|it| it.sides.others);
        let enough = others.into_iter().find(|it| it.decisions >= LEAST_DECISIONS);
        self.machine.compare_with(enough.unwrap_or(self.hour_before));
    }
}

/// Moves rollouts on, one look at a time.
pub struct Roller {
    term: i64,
    /// Open rollouts by app.
    rolling: BTreeMap<String, OpenRollout>,
}

impl std::fmt::Debug for Roller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Roller").field("term", &self.term).finish_non_exhaustive()
    }
}

impl Roller {
    /// Takes the rollouts over: whoever moved them before cannot write any more.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn take_over(control: &Control) -> Result<Self, ControlError> {
        let holder = secret()?[..16].to_owned();
        let term = control.write(move |tx| leases::take(tx, JOB, &holder)).await?;
        Ok(Self { term, rolling: BTreeMap::new() })
    }

    /// Looks at every open rollout once, and moves on those that are due.
    ///
    /// # Errors
    /// [`ControlError::OldTerm`] if another process has taken over; [`ControlError::Db`].
    pub async fn look(&mut self, control: &Control) -> Result<(), ControlError> {
        let (open, now_ms) = control.read(|tx| Ok((rollout_rows::open(tx)?, tx.now_ms()))).await?;
        self.rolling.retain(|app, it| open.iter().any(|now| now.app == *app && now.id == it.rollout.id));
        for rollout in open {
            // An operator was here: the step is watched again.
            if self.rolling.get(&rollout.app).is_none_or(|it| it.rollout.etag != rollout.etag) {
                let machine = rollout.machine(now_ms);
                // It is committed, and about to be published: the next look will find it.
                let Some(level) = control.candidate_level(&rollout.app) else { continue };
                let known = self.rolling.get(&rollout.app).filter(|it| it.rollout.id == rollout.id);
                let hour_before = match known {
                    Some(known) => known.hour_before,
                    None => {
                        let of = rollout.clone();
                        control.read(move |tx| Ok(hour_before(tx, &of))).await?
                    }
                };
                let mut rolling = OpenRollout { rollout, level, machine, hour_before };
                rolling.compare();
                self.rolling.insert(rolling.rollout.app.clone(), rolling);
            }
        }
        control.rollout_counts().watch(&control.published().borrow());
        let (counts, covered) = control.rollout_counts().take();
        for Count { app, node, from_ms, tally } in counts {
            if let Some(it) = self.rolling.get_mut(&app) {
                // Counts are possible in every state.
                let _ = it.machine.on(Event::Counted { node: &node, from_ms, tally }, now_ms);
            }
        }
        let apps: Vec<String> = self.rolling.keys().cloned().collect();
        for app in apps {
            let nodes = control.nodes().nodes_of(&app);
            self.look_at(control, &app, (&nodes, &covered), now_ms).await?;
        }
        let observed = |OpenRollout { machine, rollout, .. }: &OpenRollout| Observed {
            sides: machine.sides(),
            soaked_at: machine.soaked_at(),
            answers: machine.answers(),
            unreported: machine.unreported(),
            etag: rollout.etag,
        };
        let shown = self.rolling.iter().map(|(app, it)| (app.clone(), observed(it))).collect();
        let mut states = BTreeMap::new();
        for it in self.rolling.values() {
            *states.entry(it.machine.progress().state).or_default() += 1;
        }
        if control.rollout_counts().show(shown, states) {
            control.live().events.note(Topic::Rollouts);
        }
        Ok(())
    }

    async fn look_at(
        &mut self,
        control: &Control,
        app: &str,
        (nodes, covered): (&[NodeState], &HashMap<String, Span>),
        now_ms: i64,
    ) -> Result<(), ControlError> {
        let Some(it) = self.rolling.get_mut(app) else { return Ok(()) };
        // A node that takes no rules and reports nothing holds no rollout up.
        let all_are_new = voters(nodes, |it| it.is_live(now_ms)).iter().all(|it| it.is_new);
        let as_seen = |node: &NodeState| {
            let last_report = covered.get(&node.id).copied();
            let alone = seen(node, &it.rollout, it.level, now_ms);
            let is_new = node.is_new && !all_are_new;
            SeenNode { last_report, is_new, is_left_out: alone.is_left_out || is_new, ..alone }
        };
        let seen: Vec<SeenNode> = nodes.iter().map(as_seen).collect();
        let sides = it.machine.sides();
        let before = it.machine.clone();
        let Ok(Some(action)) = it.machine.on(Event::Nodes(&seen), now_ms) else { return Ok(()) };
        let progress = it.machine.progress().clone();
        let term = self.term;
        let rollout = it.rollout.clone();
        let todo = Move { term, before: rollout, action, progress, sides };
        let todo = std::sync::Arc::new(todo);
        let work = std::sync::Arc::clone(&todo);
        let work = move |tx: &mut dyn Tx, actor: &Actor| rollouts::move_on(tx, actor, &work);
        match control.commit_beside_as(&Claim::program("tollgate"), OldNodes::Leave, work).await {
            Ok(after) => {
                log(&after);
                if after.progress.state.is_open() {
                    it.rollout = after;
                    it.compare();
                } else {
                    self.rolling.remove(app);
                }
                control.live().events.note(Topic::Rollouts);
                Ok(())
            }
            // An operator was faster; the next look begins with what is there now.
            Err(ControlError::Stale { .. }) => {
                self.rolling.remove(app);
                Ok(())
            }
            Err(error @ (ControlError::OldTerm | ControlError::Db(_))) => {
                it.machine = before; // and once more at the next look
                Err(error)
            }
            Err(error) => self.halt(control, app, &todo, &error).await,
        }
    }

    /// Halts a rollout whose next move is impossible: an operator has to decide.
    async fn halt(
        &mut self,
        control: &Control,
        app: &str,
        todo: &Move,
        error: &ControlError,
    ) -> Result<(), ControlError> {
        tracing::error!(app, %error, "rollout halted");
        self.rolling.remove(app);
        let mut progress = todo.before.progress.clone();
        (progress.state, progress.why) = (State::Halted, Some(Why::Blocked(error.to_string())));
        let term = todo.term;
        let before = todo.before.clone();
        let sides = todo.sides;
        let todo = Move { term, before, action: Action::Keep, progress, sides };
        let work = move |tx: &mut dyn Tx, actor: &Actor| rollouts::move_on(tx, actor, &todo);
        control.commit_beside_as(&Claim::program("tollgate"), OldNodes::Leave, work).await?;
        control.live().events.note(Topic::Rollouts);
        Ok(())
    }
}

/// Decisions about an app in the hour before its rollout; none if they cannot be read.
fn hour_before(tx: &mut dyn Tx, rollout: &Rollout) -> Tally {
    let to_ms = rollout.created_at;
    let scope = Scope::App(rollout.app.clone());
    let query = HistoryQuery { scope, from_ms: to_ms.saturating_sub(BEFORE_MS), to_ms, step_ms: 0 };
    let found = history::history(tx, &Actor::system(), &query).map(|it| it.sum()).unwrap_or_default();
    let count = |count: i64| u64::try_from(count).unwrap_or_default();
    Tally { decisions: count(found.offered()), denied: count(found.denied), degraded: count(found.degraded) }
}

/// A node as a gate of this rollout sees it.
#[must_use]
pub fn seen(node: &NodeState, rollout: &Rollout, level: u32, now_ms: i64) -> SeenNode {
    let candidate = rollout.to_version.unsigned_abs();
    let app = node.apps.iter().find(|it| it.app == rollout.app);
    SeenNode {
        id: node.id.clone(),
        name: node.name.clone(),
        labels: node.labels.clone(),
        is_live: node.is_connected && node.is_live(now_ms),
        acked: app.map_or(0, |it| it.acked),
        has_rejected: app.is_some_and(|it| it.fault.is_some() && it.fault_version == candidate),
        is_left_out: levels::reads(node) < level || app.is_some_and(|it| it.is_ahead),
        is_new: false,
        last_report: None,
    }
}

fn log(rollout: &Rollout) {
    let app = &rollout.app;
    let version = rollout.to_version;
    let state = rollout.progress.state.name();
    let step = rollout.progress.step + 1;
    match rollout.progress.state {
        State::Withdrawn | State::Halted => {
            let why = serde_json::json!(rollout.progress.why).to_string();
            tracing::warn!(app, version, step, why, "rollout {state}");
        }
        _ => tracing::info!(app, version, step, "rollout {state}"),
    }
}

impl Control {
    /// Moves rollouts on until the future is dropped.
    pub async fn roll(&self) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut changes = self.published();
        let mut roller: Option<Roller> = None;
        let mut is_failing = false;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                changed = changes.changed() => if changed.is_err() { return },
            }
            let looked = match &mut roller {
                Some(roller) => roller.look(self).await,
                None => Roller::take_over(self).await.map(|taken| roller = Some(taken)),
            };
            match &looked {
                Err(ControlError::OldTerm) => {
                    tracing::warn!("another process moves the rollouts");
                    return;
                }
                Err(error) if !is_failing => tracing::warn!(%error, "rollouts cannot be moved on"),
                Ok(()) if is_failing => tracing::info!("rollouts are moved on again"),
                _ => {}
            }
            is_failing = looked.is_err();
        }
    }

    /// Open rollouts by their state.
    #[must_use]
    pub fn open_rollouts(&self) -> BTreeMap<State, u64> {
        self.rollout_counts().states()
    }

    /// Every known node and where it is in a rollout, the most urgent first.
    #[must_use]
    pub fn stages(&self, rollout: &Rollout, now_ms: i64) -> Vec<(NodeState, Stage)> {
        // After a rollout has ended, no node is left out.
        let level = self.candidate_level(&rollout.app).unwrap_or(1);
        let candidate = rollout.to_version.unsigned_abs();
        let withdrawn = rollout.withdrawn_version.map(i64::unsigned_abs);
        let stage = |node: NodeState| {
            let seen_node = seen(&node, rollout, level, now_ms);
            let stage = Stage::of(&seen_node, candidate, withdrawn, &rollout.progress);
            (node, stage)
        };
        let mut all: Vec<_> = self.nodes().nodes_of(&rollout.app).into_iter().map(stage).collect();
        all.sort_by(|(a, at), (b, bt)| (at, &a.name, &a.id).cmp(&(bt, &b.name, &b.id)));
        all
    }

    /// Observations of the current step of an app's open rollout.
    #[must_use]
    pub fn observed(&self, app: &str) -> Option<Observed> {
        self.rollout_counts().shown(app)
    }

    /// The level of the rule language that a node must read for the candidate of an app; `None` while none is
    /// published.
    fn candidate_level(&self, app: &str) -> Option<u32> {
        let published = self.published();
        let published = published.borrow();
        let candidate = published.apps.iter().find(|it| it.app == app)?.candidate.as_ref()?;
        Some(level_of(&candidate.documents))
    }

    /// Does what an operator asks of the open rollout of an app.
    ///
    /// # Errors
    /// As [`rollouts::ask`].
    pub async fn ask_rollout(
        &self,
        claim: &Claim,
        app: &str,
        etag: i64,
        ask: Ask,
    ) -> Result<Rollout, ControlError> {
        let app = app.to_owned();
        // The counts of the step, if it is still the same step.
        let sides = self.observed(&app).filter(|it| it.etag == etag).map(|it| it.sides).unwrap_or_default();
        let work = move |tx: &mut dyn Tx, actor: &Actor| rollouts::ask(tx, actor, &app, etag, &ask, sides);
        let asked = self.commit_beside_as(claim, OldNodes::Leave, work).await?;
        self.live().events.note(Topic::Rollouts);
        Ok(asked)
    }

    pub(crate) fn rollout_counts(&self) -> &RolloutCounts {
        &self.live().rollout_counts
    }
}
