//! Payment afterwards: every permit is counted, and nothing is admitted while any is owed.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{Algorithm, Cost, Expiry, MAX_COUNT, Period, Quota, Refill, RetryAfter, State};

use crate::any::{self, Plain};
use crate::oracle::{Oracle, Paid};

/// An event at one instant.
#[derive(Clone, Copy, Debug)]
enum What {
    Take,
    Pay,
    Charge,
    Check,
}

fn what() -> impl Strategy<Value = What> {
    prop_oneof![3 => Just(What::Take), 3 => Just(What::Pay), 2 => Just(What::Charge), 2 => Just(What::Check)]
}

/// Quotas that have nothing but their limits: an overdraft would admit permits that are not available.
fn without_overdraft() -> impl Strategy<Value = Plain> {
    any::any_bounded().prop_map(|mut plain| {
        if let Algorithm::TokenBucket { overdraft, .. } = &mut plain.algorithm {
            *overdraft = 0;
        }
        plain
    })
}

/// Numbers of any size, with a liking for the edges.
fn edgy() -> impl Strategy<Value = u64> {
    prop_oneof![
        1_u64..100,
        (0_u32..64, 0_u64..4).prop_map(|(shift, off)| (1_u64 << shift).saturating_sub(off).max(1)),
        1_u64..=MAX_COUNT,
        Just(86_399),
        Just(50_001),
        Just(1_234_567),
        Just(25_000_001),
    ]
}

/// Any quota of any rate, that starts full.
fn of_any_rate() -> impl Strategy<Value = Quota> {
    let algorithm = prop_oneof![
        edgy().prop_map(|burst| bucket(Some(burst), Refill::Continuous)),
        Just(bucket(None, Refill::Continuous)),
        edgy().prop_map(|burst| bucket(Some(burst), Refill::Interval)),
        Just(Algorithm::LeakyBucket { capacity: None, form: tollgate_core::LeakyForm::Meter }),
        Just(Algorithm::LeakyBucket {
            capacity: None,
            form: tollgate_core::LeakyForm::Queue { delay_after: 3 }
        }),
        Just(Algorithm::FixedWindow { align: tollgate_core::Align::Calendar }),
        Just(Algorithm::FixedWindow { align: tollgate_core::Align::FirstHit }),
        Just(Algorithm::sliding_window(10)),
        Just(Algorithm::SlidingWindow { cells: 10, leaving: tollgate_core::LeavingCell::Drops }),
        Just(Algorithm::SlidingWindowCounter),
        Just(Algorithm::SlidingWindowLog { log_denied: false }),
        Just(Algorithm::Total),
        Just(Algorithm::PriorityBuckets { burst: None, weights: [3, 1].into(), class: 0 }),
    ];
    let seconds =
        prop_oneof![Just(1_u64), Just(60), Just(3_600), Just(86_400), Just(2_592_000), 1_u64..31_536_000];
    (edgy(), seconds, algorithm).prop_filter_map("no quota", |(limit, seconds, algorithm)| {
        Quota::new(limit, Period::Span(Duration::from_secs(seconds)), algorithm).ok()
    })
}

const fn bucket(burst: Option<u64>, refill: Refill) -> Algorithm {
    Algorithm::TokenBucket { burst, initial: None, overdraft: 0, refill }
}

