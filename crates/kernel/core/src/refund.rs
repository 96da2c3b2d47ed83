//! The permits of a take that may be given back later without admitting more than if it had never been made.
//!
//! Not here: giving back itself ([`Quota::give_back`]).

use crate::algorithm::{Algorithm, Refill};
use crate::cost::Cost;
use crate::decision::Decision;
use crate::period::Period;
use crate::quota::Quota;
use crate::time::{Timestamp, nanos};

impl Quota {
    /// The number of `unused` permits that may be given back at `now`, of those that were taken at `taken_at`
    /// with the decision `said`, without ever admitting more than if they had never been taken. Less than all
    /// of them if some have flowed back, or left their window, meanwhile.
    ///
    /// A bucket would have been full again at the end of [`reset_after`](Decision::reset_after) of `said`,
    /// without any further take; the rest of that time is still owed in any case. In a window, permits count
    /// until it ends.
    ///
    /// # Example
    /// ```
    /// # use tollgate_core::*;
    /// # use std::time::Duration;
    /// let quota = Quota::token_bucket(10, Duration::from_secs(1))?;
    /// let (noon, mut state) = (Timestamp::from_unix_seconds(1_700_000_000), quota.fresh());
    /// let said = quota.take(&mut state, Cost(8), noon);
    /// assert_eq!(quota.refundable(Cost(8), &said, noon, noon), Cost(8));
    /// let later = noon + Duration::from_millis(300);
    /// assert_eq!(quota.refundable(Cost(8), &said, noon, later), Cost(5)); // three have flowed back
    /// # Ok::<(), QuotaError>(())
    /// ```
    #[must_use]
    pub fn refundable(&self, unused: Cost, said: &Decision, taken_at: Timestamp, now: Timestamp) -> Cost {
        let left_ns = said.reset_ns.saturating_sub(nanos(now.since(taken_at)));
        let Period::Span(span) = self.period() else {
            return if left_ns > 0 { unused } else { Cost::PEEK };
        };
        let span_ns = u128::from(nanos(*span)).max(1);
        let limit = u128::from(self.limit());
        let permits = match self.algorithm() {
            Algorithm::Total | Algorithm::Unlimited => u128::MAX,
            _ if limit == 0 => u128::MAX, // nothing flows back by itself
            Algorithm::TokenBucket { refill: Refill::Continuous, .. }
            | Algorithm::LeakyBucket { .. }
            | Algorithm::SmoothBursty { .. } => {
                // The quota may have another rate by now; the faster of both may have flowed since.
                let then = u128::from(said.limit);
                let elapsed_ns = nanos(now.since(taken_at));
                let flowed = u128::from(elapsed_ns) * then.max(limit);
                (u128::from(said.reset_ns) * then).saturating_sub(flowed) / span_ns
            }
            // The part that is still to be paid for; a cold permit's price is more than is counted here.
            Algorithm::WarmUp { .. } if left_ns == 0 => 0,
            Algorithm::WarmUp { .. } => {
                let flowed = u128::from(nanos(now.since(taken_at))) * u128::from(said.limit).max(limit);
                u128::from(unused.permits()).saturating_sub(flowed.div_ceil(span_ns))
            }
            // The whole rate may have flowed to this class since.
            Algorithm::PriorityBuckets { .. } => {
                let elapsed_ns = u128::from(nanos(now.since(taken_at)));
                let rate = u128::from(said.limit).max(limit);
                u128::from(unused.permits()).saturating_sub((elapsed_ns * rate).div_ceil(span_ns))
            }
            // The last period's worth comes at its end, and may be a single permit.
            Algorithm::TokenBucket { refill: Refill::Interval, .. } => {
                match u128::from(left_ns).div_ceil(span_ns) {
                    0 => 0,
                    periods => (periods - 1) * limit + 1,
                }
            }
            // Once its window is the one before, it weighs less than it did.
            Algorithm::SlidingWindowCounter => {
                let window = |at: Timestamp| u128::from(at.as_nanos()) / span_ns;
                if window(taken_at) == window(now) { u128::MAX } else { 0 }
            }
            Algorithm::FixedWindow { .. }
            | Algorithm::SlidingWindow { .. }
            | Algorithm::SlidingWindowLog { .. } => {
                if left_ns > 0 {
                    u128::MAX
                } else {
                    0
                }
            }
        };
        Cost(unused.permits().min(u64::try_from(permits).unwrap_or(u64::MAX)))
    }
}
