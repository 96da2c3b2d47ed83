//! A quota that keeps instants counts as redis-cell does, for any rate of each request.

use std::time::Duration;

use tollgate_core::{Algorithm, Cost, Period, Quota, Refill};
use tollgate_testkit::redis_cell::{
    CellAnswer, CellStep, answers_alike, is_less_than_one_ns_late_for_each_change,
};

use crate::any;

/// Takes from one key.
fn key() -> impl FnMut(usize, &CellStep, u64) -> CellAnswer {
    let mut state = Quota::unlimited().fresh();
    move |_, step, now_ns| {
        let quota = step.rate.quota().expect("small numbers");
        CellAnswer::from(&quota.take(&mut state, Cost(step.quantity), any::at(now_ns)))
    }
}

#[test]
fn any_rates_on_one_key_are_counted_as_redis_cell_counts_them() {
    (0..2_000).for_each(|seed| answers_alike(seed, any::NOON + seed, key()));
}

#[test]
fn a_rate_in_parts_of_a_nanosecond_is_less_than_one_late_for_each_change_and_never_early() {
    (0..2_000).for_each(|seed| is_less_than_one_ns_late_for_each_change(seed, any::NOON + seed, key()));
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
