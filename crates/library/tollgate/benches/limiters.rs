//! Limiters beside governor's, in one run; what varies is keys, threads and the answer. The keyed one is also
//! beside the store that it counts in.
//!
//! `cargo bench -p tollgate --bench limiters` takes about half a minute. Every decision reads the clock.
//! Ratios count: both sides alternate within each repeat, and the median of the repeats is shown.
//!
//! On a machine that does other things as well, instructions say more: run the bench's program under
//! `valgrind --tool=callgrind` with `--bench --only NAME --side beside --turns 100000`, then with 1100000;
//! the difference divided by a million is what a decision takes. `--side tollgate` for ours.
#![allow(clippy::print_stdout, clippy::expect_used, clippy::disallowed_methods, reason = "a bench")]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Barrier;
use std::time::Instant;

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter};
use tollgate::{Clock, KeyedRateLimiter, MonotonicClock, Quota, Quotas, RateLimiter};
use tollgate_store::{Counter, Key};
use tollgate_store_memory::MemoryStore;

/// So much that a run never uses it up.
const PLENTY: u32 = 1_000_000_000;
const KEYS: usize = 1_024;

fn main() {
    println!("{:34} {:>10} {:>10} {:>7}", "ns per decision", "beside", "tollgate", "ratio");
    let theirs = governor(PLENTY, PLENTY);
    let ours = ours(PLENTY, PLENTY);
    for threads in [1, 2] {
        let name = format!("direct, admitted, {threads} threads");
        compare(
            &name,
            || timed(threads, |_| theirs.check().is_ok()),
            || timed(threads, |_| ours.check().is_ok()),
        );
    }
    let theirs = governor(1, 1);
    let ours = self::ours(1, 1);
    black_box((theirs.check().is_ok(), ours.check().is_ok()));
    for threads in [1, 2] {
        let name = format!("direct, denied, {threads} threads");
        compare(
            &name,
            || timed(threads, |_| theirs.check().is_ok()),
            || timed(threads, |_| ours.check().is_ok()),
        );
    }
    refilled_by_a_thread();
    keyed();
    by_key();
}

/// Beside a queue of tokens that a thread fills each millisecond: what a take costs, and the thread.
fn refilled_by_a_thread() {
    let (tokens, taken) = std::sync::mpsc::sync_channel(1_000_000);
    let taken = parking_lot::Mutex::new(taken);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let ours = ours(PLENTY, PLENTY);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                while tokens.try_send(()).is_ok() {}
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        compare(
            "direct, a thread fills a queue",
            || timed(1, |_| taken.lock().recv().is_ok()),
            || timed(1, |_| ours.check().is_ok()),
        );
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

fn keyed() {
    let keys: Vec<String> = (0..KEYS).map(|number| format!("client:{number:013}")).collect();
    let key = |turn: usize| &keys[turn % KEYS];
    let theirs: DefaultKeyedRateLimiter<String> =
        governor::RateLimiter::keyed(governor_quota(PLENTY, PLENTY));
    let ours: KeyedRateLimiter<str> = RateLimiter::keyed(quota(PLENTY, PLENTY)).expect("a quota");
    compare(
        "keyed, admitted",
        || timed(1, |turn| theirs.check_key(key(turn)).is_ok()),
        || timed(1, |turn| ours.check(key(turn)).is_ok()),
    );
    let store = MemoryStore::default();
    let clock = MonotonicClock::new();
    let second = std::time::Duration::from_secs(1);
    let counted = tollgate_core::Quota::token_bucket(u64::from(PLENTY), second).expect("a quota");
    compare(
        "keyed, admitted, the store alone",
        || {
            timed(1, |turn| {
                let counter = Counter::new(Key(key(turn).as_bytes()), &counted);
                store.take_one(counter, tollgate_core::Cost::ONE, clock.now()).is_admitted()
            })
        },
        || timed(1, |turn| ours.check(key(turn)).is_ok()),
    );
}

/// Keys with quotas of their own, beside keys that all have one.
fn by_key() {
    let keys: Vec<String> = (0..KEYS).map(|number| format!("client:{number:013}")).collect();
    let key = |turn: usize| &keys[turn % KEYS];
    let one: KeyedRateLimiter<str> = RateLimiter::keyed(quota(PLENTY, PLENTY)).expect("a quota");
    let of = |key: &str| Some(Quota::per_second(u64::from(PLENTY) + key.len() as u64));
    let several = RateLimiter::keyed(Quotas::by(quota(PLENTY, PLENTY), of)).expect("a quota");
    compare(
        "keyed, by a function, one quota",
        || timed(1, |turn| one.check(key(turn)).is_ok()),
        || timed(1, |turn| several.check(key(turn)).is_ok()),
    );
}

fn quota(limit: u32, burst: u32) -> Quota {
    match limit {
        1 => Quota::per_day(1),
        _ => Quota::per_second(u64::from(limit)).burst(u64::from(burst)),
    }
}

fn ours(limit: u32, burst: u32) -> RateLimiter {
    RateLimiter::direct(quota(limit, burst)).expect("a quota")
}

fn governor_quota(limit: u32, burst: u32) -> governor::Quota {
    let number = |number| NonZeroU32::new(number).expect("not zero");
    match limit {
        1 => governor::Quota::with_period(std::time::Duration::from_secs(86_400)).expect("not zero"),
        _ => governor::Quota::per_second(number(limit)).allow_burst(number(burst)),
    }
}

fn governor(limit: u32, burst: u32) -> DefaultDirectRateLimiter {
    governor::RateLimiter::direct(governor_quota(limit, burst))
}

/// `cargo test --bench limiters`: everything once, to see that it works.
fn is_smoke() -> bool {
    !std::env::args().any(|argument| argument == "--bench")
}

/// The argument after `name` on the command line.
fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

fn compare(what: &str, theirs: impl Fn() -> f64, ours: impl Fn() -> f64) {
    if argument("--only").is_some_and(|only| only != what) {
        return;
    }
    match argument("--side").as_deref() {
        Some("beside") => return println!("{what:34} {:>10.2}", theirs()),
        Some(_) => return println!("{what:34} {:>10} {:>10.2}", "", ours()),
        None => {}
    }
    let repeats = if is_smoke() { 1 } else { 9 };
    let mut both: Vec<(f64, f64)> = (0..repeats).map(|_| (theirs(), ours())).collect();
    let mut middle = |of: fn(&(f64, f64)) -> f64| {
        both.sort_by(|a, b| of(a).total_cmp(&of(b)));
        of(&both[repeats / 2])
    };
    let theirs = middle(|both| both.0);
    let ours = middle(|both| both.1);
    println!("{what:34} {theirs:>10.2} {ours:>10.2} {:>7.3}", ours / theirs);
}

/// Nanoseconds per decision of all threads together: the decisions of all over the time of the slowest.
fn timed(threads: usize, decide: impl Fn(usize) -> bool + Sync) -> f64 {
    let turns = argument("--turns").and_then(|turns| turns.parse().ok());
    let turns: usize = turns.unwrap_or(if is_smoke() { 1_000 } else { 4_000_000 });
    let start = Barrier::new(threads);
    let slowest = std::thread::scope(|scope| {
        let run = || {
            start.wait();
            let begin = Instant::now();
            let admitted = (0..turns).filter(|turn| decide(*turn)).count();
            let took = begin.elapsed();
            black_box(admitted);
            took
        };
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let own = run();
        others.into_iter().map(|other| other.join().expect("no panic")).fold(own, Ord::max)
    });
    slowest.as_nanos() as f64 / (turns * threads) as f64
}
