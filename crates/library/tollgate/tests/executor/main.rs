//! The executor: when jobs leave, and what becomes of those that do not. Time is tokio's, paused.
#![allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]

mod ends;
mod model;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::yield_now;
use tokio::time::Instant;
use tollgate::LeakyExecutor;
use tollgate::executor::{JobError, LeakyExecutorBuilder, Order, StartError, SubmitError, Ticket};

const SECOND: Duration = Duration::from_secs(1);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn start(builder: LeakyExecutorBuilder) -> LeakyExecutor {
    builder.start().expect("settings and a runtime")
}

/// Lets all tasks do what they can do now.
async fn settle() {
    for _ in 0..50 {
        yield_now().await;
    }
}

/// When jobs began, in order: a name, and the time since the first look.
#[derive(Clone)]
struct Left {
    began: Instant,
    all: Arc<Mutex<Vec<(u64, Duration)>>>,
}

impl Left {
    fn new() -> Self {
        Self { began: Instant::now(), all: Arc::default() }
    }

    /// A job that notes its name, and takes `work`.
    fn job(&self, name: u64, work: Duration) -> impl Future<Output = u64> + Send + 'static {
        let left = self.clone();
        async move {
            left.all.lock().push((name, left.began.elapsed()));
            if !work.is_zero() {
                tokio::time::sleep(work).await;
            }
            name
        }
    }

    fn submit(&self, to: &LeakyExecutor, name: u64) -> Result<Ticket<u64>, SubmitError> {
        to.submit(self.job(name, Duration::ZERO))
    }

    /// Submits jobs of the names from 0 on; returns the last one's ticket.
    fn submit_all(&self, to: &LeakyExecutor, count: u64) -> Ticket<u64> {
        let mut tickets: Vec<_> = (0..count).map(|name| self.submit(to, name).expect("room")).collect();
        tickets.pop().expect("some")
    }

    /// The jobs that have left since the last look.
    fn take(&self) -> Vec<(u64, Duration)> {
        std::mem::take(&mut *self.all.lock())
    }
}

#[tokio::test(start_paused = true)]
async fn one_job_leaves_every_ten_milliseconds_whatever_the_arrivals_and_a_full_queue_rejects() {
    let left = Left::new();
    let executor = start(LeakyExecutor::builder(100, SECOND).capacity(50));
    let tickets: Vec<_> = (0..60).map(|name| left.submit(&executor, name)).collect();
    assert!(matches!(tickets[50], Err(SubmitError::Full { capacity: 50 })));
    assert_eq!(tickets.iter().filter(|ticket| ticket.is_ok()).count(), 50);
    for (name, ticket) in (0..).zip(tickets.into_iter().flatten()) {
        assert_eq!(ticket.await, Ok(name));
    }
    let evenly: Vec<_> = (0..50).map(|name| (name, ms(10 * name))).collect();
    assert_eq!(left.take(), evenly);
    // A pause saves nothing: again one at once, and then one by one.
    tokio::time::sleep(60 * SECOND).await;
    let from = left.began.elapsed();
    let last = left.submit_all(&executor, 3);
    assert_eq!(last.await, Ok(2));
    assert_eq!(left.take(), [(0, from), (1, from + ms(10)), (2, from + ms(20))]);
    let stats = executor.stats();
    assert_eq!((stats.done, stats.rejected, stats.waiting), (53, 10, 0));
}

#[tokio::test(start_paused = true)]
async fn a_batch_leaves_together_in_the_time_of_its_jobs() {
    let left = Left::new();
    let executor = start(LeakyExecutor::builder(100, SECOND).batch(10));
    let last = left.submit_all(&executor, 35);
    assert_eq!(last.await, Ok(34));
    let at: Vec<_> = left.take().into_iter().map(|(name, at)| (name, at.as_millis())).collect();
    // The last five need not wait for five more.
    let expected = |name| [0, 100, 200, 250][name as usize / 10];
    assert_eq!(at, (0..35).map(|name| (name, expected(name))).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_rate_that_no_timer_keeps_is_kept_on_average() {
    // 700 a second, one by one: a turn every 1.43 ms, and a timer that fires on whole ones.
    let left = Left::new();
    let executor = start(LeakyExecutor::builder(700, SECOND).capacity(7_001).batch(1));
    let last = left.submit_all(&executor, 7_001);
    assert_eq!(last.await, Ok(7_000));
    for (name, at) in left.take() {
        let turn = Duration::from_nanos((name * 1_000_000_000).div_ceil(700));
        assert!(at >= turn && at < turn + ms(1), "{name}: {at:?}, its turn was {turn:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_newest_leave_first_if_so_set_and_the_oldest_expire_in_time() {
    let builder = LeakyExecutor::builder(100, SECOND).order(Order::Lifo).max_wait(ms(25));
    let left = Left::new();
    let executor = start(builder);
    let mut tickets: Vec<_> = (0..5).map(|name| left.submit(&executor, name).expect("room")).collect();
    let last = tickets.pop().expect("five");
    assert_eq!(last.await, Ok(4));
    let expired = tickets.swap_remove(0);
    assert_eq!(expired.await, Err(JobError::Expired { max_wait: ms(25) }));
    assert_eq!(left.began.elapsed(), ms(25), "not later than its deadline");
    assert_eq!(left.take(), [(4, ms(0)), (3, ms(10)), (2, ms(20))]);
    assert_eq!((executor.stats().expired, executor.stats().done), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_turn_at_the_deadline_is_in_time_and_without_a_wait_one_leaves_at_once() {
    let left = Left::new();
    let executor = start(LeakyExecutor::builder(100, SECOND).max_wait(ms(20)));
    let tickets: Vec<_> = (0..4).map(|name| left.submit(&executor, name).expect("room")).collect();
    for (name, ticket) in (0..).zip(tickets) {
        assert_eq!(ticket.await.is_ok(), name <= 2, "job {name}");
    }
    assert_eq!(left.take(), [(0, ms(0)), (1, ms(10)), (2, ms(20))]);

    let hurried = start(LeakyExecutor::builder(100, SECOND).max_wait(ms(0)));
    let first = left.submit(&hurried, 1);
    let second = left.submit(&hurried, 2);
    assert_eq!(first.expect("room").await, Ok(1));
    assert!(second.expect("room").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn no_more_run_at_the_same_time_than_there_are_workers() {
    let left = Left::new();
    let executor = start(LeakyExecutor::builder(100, SECOND).workers(2));
    for name in 0..5 {
        let _detached = executor.submit(left.job(name, ms(100))).expect("room");
    }
    tokio::time::sleep(ms(50)).await;
    assert_eq!((executor.stats().running, executor.stats().waiting), (2, 3));
    assert_eq!(executor.drain().await.done, 5);
    let expected = [(0, ms(0)), (1, ms(10)), (2, ms(100)), (3, ms(110)), (4, ms(200))];
    assert_eq!(left.take(), expected);
}

#[test]
fn what_cannot_start_says_why() {
    let builder = || LeakyExecutor::builder(100, SECOND);
    assert_eq!(builder().start().expect_err("no runtime"), StartError::NoRuntime);
    let error = |builder: LeakyExecutorBuilder| builder.start().expect_err("out of bounds").to_string();
    assert_eq!(error(builder().capacity(0)), "invalid capacity 0: expected 1 or more");
    assert_eq!(error(builder().workers(0)), "invalid workers 0: expected 1 or more");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _entered = runtime.enter();
    assert!(matches!(builder().batch(0).start(), Err(StartError::Rate(_))));
    assert!(matches!(LeakyExecutor::builder(100, Duration::ZERO).start(), Err(StartError::Rate(_))));
}
