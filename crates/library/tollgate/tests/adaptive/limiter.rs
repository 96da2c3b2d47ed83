//! The limiter: never more in flight than the limit, whatever becomes of limits and guards, and no caller is
//! turned away while there is room.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use tollgate::adaptive::{AdaptiveLimit, Aimd, Finish, Sample, Window};
use tollgate::{AdaptiveGuard, AdaptiveLimiter, EnterError, ManualClock, MonotonicClock};

use super::ms;

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A limit that is whatever a test says, with the next sample, and how many samples there were.
#[derive(Clone, Debug)]
struct Says {
    limit: u64,
    next: Arc<AtomicU64>,
    samples: Arc<AtomicU64>,
}

impl Says {
    fn new(limit: u64) -> Self {
        Self { limit, next: Arc::new(limit.into()), samples: Arc::default() }
    }
}

impl AdaptiveLimit for Says {
    fn limit(&self) -> u64 {
        self.limit
    }

    fn update(&mut self, _: Sample) {
        self.samples.fetch_add(1, SeqCst);
        self.limit = self.next.load(SeqCst);
    }
}

/// Every call is a window of its own.
fn each() -> Window {
    Window::default().span(ms(0)).min_samples(1).min_rtt(ms(0))
}

fn says(limit: &Says) -> AdaptiveLimiter {
    AdaptiveLimiter::with_clock(limit.clone(), each(), MonotonicClock::new()).expect("settings")
}

#[test]
fn only_calls_that_are_finished_count() {
    let limit = Says::new(2);
    let limiter = says(&limit);
    let samples = || limit.samples.load(SeqCst);
    limiter.try_enter().expect("room").success();
    limiter.try_enter().expect("room").overload();
    assert_eq!(samples(), 2);
    limiter.try_enter().expect("room").ignore();
    limiter.try_enter().expect("room").finish(Finish::Ignored);
    drop(limiter.try_enter().expect("room"));
    assert_eq!((samples(), limiter.in_flight()), (2, 0));
    assert_eq!(limiter.run(|| 42), Ok(42));
    assert_eq!(samples(), 3);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        limiter.run(|| std::panic::resume_unwind(Box::new("what it does fails")))
    }));
    assert!(panicked.is_err());
    assert_eq!((samples(), limiter.in_flight()), (3, 0));
}

#[test]
fn a_guard_that_is_forgotten_keeps_its_slot_and_the_others_work() {
    let limiter = says(&Says::new(2));
    std::mem::forget(limiter.try_enter().expect("room"));
    let second = limiter.try_enter().expect("room");
    let denied = limiter.try_enter().expect_err("both are in use");
    assert_eq!((denied.in_use, denied.limit), (2, 2));
    second.success();
    limiter.try_enter().expect("room").success();
    assert_eq!(limiter.in_flight(), 1);
}

#[test]
fn a_limit_that_panics_or_says_zero_takes_no_slot_with_it() {
    #[derive(Debug)]
    struct Panics;
    impl AdaptiveLimit for Panics {
        fn limit(&self) -> u64 {
            0
        }
        fn update(&mut self, _: Sample) {
            std::panic::resume_unwind(Box::new("a limit of one's own fails"));
        }
    }
    let limiter = AdaptiveLimiter::with_clock(Panics, each(), MonotonicClock::new()).expect("settings");
    for _ in 0..3 {
        let call = limiter.try_enter().expect("one may be in flight");
        assert!(catch_unwind(AssertUnwindSafe(|| call.success())).is_err());
        assert_eq!((limiter.in_flight(), limiter.limit()), (0, 1));
    }
}

#[test]
fn settings_are_looked_at_before_the_first_call() {
    let error = AdaptiveLimiter::new(Aimd::default().initial(5)).expect_err("below the minimum");
    assert_eq!(error.to_string(), "invalid initial 5: expected min to max");
    let window = Window::default().percentile(2.0);
    assert!(AdaptiveLimiter::with_clock(Aimd::default(), window, MonotonicClock::new()).is_err());
}

