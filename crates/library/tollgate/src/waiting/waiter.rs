//! A waiter in a queue, and its end: it is served, or it leaves.

use std::task::Waker;

use tollgate_core::{Decision, Quota, Timestamp, nanos};

#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) cost: u64,
    pub(crate) state: Standing,
}

/// The state of a waiter. It keeps its place until it has found out that it waits no more.
#[derive(Debug)]
pub(crate) enum Standing {
    InLine(InLine),
    /// Its turn has come.
    Served(Taken),
    /// It has left the line without its permits.
    Left(Leaving),
}

/// A waiter whose turn has not come.
#[derive(Debug)]
pub(crate) struct InLine {
    /// It leaves the line when its turn comes later than this.
    pub(crate) deadline: Timestamp,
    /// The same in real time.
    pub(crate) gives_up: Timestamp,
    pub(crate) kind: WaiterKind,
    /// When a thread looks by itself.
    pub(crate) looks_at: Timestamp,
    pub(crate) waker: Option<Waker>,
}

/// Why a waiter left its line without its permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// Its deadline can no longer be met.
    Late,
    /// The quota has another algorithm now.
    Reconfigured,
    /// There are fewer slots now than it waits for.
    NeverFits,
    /// The runtime has no timer.
    #[cfg(feature = "tokio")]
    NoTimer,
}

/// Permits that were taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) at: Timestamp,
    /// Until the bucket would be full again, in ns.
    pub(crate) reset_ns: u64,
    /// Limit of the quota by which they were taken: by the time they are given back, the rate may be another.
    pub(crate) limit: u64,
}

/// Way in which a waiter finds out that its turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaiterKind {
    /// The task with the timer wakes it.
    Task,
    /// It looks itself, at its time.
    Thread,
    /// Not at all: its caller knows the time.
    Held,
    /// Not at all, and it does not look: its permits are used already.
    Committed,
    /// The caller that gives up the slots that it waits for wakes it.
    Slots,
}

impl Taken {
    /// The permits that `quota` admitted at `now`.
    pub(crate) fn by(quota: &Quota, decision: &Decision, now: Timestamp) -> Self {
        Self { at: now, reset_ns: nanos(decision.reset_after()), limit: quota.limit() }
    }
}

impl Waiter {
    /// A waiter that leaves its line only when it is served or sent off.
    pub(crate) const fn without_deadline(cost: u64, kind: WaiterKind) -> Self {
        let never = Timestamp::NEVER;
        let in_line = InLine { deadline: never, gives_up: never, kind, looks_at: never, waker: None };
        Self { cost, state: Standing::InLine(in_line) }
    }

    pub(crate) const fn in_line(&self) -> Option<&InLine> {
        if let Standing::InLine(in_line) = &self.state { Some(in_line) } else { None }
    }

    pub(crate) const fn in_line_mut(&mut self) -> Option<&mut InLine> {
        if let Standing::InLine(in_line) = &mut self.state { Some(in_line) } else { None }
    }

    /// The permits of a waiter whose turn has come.
    pub(crate) const fn taken(&self) -> Option<Taken> {
        if let Standing::Served(taken) = self.state { Some(taken) } else { None }
    }

    pub(super) fn kind(&self) -> Option<WaiterKind> {
        self.in_line().map(|in_line| in_line.kind)
    }
}
