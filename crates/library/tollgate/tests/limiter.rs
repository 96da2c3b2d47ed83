//! Promises of the limiters: with and without keys, on a clock that the test moves.
#![allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    Algorithm, Inherit, KeyedRateLimiter, ManualClock, ParseQuotaError, Period, Quota, QuotaError,
    RateLimiter, Refill, RestoreError, Timestamp, check_all,
};

#[path = "limiter/background_refill.rs"]
mod background_refill;
#[path = "limiter/minting.rs"]
mod minting;
#[path = "limiter/quotas_by_key.rs"]
mod quotas_by_key;
#[path = "limiter/rules.rs"]
mod rules;
#[path = "limiter/shared.rs"]
mod shared;
#[path = "limiter/together.rs"]
mod together;
#[path = "limiter/warm_up.rs"]
mod warm_up;

const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);
const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn direct(quota: Quota) -> (RateLimiter<ManualClock>, ManualClock) {
    let clock = ManualClock::at(NOON);
    (RateLimiter::direct_with_clock(quota, clock.clone()).expect("a quota"), clock)
}

fn keyed(quota: Quota) -> (KeyedRateLimiter<str, ManualClock>, ManualClock) {
    let clock = ManualClock::at(NOON);
    (KeyedRateLimiter::with_clock(quota, clock.clone()).expect("a quota"), clock)
}

/// One quota of each algorithm, ten permits at once.
fn quotas() -> Vec<Quota> {
    let per_minute = |algorithm| Quota::new(10, Period::Span(Duration::from_secs(60)), algorithm);
    vec![
        Quota::per_minute(10),
        Quota::fixed_window(10, Duration::from_secs(60)),
        Quota::sliding_window(10, Duration::from_secs(60)),
        per_minute(Algorithm::SlidingWindowCounter),
        per_minute(Algorithm::SlidingWindowLog { log_denied: false }),
        per_minute(Algorithm::TokenBucket {
            burst: None,
            initial: None,
            overdraft: 0,
            refill: Refill::Interval,
        }),
        Quota::leaky_queue(10, Duration::from_secs(60)),
        Quota::total(10),
    ]
}

#[test]
fn a_burst_of_two_hundred_then_one_every_ten_milliseconds() {
    let (limiter, clock) = direct(Quota::per_second(100).burst(200));
    assert_eq!(limiter.check_n(200).map(|admitted| admitted.remaining()), Ok(0));
    let denied = limiter.check().expect_err("the burst is used up");
    assert_eq!(denied.retry_after(), Some(ms(10)));
    assert_eq!(denied.to_string(), "rate limit exceeded; retry in 10ms");
    clock.advance(ms(10) - Duration::from_nanos(1));
    assert!(limiter.check().is_err(), "one nanosecond early");
    clock.advance(Duration::from_nanos(1));
    assert!(limiter.check().is_ok());
}

#[test]
fn more_than_the_burst_never_fits_and_takes_nothing() {
    let (limiter, _) = direct(Quota::per_second(10));
    let denied = limiter.check_n(11).expect_err("above the burst");
    assert_eq!(denied.retry_after(), None);
    assert_eq!(denied.to_string(), "rate limit exceeded; no wait helps, ask for fewer permits");
    assert!(limiter.check_n(10).is_ok());
}

#[test]
fn rates_from_zero_over_one_a_year_to_a_billion_a_second_and_no_limit() {
    let (none, _) = direct(Quota::per_second(0));
    assert_eq!(none.check().expect_err("nothing is admitted").retry_after(), None);
    let (rare, clock) = direct(Quota::token_bucket(1, YEAR));
    assert!(rare.check().is_ok() && rare.check().is_err());
    clock.advance(YEAR);
    assert!(rare.check().is_ok());
    let (fast, clock) = direct(Quota::per_second(1_000_000_000));
    assert!(fast.check_n(1_000_000_000).is_ok() && fast.check().is_err());
    clock.advance(Duration::from_nanos(1));
    assert!(fast.check().is_ok());
    let (unlimited, _) = direct(Quota::unlimited());
    assert!(unlimited.check_n(u64::MAX).is_ok() && unlimited.check().is_ok());
}

