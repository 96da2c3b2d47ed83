//! Cost of a caller that waits: bytes, and nanoseconds to join, to be served and to continue; the variable is
//! the number of callers that wait for one key, and for as many keys.
//!
//! `cargo bench -p tollgate --bench waiters` takes about twenty seconds. A waiter is one `acquire` in a box,
//! as in a task, with the waker of a task; the runtime's own part is left out. All of them are served at one
//! instant, so that nothing is waited for: the order is checked, and the time per waiter shows whether the
//! work grows with the line. Median of the repeats.
#![allow(clippy::print_stdout, clippy::expect_used, clippy::disallowed_methods, reason = "a bench")]

use std::alloc::System;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tollgate::{
    AcquireError, Clock, KeyedRateLimiter, ManualClock, MonotonicClock, Quota, RateLimiter, Timestamp,
};

#[global_allocator]
static MEMORY: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

type Waits<'a> = Pin<Box<dyn Future<Output = Result<Duration, AcquireError>> + Send + 'a>>;

/// Runs, since one that stands still is one that was set back; and jumps where the bench says so.
#[derive(Clone, Debug)]
struct Jumps {
    real: MonotonicClock,
    ahead: ManualClock,
}

impl Clock for Jumps {
    fn now(&self) -> Timestamp {
        self.real.now() + self.ahead.now().since(Timestamp::ZERO)
    }
}

/// Notes its number when it is woken.
struct Woken {
    number: usize,
    order: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.order.lock().push(self.number);
    }
}

/// `cargo test --bench waiters`: everything once, to see that it works.
fn is_smoke() -> bool {
    !std::env::args().any(|argument| argument == "--bench")
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _within = runtime.enter(); // which would run the timer
    let columns = ["bytes", "join ns", "serve ns", "go on ns", "all ns"];
    println!("{:32}{}", "one waiter of", columns.map(|column| format!("{column:>10}")).concat());
    let sizes: &[usize] = if is_smoke() { &[100] } else { &[1_000, 10_000, 100_000, 400_000] };
    let quota = Quota::per_minute(1);
    for &count in sizes {
        show(&format!("{count} on a limiter"), |clock| {
            let limiter = RateLimiter::direct_with_clock(quota.clone(), clock.clone()).expect("a quota");
            limiter.set_max_waiting(usize::MAX);
            let look = || limiter.reserve(2, Duration::ZERO).is_ok();
            run(count, clock, |_| Box::pin(limiter.acquire(1)), look)
        });
        for (what, several) in [("one key", false), ("as many keys", true)] {
            let keys: Vec<String> = (0..count).map(|number| format!("client:{number:013}")).collect();
            show(&format!("{count} on {what}"), |clock| {
                let limiter: KeyedRateLimiter<str, Jumps> =
                    KeyedRateLimiter::with_clock(quota.clone(), clock.clone()).expect("a quota");
                limiter.set_max_waiting(usize::MAX);
                for key in keys.iter().take(if several { count } else { 1 }) {
                    limiter.check(key).expect("the first permit");
                }
                let key = |number: usize| &keys[if several { number } else { 0 }];
                let look = || limiter.reserve("another", 2, Duration::ZERO).is_ok();
                run(count, clock, |number| Box::pin(limiter.acquire(key(number), 1)), look)
            });
        }
    }
}

/// Bytes, and nanoseconds to join, to be served and to go on.
type Costs = [f64; 4];

fn show(name: &str, run: impl Fn(&Jumps) -> Costs) {
    let repeats = if is_smoke() { 1 } else { 5 };
    let runs: Vec<Costs> = (0..repeats)
        .map(|_| run(&Jumps { real: MonotonicClock::new(), ahead: ManualClock::default() }))
        .collect();
    let median = |which: usize| {
        let mut all: Vec<f64> = runs.iter().map(|costs| costs[which]).collect();
        all.sort_by(f64::total_cmp);
        all[repeats / 2]
    };
    let [bytes, join, serve, go_on] = [0, 1, 2, 3].map(median);
    let columns = [bytes, join, serve, go_on, join + serve + go_on].map(|column| format!("{column:>10.0}"));
    println!("{name:32}{}", columns.concat());
}

/// `count` waiters join, all are served when somebody `look`s a year later, and all find out.
fn run<'a>(count: usize, clock: &Jumps, wait: impl Fn(usize) -> Waits<'a>, look: impl Fn() -> bool) -> Costs {
    let order = Arc::new(Mutex::new(Vec::with_capacity(count)));
    let wakers: Vec<Waker> =
        (0..count).map(|number| Arc::new(Woken { number, order: Arc::clone(&order) }).into()).collect();
    let mut waiters: Vec<Waits<'a>> = Vec::with_capacity(count);
    let per_waiter = |began: Instant| began.elapsed().as_nanos() as f64 / count as f64;
    let memory = Region::new(MEMORY);
    let began = Instant::now();
    for (number, waker) in wakers.iter().enumerate() {
        let mut waiter = wait(number);
        let polled = waiter.as_mut().poll(&mut Context::from_waker(waker));
        if polled.is_pending() {
            waiters.push(waiter); // the first caller of a limiter has its permit at once
        }
    }
    let join = per_waiter(began);
    let kept = memory.change();
    let bytes = (kept.bytes_allocated - kept.bytes_deallocated) as f64 / count as f64;
    clock.ahead.advance(Duration::from_secs(366 * 86_400));
    let began = Instant::now();
    black_box(look());
    let serve = per_waiter(began);
    let began = Instant::now();
    for waiter in &mut waiters {
        let polled = waiter.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Ok(_))), "{polled:?}");
    }
    drop(waiters);
    let go_on = per_waiter(began);
    let order = order.lock();
    assert!(order.is_sorted() && order.len() + 1 >= count, "the order of arrival");
    [bytes, join, serve, go_on]
}
