//! A rollout as a state machine: what nodes say and what operators ask comes in, what to do comes out.
//!
//! Pure: no database, no clock. What a restart keeps is [`Progress`]; what a step has seen since is lost with
//! the process, so the step is then watched again from its beginning.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tollgate_fleet_proto::reach::{Reach, place};

use tollgate_mistakes::Mistakes;

use super::mistake::Mistake;
use super::plan::{Plan, Step};
use super::tally::{LEAST_DECISIONS, Sides, Tally, Verdict};

/// A live node that is to have the candidate has this long to acknowledge it.
pub const PATIENCE_MS: i64 = 30_000;
/// A step waits this long for the reports of its last seconds: three of them are missing then.
pub const REPORTS_MS: i64 = 15_000;
/// A step with fewer decisions than a comparison needs is watched this much longer, if there are any.
pub const MORE_MS: i64 = 60_000;
/// Looks that are further apart have watched nothing: the process was stopped, or the clock was set.
const LONGEST_GAP_MS: i64 = 30_000;
/// Names of nodes in a reason, at most.
const MOST_NAMES: usize = 20;

/// Where a rollout is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Steps follow each other.
    Running,
    /// An operator stopped it for a while.
    Paused,
    /// A gate failed, and an operator has to decide.
    Halted,
    /// All nodes have the candidate.
    Done,
    /// All nodes get the earlier content.
    Withdrawn,
}

impl State {
    pub const ALL: [Self; 5] = [Self::Running, Self::Paused, Self::Halted, Self::Done, Self::Withdrawn];

    /// Its name in the database and in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Halted => "halted",
            Self::Done => "done",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// The state of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Whether the candidate is not on all nodes yet, and not withdrawn.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Running | Self::Paused | Self::Halted)
    }
}

/// Why a gate failed, or who ended the rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// These nodes rejected the candidate, or crashed while applying it.
    Rejected(Vec<String>),
    /// These nodes did not acknowledge the candidate within 30 s.
    NotAcknowledged(Vec<String>),
    /// The chosen nodes deny too much.
    DeniesMore(Sides),
    /// The chosen nodes decide without their store more often.
    DegradesMore(Sides),
    /// A gate failed, and the version before cannot be restored.
    Blocked(String),
    /// An operator withdrew it.
    Operator(String),
    /// Another version was published for all nodes: a rollback, or the app was disabled.
    Superseded(String),
}

impl Why {
    /// Its name in the API.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Rejected(_) => "rejected",
            Self::NotAcknowledged(_) => "not_acknowledged",
            Self::DeniesMore(_) => "denies_more",
            Self::DegradesMore(_) => "degrades_more",
            Self::Blocked(_) => "blocked",
            Self::Operator(_) => "operator",
            Self::Superseded(_) => "superseded",
        }
    }

    /// The nodes at fault.
    #[must_use]
    pub fn nodes(&self) -> &[String] {
        match self {
            Self::Rejected(nodes) | Self::NotAcknowledged(nodes) => nodes,
            _ => &[],
        }
    }

    /// The reason in words; empty for reasons that have none.
    #[must_use]
    pub fn detail(&self) -> &str {
        match self {
            Self::Blocked(detail) | Self::Operator(detail) | Self::Superseded(detail) => detail,
            _ => "",
        }
    }

    /// The decisions of both sides that failed the gate.
    #[must_use]
    pub const fn sides(&self) -> Option<&Sides> {
        match self {
            Self::DeniesMore(sides) | Self::DegradesMore(sides) => Some(sides),
            _ => None,
        }
    }
}

/// The state of a rollout that survives a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    pub state: State,
    /// Index of the current step.
    pub step: usize,
    /// When the step began, in ms UTC; `None`: it waits for a node to begin with.
    pub step_at: Option<i64>,
    /// The nodes that the candidate has reached. It never shrinks.
    pub reach: Reach,
    /// Why it is halted or withdrawn.
    pub why: Option<Why>,
}