#[test]
fn every_algorithm_admits_ten_gives_back_and_charges() {
    for quota in quotas() {
        let (limiter, _) = direct(quota.clone());
        let (by_key, _) = keyed(quota.clone());
        assert_eq!((limiter.take_at_most(7), by_key.take_at_most("a", 7)), (7, 7), "{quota:?}");
        limiter.give_back(2);
        by_key.give_back("a", 2);
        assert_eq!((limiter.peek().remaining(), by_key.peek("a").remaining()), (5, 5), "{quota:?}");
        assert_eq!((limiter.take_at_most(9), by_key.take_at_most("a", 9)), (5, 5), "{quota:?}");
        assert_eq!((limiter.take_at_most(9), by_key.take_at_most("a", 9)), (0, 0), "{quota:?}");
        limiter.reset();
        by_key.reset("a");
        limiter.penalise(4);
        by_key.penalise("a", 4);
        assert_eq!((limiter.peek().remaining(), by_key.peek("a").remaining()), (6, 6), "{quota:?}");
        assert_eq!(by_key.peek("b").remaining(), 10, "another key");
    }
}

#[test]
fn a_penalty_beyond_what_is_there_is_repaid_before_anything_is_admitted() {
    let (limiter, clock) = direct(Quota::per_second(10));
    limiter.penalise(15);
    clock.advance(ms(500));
    assert_eq!(limiter.check().expect_err("half a second repays five").retry_after(), Some(ms(100)));
    clock.advance(ms(100));
    assert!(limiter.check().is_ok());
}

#[test]
fn a_quota_that_paces_admits_with_a_delay() {
    let (limiter, _) = direct(Quota::leaky_queue(10, SECOND).burst(3));
    let delays: Vec<_> = (0..3).map(|_| limiter.check().map(|admitted| admitted.delay())).collect();
    assert_eq!(delays, [Ok(ms(0)), Ok(ms(100)), Ok(ms(200))]);
    assert!(limiter.check().is_err());
}

#[test]
fn a_clock_that_steps_back_grants_nothing_and_freezes_nothing() {
    let (limiter, clock) = direct(Quota::per_second(10));
    assert!(limiter.check_n(10).is_ok());
    clock.set(Timestamp::from_nanos(NOON.as_nanos() - 1_000_000_000));
    assert!(limiter.check().is_err());
    clock.set(NOON + ms(100));
    assert!(limiter.check().is_ok());
}

#[test]
fn a_blocked_key_is_denied_until_then_and_no_other_is() {
    let (limiter, clock) = keyed(Quota::per_second(10));
    limiter.block("mallory", NOON + Duration::from_millis(2_500));
    assert_eq!(limiter.check("mallory").expect_err("blocked").retry_after(), Some(ms(2_500)));
    assert_eq!((limiter.take_at_most("mallory", 5), limiter.peek("mallory").is_admitted()), (0, false));
    assert!(check_all(&[limiter.request("ann", 1), limiter.request("mallory", 1)]).is_err());
    assert_eq!(limiter.check("ann").map(|admitted| admitted.remaining()), Ok(9), "ann paid nothing");
    limiter.reset("mallory");
    assert!(limiter.check("mallory").is_err(), "a reset forgets counts, not blocks");
    clock.advance(ms(2_499));
    assert!(limiter.check("mallory").is_err());
    clock.advance(ms(1));
    assert!(limiter.check("mallory").is_ok());
    limiter.block("mallory", NOON + YEAR);
    limiter.block("mallory", Timestamp::ZERO);
    assert!(limiter.check("mallory").is_ok(), "lifted");
}

#[test]
fn all_or_nothing_over_limiters_and_keys() {
    for quota in quotas() {
        let (shared, _) = direct(quota.clone());
        let (by_key, _) = keyed(quota.clone());
        let ask = |n, key| check_all(&[shared.request(n), by_key.request(key, n), by_key.request("all", 1)]);
        assert_eq!(ask(6, "a"), Ok(()), "{quota:?}");
        let denied = ask(6, "b").expect_err("only four are left");
        assert_eq!(denied.index, 0, "{quota:?}");
        assert_eq!(
            (shared.peek().remaining(), by_key.peek("b").remaining(), by_key.peek("all").remaining()),
            (4, 10, 9),
            "{quota:?}"
        );
        let twice = check_all(&[by_key.request("a", 3), by_key.request("a", 3)]);
        assert_eq!(twice.expect_err("four are left, six are asked").index, 1, "{quota:?}");
        assert_eq!(by_key.peek("a").remaining(), 4, "{quota:?}");
    }
}