#[test]
fn a_call_is_measured_from_its_slot_to_its_end_and_a_clock_that_goes_back_shows_nothing() {
    #[derive(Debug)]
    struct Expects(VecDeque<(u64, u64, bool)>);
    impl AdaptiveLimit for Expects {
        fn limit(&self) -> u64 {
            3
        }
        fn update(&mut self, sample: Sample) {
            let (rtt, in_flight, is_overload) = self.0.pop_front().expect("one more sample");
            assert_eq!(sample, Sample { rtt: ms(rtt), in_flight, is_overload });
        }
    }
    let clock = ManualClock::default();
    clock.advance(ms(1_000));
    let expected = Expects([(30, 2, false), (0, 1, true), (0, 1, false)].into());
    let limiter = AdaptiveLimiter::with_clock(expected, each(), clock.clone()).expect("settings");
    let first = limiter.try_enter().expect("room");
    clock.advance(ms(20));
    let second = limiter.try_enter().expect("room");
    clock.advance(ms(30));
    second.success();
    first.overload();
    let third = limiter.try_enter().expect("room");
    clock.set(tollgate::Timestamp::ZERO);
    third.success();
}

#[test]
fn a_wait_is_not_measured_and_ends_when_the_limit_grows() {
    let limit = Says::new(1);
    let limiter = says(&limit);
    let first = limiter.try_enter().expect("room");
    let mut second = pin!(limiter.enter());
    let mut third = pin!(limiter.enter());
    assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
    limit.next.store(3, SeqCst);
    first.success();
    let (Poll::Ready(Ok(second)), Poll::Ready(Ok(third))) = (poll(second), poll(third)) else {
        panic!("both are served by the larger limit");
    };
    assert_eq!((limiter.in_flight(), limiter.limit(), limiter.waiting()), (2, 3, 0));
    drop((second, third));
    limiter.set_max_waiting(0);
    let _all: Vec<_> = (0..3).map(|_| limiter.try_enter().expect("room")).collect();
    let full = poll(pin!(limiter.enter()));
    assert!(matches!(full, Poll::Ready(Err(EnterError::QueueFull { waiting: 0 }))));
    let late = limiter.blocking_enter_within(ms(0));
    assert!(matches!(late, Err(EnterError::QueueFull { .. })));
}

#[cfg(feature = "tokio")]
#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_its_deadline_or_with_a_slot() {
    let limiter = says(&Says::new(1));
    let first = limiter.try_enter().expect("room");
    let late = limiter.enter_within(ms(20)).await;
    assert_eq!(late.expect_err("it is in use"), EnterError::TimedOut { timeout: ms(20) });
    let task = tokio::spawn(limiter.enter_within(ms(20)));
    tokio::task::yield_now().await;
    first.success();
    assert!(task.await.is_ok_and(|call| call.is_ok()));
    assert_eq!((limiter.in_flight(), limiter.waiting()), (0, 0));
}

#[derive(Clone, Debug)]
enum LimiterStep {
    Try,
    Wait,
    GiveUp(usize),
    End(usize, Finish),
    Leak(usize),
    /// The limit from the next sample on.
    Limit(u64),
    Advance(u64),
    Set(u64),
}

fn step() -> impl Strategy<Value = LimiterStep> {
    let finish = prop_oneof![Just(Finish::Success), Just(Finish::Overload), Just(Finish::Ignored)];
    prop_oneof![
        4 => Just(LimiterStep::Try),
        3 => Just(LimiterStep::Wait),
        1 => any::<usize>().prop_map(LimiterStep::GiveUp),
        6 => (any::<usize>(), finish).prop_map(|(which, how)| LimiterStep::End(which, how)),
        1 => any::<usize>().prop_map(LimiterStep::Leak),
        3 => (1..8_u64).prop_map(LimiterStep::Limit),
        2 => (0..2_000_u64).prop_map(LimiterStep::Advance),
        1 => (0..5_000_u64).prop_map(LimiterStep::Set),
    ]
}

