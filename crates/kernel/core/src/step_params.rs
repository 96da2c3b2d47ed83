//! A quota's step as plain numbers, for stores that repeat it elsewhere: in a script, on another machine.
//!
//! Such a store keeps states in its own form, changes them by its own arithmetic, and turns a state into a
//! [`Word`] or a [`Wide`] to get its decisions from here. It needs spans in units, thresholds, and the
//! conversions between its numbers and our states.
//! Not here: how a store counts (its scripts), or that it does so correctly (the suite of `store`).

use alloc::vec::Vec;
use core::time::Duration;

use crate::algorithm::fixed_window::{self, FixedWindow};
use crate::algorithm::interval_bucket::IntervalBucket;
use crate::algorithm::priority_buckets::{self, PriorityBuckets};
use crate::algorithm::sliding_window::SlidingWindow;
use crate::algorithm::sliding_window_counter::SlidingWindowCounter;
use crate::algorithm::sliding_window_log::SlidingWindowLog;
use crate::algorithm::token_bucket::TokenBucket;
use crate::algorithm::warm_up::{self, WarmUp};
use crate::cost::Cost;
use crate::quota::Quota;
use crate::state::{Wide, Word};
use crate::step::{Step, WideKind, WordKind};
use crate::time::{Timestamp, nanos};