#[test]
fn a_new_quota_keeps_what_was_taken_and_a_new_algorithm_does_not() {
    let (limiter, clock) = direct(Quota::per_second(10));
    let (by_key, _) = keyed(Quota::per_second(10));
    let clone = limiter.clone();
    assert!(limiter.check_n(10).is_ok() && by_key.check_n("a", 10).is_ok());
    limiter.reconfigure(Quota::per_second(20)).expect("a quota");
    by_key.reconfigure(Quota::per_second(20)).expect("a quota");
    assert_eq!((clone.take_at_most(100), by_key.take_at_most("a", 100)), (10, 10), "twenty, ten taken");
    assert_eq!(clone.check().expect_err("used up").retry_after(), Some(ms(50)), "twenty a second");
    clock.advance(ms(50));
    assert!(clone.check().is_ok());
    limiter.reconfigure(Quota::per_second(5)).expect("a quota");
    assert_eq!(clone.check().expect_err("twenty of five taken").retry_after(), Some(ms(16_000 / 5)));
    limiter.reconfigure(Quota::fixed_window(3, SECOND)).expect("a quota");
    by_key.reconfigure(Quota::sliding_window(3, SECOND)).expect("a quota");
    assert_eq!((clone.take_at_most(100), by_key.take_at_most("a", 100)), (3, 3));
    let error = limiter.reconfigure(Quota::per_second(1).burst(0)).expect_err("a burst of nothing");
    assert_eq!(error, QuotaError::Empty("burst"));
    assert_eq!(limiter.peek().limit(), 3, "the quota before stays");
}

#[test]
fn a_key_keeps_of_a_changed_quota_what_the_caller_chooses() {
    // Seven of ten are taken.
    for (how, of_twenty, of_two) in [
        (Inherit::Taken, 13, 0),
        (Inherit::Reset, 20, 2),
        (Inherit::AsIs, 3, 2),
        (Inherit::Additive, 13, 2),
        (Inherit::Proportional, 6, 0),
    ] {
        for (limit, want) in [(20, of_twenty), (2, of_two)] {
            for quota in quotas() {
                let (limiter, _) = direct(quota.clone());
                let (by_key, _) = keyed(quota.clone());
                assert!(limiter.check_n(7).is_ok() && by_key.check_n("a", 7).is_ok());
                let new = resized(&quota, limit);
                limiter.reconfigure_as(new.clone(), how).expect("a quota");
                by_key.reconfigure_as(new, how).expect("a quota");
                let left = (limiter.peek().remaining(), by_key.peek("a").remaining());
                assert_eq!(left, (want, want), "{how:?} of {quota:?}, now {limit}");
                assert_eq!(by_key.peek("b").remaining(), limit, "never seen");
            }
        }
    }
}

#[test]
fn a_key_keeps_its_share_when_the_algorithm_changes_and_only_if_it_is_to() {
    for (old, new) in quotas().iter().flat_map(|old| quotas().into_iter().map(move |new| (old.clone(), new)))
    {
        let (limiter, _) = direct(old.clone());
        let (by_key, _) = keyed(old.clone());
        assert!(limiter.check_n(7).is_ok() && by_key.check_n("a", 7).is_ok());
        let new = resized(&new, 20);
        limiter.reconfigure_as(new.clone(), Inherit::AsIs).expect("a quota");
        by_key.reconfigure_as(new.clone(), Inherit::AsIs).expect("a quota");
        let left = (limiter.peek().remaining(), by_key.peek("a").remaining());
        assert_eq!(left, (3, 3), "{old:?} to {new:?}");
    }
}

#[test]
fn keys_that_nobody_asks_for_are_carried_over_up_to_four_changes() {
    let (by_key, clock) = keyed(Quota::per_hour(10));
    for key in ["a", "b"] {
        assert!(by_key.check_n(key, 10).is_ok());
    }
    for limit in [20, 40, 80, 160] {
        by_key.reconfigure_as(Quota::per_hour(limit), Inherit::Proportional).expect("a quota");
    }
    assert_eq!(by_key.peek("a").remaining(), 0, "all of it is still taken");
    clock.advance(Duration::from_secs(1_800));
    assert_eq!(by_key.peek("a").remaining(), 80);
    by_key.reconfigure_as(Quota::per_hour(10), Inherit::Proportional).expect("a quota");
    assert_eq!((by_key.peek("a").remaining(), by_key.peek("b").remaining()), (5, 10), "b is forgotten");
}

