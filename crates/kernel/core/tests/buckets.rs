//! Step tables of the buckets: token bucket in all its forms, leaky bucket as a meter.
#![expect(clippy::expect_used, reason = "a test that cannot set up its case has failed")]

use std::time::Duration;

use tollgate_core::{
    Algorithm, Cost, Expiry, LeakyForm, Period, Quota, QuotaError, Refill, State, Timestamp, Word,
};
use tollgate_testkit::table::{admit, at, deny, never, play, play_on};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const FULL: BucketSettings =
    BucketSettings { burst: None, initial: None, overdraft: 0, refill: Refill::Continuous };

#[derive(Clone, Copy)]
struct BucketSettings {
    burst: Option<u64>,
    initial: Option<u64>,
    overdraft: u64,
    refill: Refill,
}

fn bucket(limit: u64, period: Duration, of: BucketSettings) -> Quota {
    let BucketSettings { burst, initial, overdraft, refill } = of;
    let algorithm = Algorithm::TokenBucket { burst, initial, overdraft, refill };
    Quota::new(limit, Period::Span(period), algorithm).expect("a bucket")
}

fn meter(limit: u64, period: Duration, capacity: u64) -> Quota {
    let algorithm = Algorithm::LeakyBucket { capacity: Some(capacity), form: LeakyForm::Meter };
    Quota::new(limit, Period::Span(period), algorithm).expect("a meter")
}

/// Row 15: a hundred at once from a full bucket; nothing from one that starts empty, all of it a second
/// later.
#[test]
fn what_a_bucket_starts_with_is_a_choice() {
    play(&bucket(100, SECOND, FULL), &[(0, 100, admit(0)), (0, 1, deny(10))]);
    let empty = BucketSettings { initial: Some(0), ..FULL };
    play(&bucket(100, SECOND, empty), &[(0, 1, deny(10)), (10, 1, admit(0)), (1_010, 100, admit(0))]);
    let some = BucketSettings { initial: Some(30), ..FULL };
    play(&bucket(100, SECOND, some), &[(0, 30, admit(0)), (0, 1, deny(10))]);
}

/// Row 26: the clock going back adds nothing, and idle for years does not overflow.
#[test]
fn a_clock_going_back_adds_nothing_and_years_add_no_more_than_the_burst() {
    play(
        &bucket(10, SECOND, BucketSettings { burst: Some(3), ..FULL }),
        &[
            (0, 2, admit(1)),
            (0, 2, deny(100)), // one permit short, and one comes every 100 ms
            (100, 2, admit(0)),
            (90, 1, deny(110)), // the clock stepped back: nothing is given away
            (200, 1, admit(0)),
            (20 * 365 * 86_400_000, 3, admit(0)),
            (20 * 365 * 86_400_000, 1, deny(100)),
        ],
    );
}

/// Rows 43 and 13: idle, then a burst of at most the cap; in the long run the rate.
#[test]
fn after_a_pause_a_burst_passes_and_in_the_long_run_the_rate() {
    let quota = bucket(100, SECOND, BucketSettings { burst: Some(50), ..FULL });
    play(&quota, &[(0, 50, admit(0)), (3_600_000, 50, admit(0)), (3_600_000, 1, deny(10))]);
    let mut state = quota.fresh();
    let passed = (0..10_000).filter(|&ms| quota.take(&mut state, Cost::ONE, at(ms)).is_admitted()).count();
    assert_eq!(passed, 50 + 999); // 9.999 s at 100 a second
}

/// Row 49 of the acceptance page.
#[test]
fn many_permits_are_all_or_nothing() {
    play(
        &bucket(10, SECOND, FULL),
        &[(0, 7, admit(3)), (0, 4, deny(100)), (0, 3, admit(0)), (0, 11, never()), (1_000, 10, admit(0))],
    );
}

/// Rows 112 and 133: burst equal to the rate, or larger.
#[test]
fn a_burst_may_be_the_rate_or_larger() {
    play(&bucket(2, SECOND, FULL), &[(0, 1, admit(1)), (0, 1, admit(0)), (0, 1, deny(500))]);
    let larger = BucketSettings { burst: Some(5), ..FULL };
    play(&bucket(2, SECOND, larger), &[(0, 5, admit(0)), (0, 1, deny(500)), (1_000, 2, admit(0))]);
}

