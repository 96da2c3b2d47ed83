//! Slots and learned limits that are split over classes: no class is denied within its part, and none borrows
//! more than is idle.

use proptest::prelude::*;
use tollgate::adaptive::{Aimd, Window};
use tollgate::{AdaptiveLimiter, ConcurrencyLimiter, ManualClock};

use super::ms;

#[test]
fn a_class_has_its_part_whatever_the_others_do_and_borrows_what_is_idle() {
    let limiter = ConcurrencyLimiter::partitioned(10, &[3, 7]).expect("weights");
    let batch = 0;
    let live = 1;
    assert_eq!((limiter.limit_of(batch), limiter.limit_of(live)), (3, 7));
    let mut calls: Vec<_> = (0..20).map_while(|_| limiter.try_enter(batch).ok()).collect();
    assert_eq!(calls.len(), 10);
    let denied = limiter.try_enter(batch).expect_err("all are in use");
    assert_eq!((denied.in_use, denied.limit), (10, 3));
    let lives: Vec<_> = (0..20).map_while(|_| limiter.try_enter(live).ok()).collect();
    assert_eq!((lives.len(), limiter.in_use(), limiter.limit()), (7, 17, 10));
    // Of ten too many seven must go before anybody borrows again; its own slots batch has at once.
    calls.truncate(3);
    assert!(limiter.try_enter(batch).is_err(), "ten are in use");
    calls.truncate(2);
    let third = limiter.try_enter(batch).expect("the third of its own");
    assert!(limiter.try_enter(batch).is_err());
    drop(lives);
    assert!(limiter.try_enter(batch).is_ok());
    drop((third, calls));
    assert_eq!((limiter.in_use(), limiter.in_use_of(batch), limiter.in_use_of(live)), (0, 0, 0));
    limiter.set_limit(20);
    assert_eq!((limiter.limit_of(batch), limiter.limit_of(live)), (6, 14));
}

#[test]
fn weights_that_split_nothing_are_errors_and_a_class_that_is_not_there_gets_nothing() {
    let made = |weights: &[u64]| ConcurrencyLimiter::partitioned(10, weights);
    for weights in [&[][..], &[0, 0], &[1; 65]] {
        let error = made(weights).expect_err("weights").to_string();
        assert!(error.contains("expected 1 to 64 weights, and one above 0"), "{error}");
    }
    let limiter = made(&[u64::MAX, u64::MAX, 0]).expect("weights");
    assert_eq!((limiter.limit_of(0), limiter.limit_of(2), limiter.limit_of(3)), (5, 0, 0));
    assert!(limiter.try_enter(2).is_ok(), "an idle one");
    assert!(limiter.try_enter(3).is_err());
    assert!(ConcurrencyLimiter::partitioned(0, &[1]).expect("weights").try_enter(0).is_err());
}

#[test]
fn a_slot_comes_back_when_code_panics_and_its_class_has_one_fewer() {
    let limiter = ConcurrencyLimiter::partitioned(2, &[1, 1]).expect("weights");
    let within = limiter.clone();
    let panicked = std::thread::spawn(move || {
        let _slot = within.try_enter(0);
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    assert_eq!((limiter.in_use(), limiter.in_use_of(0)), (0, 0));
}

#[test]
fn the_parts_follow_the_limit_that_is_learned() {
    let window = Window::default().span(ms(0)).min_samples(1).min_rtt(ms(0));
    let aimd = Aimd::default().initial(20).min(10).backoff(0.5);
    let limiter = AdaptiveLimiter::with_clock(aimd, window, ManualClock::default()).expect("settings");
    let classes = limiter.partitioned(&[1, 3]).expect("weights");
    assert_eq!((classes.limit_of(0), classes.limit_of(1)), (5, 15));
    classes.try_enter(1).expect("a slot").overload();
    assert_eq!((limiter.limit(), classes.limit_of(0), classes.limit_of(1)), (10, 3, 8));
    let calls: Vec<_> = (0..20).map_while(|_| classes.try_enter(1).ok()).collect();
    assert_eq!((calls.len(), classes.in_flight_of(1), limiter.in_flight()), (10, 10, 10));
    assert!(limiter.try_enter().is_err(), "who belongs to no class has what is idle");
    let own: Vec<_> = (0..20).map_while(|_| classes.try_enter(0).ok()).collect();
    assert_eq!((own.len(), limiter.in_flight()), (3, 13));
    drop((calls, own));
    assert_eq!((classes.in_flight_of(0), classes.in_flight_of(1), limiter.in_flight()), (0, 0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the order: a class within its part gets in, one beyond it does so only while not all slots
    /// are in use, and never is twice the limit in use.
    #[test]
    fn a_class_is_denied_only_beyond_its_part_and_while_no_slot_is_idle(
        limit in 1_u64..40,
        weights in prop::collection::vec(1_u64..10, 1..5),
        events in prop::collection::vec((0_usize..5, 0_u8..3), 1..200),
    ) {
        let limiter = ConcurrencyLimiter::partitioned(limit, &weights).expect("weights");
        let parts: u64 = (0..weights.len()).map(|class| limiter.limit_of(class)).sum();
        prop_assert!((limit..limit + weights.len() as u64).contains(&parts));
        let mut held: Vec<Vec<_>> = weights.iter().map(|_| Vec::new()).collect();
        for (class, kind) in events {
            let class = class % weights.len();
            if kind == 0 {
                held[class].pop();
                continue;
            }
            let own = held[class].len() as u64;
            let all = held.iter().map(|held| held.len() as u64).sum::<u64>();
            let fits = own < limiter.limit_of(class) || all < limit;
            let call = limiter.try_enter(class);
            prop_assert_eq!(call.is_ok(), fits, "{} of {} in use, {} of its {}", all, limit, own, limiter.limit_of(class));
            held[class].extend(call);
            prop_assert_eq!(limiter.in_use_of(class), held[class].len() as u64);
            prop_assert!(limiter.in_use() < limit + parts);
        }
    }
}

#[test]
fn callers_of_all_classes_at_once_never_hold_twice_the_limit_and_none_is_denied_within_its_part() {
    let limiter = ConcurrencyLimiter::partitioned(8, &[1, 1, 2]).expect("weights");
    std::thread::scope(|scope| {
        for class in 0..3 {
            let limiter = &limiter;
            // As many threads as the class has slots: each must always find one.
            for _ in 0..limiter.limit_of(class) {
                scope.spawn(move || {
                    for _ in 0..5_000 {
                        let call = limiter.try_enter(class).expect("its own");
                        assert!(limiter.in_use() <= 8);
                        drop(call);
                    }
                });
            }
        }
    });
    assert_eq!(limiter.in_use(), 0);
}