/// The most that `quota` may owe at `now`.
fn most_owed(quota: &Quota, now: u64) -> u64 {
    let full = quota.burst();
    let limit = quota.limit();
    let Period::Span(span) = quota.period() else { return 0 };
    let until_latest = Expiry::LATEST.as_nanos() - now;
    let by_time = u128::from(until_latest) * u128::from(limit) / span.as_nanos();
    let by_time = u64::try_from(by_time).unwrap_or(u64::MAX);
    match quota.algorithm() {
        // A rate that cannot be expressed exactly is slower by less than a millionth.
        Algorithm::TokenBucket { refill: Refill::Continuous, .. } | Algorithm::LeakyBucket { .. } => {
            (by_time - by_time / 1_000_000).min(MAX_COUNT).saturating_sub(full)
        }
        Algorithm::SlidingWindow { .. } | Algorithm::SlidingWindowLog { .. } => MAX_COUNT / 4 - full,
        _ => MAX_COUNT - full,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn paying_taking_and_checking_are_as_the_exact_model_has_them(
        plain in without_overdraft(), visits in any::visits(40), whats in prop::collection::vec(what(), 80),
        start in any::start(),
    ) {
        let quota = plain.quota();
        let mut oracle = Oracle::new(&plain);
        let mut state = quota.fresh();
        // The oldest entries of a log join the next one, so that a debt may stay for longer. Those of denied
        // takes are cut too.
        let is_log = matches!(plain.algorithm, Algorithm::SlidingWindowLog { .. });
        let is_cut = matches!(plain.algorithm, Algorithm::SlidingWindowLog { log_denied: true });
        for ((now, cost), what) in any::times(&plain, &visits, start).into_iter().zip(whats) {
            let at = any::at(now);
            let (decision, want) = match what {
                What::Take => {
                    let decision = quota.take(&mut state, Cost(cost), at);
                    let want = oracle.take(now, cost);
                    (decision, Paid { admitted: want.admitted, remaining: want.remaining, owed: 0 })
                }
                What::Pay => (quota.pay(&mut state, Cost(cost), at), oracle.pay(now, cost)),
                What::Charge => {
                    let want = oracle.pay(now, cost);
                    (quota.charge(&mut state, Cost(cost), at), Paid { admitted: true, ..want })
                }
                What::Check => (quota.pay(&mut state, Cost::PEEK, at), oracle.pay(now, 0)),
            };
            prop_assert_eq!(decision.is_admitted(), want.admitted, "{:?} of {} at {}: {:?}", what, cost, now, decision);
            if !is_cut {
                prop_assert_eq!(decision.remaining(), want.remaining, "{:?} of {} at {}: {:?}", what, cost, now, decision);
            }
            if is_log {
                prop_assert!(is_cut || decision.owed() >= want.owed || matches!(what, What::Take));
            } else {
                prop_assert_eq!(decision.owed(), want.owed, "{:?} of {} at {}: {:?}", what, cost, now, decision);
            }
        }
    }

    #[test]
    fn what_is_charged_is_owed_exactly_at_every_rate(quota in of_any_rate(), parts in prop::collection::vec(0.0..1.0_f64, 1..6)) {
        let mut state = quota.fresh();
        let full = quota.burst();
        let most = most_owed(&quota, any::NOON);
        let mut charged = 0_u128;
        for part in parts {
            let cost = ((most as f64 * part) as u64).min(most.saturating_sub((charged.saturating_sub(full.into())) as u64));
            let decision = quota.charge(&mut state, Cost(cost), any::at(any::NOON));
            charged += u128::from(cost);
            let left = u128::from(full).saturating_sub(charged);
            let owed = charged.saturating_sub(full.into());
            prop_assert_eq!((u128::from(decision.remaining()), u128::from(decision.owed())), (left, owed), "{:?}", decision);
        }
    }

    /// Costs of 2^64 - 1, twice, then any others.
    #[test]
    fn charges_saturate_and_never_wrap(quota in of_any_rate(), costs in prop::collection::vec(prop_oneof![Just(u64::MAX), edgy()], 1..8)) {
        let mut state = quota.fresh();
        let mut owed = 0;
        for cost in [u64::MAX, u64::MAX].into_iter().chain(costs) {
            let decision = quota.charge(&mut state, Cost(cost), any::at(any::NOON));
            prop_assert!(decision.is_admitted() && decision.remaining() == 0);
            prop_assert!(decision.owed() >= owed && decision.owed() <= MAX_COUNT, "{:?} after {}", decision, owed);
            prop_assert!(decision.owed() >= most_owed(&quota, any::NOON), "{:?}", decision);
            owed = decision.owed();
            let check = quota.pay(&mut state, Cost::PEEK, any::at(any::NOON));
            prop_assert!(!check.is_admitted() && check.owed() == owed);
        }
    }

    /// A denied check names the instant at which a permit is left.
    #[test]
    fn a_check_passes_once_its_wait_is_over_and_not_a_nanosecond_before(
        plain in any::any_quota(), visits in any::visits(30), start in any::start(), back in 0.0..3.0,
    ) {
        let quota = plain.quota();
        let mut state = quota.fresh();
        for (now, cost) in any::times(&plain, &visits, start) {
            let back = now.saturating_sub((back * plain.period_ns as f64) as u64);
            for (mut state, at) in [(state.clone(), now), (state.clone(), back)] {
                for cost in [0, cost] {
                    let decision = quota.pay(&mut state, Cost(cost), any::at(at));
                    prop_assert_eq!(decision.remaining() == 0, decision.left_after() != RetryAfter::Now);
                    prop_assert!(decision.is_admitted() || decision.left_after() == decision.retry_after());
                    let passes = |ns: u64| quota.pay(&mut state.clone(), Cost::PEEK, any::at(ns)).is_admitted();
                    if let RetryAfter::After(wait) = decision.left_after() {
                        let retry = (any::at(at) + wait).as_nanos();
                        prop_assert!(passes(retry) && !passes(retry - 1), "{:?} at {}", decision, at);
                    }
                }
            }
            let _ = quota.pay(&mut state, Cost(cost), any::at(now));
        }
    }

    #[test]
    fn a_check_changes_nothing(plain in any::any_quota(), visits in any::visits(30), start in any::start()) {
        let quota = plain.quota();
        let mut checked = quota.fresh();
        let mut plainly = quota.fresh();
        for (now, cost) in any::times(&plain, &visits, start) {
            for _ in 0..2 {
                let check = quota.pay(&mut checked, Cost::PEEK, any::at(now));
                prop_assert_eq!(check.is_admitted(), check.remaining() > 0);
            }
            let ours = quota.pay(&mut checked, Cost(cost), any::at(now));
            prop_assert_eq!(ours, quota.pay(&mut plainly, Cost(cost), any::at(now)));
        }
    }

    /// Requests may report their costs in any parts and order, between checks and denied takes: all is
    /// counted.
    #[test]
    fn no_order_of_checks_and_charges_loses_any(
        plain in without_overdraft(), costs in prop::collection::vec(0_u64..1_000, 1..20), start in any::start(),
    ) {
        let quota = plain.quota();
        let mut parts = quota.fresh();
        let mut whole = quota.fresh();
        for cost in &costs {
            let _ = quota.pay(&mut parts, Cost::PEEK, any::at(start));
            let _ = quota.pay(&mut parts, Cost(*cost), any::at(start));
            let _ = quota.take(&mut parts, Cost::PEEK, any::at(start));
        }
        let sum = Cost(costs.iter().sum());
        let _ = quota.pay(&mut whole, sum, any::at(start));
        let ends = quota.charge(&mut whole, Cost::PEEK, any::at(start));
        prop_assert_eq!(quota.charge(&mut parts, Cost::PEEK, any::at(start)), ends);
    }

    /// Also where the clock steps back between them, by any span.
    #[test]
    fn a_step_back_of_the_clock_loses_no_charge(
        plain in without_overdraft(), visits in any::visits(20), step in 0.0..3_000.0,
    ) {
        let quota = plain.quota();
        let mut state = quota.fresh();
        for (now, cost) in any::times(&plain, &visits, any::NOON) {
            let back = now.saturating_sub((step * plain.period_ns as f64) as u64);
            let mut stepped = state.clone();
            let before = quota.charge(&mut stepped, Cost::PEEK, any::at(back));
            let after = quota.charge(&mut stepped, Cost(cost), any::at(back));
            let missing = |it: &tollgate_core::Decision| plain.burst() - it.remaining() + it.owed();
            prop_assert_eq!(missing(&after), missing(&before) + cost, "{:?}, {:?}", before, after);
            let _ = quota.charge(&mut state, Cost(cost), any::at(now));
        }
    }

    /// Permits charged at one rate are owed, in permits, at the next.
    #[test]
    fn a_change_of_rate_keeps_what_is_owed(
        first in prop_oneof![any::token_bucket(), any::leaky(false)], limit in 1_u64..1_000, burst in 1_u64..1_000,
        charged in 0_u64..1 << 44,
    ) {
        let then = Period::Span(Duration::from_nanos(first.period_ns.max(1_000)));
        let algorithm = bucket(Some(burst), Refill::Continuous);
        let (Ok(old), Ok(new)) = (Quota::new(first.limit, then.clone(), algorithm.clone()), Quota::new(limit, then, algorithm)) else {
            return Ok(());
        };
        // Both may owe five more, which are charged at the end.
        let most = most_owed(&old, any::NOON).min(most_owed(&new, any::NOON)).saturating_sub(5);
        let now = any::at(any::NOON);
        let charged = charged.min(most);
        let new = new.migrated_from(&old, now);
        let mut state = old.fresh();
        let owed = old.charge(&mut state, Cost(charged), now).owed();
        prop_assert_eq!(new.charge(&mut state.clone(), Cost::PEEK, now).owed(), owed);
        let more = new.charge(&mut state, Cost(5), now);
        prop_assert_eq!(burst - more.remaining() + more.owed(), charged + 5, "{:?}", more);
    }

    /// Buckets of up to 2^53 permits, whose rates are exact.
    #[test]
    fn a_bucket_of_any_size_decides_as_the_exact_model(
        parts in (1_u64..1_000, 1_u64..1_000_000), shift in 20_u32..50, whole in edgy(), visits in any::visits(20),
        costs in prop::collection::vec(0.0..1.2_f64, 80), start in any::start(),
    ) {
        let limit = parts.0 << shift;
        let period_ns = u128::from(parts.1) << shift;
        prop_assume!(limit <= Quota::LARGEST_LIMIT && period_ns <= Quota::LONGEST_PERIOD.as_nanos());
        let period_ns = period_ns as u64;
        let plain = Plain { limit, period_ns, algorithm: bucket(Some(whole), Refill::Continuous) };
        let Ok(quota) = Quota::new(limit, Period::Span(Duration::from_nanos(period_ns)), plain.algorithm.clone()) else {
            return Ok(());
        };
        let mut oracle = Oracle::new(&plain);
        let mut state = quota.fresh();
        for ((now, _), part) in any::times(&plain, &visits, start).into_iter().zip(costs) {
            let fill_ns = u128::from(whole) * u128::from(period_ns) / u128::from(limit);
            prop_assume!(u128::from(now) + fill_ns < u128::from(Expiry::LATEST.as_nanos()));
            let cost = (whole as f64 * part) as u64;
            let now_at = any::at(now);
            let decision = quota.take(&mut state, Cost(cost), now_at);
            let want = oracle.take(now, cost);
            prop_assert_eq!((decision.is_admitted(), decision.remaining()), (want.admitted, want.remaining), "{} at {}", cost, now);
            if let RetryAfter::After(wait) = decision.retry_after() {
                let retry = now_at + wait;
                prop_assert!(quota.take(&mut state.clone(), Cost(cost), retry).is_admitted());
                prop_assert!(!quota.take(&mut state.clone(), Cost(cost), any::at(retry.as_nanos() - 1)).is_admitted());
            }
        }
    }

    /// Windows and totals of up to 2^53 permits.
    #[test]
    fn a_window_of_any_size_decides_as_the_exact_model(
        mut plain in prop_oneof![
            any::fixed_window(tollgate_core::Align::Calendar), any::fixed_window(tollgate_core::Align::FirstHit),
            any::sliding_window_counter(), any::sliding_window(), any::total(), any::interval_bucket(),
        ],
        limit in edgy(), visits in any::visits(20), costs in prop::collection::vec(0.0..1.2_f64, 80), pays in prop::collection::vec(any::<bool>(), 80),
        start in any::start(),
    ) {
        let is_sliding = matches!(plain.algorithm, Algorithm::SlidingWindow { .. });
        plain.limit = limit.min(if is_sliding { 1 << 50 } else { Quota::LARGEST_LIMIT });
        if let Algorithm::TokenBucket { burst, initial, overdraft, .. } = &mut plain.algorithm {
            (*burst, *initial, *overdraft) = (None, None, 0);
        }
        if matches!(plain.algorithm, Algorithm::FixedWindow { .. }) {
            // A window with a great count ends at a whole 20 ms.
            plain.period_ns = plain.period_ns.div_ceil(20_000_000) * 20_000_000;
        }
        let quota = plain.quota();
        let mut oracle = Oracle::new(&plain);
        let mut state = quota.fresh();
        let mut counted = 0_u64;
        for (((now, _), part), pays) in any::times(&plain, &visits, start / 20_000_000 * 20_000_000).into_iter().zip(costs).zip(pays) {
            let now = now / 20_000_000 * 20_000_000;
            let cost = (plain.limit as f64 * part) as u64;
            counted = counted.saturating_add(cost);
            let is_small = plain.limit < 1 << 34 && matches!(plain.algorithm, Algorithm::FixedWindow { .. });
            if counted > if is_small { (1 << 34) - 2 } else { MAX_COUNT / 4 } {
                break; // a window need not count more
            }
            if pays {
                let decision = quota.pay(&mut state, Cost(cost), any::at(now));
                let got = Paid { admitted: decision.is_admitted(), remaining: decision.remaining(), owed: decision.owed() };
                prop_assert_eq!(got, oracle.pay(now, cost), "{} at {}", cost, now);
            } else {
                let decision = quota.take(&mut state, Cost(cost), any::at(now));
                let want = oracle.take(now, cost);
                prop_assert_eq!((decision.is_admitted(), decision.remaining()), (want.admitted, want.remaining), "{} at {}", cost, now);
            }
        }
    }
}

/// One charge of three times the limit, at rates that share few factors with their period.
#[test]
fn a_charge_of_three_limits_is_owed_for_three_periods() {
    let day = Duration::from_secs(86_400);
    for (limit, span) in [
        (86_399, day),
        (86_400, day),
        (50_001, day),
        (1_001, 30 * day),
        (1_234_567, Duration::from_secs(3_600)),
        (25_000_001, Duration::from_secs(60)),
        (99_999_999, Duration::from_secs(1)),
    ] {
        let quota = Quota::token_bucket(limit, span).expect("a quota");
        for times in [3, 30, 300] {
            let mut state = quota.fresh();
            let charged = quota.charge(&mut state, Cost(times * limit), any::at(any::NOON));
            let got = charged.reset_after();
            let want = span * u32::try_from(times).expect("few");
            assert!(
                got >= want && got - want <= want / 1_000_000,
                "{limit} per {span:?}, {times} times: {got:?}"
            );
            assert_eq!(charged.owed(), (times - 1) * limit);
        }
    }
}

/// A log is as short as ever, however often it is charged.
#[test]
fn charges_above_the_limit_of_a_log_keep_few_entries() {
    let algorithm = Algorithm::SlidingWindowLog { log_denied: false };
    let quota = Quota::new(5, Period::Span(Duration::from_secs(60)), algorithm).expect("a log");
    let mut state = quota.fresh();
    for ms in 0..10_000 {
        let charged = quota.charge(&mut state, Cost(3), any::at(any::NOON + ms * 1_000_000));
        assert_eq!(charged.owed(), (3 * (ms + 1)).saturating_sub(5));
        let State::Wide(wide) = &state else { panic!("a wide state") };
        assert!(wide.cells.len() < 40, "{} cells", wide.cells.len());
    }
}
