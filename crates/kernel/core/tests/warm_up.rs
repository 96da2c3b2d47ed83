//! Limiters whose takes pay for the previous ones, by example.

#![expect(clippy::expect_used, reason = "a test that cannot set up its case has failed")]

use std::time::Duration;

use tollgate_core::{Algorithm, Cost, Inherit, Period, Quota, QuotaError, RetryAfter, State, Timestamp};

const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);
const SECOND: Duration = Duration::from_secs(1);
const FOREVER: Duration = Duration::from_secs(1 << 32);

fn warm_up(limit: u64, seconds: u64, cold_factor: u32) -> Quota {
    let algorithm = Algorithm::WarmUp { warm_up: Duration::from_secs(seconds), cold_factor };
    Quota::new(limit, Period::Span(SECOND), algorithm).expect("a quota")
}

fn bursty(limit: u64, burst: Option<u64>) -> Quota {
    Quota::new(limit, Period::Span(SECOND), Algorithm::SmoothBursty { burst }).expect("a quota")
}

fn at(ms: u64) -> Timestamp {
    NOON + Duration::from_millis(ms)
}

/// Waits in ms of callers that come at these instants, for these permits.
fn waits(quota: &Quota, state: &mut State, calls: &[(u64, u64)]) -> Vec<u64> {
    let wait = |&(ms, cost): &(u64, u64)| quota.reserve(state, Cost(cost), FOREVER, at(ms)).delay();
    calls.iter().map(wait).map(|wait| wait.as_millis() as u64).collect()
}

#[test]
fn two_a_second_pass_every_half_second_and_a_large_take_is_paid_for_by_the_next() {
    let quota = bursty(2, None);
    let mut state = bursty(2, None).fresh();
    let calls = [(0, 1), (0, 1), (500, 1), (1_000, 10), (1_500, 1)];
    assert_eq!(waits(&quota, &mut state, &calls), [0, 500, 500, 500, 5_000]);
}

#[test]
fn a_bursty_key_stores_a_seconds_worth_or_what_is_given_and_begins_with_none() {
    for (quota, stored) in [(bursty(5, None), 5), (bursty(5, Some(8)), 8)] {
        assert_eq!(quota.burst(), stored);
        let mut state = quota.fresh();
        assert_eq!(quota.take(&mut state.clone(), Cost::PEEK, at(0)).remaining(), 1, "none, and one ahead");
        quota.start_refill(&mut state, at(0));
        let peek = quota.take(&mut state, Cost::PEEK, at(20_000));
        assert_eq!((peek.remaining(), peek.reset_after()), (stored, Duration::ZERO));
        let at_once =
            (0..).take_while(|_| quota.take(&mut state, Cost::ONE, at(20_000)).is_admitted()).count();
        assert_eq!(at_once as u64, stored + 1, "and the one that the next pays for");
        let denied = quota.take(&mut state, Cost::ONE, at(20_000));
        assert_eq!(denied.retry_after(), RetryAfter::After(Duration::from_millis(200)));
    }
}

#[test]
fn less_than_a_permit_a_second_stores_a_part_of_one() {
    let quota = Quota::new(1, Period::Span(2 * SECOND), Algorithm::SmoothBursty { burst: None });
    let quota = quota.expect("a quota");
    let mut state = quota.fresh();
    quota.start_refill(&mut state, at(0));
    assert_eq!(waits(&quota, &mut state, &[(60_000, 1), (60_000, 1), (61_000, 1)]), [0, 1_000, 2_000]);
}

#[test]
fn a_cold_key_warms_up_along_the_trapezoid_and_cools_down_unused() {
    // Two a second over four seconds: four permits above the threshold, four below it.
    let quota = warm_up(2, 4, 3);
    assert_eq!(quota.burst(), 8, "the warm-up in intervals");
    let mut state = quota.fresh();
    let mut now = 0;
    for want in [1_375, 1_125, 875, 625, 500, 500, 500] {
        assert!(quota.take(&mut state, Cost::ONE, at(now)).is_admitted());
        let denied = quota.take(&mut state, Cost::ONE, at(now));
        assert_eq!(denied.retry_after(), RetryAfter::After(Duration::from_millis(want)));
        assert_eq!((denied.remaining(), denied.reset_after()), (0, Duration::from_millis(want)));
        now += want;
    }
    // Cold again after the warm-up's length.
    let mut half = state.clone();
    let mut cold = state;
    assert_eq!(waits(&quota, &mut cold, &[(now + 4_000, 1), (now + 4_000, 1)]), [0, 1_375]);
    // Half as long, and only the permits below the threshold are stored: it is warm.
    assert_eq!(waits(&quota, &mut half, &[(now + 500, 1), (now + 500, 1)]), [0, 500]);
}

#[test]
fn the_store_of_a_warm_up_is_full_at_first_and_is_its_length_in_intervals_at_a_cold_factor_of_three() {
    for (limit, seconds, cold_factor, stored) in
        [(5, 10, 3, 50), (100, 10, 3, 1_000), (5, 4, 10, 13), (5, 4, 1, 30), (1, 1, 1_000, 1)]
    {
        let quota = warm_up(limit, seconds, cold_factor);
        assert_eq!(quota.burst(), stored, "{limit} a second in {seconds} s by {cold_factor}");
        // Full: the first permit is the dearest.
        let mut state = quota.fresh();
        let first = waits(&quota, &mut state, &[(0, 1), (0, 1)])[1];
        let warm = 1_000 / limit;
        let dearest = warm * u64::from(cold_factor);
        assert!(first <= dearest && (first > warm || cold_factor == 1), "{first} of {dearest} ms");
    }
}

