//! Waiting for windows: the same laws as for buckets, held against a line that is looked at anew every
//! millisecond.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use tollgate::{Algorithm, Align, Period, Refill};
use tollgate_core::{Cost, RetryAfter, State};

use super::model::{CallerEvent, CallerFate, END_MS, KEYS, any_event, observed};
use super::*;

/// Whole milliseconds, and the edge of every window.
const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);

/// Tokio's time from noon on.
#[derive(Clone, Copy, Debug)]
struct FromNoon(tokio::time::Instant);

impl FromNoon {
    fn new() -> Self {
        Self(tokio::time::Instant::now())
    }
}

impl Clock for FromNoon {
    fn now(&self) -> Timestamp {
        NOON + self.0.elapsed()
    }
}

/// Every window, and a bucket that fills like one: five permits in a tenth of a second.
fn windows() -> Vec<Algorithm> {
    vec![
        Algorithm::FixedWindow { align: Align::Calendar },
        Algorithm::FixedWindow { align: Align::FirstHit },
        Algorithm::sliding_window(10),
        Algorithm::SlidingWindowCounter,
        Algorithm::SlidingWindowLog { log_denied: false },
        Algorithm::SlidingWindowLog { log_denied: true },
        Algorithm::TokenBucket { burst: None, initial: None, overdraft: 0, refill: Refill::Interval },
    ]
}

/// And those by which each pays for the one before.
fn planned() -> Vec<Algorithm> {
    let warm_up = Algorithm::WarmUp { warm_up: ms(200), cold_factor: 3 };
    windows().into_iter().chain([warm_up, Algorithm::SmoothBursty { burst: Some(3) }]).collect()
}

fn five_per_window(algorithm: Algorithm) -> Quota {
    Quota::new(5, Period::Span(ms(100)), algorithm)
}

fn from_noon(quota: Quota) -> RateLimiter<FromNoon> {
    RateLimiter::direct_with_clock(quota, FromNoon::new()).expect("a quota")
}

/// One key in the plainest way.
struct KeyModel {
    state: State,
    /// The turn of the one that was served last.
    last: Timestamp,
    waiting: Vec<(usize, u64)>,
}

/// The first instant from `from` on at which `n` permits are there, which are taken then.
fn take_at(quota: &tollgate_core::Quota, state: &mut State, n: u64, from: Timestamp) -> Option<Timestamp> {
    let mut at = from;
    loop {
        match quota.reserve(state, Cost(n), Duration::ZERO, at).retry_after() {
            RetryAfter::Now => return Some(at),
            RetryAfter::After(wait) => at = at + wait,
            RetryAfter::Never => return None,
        }
    }
}

impl KeyModel {
    fn serve(&mut self, quota: &tollgate_core::Quota, now: Timestamp, outcomes: &mut [Option<CallerFate>]) {
        while let Some(&(number, n)) = self.waiting.first() {
            let mut after = self.state.clone();
            let Some(at) = take_at(quota, &mut after, n, self.last).filter(|at| *at <= now) else { return };
            (self.state, self.last) = (after, at);
            self.waiting.remove(0);
            outcomes[number] = Some(CallerFate::Admitted { at_ms: now.since(NOON).as_millis() as u64 });
        }
    }
}