/// The parameters of a quota's arithmetic, for stores that decide in their own language.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum StepParams<'a> {
    /// One instant, at which the key is full again: token bucket with continuous refill, and both leaky
    /// buckets.
    Bucket(BucketParams<'a>),
    /// Hits, and the end of the current window.
    Window(WindowParams<'a>),
    /// A stock of permits that never come back.
    Total {
        /// Permits in stock at the start.
        stock: u64,
    },
    /// No limit: nothing is counted.
    Unlimited,
    /// A bucket that gets `limit` back at the end of each period.
    Interval(IntervalParams<'a>),
    /// A window of cells.
    Cells(CellParams<'a>),
    /// Two windows on the grid, the older weighted by its overlap.
    Counter(CounterParams<'a>),
    /// Every instant of a window.
    Log(LogParams<'a>),
    /// Takes that pay for those before: `warm_up` and `smooth_bursty`.
    WarmUp(WarmUpParams<'a>),
    /// One class of several that share a parent.
    Priority(PriorityParams<'a>),
}

impl Quota {
    /// The parameters of this quota's arithmetic.
    ///
    /// # Example
    /// ```
    /// # use tollgate_core::*;
    /// # use std::time::Duration;
    /// let quota = Quota::token_bucket(10, Duration::from_secs(1))?;
    /// let StepParams::Bucket(bucket) = quota.step_params() else { panic!("it is one") };
    /// assert_eq!((bucket.scale(), bucket.units(Cost(1))), (1, 100_000_000)); // a permit every 100 ms, in ns
    /// assert_eq!(bucket.room_to_take(Cost(4)), Some(600_000_000)); // four fit while six are owed
    /// # Ok::<(), QuotaError>(())
    /// ```
    #[must_use]
    pub fn step_params(&self) -> StepParams<'_> {
        match self.step() {
            Step::Word(algorithm) => match &algorithm.0 {
                WordKind::TokenBucket(bucket) => StepParams::Bucket(BucketParams { bucket, undelayed: None }),
                WordKind::LeakyQueue(queue) => {
                    let undelayed = Some(queue.undelayed());
                    StepParams::Bucket(BucketParams { bucket: queue.bucket(), undelayed })
                }
                WordKind::FixedWindow(window) => StepParams::Window(WindowParams { window }),
                WordKind::Total(total) => StepParams::Total { stock: total.stock() },
                WordKind::Unlimited => StepParams::Unlimited,
            },
            Step::Wide(algorithm) => match &algorithm.0 {
                WideKind::IntervalBucket(bucket) => StepParams::Interval(IntervalParams(bucket)),
                WideKind::PriorityBuckets(class) => StepParams::Priority(PriorityParams(class)),
                WideKind::SlidingWindow(window) => StepParams::Cells(CellParams(window)),
                WideKind::SlidingWindowCounter(counter) => StepParams::Counter(CounterParams(counter)),
                WideKind::SlidingWindowLog(log) => StepParams::Log(LogParams(log)),
                WideKind::WarmUp(warm_up) => StepParams::WarmUp(WarmUpParams(warm_up)),
            },
        }
    }
}

/// A bucket: spans are in units of 1/[`scale`](Self::scale) ns. `owed` is the time from now until the key is
/// full again, at least 0.
#[derive(Clone, Copy, Debug)]
pub struct BucketParams<'a> {
    bucket: &'a TokenBucket,
    undelayed: Option<u128>,
}

impl BucketParams<'_> {
    /// Units in a nanosecond, from 1 to 2^27.
    #[must_use]
    pub const fn scale(&self) -> u64 {
        self.bucket.units().scale()
    }

    /// Units of one permit. Two rates with the same scale and interval write states that mean the same.
    #[must_use]
    pub const fn interval(&self) -> u64 {
        self.bucket.units().interval()
    }

    /// Units of `cost` permits.
    #[must_use]
    pub const fn units(&self, cost: Cost) -> u128 {
        self.bucket.units().of_any(cost.permits())
    }

    /// The instant carries over from any rate: [`Quota::keeping_instants`].
    #[must_use]
    pub const fn keeps_instants(&self) -> bool {
        self.bucket.keeps_instants()
    }

    /// The debt of an unseen key, in units.
    #[must_use]
    pub const fn initially_owed(&self) -> u128 {
        self.bucket.initial_debt()
    }

    /// True if an unseen key has not a single permit.
    #[must_use]
    pub const fn starts_empty(&self) -> bool {
        self.bucket.initial_debt() + self.interval() as u128 > self.bucket.full()
    }

    /// The debt of an empty bucket with all overdraft used, in units.
    #[must_use]
    pub const fn empty(&self) -> u128 {
        self.bucket.bucket_span()
    }

    /// The most that a key can owe through a charge; and no debt ends after
    /// [`Expiry::LATEST`](crate::Expiry::LATEST).
    #[must_use]
    pub const fn most_owed(&self) -> u128 {
        self.bucket.most_owed()
    }

    /// A take of `cost` fits while no more than this is owed. `None`: it never fits.
    #[must_use]
    pub fn room_to_take(&self, cost: Cost) -> Option<u128> {
        self.bucket.room(cost)
    }

    /// A hold of `cost` fits while no more than this is owed: the permits are available now, or will be
    /// within `max_wait`. `None`: it never fits.
    #[must_use]
    pub fn room_to_reserve(&self, cost: Cost, max_wait: Duration) -> Option<u128> {
        let now = self.room_to_take(cost);
        let wait = u128::from(nanos(max_wait)) * u128::from(self.scale());
        if let Some(undelayed) = self.undelayed {
            return now.map(|room| room.min(undelayed + wait));
        }
        let asked = self.units(cost);
        let full = self.bucket.full();
        if asked > full {
            return now;
        }
        Some((full + wait - asked).max(now.unwrap_or(0)))
    }

    /// The state of a key that is full again at `full_at` units since the Unix epoch.
    #[must_use]
    pub fn word(&self, full_at: u128) -> Word {
        self.bucket.word_at(full_at)
    }
}

/// A fixed window.
#[derive(Clone, Copy, Debug)]
pub struct WindowParams<'a> {
    window: &'a FixedWindow,
}

impl WindowParams<'_> {
    /// The most hits that pass in a window.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.window.limit()
    }

    /// Length of a window that begins with its first hit, in ns; `None` where windows are aligned to the
    /// calendar.
    #[must_use]
    pub const fn first_hit_ns(&self) -> Option<u64> {
        self.window.first_hit_ns()
    }

    /// Beginning (or an instant after it, not later than `now`) and end of the window of the calendar that
    /// `now` lies in, in ns.
    #[must_use]
    pub fn around(&self, now: Timestamp) -> (u64, u64) {
        self.window.around(now.as_nanos())
    }

    /// The state of a key with `hits` hits in a window that ends at `end_ns`. With more than
    /// [`Self::MOST_BESIDE_NANOS`], at the next multiple of 20 ms.
    #[must_use]
    pub fn word(hits: u64, end_ns: u64) -> Word {
        FixedWindow::word(hits, end_ns)
    }

    /// The hits of such a state, and the end of its window, in ns.
    #[must_use]
    pub fn hits_of(word: Word) -> (u64, u64) {
        FixedWindow::unpack(word)
    }
}

impl WindowParams<'_> {
    /// The most hits of a window that ends at any nanosecond.
    pub const MOST_BESIDE_NANOS: u64 = fixed_window::MOST_BESIDE_NANOS;
}