#[test]
fn what_a_slower_bucket_owes_is_owed_also_by_keys_that_nobody_asks_for() {
    let (by_key, clock) = keyed(Quota::per_second(10));
    let (limiter, direct_clock) = direct(Quota::per_second(10));
    assert!(by_key.check_n("a", 10).is_ok() && limiter.check_n(10).is_ok());
    by_key.reconfigure(Quota::per_hour(10)).expect("a quota");
    limiter.reconfigure(Quota::per_hour(10)).expect("a quota");
    for clock in [clock, direct_clock] {
        clock.advance(Duration::from_secs(1_800));
    }
    assert_eq!((by_key.peek("a").remaining(), limiter.peek().remaining()), (5, 5));
}

/// The same kind of quota with another limit in the same minute.
fn resized(quota: &Quota, limit: u64) -> Quota {
    let at = quotas().iter().position(|it| it == quota).expect("one of them");
    let minute = Duration::from_secs(60);
    let new = |algorithm| Quota::new(limit, Period::Span(minute), algorithm);
    match at {
        0 => Quota::per_minute(limit),
        1 => Quota::fixed_window(limit, minute),
        2 => Quota::sliding_window(limit, minute),
        3 => new(Algorithm::SlidingWindowCounter),
        4 => new(Algorithm::SlidingWindowLog { log_denied: false }),
        5 => {
            new(Algorithm::TokenBucket { burst: None, initial: None, overdraft: 0, refill: Refill::Interval })
        }
        6 => Quota::leaky_queue(limit, minute),
        _ => Quota::total(limit),
    }
}

proptest! {
    /// For a bucket, with the parts of permits that have come back; with and without keys alike, however late
    /// the key is asked for.
    #[test]
    fn what_is_left_after_a_change_is_never_more_and_never_a_permit_less(
        (old_limit, limit) in (1_u64..1_000, 1_u64..1_000),
        (taken, owed) in (0_u64..1_000, 0_u64..100),
        passes_ms in 0_u64..2_000,
        later_ms in 0_u64..2_000,
        how in prop::sample::select(vec![
            Inherit::Taken, Inherit::AsIs, Inherit::Additive, Inherit::Proportional
        ]),
    ) {
        let quota = |limit| Quota::token_bucket(limit, ms(1_000));
        let (limiter, clock) = direct(quota(old_limit));
        let (by_key, key_clock) = keyed(quota(old_limit));
        let taken = limiter.take_at_most(taken.max(1));
        prop_assert_eq!(by_key.take_at_most("a", taken), taken);
        limiter.penalise(owed);
        by_key.penalise("a", owed);
        let advance = |span_ms| { clock.advance(ms(span_ms)); key_clock.advance(ms(span_ms)); };
        advance(passes_ms);

        // In thousandths of a permit, below zero where something is owed.
        let full = |limit: u64| i128::from(limit) * 1_000;
        let missing = i128::from(taken + owed) * 1_000 - i128::from(old_limit * passes_ms);
        let left = full(old_limit) - missing.max(0);
        let grows = full(limit) - full(old_limit);
        let want = match how {
            Inherit::Taken => left + grows,
            Inherit::AsIs => left.min(full(limit)),
            Inherit::Additive => (left + grows.max(0)).min(full(limit)),
            _ => (left * i128::from(limit)).div_euclid(i128::from(old_limit)),
        };
        limiter.reconfigure_as(quota(limit), how).expect("a quota");
        by_key.reconfigure_as(quota(limit), how).expect("a quota");
        advance(later_ms);
        let later = (want + i128::from(limit * later_ms)).min(full(limit)).max(0);
        let is_full = missing <= 0; // a key that is full is as one never seen
        let seen = limiter.peek().remaining();
        // A unit of time is rounded up, which may hide a permit that is there to the nanosecond.
        let least = (later - 1).max(0) / 1_000;
        prop_assert!((least..=later / 1_000).contains(&i128::from(seen)), "{seen} of {later}/1000");
        let by_key = by_key.peek("a").remaining();
        prop_assert_eq!(by_key, if is_full { limit } else { seen });
    }
}

