//! The table beside governor's keyed limiter, in one run, with different numbers of keys and of threads.
//!
//! `cargo bench -p tollgate-store-memory` takes about a minute; `TOLLGATE_BENCH_KEYS=10000000` takes ten
//! million keys instead, and some minutes. Every decision reads the clock, but in batches of 16, which read
//! it once. Ratios count: both sides alternate within each repeat.
#![allow(clippy::print_stdout, clippy::expect_used, clippy::disallowed_methods, reason = "a bench")]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use governor::{DefaultKeyedRateLimiter, RateLimiter};
use tollgate_clock::SystemClock;
use tollgate_core::{Clock, Cost, Quota};
use tollgate_store::{Charge, Counter, Key, Verdicts};
use tollgate_store_memory::MemoryStore;

const KEYS_AT_ONCE: usize = 1024;

fn main() {
    if let Some(decisions) =
        std::env::var("TOLLGATE_BENCH_INSTRUCTIONS").ok().and_then(|text| text.parse().ok())
    {
        return instructions(decisions);
    }
    let sizes = std::env::var("TOLLGATE_BENCH_KEYS");
    let sizes = sizes.unwrap_or_else(|_| if is_smoke() { "1000" } else { "1000,1000000" }.to_owned());
    println!("{:>10} {:28} {:>10} {:>10} {:>7}", "keys", "", "governor", "tollgate", "ratio");
    for keys in sizes.split(',').map(|size| size.trim().parse().expect("a number of keys")) {
        let ours = Ours::full(keys);
        let theirs = Theirs::full(keys);
        compare(keys, "one at a time, ns", || theirs.run(keys, 1), || ours.run(keys, 1));
        compare(keys, "batches of 16, ns", || theirs.run(keys, 1), || ours.run_batches(keys));
        if keys == 1_000_000 || is_smoke() {
            compare(keys, "2 threads, ns", || theirs.run(keys, 2), || ours.run(keys, 2));
            compare(1, "2 threads, one hot key, ns", || theirs.run(1, 2), || ours.run(1, 2));
        }
    }
}

/// For `cargo test --bench table`: everything once, to see that it works.
fn is_smoke() -> bool {
    !std::env::args().any(|argument| argument == "--bench")
}

fn compare(keys: u64, what: &str, theirs: impl Fn() -> f64, ours: impl Fn() -> f64) {
    let repeats = if is_smoke() { 1 } else { 5 };
    let mut both: Vec<(f64, f64)> = (0..repeats).map(|_| (theirs(), ours())).collect();
    let mut middle = |of: fn(&(f64, f64)) -> f64| {
        both.sort_by(|a, b| of(a).total_cmp(&of(b)));
        of(&both[repeats / 2])
    };
    let theirs = middle(|both| both.0);
    let ours = middle(|both| both.1);
    println!("{keys:>10} {what:28} {theirs:>10.1} {ours:>10.1} {:>7.3}", ours / theirs);
}

struct Ours {
    store: MemoryStore,
    quota: Quota,
    clock: SystemClock,
}

impl Ours {
    /// Also prints the longest decision while the table grew, and the memory per key. The same once more
    /// without growth shows the machine's part of it.
    fn full(keys: u64) -> Self {
        let ours = Self {
            store: MemoryStore::default(),
            quota: Quota::token_bucket(1_000_000, Duration::from_secs(100 * 86_400)).expect("a quota"),
            clock: SystemClock::default(),
        };
        let before = resident_bytes();
        let growing = ours.each_once(keys);
        let bytes = (resident_bytes() - before) as f64 / keys as f64;
        println!("{keys:>10} bytes a key, resident: {bytes:.1}; {:?}", ours.store.stats());
        println!("{keys:>10} slowest while growing: {growing:?}");
        println!("{keys:>10} slowest once more:     {:?}", ours.each_once(keys));
        println!("{keys:>10} slowest of the clock alone: {:?}", each(keys, |_| timed_once(|| ())));
        println!("{keys:>10} slowest of as much fresh memory: {:?}", fresh_memory(keys as usize * 28));
        ours
    }

    /// Decides on every key; see [`each`].
    fn each_once(&self, keys: u64) -> ([Duration; 5], [usize; 2]) {
        let mut texts = Texts::new();
        each(keys, |number| {
            let place = number as usize % KEYS_AT_ONCE;
            if place == 0 {
                texts.fill(|place| number + place as u64);
            }
            let text = &texts.0[place];
            // So many keys that nothing expires before the end.
            timed_once(|| {
                self.store
                    .take_one(Counter::new(Key(text.as_bytes()), &self.quota), Cost(1_000), self.clock.now())
                    .is_admitted()
            })
        })
    }

    #[inline(always)]
    fn take(&self, text: &str) -> bool {
        self.store
            .take_one(Counter::new(Key(text.as_bytes()), &self.quota), Cost::ONE, self.clock.now())
            .is_admitted()
    }

    fn run(&self, keys: u64, threads: u64) -> f64 {
        timed(keys, threads, |texts| texts.iter().filter(|text| self.take(text)).count())
    }