impl Progress {
    /// Before the first step.
    #[must_use]
    pub fn new(rollout: impl Into<String>) -> Self {
        let reach = Reach { rollout: rollout.into(), ..Reach::default() };
        Self { state: State::Running, step: 0, step_at: None, reach, why: None }
    }

    /// Orders the publications of this rollout.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.step as u64 * 2 + u64::from(self.step_at.is_some())
    }
}

/// A node as a gate sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenNode {
    pub id: String,
    pub name: String,
    /// As key and value.
    pub labels: Vec<(String, String)>,
    /// Its stream is open and it reports.
    pub is_live: bool,
    /// The version in force.
    pub acked: u64,
    /// It rejected the candidate, or crashed while applying it.
    pub has_rejected: bool,
    /// It cannot take part: it reads too old a level of the rule language, or holds what this database has
    /// never published.
    pub is_left_out: bool,
    /// It is left out since it has yet to show that it takes rules and reports. It decides nothing; a step
    /// that has nobody else to compare with waits for it, as long as for a report.
    pub is_new: bool,
    /// The time that its last report covers.
    pub last_report: Option<Span>,
}

/// From one moment to another, in ms UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub from_ms: i64,
    pub to_ms: i64,
}

/// Input of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Every node as it is now; due at least once a second.
    Nodes(&'a [SeenNode]),
    /// Decisions of a node since `from_ms`.
    Counted {
        /// Id of the node.
        node: &'a str,
        /// Start of the time that the counts cover.
        from_ms: i64,
        tally: Tally,
    },
    /// A request of an operator.
    Asked(Ask),
}

/// A request of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Begin no step for a while.
    Pause,
    /// Carry on; the step is watched again from its beginning.
    Resume,
    /// Begin the next step now, whatever the gates say; after the last one the rollout is done.
    Advance,
    /// Back to the earlier content, on all nodes.
    Withdraw(String),
}

impl Ask {
    /// Its name in the API and in the audit.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Advance => "advance",
            Self::Withdraw(_) => "withdraw",
        }
    }
}

/// The progress has changed, and this is to be done in the transaction that writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The candidate reaches more nodes.
    Reach,
    /// All nodes get the candidate, which is the version of the app from now on.
    Finish,
    /// All nodes get a new version with the earlier content.
    Withdraw,
    /// Keep the state; do nothing else.
    Keep,
}

/// An operator asked for something that is impossible in this state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rollout is {}", .0.name())]
pub struct WrongState(pub State);

/// The state machine of one rollout.
#[derive(Clone, Debug)]
pub struct Machine {
    plan: Plan,
    candidate: u64,
    progress: Progress,
    /// When this machine was made, or began anew: nothing before it was seen.
    since_ms: i64,
    /// When it looked last.
    looked_ms: i64,
    /// Decisions of the previous version before this step, for comparison once no node has it any more.
    before: Tally,
    watched: Watched,
    mistakes: Mistakes<Mistake>,
}

/// Observations since the step began.
#[derive(Clone, Debug, Default)]
struct Watched {
    /// Nodes with the candidate, and since when they were seen to have it.
    acked: BTreeMap<String, i64>,
    /// Live nodes that lack the candidate, and since when.
    missing: BTreeMap<String, i64>,
    /// Nodes that are to have the version before.
    others: BTreeSet<String>,
    /// Nodes of both sides that have yet to report what they decided during the step.
    unreported: usize,
    /// Nodes that were new, and when they were last. What they decided until then counts for no side.
    new: BTreeMap<String, i64>,
    /// Live nodes that are new.
    unproven: usize,
    sides: Sides,
}

impl Machine {
    /// A machine that carries on from `progress`. The soak time of the step begins at `now_ms`, unless the
    /// step began later.
    #[must_use]
    pub fn new(plan: Plan, candidate: u64, progress: Progress, now_ms: i64) -> Self {
        let mut machine = Self {
            plan,
            candidate,
            progress,
            since_ms: now_ms,
            looked_ms: now_ms,
            before: Tally::default(),
            watched: Watched::default(),
            mistakes: Mistakes::none(),
        };
        machine.watch_anew(now_ms);
        machine
    }

