//! Bounds of the wait of a request for its turn, where a rule queues (`RuleSpec::queue`).

use std::time::Duration;

/// The longest `max_wait`: callers and proxies give up at about that time.
pub const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The shortest `max_wait`: timers are no finer.
pub const SHORTEST_WAIT: Duration = Duration::from_millis(1);