/// The fate of each caller, where checks count by `checks` and callers that wait by `quota`.
fn expected(
    events: &[(u64, CallerEvent)],
    quota: &tollgate_core::Quota,
    checks: &tollgate_core::Quota,
) -> Vec<CallerFate> {
    let mut lines = KEYS.map(|_| KeyModel { state: quota.fresh(), last: NOON, waiting: Vec::new() });
    let mut outcomes = Vec::new();
    for at_ms in 0..=END_MS {
        let now = NOON + ms(at_ms);
        for line in &mut lines {
            line.serve(quota, now, &mut outcomes);
        }
        for (_, event) in events.iter().filter(|(at, _)| *at == at_ms) {
            match *event {
                CallerEvent::Wait { key, n, timeout_ms } => {
                    let line = &mut lines[key];
                    line.last = if line.waiting.is_empty() { now } else { line.last };
                    let mut state = line.state.clone();
                    let mut turn = Some(line.last);
                    for n in line.waiting.iter().map(|(_, n)| *n).chain([n]) {
                        turn = turn.and_then(|from| take_at(quota, &mut state, n, from));
                    }
                    if turn.is_some_and(|turn| turn <= now + ms(timeout_ms)) {
                        line.waiting.push((outcomes.len(), n));
                        outcomes.push(None);
                        line.serve(quota, now, &mut outcomes);
                    } else {
                        outcomes.push(Some(CallerFate::Denied));
                    }
                }
                CallerEvent::Check { key, n } => {
                    let line = &mut lines[key];
                    let fits =
                        line.waiting.is_empty() && checks.take(&mut line.state, Cost(n), now).is_admitted();
                    outcomes.push(Some(if fits {
                        CallerFate::Admitted { at_ms }
                    } else {
                        CallerFate::Denied
                    }));
                }
                CallerEvent::Leave { number } if !outcomes.is_empty() => {
                    let number = number % outcomes.len();
                    for line in &mut lines {
                        if let Some(place) = line.waiting.iter().position(|(it, _)| *it == number) {
                            line.waiting.remove(place);
                            outcomes[number] = Some(CallerFate::Left);
                            line.last = if place == 0 { now } else { line.last };
                            line.serve(quota, now, &mut outcomes);
                        }
                    }
                }
                CallerEvent::Leave { .. } => {}
            }
        }
    }
    outcomes.into_iter().map(|outcome| outcome.expect("all are served by the end")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Never too early, never later than needed, in order, and as if those who left had never come.
    #[test]
    fn callers_fare_as_in_a_line_that_is_planned_anew_every_millisecond(
        mut events in prop::collection::vec(any_event(), 1..25),
        algorithm in prop::sample::select(planned()),
    ) {
        events.sort_by_key(|(at, _)| *at);
        let counted = |algorithm| tollgate_core::Quota::new(5, Period::Span(ms(100)), algorithm);
        let checks = counted(algorithm.clone()).expect("a quota");
        let waits = match algorithm {
            // Who waits was not denied.
            Algorithm::SlidingWindowLog { .. } => counted(Algorithm::SlidingWindowLog { log_denied: false }),
            ref other => counted(other.clone()),
        };
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let observed = runtime.expect("a runtime").block_on(async {
            let limiter = KeyedRateLimiter::with_clock(five_per_window(algorithm), FromNoon::new());
            observed(&events, limiter.expect("a quota")).await
        });
        prop_assert_eq!(observed, expected(&events, &waits.expect("a quota"), &checks));
    }
}

#[tokio::test(start_paused = true)]
async fn every_window_has_a_line_a_deadline_and_places_for_reservations() {
    for quota in windows() {
        let limiter = from_noon(five_per_window(quota.clone()));
        assert_eq!(limiter.acquire(5).await, Ok(ms(0)), "{quota:?}");
        let wait = limiter.check().expect_err("five are taken").retry_after().expect("it comes back");
        let error = limiter.try_acquire(1, wait - Duration::from_nanos(1)).await;
        assert_eq!(error, Err(AcquireError::TooLong { retry_after: Duration::from_nanos(1) }), "{quota:?}");
        assert_eq!(limiter.acquire(6).await, Err(AcquireError::NeverFits { burst: 5 }), "{quota:?}");

        let reserved = limiter.reserve(1, wait).expect("in time");
        assert_eq!(reserved.act_at(), limiter.now() + wait, "{quota:?}");
        let waiter = {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.acquire(2).await.is_ok() })
        };
        settle().await;
        assert_eq!(limiter.waiting(), 2, "{quota:?}");
        let denied = limiter.check().expect_err("no check overtakes those who wait");
        assert!(denied.retry_after() >= Some(wait), "{quota:?}");
        assert_eq!((limiter.take_at_most(5), limiter.peek().remaining()), (0, 0), "{quota:?}");
        assert!(check_all(&[limiter.request(1)]).is_err(), "{quota:?}");
        reserved.commit(1);
        assert!(waiter.await.expect("no panic"), "{quota:?}");
        assert_eq!(limiter.waiting(), 0, "{quota:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reservation_states_its_turn_also_where_others_have_left_the_line() {
    for algorithm in planned() {
        let limiter = from_noon(five_per_window(algorithm.clone()));
        assert_eq!(limiter.acquire(3).await, Ok(ms(0)), "{algorithm:?}");
        let reserve = || limiter.reserve(3, ms(60_000)).expect("in time");
        let first = reserve();
        let second = reserve();
        let third = reserve();
        let turns = [first.act_at(), second.act_at(), third.act_at()];
        assert!(turns.is_sorted(), "{algorithm:?}: {turns:?}");
        third.cancel();
        let again = reserve();
        assert_eq!(again.act_at(), turns[2], "{algorithm:?}: the last one has left");
        again.cancel();
        first.cancel();
        let other = reserve();
        assert!(other.act_at() <= turns[1], "{algorithm:?}: nobody waits for the one that has left");
        other.cancel();
        second.cancel();
        assert_eq!(reserve().act_at(), turns[0], "{algorithm:?}: all have left");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reservation_of_a_window_counts_from_its_turn_also_when_nobody_looks() {
    let limiter = from_noon(Quota::fixed_window(5, SECOND));
    limiter.acquire(5).await.expect("a full window");
    let ahead = limiter.reserve(5, SECOND).expect("the next window");
    assert_eq!(ahead.act_at(), NOON + SECOND);
    sleep(ms(2_500)).await; // it was used in the second window; this is the third
    assert_eq!(limiter.take_at_most(10), 5);
    drop(ahead); // its window is over
    assert_eq!(limiter.take_at_most(10), 0);
    let cancelled = limiter.reserve(5, SECOND).expect("the next window");
    cancelled.cancel();
    sleep(ms(500)).await;
    assert_eq!(limiter.take_at_most(10), 5, "nothing was taken for it");
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_wait_for_a_hundred_windows_in_order() {
    const MANY: u64 = 10_000;
    let limiter = from_noon(Quota::fixed_window(100, ms(10)));
    limiter.acquire(100).await.expect("a full window");
    let order = Arc::new(Mutex::new(Vec::new()));
    for name in 0..MANY {
        let limiter = limiter.clone();
        let order = Arc::clone(&order);
        tokio::spawn(async move {
            let waited = limiter.acquire(1).await.expect("a permit");
            order.lock().push((name, waited));
        });
    }
    joined(|| limiter.waiting(), MANY as usize).await;
    assert!(limiter.try_acquire(1, ms(1_009)).await.is_err(), "all hundred windows are taken");
    sleep(SECOND).await;
    settle().await;
    let seen = order.lock();
    assert_eq!(seen.len() as u64, MANY);
    for ((name, waited), place) in seen.iter().zip(0..) {
        assert_eq!((*name, *waited), (place, ms(10 * (place / 100 + 1))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_penalty_a_block_and_a_smaller_window_end_waits_that_became_too_long() {
    type Change = fn(&RateLimiter<FromNoon>);
    let changes: [(Change, _); 4] = [
        // A penalty counts in this window only: the wait is the same.
        (|limiter| limiter.penalise(3), (Ok(ms(100)), Ok(ms(200)))),
        (|limiter| limiter.block(NOON + ms(150)), (Err(AcquireError::Late), Ok(ms(150)))),
        (
            |limiter| limiter.reconfigure(Quota::fixed_window(2, ms(100))).expect("a quota"),
            (Err(AcquireError::Late), Ok(ms(100))),
        ),
        (|limiter| limiter.reset(), (Ok(ms(0)), Ok(ms(100)))),
    ];
    for (number, (change, want)) in changes.into_iter().enumerate() {
        let limiter = from_noon(Quota::fixed_window(3, ms(100)));
        limiter.acquire(3).await.expect("a full window");
        let wait = |n, timeout| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.try_acquire(n, timeout).await })
        };
        let hurried = wait(3, ms(100));
        settle().await;
        let patient = wait(1, ms(5_000));
        settle().await;
        change(&limiter);
        let got = (hurried.await.expect("no panic"), patient.await.expect("no panic"));
        assert_eq!(got, want, "{number}");
    }
}

#[test]
fn threads_wait_for_a_window_in_order_without_a_runtime() {
    let limiter = RateLimiter::direct(Quota::fixed_window(2, ms(50))).expect("a quota");
    let began = limiter.now();
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for name in 0..10_usize {
            let limiter = &limiter;
            let order = &order;
            scope.spawn(move || {
                limiter.blocking_acquire(1).expect("permits");
                order.lock().push(name);
            });
            while limiter.waiting() + order.lock().len() <= name {
                std::thread::yield_now();
            }
        }
    });
    assert!(
        limiter.now().since(began) >= ms(150),
        "ten in windows of two: four edges, of which three spans are whole"
    );
    assert_eq!((order.into_inner().len(), limiter.waiting()), (10, 0));
}

/// Tokio's time less what it was set back by.
#[derive(Clone, Debug)]
struct SetBack {
    time: TokioClock,
    by_ms: Arc<AtomicU64>,
}

impl Clock for SetBack {
    fn now(&self) -> Timestamp {
        let now = self.time.now();
        let by = self.by_ms.load(Ordering::Relaxed) * 1_000_000;
        Timestamp::from_nanos(now.as_nanos() - by)
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_keeps_nobody_waiting_beyond_its_deadline() {
    for (quota, by_ms) in [
        (Quota::per_second(1), 300),
        (Quota::per_second(1), 10_000),
        (Quota::fixed_window(1, SECOND), 300),
        (Quota::sliding_window(1, SECOND), 10_000),
    ] {
        let clock = SetBack { time: TokioClock::new(), by_ms: Arc::default() };
        let limiter = RateLimiter::direct_with_clock(quota.clone(), clock.clone()).expect("a quota");
        limiter.acquire(1).await.expect("the first");
        let wait = limiter.check().expect_err("one a second").retry_after().expect("it comes back");
        let began = clock.time.now();
        let hurried = limiter.clone();
        let patient = limiter.clone();
        let hurried = tokio::spawn(async move { hurried.try_acquire(1, wait).await });
        settle().await;
        let patient = tokio::spawn(async move { patient.acquire(1).await });
        settle().await;
        clock.by_ms.store(by_ms, Ordering::Relaxed);
        assert_eq!(hurried.await.expect("no panic"), Err(AcquireError::Late), "{quota:?}");
        let passed = clock.time.now().since(began);
        assert!(passed <= wait + ms(1), "{quota:?}: {passed:?} of {wait:?}");
        assert!(patient.await.expect("no panic").is_ok(), "whoever has time is served: {quota:?}");
    }
}