    /// Sets the decisions of the previous version before this step. A step that leaves no node with that
    /// version is compared with them.
    pub const fn compare_with(&mut self, before: Tally) {
        self.before = before;
    }

    /// Forgets what the step has seen. A step that began after `now_ms`, by a clock that was set back since,
    /// begins now.
    fn watch_anew(&mut self, now_ms: i64) {
        (self.since_ms, self.looked_ms, self.watched) = (now_ms, now_ms, Watched::default());
        self.progress.step_at = self.progress.step_at.map(|at| at.min(now_ms));
    }

    /// With a mistake that a simulation must find.
    #[must_use]
    pub fn making(self, mistakes: Mistakes<Mistake>) -> Self {
        Self { mistakes, ..self }
    }

    /// The state of a rollout that survives a restart.
    #[must_use]
    pub const fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Decisions of both sides during the step. Where no node has the previous version any more, the other
    /// side is its decisions before the step.
    #[must_use]
    pub fn sides(&self) -> Sides {
        let sides = self.watched.sides;
        if self.is_compared_with_before() { Sides { others: self.before, ..sides } } else { sides }
    }

    /// Whether every live node has the candidate, so that there is no other side.
    #[must_use]
    pub fn is_compared_with_before(&self) -> bool {
        let Watched { acked, others, sides, .. } = &self.watched;
        others.is_empty() && !acked.is_empty() && sides.others.decisions < LEAST_DECISIONS
    }

    /// Live nodes with the candidate, and those that have yet to acknowledge it.
    #[must_use]
    pub fn answers(&self) -> (usize, usize) {
        (self.watched.acked.len(), self.watched.missing.len())
    }

    /// Nodes whose reports the step waits for, after its soak time.
    #[must_use]
    pub fn unreported(&self) -> usize {
        if self.has_reports() { 0 } else { self.watched.unreported + self.watched.unproven }
    }

    /// When the step may end, if its gates are good; `None` before it has begun.
    #[must_use]
    pub fn soaked_at(&self) -> Option<i64> {
        Some(self.begun_at()?.saturating_add(self.plan.soak_s.saturating_mul(1_000)))
    }

    /// Since when the step is watched.
    fn begun_at(&self) -> Option<i64> {
        self.progress.step_at.map(|at| at.max(self.since_ms))
    }

    /// Takes in `event`, and returns the action that it asks for. `None`: nothing has changed.
    ///
    /// # Errors
    /// [`WrongState`]: an operator asked for something impossible now. Nothing has changed.
    pub fn on(&mut self, event: Event<'_>, now_ms: i64) -> Result<Option<Action>, WrongState> {
        match event {
            Event::Nodes(nodes) => Ok(self.look(nodes, now_ms)),
            Event::Counted { node, from_ms, tally } => {
                self.count(node, from_ms, tally);
                Ok(None)
            }
            Event::Asked(ask) => self.asked(ask, now_ms).map(Some),
        }
    }

    fn asked(&mut self, ask: Ask, now_ms: i64) -> Result<Action, WrongState> {
        let progress = &mut self.progress;
        let state = progress.state;
        let is_possible = match ask {
            Ask::Pause => state == State::Running,
            Ask::Resume => matches!(state, State::Paused | State::Halted),
            Ask::Advance | Ask::Withdraw(_) => state.is_open(),
        };
        if !is_possible {
            return Err(WrongState(state));
        }
        match ask {
            Ask::Pause => {
                progress.state = State::Paused;
                Ok(Action::Keep)
            }
            Ask::Resume => {
                progress.state = State::Running;
                progress.why = None;
                progress.step_at = progress.step_at.map(|_| now_ms);
                self.watched = Watched::default();
                Ok(Action::Keep)
            }
            Ask::Advance => {
                progress.state = State::Running;
                progress.why = None;
                Ok(self.next_step())
            }
            Ask::Withdraw(reason) => {
                progress.state = State::Withdrawn;
                progress.why = Some(Why::Operator(reason));
                Ok(Action::Withdraw)
            }
        }
    }

