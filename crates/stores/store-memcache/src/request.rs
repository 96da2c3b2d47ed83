//! The operations on one key, and their answers.
//!
//! `core` makes the decisions: here they are only put together, one after another, on a state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tollgate_core::{Algorithm, Cost, Decision, Expiry, Quota, Shape, State, Timestamp};
use tollgate_store::Inspection;
use tollgate_store::remote::Failure;

/// An operation on one key.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Take(Cost),
    Charge(Cost),
    Pay(Cost),
    GiveBack(Cost),
    /// All of these takes or none; held if a wait is given.
    All {
        takes: Vec<(Quota, Cost)>,
        hold: Option<Duration>,
    },
    Inspect,
    Reset,
    /// The state itself.
    Look,
}

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OpAnswer {
    Decision(Decision),
    /// One decision per take, and whether they were charged.
    All {
        decisions: Vec<Decision>,
        charged: bool,
    },
    Inspection(Inspection),
    /// True when there was something to forget.
    Forgot(bool),
    State(State),
}

/// One caller's request about one key.
#[derive(Debug)]
pub(crate) struct KeyRequest {
    pub(crate) op: Op,
    pub(crate) quota: Quota,
    pub(crate) now: Timestamp,
    /// The longest that a call waits.
    pub(crate) deadline: Duration,
    pub(crate) claim: Arc<Claim>,
    pub(crate) reply: oneshot::Sender<Result<OpAnswer, Failure>>,
}

/// The owner of a request: the caller, which may give up while nothing has been changed, or the task that
/// sends it.
#[derive(Debug, Default)]
pub(crate) struct Claim(AtomicU8);

const UNTOUCHED: u8 = 0;
const CHANGING: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Claim {
    /// Called before a change; false when the caller has given up.
    pub(crate) fn change(&self) -> bool {
        let was = self.0.compare_exchange(UNTOUCHED, CHANGING, Ordering::AcqRel, Ordering::Acquire);
        was != Err(GIVEN_UP)
    }

    /// Called when nothing was changed after all.
    pub(crate) fn undo(&self) {
        let _ = self.0.compare_exchange(CHANGING, UNTOUCHED, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The caller stops waiting; false when something may have been changed.
    pub(crate) fn give_up(&self) -> bool {
        let was = self.0.compare_exchange(UNTOUCHED, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire);
        was != Err(CHANGING)
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.0.load(Ordering::Acquire) == GIVEN_UP
    }

    fn is_changing(&self) -> bool {
        self.0.load(Ordering::Acquire) == CHANGING
    }
}

impl KeyRequest {
    /// The hits that `incr` would count for it in a fixed window, denied ones too; `None` where it cannot.
    pub(crate) fn hits(&self) -> Option<u64> {
        let is_window = |quota: &Quota| matches!(quota.algorithm(), Algorithm::FixedWindow { .. });
        if !is_window(&self.quota) {
            return None;
        }
        match &self.op {
            Op::Take(cost) | Op::Charge(cost) | Op::Pay(cost) => Some(cost.permits()),
            Op::All { takes, .. } => takes.iter().try_fold(0_u64, |sum, (quota, cost)| {
                if is_window(quota) { sum.checked_add(cost.permits()) } else { None }
            }),
            Op::GiveBack(_) | Op::Inspect | Op::Look => Some(0),
            Op::Reset => None,
        }
    }

    /// Fails it because of an event while it was in flight.
    pub(crate) fn fail_silent(self, why: &std::io::Error) {
        let failure = if self.claim.is_changing() {
            Failure::Silent { waited: self.deadline }
        } else {
            Failure::not_sent(why.kind(), why.to_string())
        };
        let _ = self.reply.send(Err(failure));
    }

    /// Applies the operation to `state`.
    fn step(&self, state: &mut State) -> OpAnswer {
        let quota = &self.quota;
        let now = self.now;
        match &self.op {
            Op::Take(cost) => OpAnswer::Decision(change(state, quota, |it| quota.take(it, *cost, now))),
            Op::Charge(cost) => OpAnswer::Decision(change(state, quota, |it| quota.charge(it, *cost, now))),
            Op::Pay(cost) => OpAnswer::Decision(change(state, quota, |it| quota.pay(it, *cost, now))),
            Op::GiveBack(cost) => {
                OpAnswer::Decision(change(state, quota, |it| quota.give_back(it, *cost, now)))
            }
            Op::All { takes, hold } => {
                let before = state.clone();
                let decisions = takes.iter().map(|(quota, cost)| take(state, quota, *cost, *hold, now));
                let decisions: Vec<_> = decisions.collect();
                let charged = decisions.iter().all(Decision::is_admitted);
                if !charged {
                    *state = before;
                }
                OpAnswer::All { decisions, charged }
            }
            Op::Inspect => {
                let mut state = find(state, quota);
                let is_tracked = !expires(&state).is_past(now);
                OpAnswer::Inspection(Inspection {
                    decision: quota.take(&mut state, Cost::PEEK, now),
                    is_tracked,
                })
            }
            Op::Reset => {
                let was = !expires(state).is_past(now);
                *state = quota.fresh();
                OpAnswer::Forgot(was)
            }
            Op::Look => OpAnswer::State(find(state, quota)),
        }
    }
}

/// Applies all `requests` to `state`, in order.
pub(crate) fn replay(requests: &[KeyRequest], mut state: State) -> (State, Vec<OpAnswer>) {
    let answers = requests.iter().map(|request| request.step(&mut state)).collect();
    (state, answers)
}

/// One take of a batch, for now or held.
pub(crate) fn take(
    state: &mut State,
    quota: &Quota,
    cost: Cost,
    hold: Option<Duration>,
    now: Timestamp,
) -> Decision {
    change(state, quota, |it| match hold {
        Some(max_wait) => quota.reserve(it, cost, max_wait, now),
        None => quota.take(it, cost, now),
    })
}

fn change(state: &mut State, quota: &Quota, how: impl FnOnce(&mut State) -> Decision) -> Decision {
    let old = find(state, quota);
    let mut new = old.clone();
    let decision = how(&mut new);
    if new != old {
        *state = new;
    }
    decision
}

/// The state as `quota` may read it: none where another kind of algorithm wrote it.
fn find(state: &State, quota: &Quota) -> State {
    match (state, quota.shape()) {
        (State::Word(_), Shape::Word) | (State::Wide(_), Shape::Wide) => state.clone(),
        _ => quota.fresh(),
    }
}

fn expires(state: &State) -> Expiry {
    match state {
        State::Word(word) => word.expires,
        State::Wide(wide) => wide.expires,
    }
}

impl KeyRequest {
    /// The answer for a quota that keeps nothing.
    pub(crate) fn without_a_state(&self) -> OpAnswer {
        self.step(&mut self.quota.fresh())
    }
}
