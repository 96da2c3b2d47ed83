//! What the suite needs from a store's tests, and what it reports.

use std::future::Future;
use std::time::Duration;

use tollgate_core::Timestamp;

use crate::wait::block_on;

/// Runs a store's futures to their end: [`Parked`] for stores that need no runtime, the store's own test's
/// runtime else.
pub trait Executor: Sync {
    /// Runs `future` to its end, on any thread of the suite.
    fn block_on<F: Future>(&self, future: F) -> F::Output;
}

/// The executor for stores that need no runtime: [`crate::block_on`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Parked;

impl Executor for Parked {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on(future)
    }
}

/// How much to try, and what the store says it cannot do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Random histories to compare with the model.
    pub cases: u32,
    /// Most steps of a history.
    pub steps: usize,
    /// Callers at once.
    pub threads: usize,
    /// Takes of each of them.
    pub takes: u32,
    /// Where virtual time begins. A store whose server drops keys by its own clock needs a beginning far
    /// ahead of that.
    pub begins: Timestamp,
    /// Names of algorithms, as in rule files, that the store cannot count; `first_hit` for windows that begin
    /// with their first hit, `overdraft` for classes of a bucket that have one (then they are checked by
    /// callers at once only).
    pub unsupported: &'static [&'static str],
    /// What the store counts time in: histories move by whole ticks, and only quotas are tried whose permits
    /// come at whole ticks.
    pub tick: Duration,
    /// Time may step back in histories, as it does where the caller's clock counts.
    pub steps_back: bool,
    /// A hold is promised permits that are not there yet, where the quota can; else all holds of histories
    /// are for now.
    pub promises: bool,
    /// A fixed window counts each hit that it denies, says how many of them found room, and keeps its end
    /// when all of its hits were given back. Else histories give nothing back to a window that is past its
    /// limit, and one that is empty again is forgotten by the store and by the model.
    pub whole_windows: bool,
    /// Counters are in two places, and what was given back may leave an empty state behind. Quotas that do
    /// not start full are left out: of these such a state begins to fill.
    pub is_split: bool,
    /// Quotas with a larger limit are left out, and no history charges more at once.
    pub most: u64,
}

const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);

impl Default for Options {
    /// 256 histories of up to 60 steps; 4 callers of 500 takes; from November 2023 on; every algorithm, to
    /// the nanosecond.
    fn default() -> Self {
        Self {
            cases: 256,
            steps: 60,
            threads: 4,
            takes: 500,
            begins: NOON,
            unsupported: &[],
            tick: Duration::from_nanos(1),
            steps_back: true,
            promises: true,
            whole_windows: true,
            is_split: false,
            most: u64::MAX,
        }
    }
}

/// In what a store differs from what it must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The law that does not hold.
    pub law: &'static str,
    /// What was done, as short as shrinking could make it, and how the answers differ.
    pub details: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.law, self.details)
    }
}
