//! Step tables of the queue form of the leaky bucket, and of reservations.
#![expect(clippy::expect_used, reason = "a test that cannot set up its case has failed")]

use std::time::Duration;

use tollgate_core::{Algorithm, Cost, LeakyForm, Period, Quota, Refill, State, Step, Word, WordAlgorithm};
use tollgate_testkit::table::{admit, at, delay, deny, never, play, play_on};

const SECOND: Duration = Duration::from_secs(1);

fn word_algorithm(quota: &Quota) -> &WordAlgorithm {
    let Step::Word(algorithm) = quota.step() else { panic!("one word") };
    algorithm
}

fn queue(limit: u64, capacity: u64, delay_after: u64) -> Quota {
    let algorithm =
        Algorithm::LeakyBucket { capacity: Some(capacity), form: LeakyForm::Queue { delay_after } };
    Quota::new(limit, Period::Span(SECOND), algorithm).expect("a queue")
}

/// Rows 11 and 13: one leaves every 10 ms for any arrivals; a full bucket denies, and no burst passes.
#[test]
fn one_leaves_every_ten_milliseconds() {
    play(
        &queue(100, 4, 0),
        &[
            (0, 1, admit(3)), // at once
            (0, 1, delay(10)),
            (0, 1, delay(20)),
            (0, 1, delay(30)),
            (0, 1, deny(10)), // full until the first has left
            (5, 1, deny(5)),
            (10, 1, delay(30)),
            (1_000, 1, admit(3)), // a pause stores nothing
            (1_000, 1, delay(10)),
        ],
    );
    let bucket = Quota::token_bucket(100, SECOND).expect("a bucket");
    play(&bucket, &[(0, 100, admit(0))]); // row 13: the stored burst
}

/// Row 11: for any arrivals, two never act less than an interval apart.
#[test]
fn the_outflow_is_steady_whatever_the_arrivals() {
    let quota = queue(100, 20, 0);
    let mut state = quota.fresh();
    let mut acts = Vec::new();
    for turn in 0..5_000_u64 {
        let now = at(turn * turn % 17 + turn * 3);
        let decision = quota.take(&mut state, Cost::ONE, now);
        if decision.is_admitted() {
            acts.push(now + decision.delay());
        }
    }
    assert!(acts.len() > 1_400);
    for pair in acts.windows(2) {
        assert!(pair[1].since(pair[0]) >= Duration::from_millis(10), "{pair:?}");
    }
}

/// Row 27: the exact wait for the place in the queue; a denial says the wait that it would have had, and
/// changes nothing.
#[test]
fn a_denial_says_the_wait_that_it_would_have_had() {
    let quota = queue(10, 3, 0);
    let mut state = play(&quota, &[(0, 1, admit(2)), (0, 1, delay(100)), (0, 1, delay(200))]);
    let before = state.clone();
    for ms in [0, 30, 99] {
        let denied = quota.take(&mut state, Cost::ONE, at(ms));
        assert!(!denied.is_admitted());
        assert_eq!(denied.delay(), Duration::from_millis(300 - ms), "at {ms} ms");
        assert_eq!(state, before);
    }
    assert_eq!(quota.take(&mut state, Cost::ONE, at(100)).delay(), Duration::from_millis(200));
    play(&quota, &[(0, 4, never())]);
}

/// A16: the first few pass at once, the rest wait for their turn less those. (`burst=4 delay=2` elsewhere.)
#[test]
fn the_first_of_a_queue_pass_without_a_delay() {
    play(
        &queue(10, 5, 2),
        &[
            (0, 1, admit(4)),
            (0, 1, admit(3)),
            (0, 1, admit(2)),
            (0, 1, delay(100)),
            (0, 1, delay(200)),
            (0, 1, deny(100)),
            (100, 1, delay(200)),
        ],
    );
    // All of them pass at once: elsewhere this is called `nodelay`.
    play(&queue(10, 3, 3), &[(0, 1, admit(2)), (0, 1, admit(1)), (0, 1, admit(0)), (0, 1, deny(100))]);
}

