//! Waiting: order, deadlines, cancellation, and what else may happen meanwhile. Time is tokio's, paused: it
//! advances when everything waits.
#![allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]

use std::collections::HashSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::yield_now;
use tokio::time::sleep;
use tollgate::{
    AcquireError, Clock, Inherit, KeyedRateLimiter, Quota, RateLimiter, Timestamp, TokioClock, check_all,
};

mod concurrency;
mod model;
mod quotas_by_key;
mod windows;

const SECOND: Duration = Duration::from_secs(1);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn direct(quota: Quota) -> RateLimiter<TokioClock> {
    RateLimiter::direct_with_clock(quota, TokioClock::new()).expect("a quota")
}

fn keyed(quota: Quota) -> KeyedRateLimiter<str, TokioClock> {
    KeyedRateLimiter::with_clock(quota, TokioClock::new()).expect("a quota")
}

/// Lets all tasks do what they can do now.
async fn settle() {
    for _ in 0..20 {
        yield_now().await;
    }
}

/// Lets tasks join until `count` callers wait.
async fn joined(waiting: impl Fn() -> usize, count: usize) {
    while waiting() < count {
        yield_now().await;
    }
}

/// Waiters that were served, in order: a name, and how long it waited.
#[derive(Clone, Default)]
struct Served(Arc<Mutex<Vec<(u64, Duration)>>>);

impl Served {
    /// A task that waits for `n` permits and notes that under `name`.
    fn wait(&self, limiter: &RateLimiter<TokioClock>, name: u64, n: u64) -> tokio::task::JoinHandle<()> {
        let served = self.clone();
        let limiter = limiter.clone();
        tokio::spawn(async move {
            let waited = limiter.acquire(n).await.expect("permits");
            served.0.lock().push((name, waited));
        })
    }