#[test]
fn a_change_of_the_rate_keeps_the_share_that_is_stored_and_the_wait_that_is_owed() {
    let slow = warm_up(2, 4, 3);
    let fast = warm_up(4, 4, 3);
    let mut state = slow.fresh();
    assert_eq!(waits(&slow, &mut state, &[(0, 1), (0, 1), (1_375, 1)]), [0, 1_375, 1_125]);
    let mut after = fast.inherit(state, &slow, Inherit::Taken, at(2_500));
    let calls = [(2_500, 1), (3_375, 1), (3_718, 1)];
    assert_eq!(waits(&fast, &mut after, &calls), [875, 343, 282]);
}

#[test]
fn after_no_limit_a_warm_up_is_warm_and_a_bursty_key_has_its_burst() {
    let none = Quota::unlimited();
    for (quota, want) in [
        (warm_up(1, 10, 3), [0, 1_000, 2_000]),
        (bursty(1, Some(2)), [0, 0, 0]),
        (bursty(1, Some(1)), [0, 0, 1_000]),
    ] {
        let mut state = quota.inherit(none.fresh(), &none, Inherit::Taken, at(0));
        assert_eq!(waits(&quota, &mut state, &[(0, 1), (0, 1), (0, 1)]), want);
        let mut state = quota.inherit(none.fresh(), &none, Inherit::Reset, at(0));
        assert_ne!(waits(&quota, &mut state, &[(0, 1), (0, 1), (0, 1)]), want, "as never seen");
    }
}

#[test]
fn what_is_taken_from_a_key_of_another_kind_says_nothing_of_its_warmth() {
    let bucket = Quota::token_bucket(2, SECOND).expect("a quota");
    let warm = warm_up(2, 4, 3);
    let mut state = bucket.fresh();
    assert!(bucket.take(&mut state, Cost(2), at(0)).is_admitted());
    for how in [Inherit::Taken, Inherit::AsIs, Inherit::Proportional, Inherit::Reset] {
        assert_eq!(warm.inherit(state.clone(), &bucket, how, at(0)), warm.fresh());
        let mut warmed = warm.fresh();
        assert!(warm.take(&mut warmed, Cost(20), at(0)).is_admitted());
        assert_eq!(bucket.inherit(warmed.clone(), &warm, how, at(0)), bucket.fresh());
        assert_eq!(bursty(2, None).inherit(warmed, &warm, how, at(0)), bursty(2, None).fresh());
    }
}

#[test]
fn a_take_that_would_be_paid_for_in_decades_never_fits() {
    let quota = warm_up(1, 10, 3);
    let mut state = quota.fresh();
    assert!(quota.take(&mut state, Cost(1 << 40), at(0)).never_fits());
    assert!(quota.take(&mut state, Cost(1_000_000), at(0)).is_admitted());
    // Charged without end, the debt stays within the countable range.
    for _ in 0..5 {
        let _ = quota.charge(&mut state, Cost(u64::MAX), at(0));
    }
    let wait = quota.take(&mut state, Cost::ONE, at(0)).reset_after();
    assert_eq!(at(0) + wait, tollgate_core::Expiry::LATEST);
}

#[test]
fn numbers_out_of_bounds_are_errors() {
    let new = |limit, period, algorithm| Quota::new(limit, Period::Span(period), algorithm);
    let warm = |warm_up, cold_factor| Algorithm::WarmUp { warm_up, cold_factor };
    let zero = Duration::ZERO;
    let year = Duration::from_secs(365 * 86_400);
    for (got, want) in [
        (new(5, SECOND, warm(zero, 3)), QuotaError::WarmUp(zero)),
        (new(5, SECOND, warm(year + SECOND, 3)), QuotaError::WarmUp(year + SECOND)),
        (new(5, SECOND, warm(SECOND, 0)), QuotaError::ColdFactor(0)),
        (new(5, SECOND, warm(SECOND, 1_001)), QuotaError::ColdFactor(1_001)),
        (new(5, SECOND, Algorithm::SmoothBursty { burst: Some(0) }), QuotaError::Empty("burst")),
        (
            new(99_999_989, SECOND, warm(year, 3)),
            QuotaError::UncountableWarmUp { limit: 99_999_989, period: SECOND, warm_up: year },
        ),
        (
            new(1, year * 10, Algorithm::SmoothBursty { burst: Some(100) }),
            QuotaError::SlowBucket { capacity: 100 },
        ),
    ] {
        assert_eq!(got.expect_err("out of bounds"), want);
    }
    // Nothing passes at a limit of zero.
    for algorithm in [warm(SECOND, 3), Algorithm::SmoothBursty { burst: None }] {
        let quota = new(0, SECOND, algorithm).expect("a quota");
        assert!(quota.take(&mut quota.fresh(), Cost::ONE, at(0)).never_fits());
    }
}
