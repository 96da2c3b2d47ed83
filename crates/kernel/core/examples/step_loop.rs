//! A loop over one algorithm's steps and nothing else, to count instructions by:
//!
//! ```text
//! cargo build --release -p tollgate-core --example step_loop
//! valgrind --tool=callgrind target/release/examples/step_loop token_bucket admit 1000000
//! ```
//!
//! `none` steps nothing: the cost of the loop itself.

use std::hint::black_box;
use std::time::Duration;

use tollgate_core::{Algorithm, Align, Cost, Period, Quota, QuotaError, Step, Timestamp, Word};

fn main() -> Result<(), QuotaError> {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_default();
    let outcome = words.next().unwrap_or_default();
    let steps: u64 = words.next().and_then(|steps| steps.parse().ok()).unwrap_or(1_000_000);
    let second = Duration::from_secs(1);
    let quota = match name.as_str() {
        "fixed_window" => {
            Quota::new(3_000, Period::Span(second), Algorithm::FixedWindow { align: Align::Calendar })?
        }
        _ => Quota::token_bucket(3_000, second)?,
    };
    let Step::Word(algorithm) = quota.step() else { return Ok(()) };
    let gap_ns = if outcome == "deny" { 0 } else { 1_000_003 };
    let mut now = 1_699_876_800_000_000_000;
    let mut word = Word::FRESH;
    if outcome == "deny" {
        word = algorithm.take(word, Cost(3_000), Timestamp::from_nanos(now)).word;
    }
    let mut passed = 0_u64;
    for _ in 0..steps {
        now += gap_ns;
        if name == "none" {
            passed += black_box(word).value & 1;
            black_box(now);
        } else {
            let step =
                algorithm.take(black_box(word), black_box(Cost::ONE), Timestamp::from_nanos(black_box(now)));
            word = step.word;
            passed += u64::from(black_box(step.decision).is_admitted());
        }
    }
    black_box(passed);
    Ok(())
}