/// Row 111: twice the rate within two milliseconds, at 0.999 s and 1.000 s.
#[test]
fn a_small_burst_denies_twice_the_rate_in_two_milliseconds() {
    play(
        &bucket(100, SECOND, BucketSettings { burst: Some(1), ..FULL }),
        &[(999, 1, admit(0)), (1_000, 1, deny(9)), (1_001, 1, deny(8)), (1_009, 1, admit(0))],
    );
    // With all of a second's permits at once, a bucket lets 100 pass there and 0 of the next 100.
    play(&bucket(100, SECOND, FULL), &[(999, 100, admit(0)), (1_001, 100, deny(998))]);
}

/// Row 136, figure of four and two a second: size 4, two permits a second.
#[test]
fn a_bucket_of_four_that_gets_two_a_second() {
    let of = BucketSettings { burst: Some(4), refill: Refill::Interval, ..FULL };
    play(
        &bucket(2, SECOND, of),
        &[
            (0, 1, admit(3)),
            (0, 3, admit(0)),
            (0, 1, deny(1_000)),
            (999, 1, deny(1)),
            (1_000, 1, admit(1)), // two came at once
            (2_000, 0, admit(3)),
            (2_500, 3, admit(0)),
            (2_999, 1, deny(1)),
            (9_000, 4, admit(0)), // never above four
        ],
    );
}

/// Row 136, figure of four a minute: 1:00:00 one taken, 1:00:05 three taken, 1:00:20 denied, 1:01:00 full
/// again.
#[test]
fn a_bucket_of_four_that_gets_four_a_minute() {
    let of = BucketSettings { refill: Refill::Interval, ..FULL };
    let hour = 3_600_000;
    play(
        &bucket(4, MINUTE, of),
        &[
            (hour, 1, admit(3)),
            (hour + 5_000, 3, admit(0)),
            (hour + 20_000, 1, deny(40_000)),
            (hour + 60_000, 0, admit(4)),
            (hour + 60_000, 4, admit(0)),
        ],
    );
}

/// Permits ahead of time are repaid before anything else is granted.
#[test]
fn an_overdraft_is_repaid_first() {
    for refill in [Refill::Continuous, Refill::Interval] {
        let quota = bucket(10, SECOND, BucketSettings { overdraft: 5, refill, ..FULL });
        play(
            &quota,
            &[
                (0, 15, admit(0)), // ten there, five ahead
                (0, 1, deny(if refill == Refill::Continuous { 500 } else { 1_000 })),
                (0, 16, never()),
                (1_000, 5, admit(0)),
            ],
        );
    }
    let quota = bucket(10, SECOND, BucketSettings { overdraft: 5, ..FULL });
    // A level of exactly zero may still go into overdraft; half a permit below may not.
    play(&quota, &[(0, 10, admit(0)), (0, 5, admit(0)), (450, 1, deny(50)), (500, 1, admit(0))]);
}

/// Row 113: water = max(0, water - elapsed × rate); granted while it fits, and then one more is in it.
#[test]
fn a_meter_fills_and_leaks() {
    play(
        &meter(10, SECOND, 3),
        &[
            (0, 1, admit(2)),   // water 1
            (0, 1, admit(1)),   // 2
            (0, 1, admit(0)),   // 3
            (0, 1, deny(100)),  // full
            (100, 1, admit(0)), // one has leaked out
            (100, 1, deny(100)),
            (300, 1, admit(1)), // two have
            (300, 1, admit(0)),
            (350, 1, deny(50)), // 2.5 of 3: all of a hit must fit
            (400, 1, admit(0)),
            (5_000, 0, admit(3)), // never below empty
            (5_000, 3, admit(0)),
        ],
    );
}

/// Rows 114, 50 and 47: the content of a leaky meter is the missing part of its mirror.
#[test]
fn a_meter_and_a_token_bucket_of_the_same_numbers_answer_alike() {
    let meter = meter(7, SECOND, 4);
    let bucket = bucket(7, SECOND, BucketSettings { burst: Some(4), ..FULL });
    let mut leaky = meter.fresh();
    let mut token = bucket.fresh();
    for turn in 0..2_000_u64 {
        let now = at(turn * 61 % 977 + turn * 40);
        let cost = Cost(turn % 6);
        assert_eq!(meter.take(&mut leaky, cost, now), bucket.take(&mut token, cost, now), "turn {turn}");
    }
}

/// Row 116: a leaky bucket starts empty, which is a token bucket that starts full.
#[test]
fn a_leaky_bucket_starts_empty() {
    play(&meter(1, MINUTE, 5), &[(0, 5, admit(0)), (0, 1, deny(60_000))]);
}

