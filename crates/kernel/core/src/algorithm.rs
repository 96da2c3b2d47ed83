//! The algorithms by their names in rule files, one module each. Each is a pure step from old state, cost and
//! now to new state and answer.

pub(crate) mod fixed_window;
pub(crate) mod interval_bucket;
pub(crate) mod leaky_queue;
pub(crate) mod priority_buckets;
pub(crate) mod sliding_window;
pub(crate) mod sliding_window_counter;
pub(crate) mod sliding_window_log;
pub(crate) mod token_bucket;
pub(crate) mod total;
pub(crate) mod warm_up;

use core::time::Duration;

use alloc::sync::Arc;

/// The counting method. The names are those of rule files (`algorithm:`); the module of the same name has the
/// arithmetic and the most that each may admit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// One counter per window, which counts every hit, also denied ones. At most 2L around an edge.
    FixedWindow {
        /// The alignment of windows.
        align: Align,
    },
    /// `cells` cells of the window. Never more than L in any window where the cell that is leaving counts, at
    /// most 2L where it does not.
    SlidingWindow {
        /// Cells of a window; the window must divide by it. 10 where a file does not say.
        cells: u32,
        /// Whether a cell counts that has partly left the window.
        leaving: LeavingCell,
    },
    /// Two windows, the older weighted by its overlap, rounded down. Just under 2L against an adversary.
    SlidingWindowCounter,
    /// Every admitted instant: exactly L in any window.
    SlidingWindowLog {
        /// Denied takes are logged too, so that a client that does not back off stays denied.
        log_denied: bool,
    },
    /// Permits come back at a steady rate up to `burst`. At most burst + L per window.
    TokenBucket {
        /// The most permits at once; the limit where `None`.
        burst: Option<u64>,
        /// Permits of an unseen key; a full bucket where `None`.
        initial: Option<u64>,
        /// Permits that one take may have ahead of time; they are repaid before anything else is granted.
        overdraft: u64,
        /// Whether permits come back one by one or a period's worth at a time.
        refill: Refill,
    },
    /// A bucket that each take fills and that leaks at the limit's rate.
    LeakyBucket {
        /// The most permits in the bucket; the limit where `None`.
        capacity: Option<u64>,
        /// The treatment of the permits in the bucket.
        form: LeakyForm,
    },
    /// A rate that warms up: takes of a cold key, one that was not used for a while, cost more time. A take
    /// of any cost passes as soon as those before it are paid for.
    WarmUp {
        /// Time in which a steady load warms a key up from the coldest to the limit's rate, and in which a
        /// key without load cools down again.
        warm_up: Duration,
        /// Price of a permit of the coldest key, in intervals of the limit's rate; 3 where a file does not
        /// say.
        cold_factor: u32,
    },
    /// A rate that keeps permits while it is unused. A take of any cost passes as soon as those before it are
    /// paid for.
    SmoothBursty {
        /// The most permits that are kept; a second's worth where `None`.
        burst: Option<u64>,
    },
    /// One class of a token bucket that is split over classes by weight, and lends their idle permits. All
    /// classes of a parent take from one state. At most burst + L per window over all of them.
    PriorityBuckets {
        /// The most permits at once over all classes; the limit where `None`.
        burst: Option<u64>,
        /// Weights of the classes, from 1 to 1,000 each.
        weights: Arc<[u32]>,
        /// Index of the class that takes, from 0.
        class: usize,
    },
    /// A quota that never refills by itself.
    Total,
    /// No limit: everything passes, nothing is counted.
    Unlimited,
}

impl Algorithm {
    /// Whether permits come back by the passing of time alone, and not by windows.
    #[must_use]
    pub const fn is_bucket(&self) -> bool {
        matches!(
            self,
            Self::TokenBucket { .. }
                | Self::LeakyBucket { .. }
                | Self::WarmUp { .. }
                | Self::SmoothBursty { .. }
                | Self::PriorityBuckets { .. }
        )
    }

    /// A strict sliding window: the cell that is leaving counts until all of it has left.
    #[must_use]
    pub const fn sliding_window(cells: u32) -> Self {
        Self::SlidingWindow { cells, leaving: LeavingCell::Counts }
    }

    /// The name in rule files.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::FixedWindow { .. } => "fixed_window",
            Self::SlidingWindow { .. } => "sliding_window",
            Self::SlidingWindowCounter => "sliding_window_counter",
            Self::SlidingWindowLog { .. } => "sliding_window_log",
            Self::TokenBucket { .. } => "token_bucket",
            Self::LeakyBucket { .. } => "leaky_bucket",
            Self::WarmUp { .. } => "warm_up",
            Self::SmoothBursty { .. } => "smooth_bursty",
            Self::PriorityBuckets { .. } => "priority_buckets",
            Self::Total => "total",
            Self::Unlimited => "unlimited",
        }
    }
}

/// Whether the oldest cell of a sliding window counts while only a part of it is in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeavingCell {
    /// It counts as a whole: N + 1 cells count, and no window has more than L. Throughput is N/(N+1) of L at
    /// least.
    #[default]
    Counts,
    /// It does not count: only the current cell and the N - 1 before it do. No N cells have more than L, and
    /// all of L passes; a window that begins within a cell may have up to 2L.
    Drops,
}

/// The alignment of fixed windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// On the grid of the calendar: whole periods since the Unix epoch, or the units of a time zone.
    #[default]
    Calendar,
    /// At a key's first hit after its last window ended.
    FirstHit,
}

/// The way in which a token bucket gets its permits back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refill {
    /// One by one, as time passes.
    #[default]
    Continuous,
    /// A period's worth at the end of each period, counted from the key's first take.
    Interval,
}

/// The treatment of the permits in a leaky bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeakyForm {
    /// The bucket only measures: takes that fit pass at once (the mirror image of a token bucket).
    #[default]
    Meter,
    /// Takes that fit pass with a delay, so that the outflow is steady.
    Queue {
        /// This many in the bucket pass without a delay.
        delay_after: u64,
    },
}
