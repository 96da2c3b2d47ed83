//! Tests of reading logs, verifying bounds and replaying rules.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "helpers of a test count as no test to clippy")]

mod bound;
mod bound_laws;
mod docs;
mod html;
mod logs;
mod real_trace;
mod replay;

use std::io::Write;
use std::path::Path;

use clap::Parser;
use tollgate_replay::{Bound, CommandOutcome, Replay};

/// A trace of `tests/traces`.
fn trace_file(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces").join(name)
}

#[derive(Parser)]
struct BoundCli {
    #[command(flatten)]
    bound: Bound,
}

/// Outcome, output and talk of `bound` about a log with this text; `LOG` is its path.
fn bound(log: &[u8], args: &str) -> (CommandOutcome, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    std::fs::write(&path, log).expect("written");
    bound_of(&path, args)
}

fn bound_of(path: &Path, args: &str) -> (CommandOutcome, String, String) {
    let path = path.display().to_string();
    let words = ["bound", &path].into_iter().chain(args.split_whitespace());
    let cli = BoundCli::try_parse_from(words).expect("a command");
    let mut out = Vec::new();
    let mut talk = Vec::new();
    let outcome = cli.bound.run(&mut out, &mut talk).expect("written");
    let text = |bytes| String::from_utf8(bytes).expect("text").replace(&path, "LOG");
    (outcome, text(out), text(talk))
}

#[derive(Parser)]
struct ReplayCli {
    #[command(flatten)]
    replay: Replay,
}

/// Outcome, output and talk of `replay` on a log with this text, with these sets of rules.
fn replay(log: &str, rules: &[&str], args: &str) -> (CommandOutcome, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    std::fs::write(&path, log).expect("written");
    let mut args = args.to_owned();
    for (place, rules) in rules.iter().enumerate() {
        let file = folder.path().join(format!("rules-{place}.yaml"));
        std::fs::write(&file, rules).expect("written");
        args.push_str(&format!(" --rules {}", file.display()));
    }
    replay_args(Some(&path), &args)
}

fn replay_args(path: Option<&Path>, args: &str) -> (CommandOutcome, String, String) {
    let path = path.map(|path| path.display().to_string());
    let words = ["replay"].into_iter().chain(path.as_deref()).chain(args.split_whitespace());
    let cli = ReplayCli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
    let mut out = Vec::new();
    let mut talk = Vec::new();
    let outcome = cli.replay.run(&mut out, &mut talk).expect("written");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (outcome, text(out), text(talk))
}

/// As many seconds with a request of one of seven clients.
fn log_of(seconds: u64) -> String {
    let rows = (0..seconds).map(|at| format!("{at},client-{}\n", at * 7_919 % 7));
    format!("t_s,client\n{}", rows.collect::<String>())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).expect("packed");
    packed.finish().expect("packed")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}