#[test]
fn a_snapshot_brings_back_what_was_counted_less_what_came_back() {
    for quota in quotas() {
        let (limiter, clock) = direct(quota.clone());
        let (by_key, _) = keyed(quota.clone());
        let fresh = by_key.snapshot("a");
        limiter.reconfigure(quota.clone()).expect("a quota");
        assert_eq!(limiter.take_at_most(6), 6);
        let six = limiter.snapshot();
        by_key.restore("a", &six).expect("the same quota");
        assert_eq!(by_key.peek("a").remaining(), 4, "{quota:?}");
        assert_eq!(limiter.take_at_most(4), 4);
        limiter.restore(&six).expect("the same quota");
        assert_eq!(limiter.peek(), by_key.peek("a"), "{quota:?}");
        by_key.restore("a", &fresh).expect("the same quota");
        assert_eq!(by_key.peek("a").remaining(), 10, "{quota:?}");
        clock.advance(Duration::from_secs(121));
        limiter.restore(&six).expect("the same quota");
        let want = if quota == Quota::total(10) { 4 } else { 10 };
        assert_eq!(limiter.peek().remaining(), want, "{quota:?}");
    }
    let (limiter, _) = direct(Quota::per_second(10));
    let (other, _) = direct(Quota::per_second(20));
    let error = other.restore(&limiter.snapshot()).expect_err("another quota");
    assert!(matches!(&error, RestoreError::OtherQuota { .. }));
    assert_eq!(
        error.to_string(),
        "the snapshot is of another quota, 10 per 1s, token_bucket, burst 10; this limiter has 20 per 1s, \
         token_bucket, burst 20"
    );
}

#[test]
fn a_quota_with_a_setting_that_its_algorithm_lacks_makes_no_limiter() {
    let errors = [
        (Quota::per_second(1).burst(0), "burst 0 admits nothing; the smallest is 1"),
        (
            Quota::sliding_window(5, SECOND).burst(10).initial(3),
            "sliding_window does not work with a burst; its limit is the most at once",
        ),
        (
            Quota::fixed_window(5, SECOND).initial(1),
            "fixed_window does not work with an initial fill; token_bucket does",
        ),
        (Quota::token_bucket(1, Duration::ZERO), "a period of zero has no rate; the shortest is 1 ns"),
        (Quota::per_second(5).initial(6), "initial 6 is above the burst of 5"),
    ];
    for (quota, want) in errors {
        let direct = RateLimiter::direct(quota.clone()).map(|_| ()).expect_err(want);
        let keyed = RateLimiter::keyed::<str>(quota).map(|_| ()).expect_err(want);
        assert_eq!((direct.to_string(), keyed.to_string()), (want.to_owned(), want.to_owned()));
    }
}

#[test]
fn a_text_is_the_quota_that_the_builder_writes() {
    for (text, want) in [
        ("100/s", Quota::per_second(100)),
        ("5/minute burst 20", Quota::per_minute(5).burst(20)),
        ("2 / hours", Quota::per_hour(2)),
        ("1_000/day", Quota::per_day(1_000)),
        ("300/3h", Quota::token_bucket(300, Duration::from_secs(10_800))),
    ] {
        assert_eq!(text.parse(), Ok(want), "{text}");
    }
    let error = |text: &str| text.parse::<Quota>().expect_err("no quota");
    assert_eq!(
        error("fast").to_string(),
        "invalid rate \"fast\": expected something like 100/s, 5/minute burst 20 or 300/3h"
    );
    assert_eq!(error("10r/s").to_string(), "invalid rate \"10r/s\": write 10/s");
    let large = error("99999999999999999/s");
    assert!(
        matches!(&large, ParseQuotaError::OutOfBounds { source: QuotaError::LargeLimit(_), .. }),
        "{large}"
    );
    assert_eq!(large.to_string(), "invalid rate \"99999999999999999/s\"", "its source says the bound");
}

#[test]
fn threads_share_the_permits_and_no_more() {
    for quota in quotas() {
        let (limiter, _) = direct(quota.clone());
        let (by_key, _) = keyed(quota.clone());
        let admitted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let both = [limiter.request(1), by_key.request("a", 1)];
                        let direct = u64::from(limiter.check().is_ok()) + limiter.take_at_most(1);
                        let keyed = u64::from(by_key.check("a").is_ok());
                        let together = 2 * u64::from(check_all(&both).is_ok());
                        admitted.fetch_add(direct + keyed + together, Ordering::Relaxed);
                    }
                });
            }
        });
        let admitted = admitted.into_inner();
        // A fixed window also counts what it denies, so a permit that is given back meanwhile is lost.
        let is_right = if quota == quotas()[1] { (10..=20).contains(&admitted) } else { admitted == 20 };
        assert!(is_right, "{admitted} by {quota:?}");
    }
}

