//! Slots: never more than there are, none lost, first in, first out.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::time::{Instant, sleep};
use tollgate::{ConcurrencyGuard, ConcurrencyLimiter, EnterError, KeyedConcurrencyLimiter};

use super::{joined, ms, settle};

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_denial_says_how_many_are_in_use_and_takes_nothing() {
    let limiter = ConcurrencyLimiter::direct(3);
    let _two = limiter.try_enter_n(2).expect("three are free");
    let denied = limiter.try_enter_n(2).expect_err("one is free");
    assert_eq!((denied.asked, denied.in_use, denied.limit, denied.waiting), (2, 2, 3, 0));
    assert_eq!(denied.to_string(), "2 slots asked for, 2 of 3 are in use, and 0 callers wait");
    assert!(limiter.try_enter().is_ok());
    assert_eq!((limiter.in_use(), limiter.peak()), (2, 3));
    assert!(limiter.try_enter_n(u64::MAX).is_err(), "no sum overflows");
    assert!(ConcurrencyLimiter::direct(0).try_enter().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_slot_comes_back_when_code_panics_and_when_a_task_is_cancelled() {
    let limiter = ConcurrencyLimiter::direct(1);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _slot = limiter.try_enter().expect("it is free");
        std::panic::resume_unwind(Box::new("what it does fails"));
    }));
    assert!(panicked.is_err());
    assert_eq!(limiter.in_use(), 0);
    let task = tokio::spawn({
        let limiter = limiter.clone();
        async move {
            let _slot = limiter.enter(1).await.expect("it is free");
            std::future::pending::<()>().await;
        }
    });
    settle().await;
    assert_eq!(limiter.in_use(), 1);
    task.abort();
    assert!(task.await.is_err_and(|error| error.is_cancelled()));
    assert_eq!(limiter.in_use(), 0);
}