/// Row 25: ok, when to act; a denial leaves the state as it was; more than the burst is never granted.
#[test]
fn a_reservation_is_granted_for_the_first_instant_or_not_at_all() {
    let quota = Quota::token_bucket(10, SECOND).expect("a bucket");
    let mut word = Word::FRESH;
    for (at_ms, permits, max_wait_ms, want) in [
        (0, 10, 0, Some(0)),
        (0, 1, 99, None), // one comes after 100 ms
        (0, 1, 100, Some(100)),
        (0, 5, 10_000, Some(600)), // queues behind the one before
        (50, 1, 649, None),
        (50, 1, 650, Some(700)),
        (700, 11, 1_000_000, None), // above the burst: never
        (700, 10, 1_000_000, Some(1_700)),
        (600, 1, 10_000, Some(1_800)), // the clock went back: nothing is given away
        (100_000, 10, 0, Some(100_000)),
    ] {
        let max_wait = Duration::from_millis(max_wait_ms);
        let reservation = word_algorithm(&quota).promise(word, Cost(permits), max_wait, at(at_ms));
        assert_eq!(
            reservation.granted.then_some(reservation.act_at),
            want.map(at),
            "at {at_ms} ms, {permits}"
        );
        assert_eq!(reservation.permits, permits);
        if !reservation.granted {
            assert_eq!(reservation.word, word, "a denial leaves the state unchanged");
        }
        word = reservation.word;
    }
}

/// Row 25 of the acceptance page.
#[test]
fn without_a_limit_every_reservation_is_granted_at_once() {
    let reservation =
        word_algorithm(&Quota::unlimited()).promise(Word::FRESH, Cost(u64::MAX), Duration::ZERO, at(5));
    assert!(reservation.granted);
    assert_eq!(reservation.act_at, at(5));
}

/// A reservation that is not needed is given back in full: those behind it do not come later.
#[test]
fn a_reservation_given_back_was_never_made() {
    let quota = Quota::token_bucket(10, SECOND).expect("a bucket");
    let mut state = quota.fresh();
    let State::Word(word) = &mut state else { panic!("one word") };
    *word = word_algorithm(&quota).promise(*word, Cost(10), Duration::ZERO, at(0)).word;
    let before = *word;
    *word = word_algorithm(&quota).promise(*word, Cost(7), Duration::MAX, at(0)).word;
    *word = word_algorithm(&quota).give_back(*word, Cost(7), at(0)).word;
    assert_eq!(*word, before);
}

/// Row 13: a hundred a second and room for a hundred, both. After a pause the bucket passes its stored burst
/// at once, and the queue one request every 10 ms.
#[test]
fn of_the_same_numbers_the_queue_spreads_the_burst_that_the_bucket_passes_at_once() {
    let numbers = (100, Period::Span(SECOND));
    let token_bucket =
        Algorithm::TokenBucket { burst: Some(100), initial: None, overdraft: 0, refill: Refill::Continuous };
    let bucket = Quota::new(numbers.0, numbers.1.clone(), token_bucket).expect("a bucket");
    let leaky_bucket =
        Algorithm::LeakyBucket { capacity: Some(100), form: LeakyForm::Queue { delay_after: 0 } };
    let queue = Quota::new(numbers.0, numbers.1, leaky_bucket).expect("a queue");
    let mut ours = bucket.fresh();
    let mut theirs = queue.fresh();
    for begins_ms in [0, 3_600_000] {
        let at_once: Vec<_> = (0..100).map(|nth| (begins_ms, 1, admit(99 - nth))).collect();
        let one_by_one: Vec<_> =
            (0..100).map(|nth| (begins_ms, 1, if nth == 0 { admit(99) } else { delay(10 * nth) })).collect();
        play_on(&bucket, &mut ours, &at_once);
        play_on(&queue, &mut theirs, &one_by_one);
        // Both are at their limit now, and both get one back every 10 ms.
        for (quota, state) in [(&bucket, &mut ours), (&queue, &mut theirs)] {
            play_on(quota, state, &[(begins_ms, 1, deny(10)), (begins_ms + 9, 1, deny(1))]);
        }
        play_on(&bucket, &mut ours, &[(begins_ms + 10, 1, admit(0))]);
        play_on(&queue, &mut theirs, &[(begins_ms + 10, 1, delay(990))]);
    }
}

/// Row 27 of the acceptance page.
#[test]
fn a_place_in_the_queue_can_be_reserved() {
    let quota = queue(10, 3, 0);
    let mut word = Word::FRESH;
    for (max_wait_ms, want) in [(0, Some(0)), (0, None), (100, Some(100)), (500, Some(200)), (500, None)] {
        let reservation =
            word_algorithm(&quota).promise(word, Cost::ONE, Duration::from_millis(max_wait_ms), at(0));
        assert_eq!(reservation.granted.then_some(reservation.act_at), want.map(at));
        word = reservation.word;
    }
}
