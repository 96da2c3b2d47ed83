//! Worst cases on a real day of a web server: 30,969 requests of 2,365 clients, a limit for each client.
//!
//! The trace is not part of the project; the test says so and passes where it is absent.
#![expect(clippy::expect_used, reason = "a test that cannot set up its case has failed")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use tollgate_core::{Algorithm, Align, Cost, Period, Quota, Refill, State, Timestamp};

const GCRA: Algorithm =
    Algorithm::TokenBucket { burst: None, initial: None, overdraft: 0, refill: Refill::Continuous };

/// (second, client) of every request.
fn trace() -> Option<Vec<(u64, u32)>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/nasa-1995-08-01.csv.gz");
    let file = std::fs::File::open(path).ok()?;
    let lines = BufReader::new(flate2::read::GzDecoder::new(file)).lines().skip(1);
    let rows = lines.map(|line| {
        let line = line.expect("text");
        let mut fields = line.split(',');
        let mut number = || fields.next().and_then(|field| field.parse::<f64>().ok()).expect("a number");
        (number() as u64, number() as u32)
    });
    Some(rows.collect())
}

/// Most that one client got admitted within any window, and how many requests passed in all.
fn worst(trace: &[(u64, u32)], limit: u64, seconds: u64, algorithm: &Algorithm) -> (usize, usize) {
    let quota =
        Quota::new(limit, Period::Span(Duration::from_secs(seconds)), algorithm.clone()).expect("a quota");
    let mut states: HashMap<u32, (State, Vec<u64>)> = HashMap::new();
    for &(second, client) in trace {
        let (state, passed) = states.entry(client).or_insert_with(|| (quota.fresh(), Vec::new()));
        // Ten years of whole hours in: the trace begins on the grid.
        if quota.take(state, Cost::ONE, Timestamp::from_unix_seconds(315_360_000 + second)).is_admitted() {
            passed.push(second);
        }
    }
    let most = |passed: &Vec<u64>| {
        let first_in_window = |&end: &u64| passed.partition_point(|&at| at + seconds <= end);
        (0..passed.len()).map(|last| last + 1 - first_in_window(&passed[last])).max().unwrap_or(0)
    };
    let total = states.values().map(|(_, passed)| passed.len()).sum();
    (states.values().map(|(_, passed)| most(passed)).max().unwrap_or(0), total)
}

#[test]
fn the_most_admitted_in_any_window_of_a_real_day_is_as_published() {
    let Some(trace) = trace() else {
        println!("skipped: the trace nasa-1995-08-01.csv.gz is not here");
        return;
    };
    assert_eq!(trace.len(), 30_969);
    let fixed = Algorithm::FixedWindow { align: Align::Calendar };
    for (algorithm, want) in [
        (Algorithm::SlidingWindowLog { log_denied: false }, [10, 20, 100]),
        (fixed, [16, 28, 200]),
        (GCRA, [17, 29, 193]),
        // Published without rounding down: 13, 26, 145. Rounding admits up to one more.
        (Algorithm::SlidingWindowCounter, [13, 27, 146]),
        (Algorithm::SlidingWindow { cells: 10 }, [10, 20, 100]),
    ] {
        let limits = [(10, 10), (20, 60), (100, 3_600)];
        let ours = limits.map(|(limit, seconds)| worst(&trace, limit, seconds, &algorithm).0);
        assert_eq!(ours, want, "{}", algorithm.name());
    }
}
