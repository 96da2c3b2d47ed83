//! The reasons why a quota cannot be made.

use core::time::Duration;

use crate::bounds::{
    LARGEST_COLD_FACTOR, LARGEST_LIMIT, LARGEST_LOG, LARGEST_SLIDING_WINDOW, MAX_CELLS, MAX_CLASSES,
    MAX_SLOTS, MAX_WEIGHT,
};

/// The reason why a quota cannot be made. Nothing was counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaError {
    /// A period of zero.
    #[error("a period of zero has no rate; the shortest is 1 ns")]
    EmptyPeriod,
    /// A period above [`Quota::LONGEST_PERIOD`](crate::Quota::LONGEST_PERIOD).
    #[error("a period of {0:?} is too long; the longest is ten years")]
    LongPeriod(Duration),
    /// A limit above [`Quota::LARGEST_LIMIT`](crate::Quota::LARGEST_LIMIT).
    #[error("a limit of {0} is too large; the largest is {max}", max = LARGEST_LIMIT)]
    LargeLimit(u64),
    /// Permits flow too fast to be counted to 1 ppm.
    #[error("{limit} permits per {period:?} are too fast to count; the fastest is 100 a nanosecond")]
    FastRate {
        /// Permits per period.
        limit: u64,
        /// Span in which the limit's permits come back.
        period: Duration,
    },
    /// A limit that a log cannot keep.
    #[error("a log may have to keep {0} entries for one key; the most is {max}; sliding_window needs no log", max = LARGEST_LOG)]
    LargeLog(u64),
    /// A limit above the largest that a window of cells can count.
    #[error(
        "a limit of {0} is too large for a sliding_window; the largest is {max}; sliding_window_counter counts \
         more", max = LARGEST_SLIDING_WINDOW
    )]
    LargeSlidingWindow(u64),
    /// More slots than a key may have.
    #[error("{0} slots are too many to keep for one key; the most is {max}", max = MAX_SLOTS)]
    ManySlots(u64),
    /// More cells than a window may have.
    #[error("a window of {cells} cells is too fine; the most is {max}", max = MAX_CELLS)]
    ManyCells {
        /// The cells asked for.
        cells: u32,
    },
    /// A burst or capacity that admits nothing.
    #[error("{0} 0 admits nothing; the smallest is 1")]
    Empty(&'static str),
    /// A burst that would take too long to fill to be counted exactly.
    #[error("a bucket of {capacity} at this rate takes more than thirty years to fill; make it smaller")]
    SlowBucket {
        /// Burst plus overdraft, or capacity.
        capacity: u64,
    },
    /// An initial fill above the burst.
    #[error("initial {initial} is above the burst of {burst}")]
    InitialAboveBurst {
        /// Permits asked for at the start.
        initial: u64,
        /// The most that fits.
        burst: u64,
    },
    /// A window that does not divide into its cells.
    #[error("a window of {window:?} does not divide into {cells} cells of whole nanoseconds")]
    UnevenCells {
        /// Length of the window.
        window: Duration,
        /// The cells asked for.
        cells: u32,
    },
    /// A warm-up of zero or of more than a year.
    #[error("a warm-up of {0:?} is out of bounds; it is longer than zero and at most a year")]
    WarmUp(Duration),
    /// A cold factor out of its bounds.
    #[error("a cold factor of {0} is out of bounds; it is from 1 to {max}", max = LARGEST_COLD_FACTOR)]
    ColdFactor(u32),
    /// A warm-up whose prices cannot be counted to 1 ppm.
    #[error(
        "{limit} permits per {period:?} with a warm-up of {warm_up:?} cannot be counted to 1 ppm; \
         make the warm-up shorter or the cold factor smaller, or the rate a round number"
    )]
    UncountableWarmUp {
        /// Permits per period.
        limit: u64,
        /// Span in which the limit's permits come back.
        period: Duration,
        /// Time from the coldest to the limit's rate.
        warm_up: Duration,
    },
    /// A number of classes of priority that cannot be counted.
    #[error("{0} classes of priority cannot be counted; write from 1 to {max}", max = MAX_CLASSES)]
    Classes(usize),
    /// A weight of a class that is out of its bounds.
    #[error("a weight of {0} is out of bounds; write from 1 to {max}", max = MAX_WEIGHT)]
    Weight(u32),
    /// A class that is not among those of the weights.
    #[error("there is no class {class}: {classes} weights are given, and classes are counted from 0")]
    NoSuchClass {
        /// The class asked for.
        class: usize,
        /// Number of classes.
        classes: usize,
    },
    /// A burst with less than one permit for each class.
    #[error("a burst of {burst} cannot be split over {classes} classes; the smallest burst is {classes}")]
    FewForClasses {
        /// The burst, or the limit if no burst is given.
        burst: u64,
        /// Number of classes.
        classes: usize,
    },
    /// The algorithm has no meaning with this period.
    #[error("{algorithm} does not work with {what}")]
    Unsupported {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// The setting that it does not work with, in words.
        what: &'static str,
    },
}