/// A bucket with refill by the period.
#[derive(Clone, Copy, Debug)]
pub struct IntervalParams<'a>(&'a IntervalBucket);

impl IntervalParams<'_> {
    /// Permits that come back at the end of a period.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Length of a period in ns.
    #[must_use]
    pub const fn period_ns(&self) -> u64 {
        self.0.period_ns
    }

    /// Permits that an unseen key lacks.
    #[must_use]
    pub const fn initially_missing(&self) -> u64 {
        self.0.burst - self.0.initial
    }

    /// True if an unseen key has not a single permit.
    #[must_use]
    pub const fn starts_empty(&self) -> bool {
        self.0.initial == 0
    }

    /// Permits that an empty bucket with all overdraft used is missing.
    #[must_use]
    pub const fn most_missing(&self) -> u64 {
        self.0.burst + self.0.overdraft
    }

    /// A take of `cost` fits while no more permits than these are missing. `None`: it never fits.
    #[must_use]
    pub fn room_to_take(&self, cost: Cost) -> Option<u64> {
        let room = (self.0.burst + self.0.overdraft).checked_sub(cost.permits())?;
        Some(room.min(self.0.burst))
    }

    /// The state of a key that lacks `missing` permits in a period that began at `began_ns`.
    #[must_use]
    pub fn state(&self, began_ns: u64, missing: u64) -> Wide {
        self.0.state(began_ns, missing)
    }
}

/// A window of cells.
#[derive(Clone, Copy, Debug)]
pub struct CellParams<'a>(&'a SlidingWindow);

impl CellParams<'_> {
    /// Permits of a window.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.0.limit()
    }

    /// Length of a cell in ns.
    #[must_use]
    pub const fn cell_ns(&self) -> u64 {
        self.0.cell_ns()
    }

    /// The number of cells that count, including the one that is leaving.
    #[must_use]
    pub const fn counted(&self) -> u64 {
        self.0.ring()
    }

    /// The state of a key whose latest cell is `newest` (cells are numbered since the Unix epoch) and that
    /// took permits in the cells of `taken`: pairs of number and permits. Cells are `cell_ns` long and
    /// `counted` of them count: those of this quota, or those it had before.
    #[must_use]
    pub fn state(cell_ns: u64, counted: u64, newest: u64, taken: &[(u64, u64)]) -> Wide {
        SlidingWindow::state(cell_ns, counted, newest, taken)
    }

    /// The state cut into this quota's cells as of `now`: number of the latest cell, and the permits taken in
    /// each, oldest first.
    #[must_use]
    pub fn taken(&self, state: &Wide, now: Timestamp) -> (u64, Vec<(u64, u64)>) {
        self.0.taken(state.clone(), now)
    }
}

/// Two windows on the grid.
#[derive(Clone, Copy, Debug)]
pub struct CounterParams<'a>(&'a SlidingWindowCounter);

impl CounterParams<'_> {
    /// Permits of a window.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Length of a window in ns.
    #[must_use]
    pub const fn window_ns(&self) -> u64 {
        self.0.window_ns
    }

    /// The state of a key with these counts in window `number` since the Unix epoch and in the one before, by
    /// windows of `window_ns`.
    #[must_use]
    pub fn state(window_ns: u64, number: u64, current: u64, previous: u64) -> Wide {
        SlidingWindowCounter { limit: 0, window_ns }.state(number, current, previous)
    }

    /// The permits that keep counting at `now` of a state that another length of window wrote: its estimate.
    #[must_use]
    pub fn carried(&self, state: &Wide, now: Timestamp) -> u64 {
        self.0.carried(state, now)
    }
}

/// The parameters of a log of takes.
#[derive(Clone, Copy, Debug)]
pub struct LogParams<'a>(&'a SlidingWindowLog);

