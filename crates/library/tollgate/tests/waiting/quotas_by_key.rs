//! Callers that wait for a key whose quota changes.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use tollgate::Quotas;

/// The quotas that "ann" has one after the other; every other key has the first one.
fn one_by_one(quotas: Vec<Quota>) -> (KeyedRateLimiter<str, TokioClock>, Arc<AtomicUsize>) {
    let turn = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&turn);
    let otherwise = quotas[0].clone();
    let of = move |key: &str| (key == "ann").then(|| quotas[seen.load(Ordering::Relaxed)].clone());
    let limiter = KeyedRateLimiter::with_clock(Quotas::by(otherwise, of), TokioClock::new());
    (limiter.expect("a quota"), turn)
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_key_get_its_new_rate_and_those_of_others_do_not() {
    let per_second = |limit| Quota::per_second(limit).burst(1);
    let (limiter, turn) = one_by_one(vec![per_second(1), per_second(10)]);
    let waits = |key: &'static str| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.acquire(key, 1).await.expect("permits") })
    };
    let ann: Vec<_> = (0..4).map(|_| waits("ann")).collect();
    let bob: Vec<_> = (0..3).map(|_| waits("bob")).collect();
    joined(|| limiter.waiting(), 5).await;
    turn.store(1, Ordering::Relaxed);
    limiter.ask_again("ann");
    assert_eq!(limiter.peek("ann").remaining(), 0, "those who wait go first");
    let mut waited = Vec::new();
    for waiter in ann.into_iter().chain(bob) {
        waited.push(waiter.await.expect("no panic"));
    }
    assert_eq!(waited, [0, 100, 200, 300, 0, 1_000, 2_000].map(ms));
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_key_that_is_counted_otherwise_now_are_sent_off() {
    let (limiter, turn) = one_by_one(vec![Quota::per_second(1), Quota::sliding_window(1, SECOND)]);
    assert!(limiter.check("ann").is_ok() && limiter.check("bob").is_ok());
    let waits = |key: &'static str| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.acquire(key, 1).await })
    };
    let ann = waits("ann");
    let bob = waits("bob");
    joined(|| limiter.waiting(), 2).await;
    turn.store(1, Ordering::Relaxed);
    limiter.ask_again("ann");
    assert!(limiter.check("ann").is_ok(), "another algorithm begins anew");
    assert!(matches!(ann.await.expect("no panic"), Err(AcquireError::Reconfigured)));
    assert_eq!(bob.await.expect("no panic").expect("permits"), SECOND);
    let waited = limiter.acquire("ann", 1).await.expect("permits");
    assert!(
        (ms(1)..ms(150)).contains(&waited),
        "until the cell of its check has left the window: {waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn waiters_of_other_keys_get_the_quota_that_replaces_theirs() {
    let (limiter, _) = one_by_one(vec![Quota::per_second(1)]);
    assert!(limiter.check("bob").is_ok());
    let waiter = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire("bob", 1).await.expect("permits") }
    });
    joined(|| limiter.waiting(), 1).await;
    limiter.reconfigure(Quota::per_second(4).burst(1)).expect("a quota");
    assert_eq!(waiter.await.expect("no panic"), ms(250));
    let leaves = limiter.try_acquire("bob", 1, ms(200));
    assert!(matches!(leaves.await, Err(AcquireError::TooLong { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_reservation_is_given_back_to_the_quota_that_counts_then() {
    let (limiter, turn) = one_by_one(vec![Quota::per_hour(10), Quota::per_hour(20)]);
    let now = limiter.reserve("ann", 6, SECOND).expect("permits");
    assert!(limiter.check_n("ann", 4).is_ok());
    let later = limiter.reserve("ann", 1, 3_600 * SECOND).expect("a place");
    turn.store(1, Ordering::Relaxed);
    limiter.ask_again("ann");
    assert_eq!(limiter.peek("ann").remaining(), 9);
    drop(later);
    assert_eq!(limiter.peek("ann").remaining(), 10);
    now.commit(2);
    assert_eq!(limiter.peek("ann").remaining(), 14);
}
