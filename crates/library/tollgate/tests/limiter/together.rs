//! Several limits at once: which denial is returned, and what its wait is good for.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{DeniedBy, KeyedRateLimiter, ManualClock, Quota, RateLimiter, check_all};

use super::{NOON, ms, quotas};

#[test]
fn of_several_limits_that_deny_the_one_with_the_longest_wait_is_returned_wherever_it_is() {
    let second = Quota::per_second(1);
    let minute = Quota::per_minute(1);
    for (limits, index) in [
        (vec![second.clone(), minute.clone()], 1),
        (vec![minute.clone(), second.clone()], 0),
        (vec![second.clone(), Quota::fixed_window(1, Duration::from_secs(7_200)), minute.clone()], 1),
        (vec![minute, Quota::total(1), second], 1), // never again
    ] {
        let clock = ManualClock::at(NOON);
        let limiters: Vec<_> = limits
            .iter()
            .map(|quota| RateLimiter::direct_with_clock(quota.clone(), clock.clone()).expect("a quota"))
            .collect();
        let ask = || check_all(&limiters.iter().map(|limiter| limiter.request(1)).collect::<Vec<_>>());
        assert_eq!(ask(), Ok(()));
        let denied = ask().expect_err("all are used up");
        assert_eq!(denied.index, index, "{limits:?}");
        match denied.denied.retry_after() {
            Some(wait) => {
                clock.advance(wait);
                assert_eq!(ask(), Ok(()), "{limits:?}");
            }
            None => assert_eq!(limits[index], Quota::total(1)),
        }
    }
}

#[test]
fn requests_of_one_key_wait_for_their_sum() {
    let clock = ManualClock::at(NOON);
    let limiter: KeyedRateLimiter<str, _> =
        KeyedRateLimiter::with_clock(Quota::per_second(10), clock.clone()).expect("a quota");
    let ask = |first, then| {
        let other = limiter.request("b", 1);
        check_all(&[limiter.request("a", first), other, limiter.request("a", then)])
    };
    assert_eq!(ask(6, 4), Ok(()));
    let denied = ask(2, 3).expect_err("none is left");
    assert_eq!((denied.index, denied.denied.retry_after()), (0, Some(ms(500))));
    clock.advance(ms(300));
    let denied = ask(2, 3).expect_err("three of five are there");
    assert_eq!((denied.index, denied.denied.retry_after()), (2, Some(ms(200))));
    clock.advance(ms(200));
    assert_eq!(ask(2, 3), Ok(()));
    assert_eq!(ask(6, 5).expect_err("more than fit").denied.retry_after(), None);
}

/// A limit, what has been taken of it, and what is wanted of it.
#[derive(Clone, Debug)]
struct Wanted {
    quota: Quota,
    /// Each this number of ms after the one before.
    taken: Vec<(u64, u64)>,
    wanted: Vec<u64>,
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let all: Vec<_> = quotas()
        .into_iter()
        .chain([
            Quota::per_second(7).burst(3),
            Quota::per_minute(11).initial(0),
            Quota::per_hour(1_000),
            Quota::fixed_window(5, Duration::from_secs(7)),
            Quota::sliding_window(4, Duration::from_secs(3_600)),
        ])
        .collect();
    let taken = prop::collection::vec((0..30_000_u64, 1..5_u64), 0..8);
    (prop::sample::select(all), taken, prop::collection::vec(1..5_u64, 1..3))
        .prop_map(|(quota, taken, wanted)| Wanted { quota, taken, wanted })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_retry_of_several_limits_after_exactly_the_wait_passes_and_a_nanosecond_less_does_not(
        limits in prop::collection::vec(wanted(), 1..5),
    ) {
        let clock = ManualClock::at(NOON);
        let limiters: Vec<_> = limits
            .iter()
            .map(|it| RateLimiter::direct_with_clock(it.quota.clone(), clock.clone()).expect("a quota"))
            .collect();
        let most = limits.iter().map(|it| it.taken.len()).max().unwrap_or(0);
        for nth in 0..most {
            for (limiter, limit) in limiters.iter().zip(&limits) {
                if let Some((after_ms, n)) = limit.taken.get(nth) {
                    clock.advance(ms(*after_ms));
                    let _denied = limiter.check_n(*n);
                }
            }
        }
        let ask = || {
            let all = limiters.iter().zip(&limits);
            let requests = all.flat_map(|(limiter, limit)| limit.wanted.iter().map(|n| limiter.request(*n)));
            check_all(&requests.collect::<Vec<_>>())
        };
        let never = |denied: &DeniedBy| denied.denied.retry_after().is_none();
        match ask() {
            Ok(()) => {}
            Err(denied) if never(&denied) => {
                clock.advance(Duration::from_secs(100 * 86_400));
                prop_assert!(ask().as_ref().is_err_and(never), "{denied:?}");
            }
            Err(denied) => {
                let wait = denied.denied.retry_after().unwrap_or_default();
                prop_assert!(!wait.is_zero());
                clock.advance(wait - Duration::from_nanos(1));
                let early = ask();
                prop_assert!(early.is_err(), "{wait:?} is too long: {denied:?}");
                clock.advance(Duration::from_nanos(1));
                prop_assert_eq!(ask(), Ok(()), "{:?} is not enough", wait);
            }
        }
    }
}