#[test]
fn a_guard_that_is_forgotten_keeps_its_slot_and_a_higher_limit_makes_up_for_it() {
    let limiter = ConcurrencyLimiter::direct(1);
    std::mem::forget(limiter.try_enter().expect("it is free"));
    assert!(limiter.try_enter().is_err());
    limiter.set_limit(2);
    assert!(limiter.try_enter().is_ok());
    assert_eq!(limiter.in_use(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_its_deadline_and_takes_nothing() {
    let limiter = ConcurrencyLimiter::direct(2);
    let held = limiter.try_enter_n(2).expect("they are free");
    let began = Instant::now();
    let error = limiter.enter_within(1, ms(250)).await.expect_err("none is free");
    assert_eq!((error, began.elapsed()), (EnterError::TimedOut { timeout: ms(250) }, ms(250)));
    let now = limiter.enter_within(1, ms(0)).await.expect_err("none is free");
    assert_eq!((now, began.elapsed()), (EnterError::TimedOut { timeout: ms(0) }, ms(250)));
    let error = limiter.enter(3).await.expect_err("there are two");
    assert_eq!(error, EnterError::NeverFits { limit: 2 });
    let (guard, ()) = tokio::join!(limiter.enter_within(2, ms(100)), async {
        sleep(ms(99)).await;
        drop(held);
    });
    assert_eq!((guard.map(|guard| guard.slots()), began.elapsed()), (Ok(2), ms(349)));
    assert_eq!((limiter.in_use(), limiter.waiting()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_line_is_bounded_and_a_place_that_is_left_is_free_again() {
    let limiter = ConcurrencyLimiter::direct(1);
    limiter.set_max_waiting(1);
    let held = limiter.try_enter().expect("it is free");
    let mut first = Box::pin(limiter.enter(1));
    assert!(poll(first.as_mut()).is_pending());
    assert_eq!(limiter.enter(1).await.expect_err("one waits"), EnterError::QueueFull { waiting: 1 });
    drop(first);
    let mut second = pin!(limiter.enter(1));
    assert!(poll(second.as_mut()).is_pending());
    drop(held);
    assert!(second.await.is_ok());
}

#[test]
fn a_timeout_needs_a_timer_and_everything_else_needs_no_runtime() {
    let limiter = ConcurrencyLimiter::direct(1);
    let held = limiter.try_enter().expect("it is free");
    let outside = poll(pin!(limiter.enter_within(1, ms(10))));
    assert!(matches!(outside, Poll::Ready(Err(EnterError::NoRuntime))));
    let without_time = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let error = without_time.block_on(limiter.enter_within(1, ms(10))).expect_err("it has no timer");
    assert_eq!((error, limiter.waiting()), (EnterError::NoRuntime, 0));
    let mut waits = pin!(limiter.enter(1));
    assert!(poll(waits.as_mut()).is_pending());
    drop(held);
    let held = match poll(waits.as_mut()) {
        Poll::Ready(Ok(guard)) => guard,
        other => panic!("{other:?}"),
    };
    let late = limiter.blocking_enter_within(1, ms(1)).expect_err("it is held");
    assert_eq!(late, EnterError::TimedOut { timeout: ms(1) });
    drop(held);
    assert!(limiter.blocking_enter(1).is_ok());
    assert_eq!(limiter.waiting(), 0);
}

#[test]
fn callers_at_once_hold_no_more_than_there_are_and_all_get_in() {
    const LIMIT: u64 = 5;
    for keyed in [false, true] {
        let direct = ConcurrencyLimiter::direct(LIMIT);
        let per_key = ConcurrencyLimiter::keyed::<str>(LIMIT);
        let inside = AtomicU64::new(0);
        let most = AtomicU64::new(0);
        let entered = AtomicU64::new(0);
        let work = |thread: u64| {
            for round in 0..200 {
                let n = 1 + (thread + round) % LIMIT;
                let guard = if keyed { per_key.blocking_enter("k", n) } else { direct.blocking_enter(n) };
                let guard = guard.expect("no bound is in the way");
                let now = inside.fetch_add(n, SeqCst) + n;
                most.fetch_max(now, SeqCst);
                std::thread::yield_now();
                inside.fetch_sub(n, SeqCst);
                drop(guard);
                entered.fetch_add(1, SeqCst);
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let work = &work;
                scope.spawn(move || work(thread));
            }
        });
        assert!(most.into_inner() <= LIMIT);
        assert_eq!(entered.into_inner(), 8 * 200);
        assert_eq!((direct.in_use(), direct.waiting(), per_key.waiting(), per_key.keys()), (0, 0, 0, 0));
    }
}

#[test]
fn as_many_callers_as_there_are_slots_are_never_denied() {
    const LIMIT: u64 = 4;
    let limiter = ConcurrencyLimiter::direct(LIMIT);
    let together = Barrier::new(LIMIT as usize);
    std::thread::scope(|scope| {
        for _ in 0..LIMIT {
            scope.spawn(|| {
                together.wait();
                for _ in 0..10_000 {
                    assert!(limiter.try_enter().is_ok(), "a slot that was given up is free at once");
                }
            });
        }
    });
    assert!(limiter.peak() <= LIMIT);
}

#[tokio::test(start_paused = true)]
async fn keys_have_slots_of_their_own_and_leave_nothing_behind() {
    let limiter: KeyedConcurrencyLimiter<str> = ConcurrencyLimiter::keyed(1);
    let ann = limiter.try_enter("ann").expect("it is free");
    let bob = limiter.try_enter("bob").expect("it is another's");
    assert_eq!(limiter.try_enter("ann").expect_err("it is held").in_use, 1);
    assert_eq!((limiter.keys(), limiter.peak(), limiter.in_use("bob"), limiter.in_use("eve")), (2, 1, 1, 0));
    let waits = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.enter_within("ann", 1, ms(1_000)).await.map(|guard| guard.slots()) }
    });
    joined(|| limiter.waiting(), 1).await;
    drop(bob);
    settle().await;
    assert_eq!(limiter.waiting(), 1, "ann's slot is held still");
    drop(ann);
    assert_eq!(waits.await.expect("no panic"), Ok(1));
    let _held = limiter.try_enter("ann").expect("it is free");
    limiter.set_limit(2);
    assert!(limiter.try_enter("ann").is_ok() && limiter.try_enter_n("bob", 2).is_ok());
    drop(_held);
    assert_eq!((limiter.keys(), limiter.waiting()), (0, 0));
}

#[derive(Clone, Copy, Debug)]
enum ConcurrencyStep {
    Try(u64),
    Wait(u64),
    GiveUp(usize),
    Leave(usize),
    Limit(u64),
}

fn step() -> impl Strategy<Value = ConcurrencyStep> {
    prop_oneof![
        3 => (0..5_u64).prop_map(ConcurrencyStep::Try),
        4 => (0..5_u64).prop_map(ConcurrencyStep::Wait),
        4 => any::<usize>().prop_map(ConcurrencyStep::GiveUp),
        2 => any::<usize>().prop_map(ConcurrencyStep::Leave),
        1 => (0..6_u64).prop_map(ConcurrencyStep::Limit),
    ]
}

/// Slots as a number and a list.
#[derive(Default)]
struct ConcurrencyModel {
    limit: u64,
    in_use: u64,
    line: VecDeque<(usize, u64)>,
    served: Vec<usize>,
}

impl ConcurrencyModel {
    /// A caller that waits gives up, whether it was served or not.
    fn leaves(&mut self, name: usize, n: u64) {
        match self.served.iter().position(|it| *it == name) {
            Some(at) => {
                self.served.swap_remove(at);
                self.in_use -= n;
            }
            None => self.line.retain(|(it, _)| *it != name),
        }
        self.serve();
    }

    fn fits(&self, n: u64) -> bool {
        n == 0 || self.in_use + n <= self.limit
    }

    fn serve(&mut self) {
        while let Some((name, n)) = self.line.front().copied().filter(|(_, n)| self.fits(*n)) {
            self.line.pop_front();
            self.in_use += n;
            self.served.push(name);
        }
    }
}

type Wait = Pin<Box<dyn Future<Output = Result<ConcurrencyGuard, EnterError>> + Send>>;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Against a number and a list: who holds slots, who waits, who is served next.
    #[test]
    fn slots_go_to_the_first_in_line_as_soon_as_they_are_free(
        limit in 0..6_u64,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let limiter = ConcurrencyLimiter::direct(limit);
        let mut model = ConcurrencyModel { limit, ..ConcurrencyModel::default() };
        let (mut guards, mut waits): (Vec<ConcurrencyGuard>, Vec<(usize, u64, Wait)>) = Default::default();
        for (name, step) in steps.into_iter().enumerate() {
            match step {
                ConcurrencyStep::Try(n) => {
                    let is_free = model.line.is_empty() && model.fits(n);
                    let guard = limiter.try_enter_n(n);
                    prop_assert_eq!(guard.is_ok(), is_free, "{:?}", step);
                    model.in_use += if is_free { n } else { 0 };
                    guards.extend(guard);
                }
                ConcurrencyStep::Wait(n) => {
                    let mut wait: Wait = Box::pin(limiter.enter(n));
                    match poll(wait.as_mut()) {
                        Poll::Ready(Ok(guard)) => {
                            prop_assert!(model.line.is_empty() && model.fits(n), "{:?}", step);
                            model.in_use += n;
                            guards.push(guard);
                        }
                        Poll::Ready(Err(error)) => {
                            prop_assert_eq!(error, EnterError::NeverFits { limit: model.limit });
                            prop_assert!(n > model.limit);
                        }
                        Poll::Pending => {
                            prop_assert!(!model.line.is_empty() || !model.fits(n), "{:?}", step);
                            model.line.push_back((name, n));
                            waits.push((name, n, wait));
                        }
                    }
                }
                ConcurrencyStep::GiveUp(at) if !guards.is_empty() => {
                    let guard = guards.swap_remove(at % guards.len());
                    model.in_use -= guard.slots();
                    drop(guard);
                    model.serve();
                }
                ConcurrencyStep::Leave(at) if !waits.is_empty() => {
                    let (name, n, wait) = waits.remove(at % waits.len());
                    drop(wait);
                    model.leaves(name, n);
                }
                ConcurrencyStep::GiveUp(_) | ConcurrencyStep::Leave(_) => {}
                ConcurrencyStep::Limit(limit) => {
                    limiter.set_limit(limit);
                    model.limit = limit;
                    let gone: Vec<_> = model.line.iter().filter(|(_, n)| *n > limit).copied().collect();
                    model.line.retain(|(_, n)| *n <= limit);
                    for (name, _) in gone {
                        let at = waits.iter().position(|(it, ..)| *it == name).expect("it waits");
                        let (_, _, mut wait) = waits.remove(at);
                        let failed = matches!(poll(wait.as_mut()), Poll::Ready(Err(EnterError::NeverFits { .. })));
                        prop_assert!(failed, "there are fewer than it waits for");
                    }
                    model.serve();
                }
            }
            prop_assert_eq!(limiter.in_use(), model.in_use);
            prop_assert_eq!(limiter.waiting(), model.line.len());
            // Now and then those that were served look.
            if name % 3 == 0 {
                for name in std::mem::take(&mut model.served) {
                    let at = waits.iter().position(|(it, ..)| *it == name).expect("it waits");
                    let (_, _, mut wait) = waits.remove(at);
                    match poll(wait.as_mut()) {
                        Poll::Ready(Ok(guard)) => guards.push(guard),
                        other => prop_assert!(false, "{:?}", other),
                    }
                }
            }
        }
        drop((guards, waits));
        prop_assert_eq!((limiter.in_use(), limiter.waiting()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn who_came_last_is_served_first_where_that_is_said_and_others_keep_their_order() {
    let limiter = ConcurrencyLimiter::direct(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let held = limiter.try_enter().expect("a slot");
    let mut waiters = Vec::new();
    // Two in the order of arrival, three in front of them, one behind all.
    for (number, last_first) in [(0, false), (1, false), (2, true), (3, true), (4, true), (5, false)] {
        limiter.set_last_first(last_first);
        let limiter = limiter.clone();
        let order = Arc::clone(&order);
        let waits = limiter.waiting();
        let waiter = tokio::spawn({
            let limiter = limiter.clone();
            async move {
                let _slot = limiter.enter(1).await.expect("a slot");
                order.lock().push(number);
            }
        });
        joined(|| limiter.waiting(), waits + 1).await;
        waiters.push(waiter);
    }
    waiters.remove(3).abort(); // leaves from the middle
    settle().await;
    drop(held);
    for waiter in waiters {
        waiter.await.expect("no panic");
    }
    assert_eq!(*order.lock(), [4, 2, 0, 1, 5]);
}