    fn seen(&self) -> Vec<(u64, Duration)> {
        self.0.lock().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_order_each_when_its_permits_are_there() {
    let limiter = direct(Quota::per_second(10));
    let served = Served::default();
    for (name, n) in [(1, 10), (2, 1), (3, 5), (4, 1), (5, 2)] {
        served.wait(&limiter, name, n);
        settle().await;
    }
    assert_eq!((limiter.waiting(), served.seen().len()), (4, 1));
    assert!(limiter.check().is_err(), "no check overtakes a waiter");
    sleep(ms(900)).await;
    settle().await;
    let want = [(1, ms(0)), (2, ms(100)), (3, ms(600)), (4, ms(700)), (5, ms(900))];
    assert_eq!(served.seen(), want);
    assert_eq!(limiter.waiting(), 0);
    assert_eq!(limiter.check().expect_err("none is left").retry_after(), Some(ms(100)));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_cannot_be_met_fails_at_once_and_takes_nothing() {
    let limiter = direct(Quota::per_second(10));
    let began = limiter.now();
    assert_eq!(limiter.try_acquire(10, ms(0)).await, Ok(ms(0)));
    let error = limiter.try_acquire(5, ms(499)).await.expect_err("half a second away");
    assert_eq!(error, AcquireError::TooLong { retry_after: ms(1) });
    assert_eq!(limiter.now(), began, "at once");
    assert_eq!(limiter.try_acquire(5, ms(500)).await, Ok(ms(500)), "nothing was taken");
    assert_eq!(limiter.acquire(11).await, Err(AcquireError::NeverFits { burst: 10 }));
    assert_eq!(limiter.acquire(1).await, Ok(ms(100)));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_gives_its_permits_to_those_behind_it() {
    // Of waiters for 5, 3 and 1 permits, at 500, 800 and 900 ms, one leaves at 100 ms.
    for (leaves, want) in [
        (1, vec![(2, ms(300)), (3, ms(400))]),
        (2, vec![(1, ms(500)), (3, ms(600))]),
        (3, vec![(1, ms(500)), (2, ms(800))]),
    ] {
        let limiter = direct(Quota::per_second(10));
        limiter.check_n(10).expect("a full bucket");
        let served = Served::default();
        let mut tasks = Vec::new();
        for (name, n) in [(1, 5), (2, 3), (3, 1)] {
            tasks.push(served.wait(&limiter, name, n));
            settle().await;
        }
        sleep(ms(100)).await;
        tasks[leaves - 1].abort();
        sleep(SECOND).await;
        assert_eq!(served.seen(), want, "{leaves} leaves");
        assert_eq!(limiter.waiting(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_after_its_turn_has_come_gives_everything_back() {
    let limiter = direct(Quota::per_second(10));
    limiter.check_n(10).expect("a full bucket");
    let mut served = Box::pin(limiter.acquire(4));
    let waker = Waker::noop();
    assert!(served.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    sleep(ms(400)).await;
    settle().await;
    assert_eq!((limiter.waiting(), limiter.peek().remaining()), (0, 0), "served, and not yet polled");
    drop(served);
    assert_eq!(limiter.peek().remaining(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_future_that_nobody_polls_any_more_does_not_delay_the_others() {
    let limiter = direct(Quota::per_second(10));
    limiter.check_n(10).expect("a full bucket");
    let mut idle = pin!(limiter.acquire(1));
    assert!(idle.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let mut leaked = Box::pin(limiter.acquire(1));
    assert!(leaked.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    std::mem::forget(leaked);
    assert_eq!(limiter.acquire(1).await, Ok(ms(300)));
    assert_eq!(idle.await, Ok(ms(100)), "it had its permit in time");
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_bounded_and_says_so() {
    let limiter = direct(Quota::per_second(10));
    limiter.set_max_waiting(2);
    limiter.check_n(10).expect("a full bucket");
    let served = Served::default();
    let tasks = [served.wait(&limiter, 1, 1), served.wait(&limiter, 2, 1)];
    settle().await;
    assert_eq!(limiter.acquire(1).await, Err(AcquireError::QueueFull { waiting: 2 }));
    tasks[0].abort();
    settle().await;
    assert_eq!(limiter.acquire(1).await, Ok(ms(200)), "there is room again");
    limiter.set_max_waiting(0);
    sleep(ms(100)).await;
    assert_eq!(limiter.acquire(1).await, Ok(ms(0)), "no queue, and no need to wait");
    assert_eq!(limiter.acquire(1).await, Err(AcquireError::QueueFull { waiting: 0 }));
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_waiters_on_one_key_are_served_in_order_by_one_task() {
    const MANY: u64 = 100_000;
    let limiter = direct(Quota::per_second(MANY).burst(1));
    limiter.check().expect("the first");
    let served = Served::default();
    for name in 0..MANY {
        served.wait(&limiter, name, 1);
    }
    joined(|| limiter.waiting(), MANY as usize).await;
    settle().await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks as u64, MANY + 1, "the waiters, and the one with the timer");
    sleep(SECOND).await;
    settle().await;
    let seen = served.seen();
    assert!(seen.iter().map(|(name, _)| *name).eq(0..MANY), "the order is exact");
    // Ten microseconds each; tokio's timer has whole milliseconds.
    let late = seen.iter().zip(1_u64..).map(|((_, waited), place)| *waited - ms(1) * place as u32 / 100);
    assert!(late.max() < Some(ms(2)), "none earlier than it may, none later than the timer");
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_future_that_waits_is_small() {
    let limiter = direct(Quota::per_second(10));
    let bytes = size_of_val(&limiter.acquire(1));
    // Besides, 100 bytes in the queue, as a test there says.
    assert!(bytes <= 100, "{bytes} bytes");
}

#[tokio::test(start_paused = true)]
async fn keys_do_not_wait_for_each_other() {
    let limiter = keyed(Quota::per_second(10));
    for key in ["ann", "bob"] {
        limiter.check_n(key, 10).expect("a full bucket");
    }
    let spawn = |key: &'static str, n| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.acquire(key, n).await.expect("permits") })
    };
    let waits = [spawn("ann", 5), spawn("bob", 1), spawn("ann", 1), spawn("bob", 1), spawn("carl", 1)];
    settle().await;
    assert_eq!((limiter.waiting(), Handle::current().metrics().num_alive_tasks()), (4, 5));
    let mut waited = Vec::new();
    for wait in waits {
        waited.push(wait.await.expect("no panic"));
    }
    assert_eq!(waited, [ms(500), ms(100), ms(600), ms(200), ms(0)]);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_has_its_place_among_the_waiters() {
    let limiter = direct(Quota::per_second(10));
    limiter.check_n(10).expect("a full bucket");
    let began = limiter.now();
    let served = Served::default();
    served.wait(&limiter, 1, 1);
    settle().await;
    let reserved = limiter.reserve(2, SECOND).expect("near enough");
    assert_eq!((reserved.act_at(), reserved.permits()), (began + ms(300), 2));
    served.wait(&limiter, 2, 1);
    settle().await;
    let far = limiter.reserve(10, ms(1_399)).expect_err("1400 ms away");
    assert_eq!(far, AcquireError::TooLong { retry_after: ms(1) });
    sleep(ms(50)).await;
    reserved.cancel();
    sleep(SECOND).await;
    assert_eq!(served.seen(), [(1, ms(100)), (2, ms(200))], "the second gained what was cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_commit_of_less_gives_back_and_of_more_is_owed() {
    let limiter = direct(Quota::per_second(10));
    for (reserved, used, remaining) in [(8, 3, 7), (2, 2, 5), (1, 4, 1)] {
        limiter.reserve(reserved, ms(0)).expect("it is there").commit(used);
        assert_eq!(limiter.peek().remaining(), remaining);
    }
    // The same before the turn has come: eleven are owed then, of which four were not used.
    let ahead = limiter.reserve(10, SECOND).expect("900 ms away");
    ahead.commit(6);
    assert_eq!(limiter.acquire(1).await, Ok(ms(600)));
    let ahead = limiter.reserve(1, SECOND).expect("100 ms away");
    ahead.commit(3);
    assert_eq!(limiter.acquire(1).await, Ok(ms(400)));
    // Given back late, it admits no more than if it had never been made.
    let late = limiter.reserve(10, SECOND).expect("a second away");
    sleep(ms(2_500)).await;
    drop(late);
    assert_eq!(limiter.take_at_most(100), 10);
}

#[tokio::test(start_paused = true)]
async fn a_penalty_a_block_and_a_slower_quota_end_waits_that_became_too_long() {
    type Change = fn(&RateLimiter<TokioClock>);
    let changes: [Change; 3] = [
        |limiter| limiter.penalise(5),
        |limiter| limiter.block(limiter.now() + ms(700)),
        |limiter| limiter.reconfigure(Quota::per_second(5).burst(10)).expect("a quota"),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let limiter = direct(Quota::per_second(10));
        limiter.check_n(10).expect("a full bucket");
        let wait = |n, timeout| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.try_acquire(n, timeout).await })
        };
        let hurried = wait(3, ms(400));
        settle().await;
        let patient = wait(1, ms(5_000));
        settle().await;
        change(&limiter);
        assert_eq!(hurried.await.expect("no panic"), Err(AcquireError::Late), "{number}");
        // Alone now, and its permits were given back.
        let want = [ms(600), ms(700), ms(200)][number];
        assert_eq!(patient.await.expect("no panic"), Ok(want), "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn permits_that_come_back_a_reset_and_a_faster_quota_end_waits_earlier() {
    type Change = fn(&RateLimiter<TokioClock>);
    let changes: [(Change, Duration); 4] = [
        (|limiter| limiter.give_back(3), ms(200)),
        (|limiter| limiter.reset(), ms(100)),
        (|limiter| limiter.reconfigure(Quota::per_second(20).burst(10)).expect("a quota"), ms(300)),
        (|limiter| limiter.reconfigure(Quota::per_second(10).burst(15)).expect("a quota"), ms(100)),
    ];
    for (number, (change, want)) in changes.into_iter().enumerate() {
        let limiter = direct(Quota::per_second(10));
        limiter.check_n(10).expect("a full bucket");
        let waiter = {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.acquire(5).await })
        };
        sleep(ms(100)).await;
        settle().await;
        change(&limiter);
        assert_eq!(waiter.await.expect("no panic"), Ok(want), "{number}");
        if number == 1 {
            assert_eq!(limiter.peek().remaining(), 5, "full again, less what the waiter has");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_waiters_have_reserved_is_not_scaled_with_the_quota() {
    let limiter = direct(Quota::per_second(10));
    let by_key = keyed(Quota::per_second(10));
    limiter.check_n(10).expect("a full bucket");
    by_key.check_n("a", 10).expect("a full bucket");
    let waiters = {
        let limiter = limiter.clone();
        let by_key = by_key.clone();
        [
            tokio::spawn(async move { limiter.acquire(5).await }),
            tokio::spawn(async move { by_key.acquire("a", 5).await }),
        ]
    };
    settle().await;
    limiter.reconfigure_as(Quota::per_second(20), Inherit::Proportional).expect("a quota");
    by_key.reconfigure_as(Quota::per_second(20), Inherit::Proportional).expect("a quota");
    for waiter in waiters {
        // Empty then as before, and five come in a quarter of a second.
        assert_eq!(waiter.await.expect("no panic"), Ok(ms(250)));
    }
    assert_eq!((limiter.peek().remaining(), by_key.peek("a").remaining()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_quota_of_another_algorithm_ends_all_waits() {
    let limiter = direct(Quota::per_second(10));
    limiter.check_n(10).expect("a full bucket");
    let waiter = {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.acquire(5).await })
    };
    settle().await;
    limiter.reconfigure(Quota::fixed_window(3, SECOND)).expect("a quota");
    assert_eq!(waiter.await.expect("no panic"), Err(AcquireError::Reconfigured));
    assert_eq!(limiter.take_at_most(10), 3);
}

#[tokio::test(start_paused = true)]
async fn what_never_comes_back_says_so_and_what_has_no_limit_needs_no_line() {
    let total = direct(Quota::total(1));
    assert_eq!(total.acquire(1).await, Ok(ms(0)));
    assert_eq!(total.acquire(1).await, Err(AcquireError::NeverFits { burst: 1 }));
    let none = direct(Quota::per_second(0));
    assert_eq!(none.acquire(1).await, Err(AcquireError::NeverFits { burst: 0 }));
    assert_eq!(direct(Quota::unlimited()).acquire(u64::MAX).await, Ok(ms(0)));
}

#[tokio::test(start_paused = true)]
async fn a_leaky_bucket_lets_one_through_at_a_time_and_says_what_the_wait_would_have_been() {
    let limiter = direct(Quota::leaky_queue(10, SECOND).burst(3));
    let served = Served::default();
    let tasks: Vec<_> = (1..=3).map(|name| served.wait(&limiter, name, 1)).collect();
    settle().await;
    let full = limiter.acquire(1).await.expect_err("it holds three");
    assert_eq!(full, AcquireError::TooLong { retry_after: ms(100) });
    sleep(ms(50)).await;
    tasks[1].abort();
    sleep(SECOND).await;
    assert_eq!(served.seen(), [(1, ms(0)), (3, ms(100))]);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_key_waits_until_the_block_ends() {
    let limiter = keyed(Quota::per_second(10));
    limiter.block("mallory", limiter.now() + SECOND);
    let early = limiter.try_acquire("mallory", 1, ms(999)).await;
    assert_eq!(early, Err(AcquireError::TooLong { retry_after: ms(1) }));
    assert_eq!(limiter.acquire("mallory", 1).await, Ok(SECOND));
    assert_eq!(limiter.acquire("mallory", 1).await, Ok(ms(0)));
}

#[tokio::test(start_paused = true)]
async fn all_or_nothing_does_not_overtake_waiters() {
    let limiter = direct(Quota::per_second(10));
    let other = direct(Quota::per_second(10));
    limiter.check_n(10).expect("a full bucket");
    let waiter = {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.acquire(5).await })
    };
    sleep(ms(300)).await;
    settle().await;
    assert!(check_all(&[other.request(1), limiter.request(1)]).is_err());
    assert_eq!((limiter.take_at_most(10), other.peek().remaining()), (0, 10));
    assert_eq!(waiter.await.expect("no panic"), Ok(ms(500)));
}

#[test]
fn a_runtime_that_shuts_down_with_waiters_leaves_the_others_their_turns() {
    let limiter = RateLimiter::direct(Quota::per_minute(600)).expect("a quota");
    limiter.check_n(600).expect("a full bucket");
    let runtime = || Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a runtime");
    let dying: Runtime = runtime();
    let living: Runtime = runtime();
    let spawn = |on: &Runtime, n| {
        let limiter = limiter.clone();
        on.spawn(async move { limiter.acquire(n).await })
    };
    let joined = |count| {
        while limiter.waiting() < count {
            std::thread::yield_now();
        }
    };
    let lost = spawn(&dying, 600); // a minute away: the task with the timer is on this runtime
    joined(1);
    let kept = spawn(&living, 1);
    joined(2);
    dying.shutdown_background();
    let waited = living.block_on(kept).expect("no panic").expect("permits");
    assert!(waited < 60 * SECOND, "{waited:?}: it gained what the lost one gave back");
    assert!(living.block_on(lost).is_err());
}

#[test]
fn without_a_runtime_or_its_timer_a_wait_fails_and_takes_nothing() {
    let limiter = RateLimiter::direct(Quota::per_hour(10)).expect("a quota");
    limiter.check_n(10).expect("a full bucket");
    {
        let mut wait = pin!(limiter.acquire(1));
        let polled = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, std::task::Poll::Ready(Err(AcquireError::NoRuntime)));
    }
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let result = runtime.block_on(async { limiter.acquire(1).await });
    assert_eq!(result, Err(AcquireError::NoRuntime));
    assert_eq!(limiter.waiting(), 0);
    limiter.give_back(1);
    assert!(limiter.check().is_ok(), "nothing was taken");
}

#[test]
fn threads_wait_in_order_without_a_runtime() {
    let limiter = RateLimiter::direct(Quota::per_second(200).burst(1)).expect("a quota");
    let began = limiter.now();
    limiter.check().expect("a full bucket");
    let order = Mutex::new(Vec::new());
    let mut joined = Vec::new();
    std::thread::scope(|scope| {
        for name in 0..20 {
            let limiter = &limiter;
            let order = &order;
            scope.spawn(move || {
                let came = limiter.now();
                let waited = limiter.blocking_acquire(1).expect("permits");
                order.lock().push((waited, limiter.now().since(came), name));
            });
            while limiter.waiting() + order.lock().len() <= name {
                std::thread::yield_now();
            }
            joined.push(limiter.now());
        }
        assert!(matches!(limiter.blocking_try_acquire(1, Duration::ZERO), Err(AcquireError::TooLong { .. })));
    });
    let passed = limiter.now().since(began);
    assert!(passed >= ms(100), "20 permits after the first, at 200 per second, in {passed:?}");
    let order = order.into_inner();
    assert_eq!(order.len(), 20);
    assert_eq!(limiter.waiting(), 0);
    // Each is returned how long it waited: at least until its turn, and no longer than its call took.
    for (waited, took, name) in order {
        let turn = began + ms(5) * (name as u32 + 1);
        assert!(waited >= turn.since(joined[name]) && waited <= took, "{name}: {waited:?} of {took:?}");
    }
    let slow = RateLimiter::keyed(Quota::per_hour(1)).expect("a quota");
    assert_eq!(slow.blocking_acquire("ann", 1), Ok(ms(0)));
    let error = slow.blocking_try_acquire("ann", 1, SECOND).expect_err("an hour away");
    assert!(matches!(error, AcquireError::TooLong { .. }), "{error}");
}

#[test]
fn a_thread_behind_a_task_on_a_runtime_that_stands_still_has_its_turn() {
    let limiter = RateLimiter::direct(Quota::per_second(100).burst(1)).expect("a quota");
    limiter.check().expect("a full bucket");
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    let task = {
        let limiter = limiter.clone();
        runtime.spawn(async move { limiter.acquire(1).await })
    };
    runtime.block_on(async {
        while limiter.waiting() == 0 {
            yield_now().await
        }
    });
    // This thread is the runtime's only one.
    assert!(limiter.blocking_acquire(1).is_ok());
    assert!(runtime.block_on(task).expect("no panic").is_ok());
}

#[test]
fn thousands_of_tasks_and_threads_share_one_limiter() {
    const TASKS: usize = 5_000;
    const THREADS: usize = 16;
    let limiter = RateLimiter::direct(Quota::per_second(20_000).burst(100)).expect("a quota");
    let began = limiter.now();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime");
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..50 {
                    limiter.blocking_acquire(1).expect("permits");
                }
            });
        }
        let tasks: Vec<_> = (0..TASKS)
            .map(|number| {
                let limiter = limiter.clone();
                let task = runtime.spawn(async move { limiter.acquire(1).await.is_ok() });
                if number % 10 == 9 {
                    task.abort();
                }
                task
            })
            .collect();
        let admitted: usize = runtime.block_on(async {
            let mut admitted = 0;
            for task in tasks {
                admitted += usize::from(task.await.is_ok_and(|is_admitted| is_admitted));
            }
            admitted
        });
        assert!((TASKS * 9 / 10..=TASKS).contains(&admitted), "{admitted}");
    });
    let passed = limiter.now().since(began);
    let least = Duration::from_secs(1) * (TASKS * 9 / 10 + THREADS * 50 - 100) as u32 / 20_000;
    assert!(passed >= least, "{passed:?} for what takes {least:?}");
    assert_eq!(limiter.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn waiters_of_many_keys_cost_one_task_and_leave_nothing_behind() {
    let limiter: KeyedRateLimiter<u64, _> =
        KeyedRateLimiter::with_clock(Quota::per_second(10).burst(1), TokioClock::new()).expect("a quota");
    let mut seen = HashSet::new();
    let mut tasks = Vec::new();
    for number in 0..3_000_u64 {
        let limiter = limiter.clone();
        tasks.push(tokio::spawn(async move { limiter.acquire(&(number % 1_000), 1).await }));
    }
    joined(|| limiter.waiting(), 2_000).await;
    settle().await;
    assert_eq!((limiter.waiting(), Handle::current().metrics().num_alive_tasks()), (2_000, 2_001));
    for task in tasks {
        seen.insert(task.await.expect("no panic").expect("permits"));
    }
    assert_eq!(seen, HashSet::from([ms(0), ms(100), ms(200)]));
    settle().await;
    assert_eq!((limiter.waiting(), Handle::current().metrics().num_alive_tasks()), (0, 0));
}
