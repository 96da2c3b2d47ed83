//! A quota that keeps instants counts as redis-cell does, whatever rate each request brings.

use std::time::Duration;

use tollgate_core::{Algorithm, Cost, Decision, Period, Quota, Refill, RetryAfter};
use tollgate_testkit::redis_cell::{Cell, CellAnswer, CellRate, CellStep, history};

use crate::any;

fn quota(rate: CellRate) -> Quota {
    let algorithm = Algorithm::TokenBucket {
        burst: Some(rate.max_burst + 1),
        initial: None,
        overdraft: 0,
        refill: Refill::Continuous,
    };
    let period = Period::Span(Duration::from_secs(rate.period_s));
    Quota::new(rate.count, period, algorithm).expect("small numbers").keeping_instants()
}

fn answer(decision: &Decision) -> CellAnswer {
    CellAnswer {
        admitted: decision.is_admitted(),
        remaining: decision.remaining(),
        retry_after: match decision.retry_after() {
            RetryAfter::After(wait) => Some(wait),
            _ => None,
        },
        reset_after: decision.reset_after(),
    }
}

#[test]
fn any_rates_on_one_key_are_counted_as_redis_cell_counts_them() {
    for seed in 0..2_000 {
        let (mut cell, mut state, mut now) = (Cell::default(), Quota::unlimited().fresh(), any::NOON + seed);
        for (nth, CellStep { gap, rate, quantity }) in history(seed, true).into_iter().enumerate() {
            now += gap.as_nanos() as u64;
            let got = answer(&quota(rate).take(&mut state, Cost(quantity), any::at(now)));
            let want = cell.throttle(rate, quantity, now);
            assert_eq!(got, want, "seed {seed}, request {nth}: {quantity} at {rate:?}");
        }
    }
}

/// A rate whose interval is no whole number of ns reads another's instant to one of its own units, and never as
/// an earlier one; by itself it is exact.
#[test]
fn a_rate_in_parts_of_a_nanosecond_is_less_than_one_late_for_each_change_and_never_early() {
    for seed in 0..2_000 {
        let (mut cell, mut state, mut now) = (Cell::default(), Quota::unlimited().fresh(), any::NOON + seed);
        let (mut last, mut late) = (None, Duration::ZERO);
        for (nth, CellStep { gap, rate, quantity }) in history(seed, false).into_iter().enumerate() {
            if last.is_some_and(|last: CellRate| (last.count, last.period_s) != (rate.count, rate.period_s)) {
                late += Duration::from_nanos(1);
            }
            last = Some(rate);
            now += gap.as_nanos() as u64;
            let got = answer(&quota(rate).take(&mut state, Cost(quantity), any::at(now)));
            let (mut most, mut least) = (cell, cell.delayed(late));
            let (most_says, least_says) =
                (most.throttle(rate, quantity, now), least.throttle(rate, quantity, now));
            let place = format!("seed {seed}, request {nth}: {quantity} at {rate:?}: {got:?}");
            assert!(got.admitted <= most_says.admitted, "{place}, not {most_says:?}");
            assert!(got.admitted >= least_says.admitted, "{place}, not {least_says:?}");
            if got.admitted {
                cell = most;
            }
            let mut looked = cell;
            let reset = looked.throttle(rate, 0, now).reset_after;
            assert!((reset..=reset + late).contains(&got.reset_after), "{place}, not {reset:?}");
        }
    }
}

#[test]
fn a_quota_that_does_not_start_full_or_does_not_refill_evenly_keeps_no_instants() {
    let bucket = |initial, refill| {
        let algorithm = Algorithm::TokenBucket { burst: Some(5), initial, overdraft: 0, refill };
        Quota::new(1, Period::Span(Duration::from_secs(1)), algorithm).expect("a quota").keeping_instants()
    };
    assert!(bucket(None, Refill::Continuous).keeps_instants());
    assert!(bucket(None, Refill::Continuous).share_of(2).keeps_instants());
    assert!(!bucket(Some(1), Refill::Continuous).keeps_instants());
    assert!(!bucket(None, Refill::Interval).keeps_instants());
    let window = Quota::fixed_window(5, Duration::from_secs(1)).expect("a quota");
    assert!(!window.keeping_instants().keeps_instants());
}
