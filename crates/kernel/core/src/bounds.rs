//! The largest numbers that a quota may have.

use core::time::Duration;

/// Ten years of 365 days.
pub(crate) const LONGEST_PERIOD: Duration = Duration::from_secs(10 * 365 * 86_400);

/// The largest limit and burst: 2^53 - 2. JSON and the scripts of a store hold one more: a count beyond the
/// limit.
pub(crate) const LARGEST_LIMIT: u64 = MAX_COUNT - 1;

/// The largest limit of a sliding window of cells: a store may count its permits over several windows in one
/// number.
pub(crate) const LARGEST_SLIDING_WINDOW: u64 = 1 << 50;

/// The most permits that a window of cells or a log counts: of both, a store adds up several windows.
pub(crate) const MAX_SLIDING_COUNT: u64 = (1 << 51) - 1;

/// The most cells that a sliding window may have.
pub(crate) const MAX_CELLS: u32 = 3600;

/// The largest limit of a log: it may have to keep as many entries of 16 bytes for one key.
pub(crate) const LARGEST_LOG: u64 = 1 << 20;

/// The longest warm-up: a year.
pub(crate) const LONGEST_WARM_UP: Duration = Duration::from_secs(365 * 86_400);

/// The largest cold factor.
pub(crate) const LARGEST_COLD_FACTOR: u32 = 1_000;

/// The most slots that a key may have.
pub(crate) const MAX_SLOTS: u64 = 1 << 16;

/// The most permits that a key counts or owes: 2^53 - 1. Charges beyond that stay there.
pub const MAX_COUNT: u64 = (1 << 53) - 1;

/// The most classes of priority.
pub(crate) const MAX_CLASSES: usize = 16;

/// The largest weight of a class.
pub(crate) const MAX_WEIGHT: u32 = 1_000;

/// The longest time in ns that a parent of classes may take to fill: thirty years.
pub(crate) const LONGEST_FILL: u64 = 30 * 365 * 86_400 * 1_000_000_000;