    fn next_step(&mut self) -> Action {
        self.watched = Watched::default();
        if self.progress.step + 1 >= self.plan.steps.len() {
            self.progress.state = State::Done;
            return Action::Finish;
        }
        self.progress.step += 1;
        self.progress.step_at = None;
        Action::Keep
    }

    fn look(&mut self, nodes: &[SeenNode], now_ms: i64) -> Option<Action> {
        if self.progress.state != State::Running {
            return None;
        }
        if !(0..=LONGEST_GAP_MS).contains(&now_ms.saturating_sub(self.looked_ms)) {
            self.watch_anew(now_ms);
        }
        self.looked_ms = now_ms;
        if self.progress.step_at.is_none() {
            return self.begin(nodes, now_ms);
        }
        self.see(nodes, now_ms);
        if let Some(why) = self.failed(nodes, now_ms) {
            return Some(self.fail(why));
        }
        let soaked_at = self.soaked_at()?;
        let is_soaked = now_ms >= soaked_at && (self.has_reports() || now_ms - soaked_at >= REPORTS_MS);
        let has_all = self.watched.missing.is_empty() || self.mistakes.has(Mistake::LateAcknowledgement);
        let has_answers = has_all && !self.watched.acked.is_empty();
        if !is_soaked || !(has_answers || self.mistakes.has(Mistake::StepNotWaited)) {
            return None;
        }
        let sides = self.sides();
        match sides.verdict() {
            Verdict::TooFew if self.waits_for_decisions(sides, now_ms - soaked_at) => return None,
            Verdict::TooFew | Verdict::Good => {}
            Verdict::DeniesMore => return Some(self.fail(Why::DeniesMore(sides))),
            Verdict::DegradesMore => return Some(self.fail(Why::DegradesMore(sides))),
        }
        let action = self.next_step();
        Some(self.begin(nodes, now_ms).unwrap_or(action))
    }

    /// Whether both sides decide, and need some more time to have enough decisions for a comparison. An app
    /// without requests is not waited for.
    fn waits_for_decisions(&self, Sides { chosen, others }: Sides, over_ms: i64) -> bool {
        self.plan.soak_s > 0 && over_ms < MORE_MS && chosen.decisions > 0 && others.decisions > 0
    }

    /// Whether every node has reported what it decided up to the end of the soak, or nothing is compared:
    /// one side has decided nothing, or there is no soak time.
    fn has_reports(&self) -> bool {
        let Watched { acked, others, unreported, unproven, .. } = &self.watched;
        let may_come = others.is_empty() && *unproven > 0;
        let has_others = !others.is_empty() || may_come || self.before.decisions >= LEAST_DECISIONS;
        let has_all = *unreported == 0 && !may_come;
        self.plan.soak_s == 0 || has_all || acked.is_empty() || !has_others
    }

    /// Begins the step, once there is a live node.
    fn begin(&mut self, nodes: &[SeenNode], now_ms: i64) -> Option<Action> {
        let Progress { state: State::Running, step_at: None, step, .. } = self.progress else { return None };
        let live = nodes.iter().filter(|node| node.is_live && !node.is_left_out);
        let mut places: Vec<u16> = live.map(|node| place(&self.progress.reach.rollout, &node.id)).collect();
        places.sort_unstable();
        let lowest = *places.first()?;
        let reach = &mut self.progress.reach;
        let step = self.plan.steps.get(step).unwrap_or(&Step::All);
        let share = match step {
            Step::Nodes(count) => {
                let last = usize::from(*count).min(places.len()).saturating_sub(1);
                places.get(last).map_or(0, |place| place + 1)
            }
            Step::Labels(selector) => {
                if self.mistakes.has(Mistake::ShareShrinks) {
                    reach.share = 0;
                }
                if !reach.selectors.contains(selector) {
                    reach.selectors.push(selector.clone());
                }
                0
            }
            // A share of a few nodes is at least one of them.
            Step::Percent(_) | Step::All => step.share().unwrap_or(0).max(lowest + 1),
        };
        reach.share = reach.share.max(share);
        self.progress.step_at = Some(now_ms);
        self.watched = Watched::default();
        self.see(nodes, now_ms);
        Some(Action::Reach)
    }

