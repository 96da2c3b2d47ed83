//! The quotas that histories are made of: every algorithm, small and large numbers, edges.

use std::time::Duration;

use tollgate_core::{Algorithm, Align, LeakyForm, LeavingCell, Period, Quota, Refill};

use super::setup::Options;

/// Every quota that this build of the core makes and the store does not declare unsupported.
pub(super) fn all(options: &Options) -> Vec<Quota> {
    let bucket =
        |burst, initial, overdraft, refill| Algorithm::TokenBucket { burst, initial, overdraft, refill };
    let second = Duration::from_secs(1);
    let minute = 60 * second;
    let month = 30 * 86_400 * second;
    [
        (5, second, bucket(None, None, 0, Refill::Continuous)),
        (10, second, bucket(Some(3), None, 0, Refill::Continuous)),
        (3, minute, bucket(Some(20), Some(2), 0, Refill::Continuous)),
        (4, second, bucket(Some(4), None, 6, Refill::Continuous)),
        (1_000_000_000, second, bucket(None, None, 0, Refill::Continuous)),
        (1, Duration::from_secs(365 * 86_400), bucket(None, None, 0, Refill::Continuous)),
        (5, second, bucket(Some(7), None, 0, Refill::Interval)),
        (2, minute, bucket(Some(6), Some(0), 0, Refill::Interval)),
        (3, Duration::from_nanos(1_234_567_891), bucket(None, None, 0, Refill::Interval)),
        (4, second, Algorithm::FixedWindow { align: Align::Calendar }),
        (4_294_967_295, minute, Algorithm::FixedWindow { align: Align::Calendar }),
        // Counts and units beyond 64 bits, or beyond the range of a word or a double.
        (1_000_000_000_000, minute, Algorithm::FixedWindow { align: Align::Calendar }),
        (
            Quota::LARGEST_LIMIT,
            Duration::from_millis(1_500),
            Algorithm::FixedWindow { align: Align::FirstHit },
        ),
        (1_000_000_000_000, month, bucket(None, None, 0, Refill::Continuous)),
        (Quota::LARGEST_LIMIT, month, bucket(None, Some(1 << 45), 0, Refill::Continuous)),
        (86_399, Duration::from_secs(86_400), bucket(None, None, 0, Refill::Continuous)),
        (1 << 45, minute, bucket(Some(1 << 46), None, 0, Refill::Interval)),
        (1 << 50, minute, Algorithm::sliding_window(3)),
        (Quota::LARGEST_LIMIT, Duration::from_nanos(1_234_567_891), Algorithm::SlidingWindowCounter),
        (
            1 << 52,
            month,
            Algorithm::LeakyBucket { capacity: None, form: LeakyForm::Queue { delay_after: 9 } },
        ),
        (Quota::LARGEST_LIMIT, second, Algorithm::Total),
        (7, Duration::from_millis(1_500), Algorithm::FixedWindow { align: Align::FirstHit }),
        (0, second, Algorithm::FixedWindow { align: Align::Calendar }),
        (6, second, Algorithm::sliding_window(10)),
        (20, minute, Algorithm::sliding_window(3)),
        (20, minute, Algorithm::SlidingWindow { cells: 3, leaving: LeavingCell::Drops }),
        (6, second, Algorithm::SlidingWindow { cells: 1, leaving: LeavingCell::Drops }),
        (6, second, Algorithm::SlidingWindowCounter),
        (7, minute, Algorithm::SlidingWindowCounter),
        // Weights that a double rounds.
        (4_000_000_000, Duration::from_secs(10), Algorithm::SlidingWindowCounter),
        (7, Duration::from_nanos(1_234_567_891), Algorithm::SlidingWindowCounter),
        (5, second, Algorithm::SlidingWindowLog { log_denied: false }),
        (3, minute, Algorithm::SlidingWindowLog { log_denied: true }),
        (5, second, Algorithm::LeakyBucket { capacity: None, form: LeakyForm::Meter }),
        (10, second, Algorithm::LeakyBucket { capacity: Some(4), form: LeakyForm::Queue { delay_after: 1 } }),
        (9, second, Algorithm::Total),
        (5, second, Algorithm::WarmUp { warm_up: 4 * second, cold_factor: 10 }),
        (300, minute, Algorithm::WarmUp { warm_up: second, cold_factor: 3 }),
        (5, second, Algorithm::SmoothBursty { burst: None }),
        (7, minute, Algorithm::SmoothBursty { burst: Some(3) }),
        // Units and prices beyond 64 bits.
        (7, Duration::from_secs(86_400), Algorithm::WarmUp { warm_up: 3_600 * second, cold_factor: 7 }),
        (5, second, Algorithm::PriorityBuckets { burst: Some(8), weights: [3, 2].into(), class: 0 }),
        (7, 86_400 * second, Algorithm::PriorityBuckets { burst: None, weights: [3, 1].into(), class: 1 }),
    ]
    .into_iter()
    .filter(|(_, _, algorithm)| !options.unsupported.contains(&algorithm.name()))
    .filter(|(_, _, algorithm)| {
        let begins_with_hit = matches!(algorithm, Algorithm::FixedWindow { align: Align::FirstHit });
        !begins_with_hit || !options.unsupported.contains(&"first_hit")
    })
    .filter(|(limit, span, algorithm)| {
        let tick = options.tick.as_nanos();
        let comes_at_once = matches!(algorithm, Algorithm::FixedWindow { .. });
        *limit <= options.most
            && (tick == 1 || comes_at_once || span.as_nanos() % (tick * u128::from(*limit)) == 0)
    })
    .filter_map(|(limit, span, algorithm)| Quota::new(limit, Period::Span(span), algorithm).ok())
    .filter(|quota| !(options.is_split && quota.starts_partial()))
    .collect()
}

/// For checks that count: a quota of `limit` that gives nothing back within any test, and counts no denied
/// take. A bucket; a sliding window counter for stores that cannot count a bucket.
pub(super) fn slow(limit: u64, options: &Options) -> Result<Quota, tollgate_core::QuotaError> {
    let days = |n: u64| Duration::from_secs(n * 86_400);
    if options.unsupported.contains(&"token_bucket") {
        return Quota::new(limit, Period::Span(days(10)), Algorithm::SlidingWindowCounter);
    }
    Quota::token_bucket(limit, days(5 * 365))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_of_the_core_is_there_unless_the_store_cannot_count_it() {
        let quotas = all(&Options::default());
        assert_eq!(quotas.len(), 43, "all of them can be made");
        let without = Options { unsupported: &["sliding_window_log"], ..Options::default() };
        assert_eq!(all(&without).len(), 41);
    }
}