/// Rows 119 and 44: a third of a second is no whole number of nanoseconds, and nothing drifts all the same.
#[test]
fn three_a_second_is_three_a_second_for_a_year() {
    let quota = bucket(3, SECOND, BucketSettings { burst: Some(1), ..FULL });
    let mut state = quota.fresh();
    let mut now = at(0);
    for _ in 0..3 * 86_400 {
        assert!(quota.take(&mut state, Cost::ONE, now).is_admitted());
        let wait = quota.take(&mut state.clone(), Cost::ONE, now).retry_after();
        let tollgate_core::RetryAfter::After(wait) = wait else { panic!("denied: {wait:?}") };
        now = now + wait;
    }
    // Each wait rounds up by less than a nanosecond, and the excess is not lost.
    let drift = now.since(at(0)) - Duration::from_secs(86_400);
    assert!(drift < Duration::from_micros(260), "{drift:?}");
    let quota = bucket(3, SECOND, BucketSettings { burst: Some(2), ..FULL });
    let mut state = quota.fresh();
    let passed = (0..86_400_000_u64)
        .step_by(333)
        .filter(|&ms| quota.take(&mut state, Cost::ONE, at(ms)).is_admitted())
        .count();
    assert!((259_199..=259_202).contains(&passed), "{passed}");
}

/// Row 44: the permits of any idle time are worked out by the next take, from one word that never grows.
#[test]
fn a_bucket_is_refilled_by_time_difference_in_a_state_of_constant_size() {
    assert_eq!(size_of::<Word>(), 16);
    let quota = bucket(2, SECOND, BucketSettings { burst: Some(40), ..FULL });
    let mut state = quota.fresh();
    for (ms, cost, want) in [
        (0, 40, admit(0)),
        (500, 1, admit(0)),
        (10_500, 20, admit(0)), // twenty of ten seconds
        (10_500, 1, deny(500)),
        (365 * 86_400_000, 40, admit(0)), // a year is worth the burst
        (365 * 86_400_000, 1, deny(500)),
    ] {
        play_on(&quota, &mut state, &[(ms, cost, want)]);
        assert!(matches!(state, State::Word(_)), "{state:?}");
    }
}

#[test]
fn a_bucket_without_a_rate_gives_its_burst_once() {
    play(&bucket(0, SECOND, FULL), &[(0, 1, never()), (0, 0, admit(0))]);
    let once = bucket(0, SECOND, BucketSettings { burst: Some(2), ..FULL });
    play(&once, &[(0, 1, admit(1)), (0, 1, admit(0)), (86_400_000, 1, never())]);
}

#[test]
fn numbers_out_of_bounds_are_faults() {
    let make = |limit, seconds, burst, initial| {
        let algorithm = Algorithm::TokenBucket { burst, initial, overdraft: 0, refill: Refill::Continuous };
        Quota::new(limit, Period::Span(Duration::from_secs(seconds)), algorithm).map(|_| ())
    };
    let year = 365 * 86_400;
    assert_eq!(make(1, 1, Some(0), None), Err(QuotaError::Empty("burst")));
    assert_eq!(make(1, 1, Some(1), Some(2)), Err(QuotaError::InitialAboveBurst { initial: 2, burst: 1 }));
    assert_eq!(make(1, 0, None, None), Err(QuotaError::EmptyPeriod));
    assert_eq!(make(1 << 53, 1, None, None), Err(QuotaError::LargeLimit(1 << 53)));
    assert_eq!(make(1, 1, Some(1 << 53), None), Err(QuotaError::LargeLimit(1 << 53)));
    assert_eq!(make((1 << 53) - 1, 1, None, None), Err(QuotaError::LargeLimit((1 << 53) - 1)));
    assert_eq!(make((1 << 53) - 2, 30 * 86_400, None, None), Ok(()));
    assert_eq!(make(1, 1, Some(1 << 40), None), Err(QuotaError::SlowBucket { capacity: 1 << 40 }));
    assert_eq!(make(1, 11 * year, None, None), Err(QuotaError::LongPeriod(Duration::from_secs(11 * year))));
    assert_eq!(make(1, year, Some(40), None), Err(QuotaError::SlowBucket { capacity: 40 }));
    assert_eq!(make(1, year, Some(30), None), Ok(()));
    assert!(matches!(
        Quota::token_bucket(1 << 33, Duration::from_nanos(10)),
        Err(QuotaError::FastRate { .. })
    ));
}