/// The calls of both kinds of limiters: `on!(limiter, check_n(5))`, of the key `"ann"` where there are keys.
macro_rules! on {
    ($limiter:expr, $name:ident($($argument:expr),*)) => {
        match $limiter {
            (Some(limiter), _) => limiter.$name($($argument),*),
            (None, limiter) => limiter.$name("ann", $($argument),*),
        }
    };
}

/// The time stands, so a permit comes back only where a caller gives it back. Costs differ, and the rate and
/// the burst change while permits are taken. Of keys, calls in flight at a change may be lost, and
/// after four changes a key that was not asked for counts as never seen.
#[test]
fn threads_share_the_permits_while_the_quota_changes_and_permits_come_back() {
    const BURST: u64 = 1_000;
    const CHANGES: u64 = 60;
    const IN_FLIGHT: u64 = 3 * 9;
    for (seed, has_keys) in (0..20).flat_map(|seed| [(seed, false), (seed, true)]) {
        let quota = Quota::per_hour(700).burst(BURST);
        let by_key = keyed(quota.clone()).0;
        let one = direct(quota).0;
        let limiter = ((!has_keys).then_some(&one), &by_key);
        let (changes, most) = if has_keys { (3, BURST + IN_FLIGHT) } else { (CHANGES, BURST) };
        let held = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..3_u64 {
                let held = &held;
                scope.spawn(move || {
                    let mut random = (seed * 3 + thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    let mut own = 0;
                    for _ in 0..2_000 {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let n = (random >> 33) % 9 + 1;
                        if (random >> 60) < 6 && own >= n {
                            // Before the permits are back, so that nobody can have them twice.
                            held.fetch_sub(n, Ordering::SeqCst);
                            own -= n;
                            on!(limiter, give_back(n));
                            continue;
                        }
                        let taken = match random >> 63 {
                            0 => on!(limiter, take_at_most(n)),
                            _ => n * u64::from(on!(limiter, check_n(n)).is_ok()),
                        };
                        own += taken;
                        let all = held.fetch_add(taken, Ordering::SeqCst) + taken;
                        assert!(all <= most, "{all} at once, keys: {has_keys}");
                    }
                });
            }
            scope.spawn(|| {
                for change in 0..changes {
                    let quota = if change % 2 == 0 { Quota::per_day(1_300) } else { Quota::per_hour(700) };
                    let quota = quota.burst(BURST);
                    if has_keys { by_key.reconfigure(quota) } else { one.reconfigure(quota) }
                        .expect("a quota");
                }
            });
        });
        let rest = (0..=BURST).take_while(|_| on!(limiter, check_n(1)).is_ok()).count() as u64;
        let all = held.into_inner() + rest;
        let is_right = (BURST - changes..=most).contains(&all);
        assert!(is_right, "seed {seed}: {all} of {BURST}, keys: {has_keys}");
    }
}

#[test]
fn keys_are_bounded_and_the_bound_shows() {
    let clock = ManualClock::at(NOON);
    let limiter =
        KeyedRateLimiter::<u64, _>::with_memory(Quota::per_hour(10), clock, 64 << 10).expect("a quota");
    for key in 0..50_000 {
        assert!(limiter.check(&key).is_ok());
    }
    let memory = limiter.memory();
    assert!(memory.tracked_keys < 20_000 && memory.evictions > 30_000, "{memory:?}");
    assert!(memory.bytes <= memory.max_bytes.max(1 << 20), "{memory:?}");
}

#[test]
fn the_default_clock_makes_permits_come_back() {
    let limiter = RateLimiter::direct(Quota::per_second(1_000_000)).expect("a quota");
    let begin = limiter.now();
    let taken: u64 = (0..100_000).map(|_| limiter.take_at_most(100)).sum();
    let passed = limiter.now().since(begin);
    let most = 1_000_000 + passed.as_micros() as u64 + 1;
    assert!(taken <= most, "{taken} in {passed:?}");
}
