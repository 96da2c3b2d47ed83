//! The suite's requirements on the tests of a store, and its report.

use std::future::Future;
use std::time::Duration;

use tollgate_core::Timestamp;

use crate::wait::block_on;

/// Runs a store's futures to their end: [`Parked`] for stores that need no runtime, otherwise a runtime of
/// the store's own test.
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

/// The number of attempts, and the limits of the store.
#[derive(Clone, Debug)]
pub struct Options {
    /// Random histories to compare with the model.
    pub cases: u32,
    /// Most steps of a history.
    pub steps: usize,
    /// Callers at once.
    pub threads: usize,
    /// Takes per caller.
    pub takes: u32,
    /// The beginning of virtual time. A store whose server drops keys by its own clock needs a beginning far
    /// ahead of that.
    pub begins: Timestamp,
    /// Names of algorithms, as in rule files, that the store cannot count; `first_hit` for windows that begin
    /// with their first hit, `overdraft` for classes of a bucket that have one (then they are checked by
    /// callers at once only).
    pub unsupported: &'static [&'static str],
    /// The store's unit of time: histories move by whole ticks, and only quotas are tried whose permits come
    /// at whole ticks.
    pub tick: Duration,
    /// Time may step back in histories, as it does where the caller's clock counts.
    pub steps_back: bool,
    /// A hold is promised permits that are not available yet, where the quota can do so; otherwise all holds
    /// of histories are for now.
    pub promises: bool,
    /// A fixed window counts each hit that it denies, reports the number of them that found room, and keeps
    /// its end when all of its hits were given back. Else histories give nothing back to a window that is
    /// past its limit, and one that is empty again is forgotten by the store and by the model.
    pub whole_windows: bool,
    /// Counters are in two places, and a return may leave an empty state behind. Quotas that do not start
    /// full are left out: their empty states begin to fill.
    pub is_split: bool,
    /// Quotas with a larger limit are left out, and no history charges more at once.
    pub most: u64,
}

const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);

impl Default for Options {
    /// Defaults: 256 histories of up to 60 steps; 4 callers of 500 takes; from November 2023 on; every
    /// algorithm, to the nanosecond.
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

/// A difference between a store and the laws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The law that does not hold.
    pub law: &'static str,
    /// The steps, as short as shrinking could make them, and the difference between the answers.
    pub details: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.law, self.details)
    }
}
