//! One step of each algorithm, on timestamps made by hand so that only the step is timed. The cases vary the
//! algorithm, and whether the take is admitted or denied.
#![expect(clippy::expect_used, reason = "a bench that cannot set up its case has failed")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use tollgate_core::{Algorithm, Align, Cost, LeakyForm, Period, Quota, Refill, Timestamp};

const NOON: u64 = 1_699_876_800_000_000_000;

fn algorithms() -> Vec<(&'static str, Algorithm)> {
    let bucket = |refill| Algorithm::TokenBucket { burst: None, initial: None, overdraft: 0, refill };
    let leaky = |form| Algorithm::LeakyBucket { capacity: None, form };
    vec![
        ("token_bucket", bucket(Refill::Continuous)),
        ("token_bucket_interval", bucket(Refill::Interval)),
        ("leaky_queue", leaky(LeakyForm::Queue { delay_after: 0 })),
        ("fixed_window", Algorithm::FixedWindow { align: Align::Calendar }),
        ("sliding_window_10", Algorithm::sliding_window(10)),
        ("sliding_window_counter", Algorithm::SlidingWindowCounter),
        ("priority_1_of_3", Algorithm::PriorityBuckets { burst: None, weights: [6, 3, 1].into(), class: 0 }),
        ("sliding_window_log", Algorithm::SlidingWindowLog { log_denied: false }),
    ]
}

fn steps(criterion: &mut Criterion) {
    for (name, algorithm) in algorithms() {
        // Three permits per ms: the interval is not a whole number of ns.
        let quota = Quota::new(3_000, Period::Span(Duration::from_secs(1)), algorithm).expect("a quota");
        for (outcome, gap_ns) in [("admitted", 1_000_003), ("denied", 3)] {
            let mut state = quota.fresh();
            let mut now = NOON;
            if outcome == "denied" {
                for _ in 0..3_000 {
                    let _ = quota.take(&mut state, Cost::ONE, Timestamp::from_nanos(now));
                }
            }
            criterion.bench_function(&format!("core/{name}/{outcome}"), |bencher| {
                bencher.iter(|| {
                    // Denied takes stay within the same 10 µs, so that nothing comes back.
                    now = if outcome == "denied" { NOON + (now + gap_ns) % 10_000 } else { now + gap_ns };
                    quota.take(black_box(&mut state), black_box(Cost::ONE), Timestamp::from_nanos(now))
                });
            });
        }
    }
}

criterion_group!(benches, steps);
criterion_main!(benches);