impl LogParams<'_> {
    /// Permits of a window.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Length of a window in ns.
    #[must_use]
    pub const fn window_ns(&self) -> u64 {
        self.0.window_ns
    }

    /// Whether denied takes are logged too.
    #[must_use]
    pub const fn logs_denied(&self) -> bool {
        self.0.log_denied
    }

    /// The state of a key that took permits at these instants: pairs of ns and permits, oldest first.
    #[must_use]
    pub fn state(taken: &[(u64, u64)]) -> Wide {
        SlidingWindowLog::state(taken)
    }
}

/// The classes of a parent, and which of them takes.
#[derive(Clone, Copy, Debug)]
pub struct PriorityParams<'a>(&'a PriorityBuckets);

impl<'a> PriorityParams<'a> {
    /// The first cell of its states.
    pub const TAG: u64 = priority_buckets::TAG;

    /// The most permits that each class has at once: whole numbers, which sum to the parent's burst.
    #[must_use]
    pub fn bursts(&self) -> &'a [u64] {
        self.0.bursts()
    }

    /// Units that flow to each class per ns; their sum is the parent's rate.
    pub fn flows(&self) -> impl Iterator<Item = u128> + 'a {
        self.0.flows()
    }

    /// Units of one permit, at least 2^32.
    #[must_use]
    pub fn units_per_permit(&self) -> u128 {
        self.0.permit()
    }

    /// Index of the class that takes, from 0.
    #[must_use]
    pub const fn class(&self) -> usize {
        self.0.class()
    }

    /// The weight of each class.
    #[must_use]
    pub fn weights(&self) -> &'a [u64] {
        self.0.weights()
    }

    /// Units that flow to all classes together per ns.
    #[must_use]
    pub fn inflow(&self) -> u128 {
        self.0.inflow()
    }

    /// The state of a key whose classes lack `missing` units of a permit of `units_per_permit`, as of `last`
    /// in ns. Its expiry is not set.
    #[must_use]
    pub fn state(last: u64, units_per_permit: u128, missing: &[u128]) -> Wide {
        priority_buckets::state(last, units_per_permit, missing)
    }

    /// The same state in this rule's units. The cells are a tag, the last instant in ns, the units of a
    /// permit, and the missing units of each class; the last ones take two cells each, the lower half first.
    #[must_use]
    pub fn carried(&self, state: &Wide, now: Timestamp) -> Wide {
        self.0.carried(state, now)
    }
}

/// A rate that warms up, or one that bursts: spans are in units of 1/[`scale`](Self::scale) ns.
#[derive(Clone, Copy, Debug)]
pub struct WarmUpParams<'a>(&'a WarmUp);

impl<'a> WarmUpParams<'a> {
    /// The most units ahead of now at which a key may be free.
    pub const MOST_OWED: u64 = warm_up::MOST_OWED;

    /// The tag of its states, units in a ns, and units of a whole store: the first cells that it writes. The
    /// others are the instant from which on the key is free, as ns and units within, and the units that its
    /// store is missing.
    #[must_use]
    pub const fn head(&self) -> [u64; 3] {
        [self.0.tag(), self.scale(), self.full()]
    }

    /// Units in a nanosecond, less than 2^28.
    #[must_use]
    pub const fn scale(&self) -> u64 {
        self.0.scale()
    }

    /// Units of a permit.
    #[must_use]
    pub const fn interval(&self) -> u64 {
        self.0.interval()
    }

    /// Units until one more permit is stored.
    #[must_use]
    pub const fn refill(&self) -> u64 {
        self.0.refill()
    }

    /// Units of a whole store.
    #[must_use]
    pub const fn full(&self) -> u64 {
        self.0.full()
    }

    /// The most permits of a take that can pass.
    #[must_use]
    pub const fn most(&self) -> u64 {
        self.0.most()
    }

    /// The price of the coldest permit, in intervals; `None` where stored permits cost nothing.
    #[must_use]
    pub const fn cold_factor(&self) -> Option<u32> {
        self.0.cold_factor()
    }

    /// The state that another rate wrote, as of `now`, in this rate's units.
    #[must_use]
    pub fn carried(&self, state: &Wide, now: Timestamp) -> Wide {
        self.0.carried(state, now)
    }
}