type Call = AdaptiveGuard<ManualClock>;
type Waits = Pin<Box<dyn Future<Output = Result<Call, EnterError>>>>;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Held against a count of its own: who gets in, who waits, and what the limit is.
    #[test]
    fn calls_begin_while_there_is_room_and_never_beyond_the_limit(
        first in 1..6_u64,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let says = Says::new(first);
        let clock = ManualClock::default();
        let limiter = AdaptiveLimiter::with_clock(says.clone(), each(), clock.clone()).expect("settings");
        let mut limit = first;
        let mut leaked = 0;
        let mut calls: Vec<Call> = Vec::new();
        let mut line: Vec<Waits> = Vec::new();
        for step in steps {
            let has_room = (calls.len() as u64) + leaked < limit;
            match step {
                LimiterStep::Try => {
                    let call = limiter.try_enter();
                    prop_assert_eq!(call.is_ok(), has_room && line.is_empty());
                    calls.extend(call.ok());
                }
                LimiterStep::Wait => {
                    let mut waits: Waits = Box::pin(limiter.enter());
                    match poll(waits.as_mut()) {
                        Poll::Ready(call) => {
                            prop_assert!(has_room && line.is_empty());
                            calls.push(call.expect("a slot"));
                        }
                        Poll::Pending => {
                            prop_assert!(!has_room || !line.is_empty());
                            line.push(waits);
                        }
                    }
                }
                LimiterStep::GiveUp(which) if !line.is_empty() => drop(line.remove(which % line.len())),
                LimiterStep::End(which, how) if !calls.is_empty() => {
                    calls.swap_remove(which % calls.len()).finish(how);
                    if how != Finish::Ignored {
                        limit = says.next.load(SeqCst);
                    }
                }
                LimiterStep::Leak(which) if !calls.is_empty() && leaked < 2 => {
                    std::mem::forget(calls.swap_remove(which % calls.len()));
                    leaked += 1;
                }
                LimiterStep::Limit(next) => says.next.store(next, SeqCst),
                LimiterStep::Advance(by) => clock.advance(ms(by)),
                LimiterStep::Set(to) => clock.set(tollgate::Timestamp::ZERO + ms(to)),
                _ => {}
            }
            // Those in line are served at once, in their order, as far as there is room.
            while (calls.len() as u64) + leaked < limit && !line.is_empty() {
                let Poll::Ready(call) = poll(line.remove(0).as_mut()) else {
                    return Err(TestCaseError::fail("there is room, and the first in line waits"));
                };
                calls.push(call.expect("a slot"));
            }
            for waits in &mut line {
                prop_assert!(poll(waits.as_mut()).is_pending());
            }
            prop_assert_eq!(limiter.limit(), limit);
            prop_assert_eq!(limiter.in_flight(), calls.len() as u64 + leaked);
            prop_assert_eq!(limiter.waiting(), line.len());
        }
        drop((calls, line));
        prop_assert_eq!((limiter.in_flight(), limiter.waiting()), (leaked, 0));
    }
}

/// Threads that enter, wait and finish while the limit changes with each call: all get in, none is lost, and
/// what is in force at the end is what was learned last.
#[test]
fn callers_at_once_all_get_in_while_the_limit_changes_under_them() {
    #[derive(Debug)]
    struct Changes(u64);
    impl AdaptiveLimit for Changes {
        fn limit(&self) -> u64 {
            1 + self.0 % 7
        }
        fn update(&mut self, _: Sample) {
            self.0 += 1;
        }
    }
    const THREADS: u64 = 4;
    const CALLS: u64 = 3_000;
    let limiter = AdaptiveLimiter::with_clock(Changes(0), each(), MonotonicClock::new()).expect("settings");
    let barrier = Barrier::new(THREADS as usize);
    let running = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..CALLS {
                    let call = limiter.blocking_enter_within(ms(60_000)).expect("a slot within a minute");
                    assert!(running.fetch_add(1, SeqCst) < 7, "more than any limit allows");
                    running.fetch_sub(1, SeqCst);
                    call.success();
                }
            });
        }
    });
    assert_eq!((limiter.in_flight(), limiter.waiting()), (0, 0));
    assert_eq!(limiter.limit(), 1 + THREADS * CALLS % 7);
}

/// Calls that end at the same time must not leave an older limit in force.
#[test]
fn what_was_learned_last_is_in_force() {
    #[derive(Debug)]
    struct CountsSamples(u64);
    impl AdaptiveLimit for CountsSamples {
        fn limit(&self) -> u64 {
            self.0
        }
        fn update(&mut self, _: Sample) {
            self.0 += 1;
        }
    }
    const THREADS: u64 = 2;
    let limiter =
        AdaptiveLimiter::with_clock(CountsSamples(10), each(), MonotonicClock::new()).expect("settings");
    let barrier = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 1..=3_000 {
                    let call = limiter.try_enter().expect("room");
                    barrier.wait();
                    call.success();
                    barrier.wait();
                    assert_eq!(limiter.limit(), 10 + THREADS * round);
                    barrier.wait();
                }
            });
        }
    });
}