    fn run_batches(&self, keys: u64) -> f64 {
        timed(keys, 1, |texts| {
            let mut verdicts = Verdicts::with_capacity(16);
            let mut admitted = 0;
            for texts in texts.as_chunks::<16>().0 {
                let batch = texts
                    .each_ref()
                    .map(|text| Counter::new(Key(text.as_bytes()), &self.quota).take(Cost::ONE));
                verdicts.clear();
                self.store.take_now(&batch, Charge::Each, self.clock.now(), &mut verdicts);
                admitted += verdicts.iter().flatten().filter(|verdict| verdict.is_admitted()).count();
            }
            admitted
        })
    }
}

struct Theirs(DefaultKeyedRateLimiter<String>);

impl Theirs {
    fn full(keys: u64) -> Self {
        let quota = governor::Quota::per_second(NonZeroU32::new(100).expect("not zero"))
            .allow_burst(NonZeroU32::new(1_000_000).expect("not zero"));
        let theirs = Self(RateLimiter::keyed(quota));
        let mut texts = Texts::new();
        for first in (0..keys).step_by(KEYS_AT_ONCE) {
            texts.fill(|place| first + place as u64);
            for text in texts.0.iter().take((keys - first) as usize) {
                black_box(theirs.0.check_key(text).is_ok());
            }
        }
        theirs
    }

    fn run(&self, keys: u64, threads: u64) -> f64 {
        timed(keys, threads, |texts| texts.iter().filter(|text| self.0.check_key(text).is_ok()).count())
    }
}

/// The five longest times, of this thread's processor time, and the numbers of times above 20 and 50 µs.
fn each(times: u64, mut once: impl FnMut(u64) -> Duration) -> ([Duration; 5], [usize; 2]) {
    let mut slowest = [Duration::ZERO; 5];
    let mut above = [0; 2];
    for number in 0..times {
        let took = once(number);
        for (above, bound_us) in above.iter_mut().zip([20, 50]) {
            *above += usize::from(took > Duration::from_micros(bound_us));
        }
        if took > slowest[0] {
            slowest[0] = took;
            slowest.sort_unstable();
        }
    }
    (slowest, above)
}

/// Processor time of this thread: other work of the machine does not count.
fn timed_once<T>(once: impl FnOnce() -> T) -> Duration {
    let start = processor_time();
    black_box(once());
    processor_time().saturating_sub(start)
}

/// As [`each`], for writing to every page of `bytes` bytes of fresh memory.
fn fresh_memory(bytes: usize) -> ([Duration; 5], [usize; 2]) {
    const PAGE: usize = 4096;
    let mut memory = vec![0_u8; bytes];
    each((bytes / PAGE) as u64, |page| timed_once(|| memory[page as usize * PAGE] = 1))
}

/// Nanoseconds per decision, of all threads together. Making the keys is not counted.
fn timed(keys: u64, threads: u64, decide: impl Fn(&[String]) -> usize + Sync) -> f64 {
    let rounds = if is_smoke() { 2 } else { 400 };
    let start = Barrier::new(threads as usize);
    let slowest = std::thread::scope(|scope| {
        let run = |thread: u64| {
            let mut texts = Texts::new();
            let mut random = Random(thread + 1);
            start.wait();
            let mut took = vec![Duration::ZERO; rounds];
            for took in &mut took {
                texts.fill(|_| random.below(keys));
                let begin = Instant::now();
                black_box(decide(&texts.0));
                *took = begin.elapsed();
            }
            took.sort_unstable();
            took[rounds / 2] // so that rounds in which the machine did something else do not count
        };
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        let own = run(0);
        others.into_iter().map(|other| other.join().expect("no panic")).fold(own, Duration::max)
    });
    slowest.as_nanos() as f64 / (KEYS_AT_ONCE as u64 * threads) as f64
}

/// Keys of 20 bytes, as many as stay in the cache.
struct Texts(Vec<String>);

impl Texts {
    fn new() -> Self {
        Self(vec!["client:0000000000000".to_owned(); KEYS_AT_ONCE])
    }

    fn fill(&mut self, mut number: impl FnMut(usize) -> u64) {
        for (place, text) in self.0.iter_mut().enumerate() {
            use std::fmt::Write;
            text.clear();
            write!(text, "client:{:013}", number(place)).expect("a string takes it");
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((u128::from(mixed ^ (mixed >> 31)) * u128::from(bound)) >> 64) as u64
    }
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// Decisions on a thousand keys and hardly anything else, for `valgrind --tool=callgrind`: run it with two
/// counts and divide the difference.
fn instructions(decisions: u64) {
    let ours = Ours {
        store: MemoryStore::default(),
        quota: Quota::token_bucket(1_000_000, Duration::from_secs(100 * 86_400)).expect("a quota"),
        clock: SystemClock::default(),
    };
    let mut texts = Texts::new();
    texts.fill(|place| place as u64);
    for place in 0..decisions {
        black_box(ours.take(&texts.0[place as usize % KEYS_AT_ONCE]));
    }
}