    /// Remembers the nodes that have the candidate and those that lack it.
    fn see(&mut self, nodes: &[SeenNode], now_ms: i64) {
        let Some(soaked_at) = self.soaked_at() else { return };
        let begun = self.begun_at().unwrap_or(now_ms);
        let watched = &mut self.watched;
        let missing = std::mem::take(&mut watched.missing);
        let acked = std::mem::take(&mut watched.acked);
        watched.others.clear();
        watched.unreported = 0;
        watched.unproven = 0;
        for node in nodes.iter().filter(|node| node.is_live && node.is_new) {
            watched.new.insert(node.id.clone(), now_ms);
            watched.unproven += 1;
        }
        for node in nodes.iter().filter(|node| node.is_live && !node.is_left_out) {
            let from = if node.acked >= self.candidate {
                let since = acked.get(&node.id).copied().unwrap_or(now_ms);
                watched.acked.insert(node.id.clone(), since);
                since
            } else if self.progress.reach.includes(&node.id, labels(node)) {
                let since = missing.get(&node.id).copied().unwrap_or(now_ms);
                watched.missing.insert(node.id.clone(), since);
                continue;
            } else {
                watched.others.insert(node.id.clone());
                watched.new.get(&node.id).map_or(begun, |at| *at)
            };
            let is_covered = |it: Span| it.from_ms >= from && it.to_ms >= soaked_at;
            watched.unreported += usize::from(!node.last_report.is_some_and(is_covered));
        }
    }

    /// The gates that fail as soon as a node says so, or says nothing for too long.
    fn failed(&self, nodes: &[SeenNode], now_ms: i64) -> Option<Why> {
        let names = |is_named: &dyn Fn(&SeenNode) -> bool| -> Vec<String> {
            let name =
                |node: &SeenNode| if node.name.is_empty() { node.id.clone() } else { node.name.clone() };
            nodes.iter().filter(|node| is_named(node)).map(name).take(MOST_NAMES).collect()
        };
        let rejected = names(&|node| node.has_rejected && !node.is_left_out);
        if !rejected.is_empty() && !self.mistakes.has(Mistake::RejectionIgnored) {
            return Some(Why::Rejected(rejected));
        }
        let is_late = |node: &SeenNode| {
            self.watched.missing.get(&node.id).is_some_and(|since| now_ms - since >= PATIENCE_MS)
        };
        let late = names(&is_late);
        (!late.is_empty()).then_some(Why::NotAcknowledged(late))
    }

    fn fail(&mut self, why: Why) -> Action {
        self.progress.why = Some(why);
        if self.plan.auto_rollback {
            self.progress.state = State::Withdrawn;
            Action::Withdraw
        } else {
            self.progress.state = State::Halted;
            Action::Keep
        }
    }

    /// Counts of a time in which the node had one version only, and that lies within the step.
    fn count(&mut self, node: &str, from_ms: i64, tally: Tally) {
        let Some(begun) = self.begun_at() else { return };
        if self.progress.state != State::Running || from_ms < begun {
            return;
        }
        let Watched { acked, others, sides, .. } = &mut self.watched;
        if acked.get(node).is_some_and(|since| *since <= from_ms) {
            sides.chosen.add(tally);
        } else if others.contains(node) {
            sides.others.add(tally);
        }
    }
}

/// The labels of a node, as a reach wants them.
pub(super) fn labels(node: &SeenNode) -> impl Iterator<Item = (&str, &str)> + Clone {
    node.labels.iter().map(|(key, value)| (&**key, &**value))
}
