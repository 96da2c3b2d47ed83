//! A budget of tokens for a language model: an estimate is reserved before the call, and what was used is
//! committed after it.
//!
//! ```sh
//! cargo run -p tollgate --example llm_tokens
//! cargo run -p tollgate --example llm_tokens -- TRACE.csv   # t_us,context_tokens,generated_tokens
//! ```
//!
//! Without a file it plays the busiest seconds of a public trace (Azure LLM inference, conversations, 2023).
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;
use std::time::Duration;

use tollgate::{ManualClock, Quota, RateLimiter};

/// Tokens per minute.
const BUDGET: u64 = 60_000;
/// The most that the model answers with: how long an answer is, is known only afterwards.
const LONGEST_ANSWER: u64 = 1_000;

/// When a request came, in ms; the tokens of its prompt; those of its answer.
type TracedRequest = (u64, u64, u64);

#[rustfmt::skip]
const TRACE: [TracedRequest; 40] = [
    (0, 4_078, 29), (93, 833, 68), (246, 4_075, 98), (272, 4_075, 46), (335, 410, 96), (386, 1_099, 572),
    (391, 4_080, 53), (414, 385, 69), (425, 1_122, 587), (487, 4_079, 60), (552, 1_988, 48),
    (832, 373, 53), (913, 409, 87), (920, 373, 105), (968, 181, 91), (1_160, 375, 100), (1_354, 461, 94),
    (1_397, 4_082, 110), (1_423, 237, 14), (1_616, 4_084, 68), (1_636, 373, 77), (1_641, 372, 60),
    (1_678, 373, 99), (1_720, 4_178, 64), (1_774, 1_314, 206), (1_936, 2_695, 107), (2_003, 413, 65),
    (2_016, 1_131, 412), (2_112, 403, 140), (2_214, 3_922, 124), (2_250, 4_089, 54), (2_387, 1_044, 398),
    (2_547, 4_089, 36), (2_622, 4_087, 112), (2_813, 1_043, 413), (2_821, 386, 122), (2_823, 1_834, 95),
    (2_889, 1_312, 65), (2_889, 1_095, 50), (2_925, 4_083, 49),
];

/// Result of a limiter for a trace.
#[derive(Debug, Default, PartialEq, Eq)]
struct TraceResult {
    answered: u64,
    denied: u64,
    tokens: u64,
}

/// Plays `trace`; `commits` says whether what was not used is given back.
fn play(trace: &[TracedRequest], commits: bool) -> Result<TraceResult, Box<dyn Error>> {
    let clock = ManualClock::default();
    let began = tollgate::Clock::now(&clock);
    let limiter = RateLimiter::direct_with_clock(Quota::per_minute(BUDGET), clock.clone())?;
    let mut seen = TraceResult::default();
    for &(at_ms, prompt, answer) in trace {
        clock.set(began + Duration::from_millis(at_ms));
        let estimate = prompt + LONGEST_ANSWER;
        let Ok(reservation) = limiter.reserve(estimate, Duration::ZERO) else {
            seen.denied += 1;
            continue;
        };
        let used = prompt + answer; // ask the model
        reservation.commit(if commits { used } else { estimate.max(used) });
        seen.answered += 1;
        seen.tokens += used;
    }
    Ok(seen)
}

fn read(path: &str) -> Result<Vec<TracedRequest>, Box<dyn Error>> {
    let row = |line: &str| -> Result<TracedRequest, Box<dyn Error>> {
        let numbers = line.split(',').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        match numbers[..] {
            [t_us, prompt, answer] => Ok((t_us / 1_000, prompt, answer)),
            _ => Err(format!("invalid row {line:?}: expected t_us,context_tokens,generated_tokens").into()),
        }
    };
    std::fs::read_to_string(path)?.lines().skip(1).map(row).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let trace = match std::env::args().nth(1) {
        Some(path) if path.ends_with(".csv") => read(&path)?,
        _ => TRACE.to_vec(),
    };
    let by_estimate = play(&trace, false)?;
    let by_use = play(&trace, true)?;
    println!("by estimates:      {by_estimate:?}");
    println!("by what was used:  {by_use:?}");
    let span_ms = trace.last().map_or(0, |(at_ms, ..)| *at_ms);
    let bound = BUDGET + BUDGET * span_ms / 60_000;
    assert!(by_use.answered >= by_estimate.answered, "what was not used serves others");
    // An answer longer than its estimate is owed, and repaid before the next request.
    assert!(by_use.tokens <= bound + trace.iter().map(|row| row.2).max().unwrap_or(0));
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error>> {
    main()?;
    assert!(play(&TRACE, true)?.answered > play(&TRACE, false)?.answered);
    Ok(())
}
