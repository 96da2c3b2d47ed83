//! Evenness of the jobs that leave a `LeakyExecutor`, in real time; the variables are the rate and the batch.
//!
//! `cargo bench -p tollgate --bench outflow` takes about fifteen seconds. Late: time from a job's turn to its
//! start. Gap: the time between a batch and the next. Nothing here is asserted: it depends on the machine.
#![allow(clippy::print_stdout, clippy::expect_used, clippy::disallowed_methods, reason = "a bench")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Builder;
use tollgate::LeakyExecutor;

const SECOND: Duration = Duration::from_secs(1);
const RUN: u64 = 3;

fn main() {
    println!(
        "{:>8} {:>6} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}   (times in µs)",
        "rate/s", "batch", "measured", "late p50", "late p99", "late max", "gap p1", "gap p50", "gap p99"
    );
    // `cargo test --bench outflow`: one of them, to see that it works.
    let is_smoke = !std::env::args().any(|argument| argument == "--bench");
    for (rate, batch) in [(100, 1), (1_000, 1), (1_000, 10), (10_000, 100), (100_000, 1_000)] {
        if !is_smoke || batch == 10 {
            run(rate, batch);
        }
    }
}

fn run(rate: u64, batch: usize) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime");
    let jobs = (rate * RUN) as usize;
    let left: Arc<Mutex<Vec<Instant>>> = Arc::new(Mutex::new(Vec::with_capacity(jobs)));
    runtime.block_on(async {
        let builder = LeakyExecutor::builder(rate, SECOND).batch(batch).capacity(jobs);
        let executor = builder.start().expect("settings");
        for _ in 0..jobs {
            let left = Arc::clone(&left);
            let job = async move { left.lock().push(Instant::now()) };
            drop(executor.submit(job).expect("room"));
        }
        executor.drain().await;
    });
    let left = std::mem::take(&mut *left.lock());
    let Some((first, last)) = left.first().zip(left.last()) else { return };
    let turn = |job: usize| *first + SECOND.mul_f64((job / batch * batch) as f64 / rate as f64);
    let late = left.iter().enumerate().map(|(job, at)| at.saturating_duration_since(turn(job))).collect();
    let starts: Vec<Instant> = left.iter().step_by(batch).copied().collect();
    let gaps = starts.windows(2).map(|pair| pair[1].saturating_duration_since(pair[0])).collect();
    let measured = (left.len() - batch) as f64 / last.duration_since(*first).as_secs_f64();
    let late = Sorted::new(late);
    let gaps = Sorted::new(gaps);
    println!(
        "{rate:8} {batch:6} {measured:10.1} {:9.0} {:9.0} {:9.0} {:9.0} {:9.0} {:9.0}",
        late.at(0.5),
        late.at(0.99),
        late.at(1.0),
        gaps.at(0.01),
        gaps.at(0.5),
        gaps.at(0.99)
    );
}

struct Sorted(Vec<Duration>);

impl Sorted {
    fn new(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        Self(all)
    }

    /// The value below which `share` of all values are, in microseconds.
    fn at(&self, share: f64) -> f64 {
        let index = ((self.0.len() as f64 * share) as usize).min(self.0.len().saturating_sub(1));
        self.0.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    }
}