/// A word of a bucket that does not start full is never dropped as expired; it may be idle for years.
#[test]
fn a_sticky_word_is_full_after_years() {
    for limit in [1, 1_000, 100_000_007] {
        let quota = bucket(limit, SECOND, BucketSettings { initial: Some(0), ..FULL });
        let mut state =
            play(&quota, &[(0, 1, deny(if limit == 1 { 1_000 } else { 1 }))][..usize::from(limit < 1_001)]);
        let _ = quota.take(&mut state, Cost::ONE, at(0));
        for days in [1_u64, 30, 365, 3_650] {
            let now = at(days * 86_400_000);
            assert_eq!(
                quota.take(&mut state.clone(), Cost::PEEK, now).remaining(),
                limit,
                "after {days} days"
            );
        }
    }
}

/// A word from far in the future (the clock stepped back by weeks) says exactly when it will be free.
#[test]
fn a_word_from_the_future_frees_its_key_when_the_clock_is_there_again() {
    for limit in [10, 4_294_967_295] {
        let quota = bucket(limit, SECOND, FULL);
        let mut state = quota.fresh();
        let weeks = 30 * 86_400_000;
        assert!(quota.take(&mut state, Cost(limit), at(weeks)).is_admitted());
        let decision = quota.take(&mut state, Cost(limit), at(0));
        let tollgate_core::RetryAfter::After(wait) = decision.retry_after() else { panic!("{decision:?}") };
        // Never too fast: the rate of large limits is rounded by less than a millionth.
        assert!(wait >= Duration::from_millis(weeks + 1_000) && wait < Duration::from_millis(weeks + 1_001));
        assert!(quota.take(&mut state, Cost(limit), at(0) + wait).is_admitted());
    }
}

/// Units are kept modulo 2^60. A step back by a multiple of the modulus (and of 2^64) is no step of zero.
#[test]
fn a_step_back_by_the_modulus_of_the_units_is_seen() {
    let quota = bucket(4_294_967_295, SECOND, FULL); // 2^27 units in a nanosecond
    for shift in 32..=41 {
        let step = Duration::from_nanos(1 << shift);
        let mut state = quota.fresh();
        assert!(quota.take(&mut state, Cost(4_294_967_295), at(0) + step).is_admitted());
        let decision = quota.take(&mut state, Cost::ONE, at(0));
        let tollgate_core::RetryAfter::After(wait) = decision.retry_after() else { panic!("{decision:?}") };
        assert!(wait > step && wait <= step + Duration::from_nanos(1), "{wait:?} for 2^{shift} ns");
    }
}

/// Sixteen changes of the rate use up the generations that a word can name. A word of an older one disagrees
/// with its expiry, and is taken for an empty bucket, not for a full one, nor for one that stays empty for
/// the day it once needed.
#[test]
fn a_word_of_a_forgotten_generation_owes_at_most_all() {
    let day = Duration::from_secs(86_400);
    let mut quota = bucket(10, day, FULL);
    let mut state = play(&quota, &[(0, 10, admit(0))]);
    for limit in [20, 30, 40].into_iter().cycle().take(15).chain([49]) {
        quota = bucket(limit, MINUTE, FULL).migrated_from(&quota, at(limit));
    }
    assert!(!quota.take(&mut state, Cost::ONE, at(100)).is_admitted());
    play_on(&quota, &mut state, &[(60_100, 49, admit(0))]);
}

#[test]
fn a_total_never_comes_back_by_itself() {
    let quota = Quota::new(3, Period::Span(SECOND), Algorithm::Total).expect("a total");
    let mut state =
        play(&quota, &[(0, 2, admit(1)), (0, 2, never()), (0, 1, admit(0)), (86_400_000, 1, never())]);
    let State::Word(Word { expires, .. }) = state else { panic!("one word") };
    assert_eq!(expires, Expiry::NEVER);
    assert_eq!(quota.give_back(&mut state, Cost(2), at(0)).remaining(), 2);
    play_on(&quota, &mut state, &[(1, 2, admit(0)), (1, 1, never())]);
}

#[test]
fn what_turned_out_to_cost_more_is_owed() {
    let quota = bucket(10, SECOND, FULL);
    let mut state = play(&quota, &[(0, 5, admit(5))]);
    let charged = quota.charge(&mut state, Cost(12), at(0));
    assert_eq!(charged.remaining(), 0);
    play_on(&quota, &mut state, &[(0, 1, deny(800)), (700, 0, admit(0)), (800, 1, admit(0))]);
    // However much is charged, the key comes back some day.
    let _ = quota.charge(&mut state, Cost(u64::MAX), Timestamp::from_unix_seconds(1_700_000_000));
}
