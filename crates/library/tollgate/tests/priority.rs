//! Classes of priority: who is denied under contention, what idle classes lend, and callers from many threads.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{KeyedPriorityLimiter, ManualClock, PriorityLimiter, Quota, QuotaError, RateLimiter};

const HIGH: usize = 0;
const LOW: usize = 1;

#[test]
fn a_high_class_is_admitted_while_a_low_one_is_denied() {
    let clock = ManualClock::default();
    let limiter =
        PriorityLimiter::with_clock(Quota::per_second(100), &[9, 1], clock.clone()).expect("a limiter");
    let mut high = 0;
    let mut low = 0;
    let mut high_denied = 0;
    for tick in 0..1_000 {
        // Ten low requests come first each time; high ones stay within 90 a second.
        low += (0..10).filter(|_| limiter.check(LOW).is_ok()).count();
        if tick % 10 != 0 {
            match limiter.check(HIGH) {
                Ok(_) => high += 1,
                Err(_) => high_denied += 1,
            }
        }
        clock.advance(Duration::from_millis(10));
    }
    assert_eq!((high, high_denied), (900, 0));
    // The rest: its burst, 10 a second, and what high has left over.
    assert!((99..=110).contains(&low), "{low}");
}

#[test]
fn a_class_borrows_the_whole_rate_of_idle_ones_and_gives_it_back_at_once() {
    let clock = ManualClock::default();
    let limiter =
        PriorityLimiter::with_clock(Quota::per_second(100), &[9, 1], clock.clone()).expect("a limiter");
    let mut low = 0;
    for _ in 0..1_000 {
        low += (0..10).filter(|_| limiter.check(LOW).is_ok()).count();
        clock.advance(Duration::from_millis(10));
    }
    assert_eq!(low, 10 + 999, "its burst, and then a permit each 10 ms");
    assert!(limiter.check_n(HIGH, 90).is_ok(), "what is lent is never what was saved");
    assert!(limiter.check_n(HIGH, 1).is_err());
}

#[test]
fn threads_together_get_what_there_is() {
    let limiter = PriorityLimiter::with_clock(Quota::per_hour(1_000), &[3, 1], ManualClock::default());
    let limiter = limiter.expect("a limiter");
    let admitted: usize = std::thread::scope(|scope| {
        let takers: Vec<_> = (0..4)
            .map(|taker| {
                let limiter = limiter.clone();
                scope.spawn(move || (0..1_000).filter(|_| limiter.check(taker % 2).is_ok()).count())
            })
            .collect();
        takers.into_iter().map(|taker| taker.join().expect("a taker")).sum()
    });
    assert_eq!(admitted, 1_000);
    limiter.give_back(LOW, 5);
    assert_eq!((limiter.peek(HIGH).remaining(), limiter.peek(LOW).remaining()), (0, 5));
}

#[test]
fn mistakes_are_errors_or_denials_that_never_end() {
    let made = |quota, weights: &[u32]| RateLimiter::by_priority(quota, weights).map(|it| it.classes());
    assert_eq!(made(Quota::per_second(10), &[1, 1]), Ok(2));
    assert_eq!(made(Quota::per_second(10), &[]), Err(QuotaError::Classes(0)));
    assert_eq!(made(Quota::per_second(10), &[1, 0]), Err(QuotaError::Weight(0)));
    assert_eq!(made(Quota::per_second(1), &[1, 1]), Err(QuotaError::FewForClasses { burst: 1, classes: 2 }));
    for quota in [Quota::total(10), Quota::per_second(10).initial(3)] {
        assert!(matches!(made(quota, &[1]), Err(QuotaError::Unsupported { .. })));
    }
    let limiter = RateLimiter::by_priority(Quota::per_second(10), &[1, 1]).expect("a limiter");
    let denied = limiter.check(2).expect_err("there is no such class");
    assert_eq!(denied.retry_after(), None);
    assert_eq!(limiter.bounds(2), None);
    limiter.give_back(2, 1);
}

proptest! {
    #[test]
    fn each_key_is_as_a_limiter_of_its_own(
        calls in prop::collection::vec((0..4_u64, 0..4_usize, 0..6_u64, 0..400_u64, any::<bool>()), 1..100),
    ) {
        let clock = ManualClock::default();
        let quota = Quota::per_second(10).burst(12);
        let weights = [4, 2, 1];
        let by_key: KeyedPriorityLimiter<u64, _> =
            KeyedPriorityLimiter::with_clock(quota.clone(), &weights, clock.clone()).expect("a limiter");
        let each: Vec<_> = (0..4)
            .map(|_| PriorityLimiter::with_clock(quota.clone(), &weights, clock.clone()).expect("a limiter"))
            .collect();
        for (key, class, n, wait_ms, gives_back) in calls {
            let own = &each[key as usize];
            if gives_back {
                by_key.give_back(&key, class, n);
                own.give_back(class, n);
            } else {
                prop_assert_eq!(by_key.check_n(&key, class, n), own.check_n(class, n));
            }
            prop_assert_eq!(by_key.peek(&key, class), own.peek(class));
            clock.advance(Duration::from_millis(wait_ms));
        }
    }
}

#[test]
fn a_flood_of_keys_with_classes_stays_within_its_memory() {
    let clock = ManualClock::default();
    let limiter: KeyedPriorityLimiter<u64, _> =
        KeyedPriorityLimiter::with_memory(Quota::per_hour(10), &[1, 1], clock, 1 << 20).expect("a limiter");
    for key in 0..100_000 {
        assert!(limiter.check(&key, HIGH).is_ok());
    }
    let memory = limiter.memory();
    assert!(memory.bytes <= memory.max_bytes && memory.evictions > 0, "{memory:?}");
    assert!(limiter.check(&0, 2).is_err());
}

#[cfg(feature = "rules")]
mod rules {
    use tollgate::rule::{DescriptorSpec, DomainSpec, Limit, Policy, PolicyBuilder, RuleSpec, Sharing, Unit};
    use tollgate::{Algorithm, ManualClock, RuleLimiter};

    fn policy(sharing: Sharing) -> Result<Policy, Box<dyn std::error::Error>> {
        let algorithm = Algorithm::PriorityBuckets { burst: None, weights: [9, 1].into(), class: 0 };
        let limit = Limit::new(100, Unit::Hour, algorithm)?;
        let priority = DescriptorSpec::new("priority").rule(RuleSpec::new(limit).sharing(sharing));
        let shop = priority.by_class(["paying", "free"]);
        let shop = shop.into_iter().fold(DomainSpec::new("shop"), DomainSpec::descriptor);
        Ok(PolicyBuilder::new().domain(shop).build()?)
    }

    #[tokio::test]
    async fn rules_in_code_have_classes_too() {
        let limiter = RuleLimiter::with_clock(policy(Sharing::Exact).expect("rules"), ManualClock::default());
        let mut admitted = [0, 0];
        for _ in 0..200 {
            for (admitted, class) in admitted.iter_mut().zip(["paying", "whoever"]) {
                *admitted += u32::from(limiter.check("shop", &[("priority", class)]).await.is_ok());
            }
        }
        assert_eq!(admitted, [90, 10]);
    }
}
