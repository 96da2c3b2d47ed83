//! Requests per second that one core replays and verifies: from the bytes of a file to the report. Measured
//! as processor time of this process, so that other load on the machine counts little.
#![allow(clippy::expect_used, reason = "a bench that cannot set up its case has failed")]

use std::path::Path;
use std::time::Duration;

use clap::Parser;
use criterion::{Criterion, Throughput};
use rustix::time::{ClockId, clock_gettime};
use tollgate_replay::{Bound, CommandOutcome, Replay};

const REQUESTS: u64 = 1_000_000;

#[derive(Parser)]
enum Cli {
    Bound(Bound),
    Replay(Replay),
}

fn run(args: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut talk = Vec::new();
    let args = std::iter::once("bench").chain(args.iter().copied());
    let outcome = match Cli::try_parse_from(args).expect("a command") {
        Cli::Bound(bound) => bound.run(&mut out, &mut talk),
        Cli::Replay(replay) => replay.run(&mut out, &mut talk),
    };
    let outcome = outcome.expect("written");
    assert_ne!(outcome, CommandOutcome::CouldNotTell, "{}", String::from_utf8_lossy(&talk));
    out
}

/// Processor time of as many runs.
fn cpu(times: u64, args: &[&str]) -> Duration {
    let now = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let began = now();
    for _ in 0..times {
        std::hint::black_box(run(args));
    }
    now() - began
}

/// The same requests as lines of the common log format.
fn common(csv: &[u8]) -> String {
    let text = std::str::from_utf8(csv).expect("text");
    let requests = text.lines().skip(1).filter_map(|line| line.split_once(','));
    let line = |(at, client): (&str, &str)| {
        let second = at.parse::<u64>().expect("a number") / 1_000_000;
        let hour = second / 3_600 % 24;
        let minute = second / 60 % 60;
        let second = second % 60;
        format!(
            "{client} - - [10/Oct/2000:{hour:02}:{minute:02}:{second:02} +0000] \"GET /a/page HTTP/1.1\" 200 2326\n"
        )
    };
    requests.map(line).collect()
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args().sample_size(10);
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let text = |path: &Path| path.display().to_string();
    let rules = at("rules.yaml");
    let rule = "domain: web\ndescriptors:\n  - key: remote_address\n    rate_limit: {unit: minute, \
                requests_per_unit: 600, algorithm: token_bucket}\n";
    std::fs::write(&rules, rule).expect("written");
    let requests = REQUESTS.to_string();
    for clients in ["1000", "100000"] {
        let csv = run(&[
            "replay",
            "--generate",
            "poisson",
            "--requests",
            &requests,
            "--rate",
            "20000",
            "--clients",
            clients,
        ]);
        let csv_at = at(&format!("{clients}.csv"));
        let common_at = at(&format!("{clients}.log"));
        std::fs::write(&common_at, common(&csv)).expect("written");
        std::fs::write(&csv_at, csv).expect("written");
        let mut group = criterion.benchmark_group("replay");
        group.throughput(Throughput::Elements(REQUESTS));
        for (format, path) in [("csv", &csv_at), ("common", &common_at)] {
            let path = text(path);
            let rules = text(&rules);
            group.bench_function(format!("rules/{format}/{clients}_clients"), |b| {
                b.iter_custom(|times| cpu(times, &["replay", &path, "--rules", &rules]));
            });
            group.bench_function(format!("bound/{format}/{clients}_clients"), |b| {
                let args = ["bound", &path, "--limit", "600", "--window", "1m", "--tolerance", "0"];
                b.iter_custom(|times| cpu(times, &args));
            });
        }
        group.finish();
    }
    criterion.final_summary();
}
