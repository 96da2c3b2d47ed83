//! Nodes that cannot ask each other: the permits that their shares admit together.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{Algorithm, Cost, LeakyForm, Period, Quota, Refill};

use crate::any;

/// Permits that `quota` grants one by one at each of `times`, from a fresh key on.
fn greedy(quota: &Quota, times: &[u64]) -> u64 {
    let mut state = quota.fresh();
    let mut granted = 0;
    for &now in times {
        while quota.take(&mut state, Cost::ONE, any::at(now)).is_admitted() {
            granted += 1;
        }
    }
    granted
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn shares_of_all_nodes_together_admit_at_most_the_whole_or_one_permit_each(
        plain in any::any_quota(),
        nodes in 1_u32..40,
        gaps in prop::collection::vec(0.0..1.5_f64, 0..8),
    ) {
        let mut times = vec![any::NOON];
        for gap in gaps {
            times.push(times.last().expect("one") + (gap * plain.period_ns as f64) as u64);
        }
        let whole = plain.quota();
        let n = u64::from(nodes);
        let share = whole.share_of(nodes);
        // A burst at one instant.
        let once = greedy(&share, &times[..1]) * n;
        let most = greedy(&whole, &times[..1]).max(n) + plain.overdraft();
        prop_assert!(once <= most, "{} at once by {:?}", once, share);
        // Over time: buckets by their rate, the rest by their windows.
        let together = greedy(&share, &times) * n;
        let is_flow = match plain.algorithm {
            Algorithm::TokenBucket { refill, .. } => refill == Refill::Continuous,
            Algorithm::LeakyBucket { .. } | Algorithm::WarmUp { .. } | Algorithm::SmoothBursty { .. } => true,
            _ => false,
        };
        if is_flow {
            let elapsed = u128::from(times[times.len() - 1] - any::NOON);
            let flowed = u128::from(plain.limit) * elapsed / u128::from(plain.period_ns);
            let most = u128::from((plain.burst() + plain.overdraft()).max(n)) + flowed + u128::from(n);
            prop_assert!(u128::from(together) <= most, "{} of {} by {:?}", together, most, share);
        } else {
            let mut ample = plain.clone();
            ample.limit = plain.limit.max(n);
            if let Algorithm::TokenBucket { burst, initial, .. } = &mut ample.algorithm {
                (*burst, *initial) = (Some(plain.burst().max(n)), Some(plain.at_once().max(n)));
            }
            // The weighted window is rounded down on each node, and a debt is a node's own.
            let rounding = if plain.algorithm == Algorithm::SlidingWindowCounter { n } else { 0 };
            let steps = greedy(&ample.quota(), &times) + (plain.overdraft() + rounding) * times.len() as u64;
            prop_assert!(together <= steps, "{} of {} by {:?}", together, steps, share);
        }
    }
}

#[test]
fn a_rule_that_admits_something_admits_something_on_every_node_and_one_that_does_not_does_not() {
    let second = std::time::Duration::from_secs(1);
    for (limit, nodes, want) in
        [(0, 3, 0), (1, 3, 1), (3, 3, 1), (10, 3, 3), (u64::from(u32::MAX), u32::MAX, 1)]
    {
        for quota in [Quota::fixed_window(limit, second), Quota::token_bucket(limit, second)] {
            let share = quota.expect("a quota").share_of(nodes);
            assert_eq!(greedy(&share, &[any::NOON]), want, "{limit} over {nodes}: {share:?}");
        }
    }
}

#[test]
fn a_share_of_a_rate_is_the_rate_over_the_nodes_and_no_less() {
    let second = Duration::from_secs(1);
    let decade = Quota::LONGEST_PERIOD;
    let bucket = |refill| Algorithm::TokenBucket { burst: Some(40), initial: None, overdraft: 0, refill };
    let queue =
        |delay_after| Algorithm::LeakyBucket { capacity: Some(12), form: LeakyForm::Queue { delay_after } };
    let share = |span, algorithm| {
        let whole = Quota::new(10, Period::Span(span), algorithm).expect("a quota");
        whole.share_of(4)
    };
    for (span, algorithm, limit, period) in [
        (second, bucket(Refill::Continuous), 10, second * 4),
        // Four times as long is too long.
        (decade, Algorithm::LeakyBucket { capacity: Some(4), form: LeakyForm::Meter }, 2, decade),
        (second, bucket(Refill::Interval), 2, second),
        (second, queue(8), 10, second * 4),
        (second, Algorithm::SlidingWindowCounter, 2, second),
    ] {
        let share = share(span, algorithm.clone());
        assert_eq!((share.limit(), share.period()), (limit, &Period::Span(period)), "{algorithm:?}");
    }
    let want = Algorithm::LeakyBucket { capacity: Some(3), form: LeakyForm::Queue { delay_after: 2 } };
    assert_eq!(share(second, queue(8)).algorithm(), &want);
    // Ten a second over four nodes is one every 400 ms, and so it stays.
    let share = share(second, bucket(Refill::Continuous));
    let mut state = share.fresh();
    assert!(share.take(&mut state, Cost(10), any::at(any::NOON)).is_admitted());
    for (after_ms, admits) in [(399, false), (400, true), (799, false), (800, true), (4_000, true)] {
        let now = any::at(any::NOON + after_ms * 1_000_000);
        assert_eq!(share.take(&mut state, Cost(1), now).is_admitted(), admits, "after {after_ms} ms");
    }
}
