//! One node's part of a quota, for the time in which nodes cannot ask each other.

use super::Quota;
use crate::algorithm::token_bucket::WordsOf;
use crate::algorithm::{Algorithm, LeakyForm, Refill};
use crate::period::Period;
use crate::step::Step;

impl Quota {
    /// The share that one of `nodes` nodes may admit by itself, so that all of them together admit about as
    /// much as this quota does.
    ///
    /// - Where permits flow (token bucket, leaky bucket, warm-up, smooth bursty) the rate is an exact n-th:
    ///   the same limit over a period `nodes` times as long, or a smaller limit where that period would be
    ///   too long. The permits available at once (burst, capacity) are divided.
    /// - Everywhere else the limit is divided.
    ///
    /// A divided number is rounded down, but to at least 1 unless it was 0: a rule that admits something
    /// admits something on every node. So n nodes together admit at most what one quota with max(limit, n)
    /// for its limit and max(burst, n) for its burst would (`sliding_window_counter`: and one permit per
    /// node, since each rounds its older window down; `priority_buckets`: at least one permit of burst per
    /// class and node). An initial fill and an overdraft are rounded down also to 0.
    ///
    /// The share knows nothing of states that another share wrote: keep each under a key of its own, unless
    /// it [keeps instants](Self::keeping_instants).
    ///
    /// # Example
    /// ```
    /// # use tollgate_core::*;
    /// # use std::time::Duration;
    /// let share = Quota::token_bucket(10, Duration::from_secs(1))?.share_of(4);
    /// let noon = Timestamp::from_unix_seconds(1_700_000_000);
    /// let mut state = share.fresh();
    /// assert_eq!(share.take(&mut state, Cost(2), noon).remaining(), 0); // ten at once, over four nodes
    /// let denied = share.take(&mut state, Cost(1), noon);
    /// // Ten a second, over four nodes.
    /// assert_eq!(denied.retry_after(), RetryAfter::After(Duration::from_millis(400)));
    /// assert_eq!(Quota::fixed_window(3, Duration::from_secs(60))?.share_of(8).limit(), 1);
    /// # Ok::<(), QuotaError>(())
    /// ```
    #[must_use]
    pub fn share_of(&self, nodes: u32) -> Self {
        if nodes <= 1 || matches!(self.algorithm, Algorithm::Unlimited) {
            return self.clone();
        }
        let down = |permits: u64| permits / u64::from(nodes);
        let part = |permits: u64| down(permits).max(u64::from(permits > 0));
        let slower = match self.period {
            Period::Span(span) => span.checked_mul(nodes).filter(|span| *span <= Self::LONGEST_PERIOD),
            Period::Civil { .. } => None,
        };
        let flow = || match slower {
            Some(span) => (self.limit, Period::Span(span)),
            None => (part(self.limit), self.period.clone()),
        };
        let ((limit, period), algorithm) = match self.algorithm {
            Algorithm::TokenBucket { burst, initial, overdraft, refill } => {
                let burst = Some(part(burst.unwrap_or(self.limit))).filter(|burst| *burst > 0);
                let overdraft = down(overdraft);
                let algorithm =
                    Algorithm::TokenBucket { burst, initial: initial.map(down), overdraft, refill };
                match refill {
                    Refill::Continuous => (flow(), algorithm),
                    Refill::Interval => ((part(self.limit), self.period.clone()), algorithm),
                }
            }
            Algorithm::LeakyBucket { capacity, form } => {
                let capacity = Some(part(capacity.unwrap_or(self.limit))).filter(|capacity| *capacity > 0);
                let form = match form {
                    LeakyForm::Meter => LeakyForm::Meter,
                    LeakyForm::Queue { delay_after } => LeakyForm::Queue { delay_after: down(delay_after) },
                };
                (flow(), Algorithm::LeakyBucket { capacity, form })
            }
            Algorithm::SmoothBursty { burst } => (flow(), Algorithm::SmoothBursty { burst: burst.map(part) }),
            Algorithm::WarmUp { .. } => (flow(), self.algorithm.clone()),
            Algorithm::PriorityBuckets { burst, ref weights, class } => {
                let burst = part(burst.unwrap_or(self.limit)).max(weights.len() as u64);
                let burst = Some(burst).filter(|_| self.limit > 0);
                let algorithm = Algorithm::PriorityBuckets { burst, weights: weights.clone(), class };
                (flow(), algorithm)
            }
            ref windowed => ((part(self.limit), self.period.clone()), windowed.clone()),
        };
        // Smaller numbers at a slower rate than a quota that is already valid: this one is valid too.
        let share = Self::new(limit, period, algorithm).unwrap_or_else(|_| self.clone());
        let Step::Word(step) = &self.step else { return share };
        match step.words_of() {
            WordsOf::This => share,
            WordsOf::AnyRate => share.keeping_instants(),
            WordsOf::Classes { overdraft } => {
                share.clone().with_room_for_overdraft(down(overdraft)).unwrap_or(share)
            }
        }
    }
}
