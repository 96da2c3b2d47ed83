//! Instructions of the hot paths beside committed baselines: a slowdown shows on a machine that times
//! nothing.
//!
//! Instructions of a program are the same on a busy machine as on an idle one. They change with the compiler,
//! with the processor features that the build may use, and a little with the C library, so the baselines name
//! these. Valgrind shows programs one and the same processor on every machine that has AVX2.
//! `docs/performance.md` explains the rules. Not here: how a decision is counted (`instructions`).

mod baselines;
mod servers;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::ensure;

use self::baselines::{BaselineVerdict, Baselines, Build};
use crate::contender::ContenderKind;
use crate::instructions::Decide;
use crate::machine::first_line_of;
use crate::report::figure;
use crate::settings::Settings;

/// Where the baselines are.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.txt");
/// As in the published table.
const KEYS: u64 = 1_000;
/// The places of keys are random, and so are a few instructions of each decision; the mean of this many
/// hardly.
const OF_EACH: usize = 40;
const PASSES: u64 = 5;

#[derive(clap::Args)]
pub(crate) struct Count {
    /// Write the counts as the new baselines of this build.
    #[arg(long)]
    write: bool,
    /// File of the baselines.
    #[arg(long, default_value = FILE)]
    baselines: PathBuf,
}

/// A path and its instructions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counted {
    pub(crate) name: String,
    pub(crate) instructions: f64,
}

/// The paths in this process.
const PATHS: [(&str, ContenderKind, bool); 8] = [
    ("floor", ContenderKind::Floor, false),
    ("store, admitted", ContenderKind::Tollgate, false),
    ("store, denied", ContenderKind::Tollgate, true),
    ("store, fixed window", ContenderKind::TollgateFixedWindow, false),
    ("library, one limiter, admitted", ContenderKind::TollgateUnkeyed, false),
    ("library, one limiter, denied", ContenderKind::TollgateUnkeyed, true),
    ("library, by key, admitted", ContenderKind::TollgateKeyed, false),
    ("library, by key, denied", ContenderKind::TollgateKeyed, true),
];

/// Rules that hold for every compiler: a path, another one, and the most that the first may be of the second.
const RELATIVE: [(&str, &str, f64); 4] = [
    ("store, admitted", "floor", 2.2),
    ("store, denied", "store, admitted", 1.1),
    ("library, by key, admitted", "store, admitted", 1.15),
    ("library, one limiter, admitted", "floor", 0.7),
];

impl Count {
    pub(crate) fn run(&self, settings: &Settings) -> anyhow::Result<()> {
        if !settings.has("valgrind") {
            return Ok(());
        }
        let build = Build::here()?;
        let mut counted = Vec::new();
        for (name, kind, denied) in PATHS {
            settings.say(&format!("counting: {name}"));
            let decide = Decide { kind, passes: PASSES, keys: KEYS, of_it: OF_EACH, denied };
            counted.push(Counted { name: name.to_owned(), instructions: decide.count()? });
        }
        let text = std::fs::read_to_string(&self.baselines).unwrap_or_default();
        let mut baselines = Baselines::parse(&text)?;
        let known = baselines.of(&build);
        let usual = |name: &str, count| !matches!(known.judge(name, count), BaselineVerdict::Outside { .. });
        counted.extend(servers::count(settings, usual)?);
        if self.write {
            baselines.put(build, &counted);
            std::fs::write(&self.baselines, baselines.text())?;
        }
        judge(&baselines, &Build::here()?, &counted)
    }
}

/// Prints every path with its verdict, and fails if one is outside of its tolerance.
fn judge(baselines: &Baselines, build: &Build, counted: &[Counted]) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    let found = baselines.of(build);
    writeln!(out, "{:<34} {:>12} {:>12}  {:>8}", "instructions", "counted", "baseline", "")?;
    let mut passed = 0;
    let mut failed = 0;
    let mut skipped = 0;
    for Counted { name, instructions } in counted {
        let verdict = found.judge(name, *instructions);
        let (baseline, says) = match verdict {
            BaselineVerdict::Within { baseline, change } => {
                passed += 1;
                (figure(baseline), format!("{:+.1} %", change * 100.0))
            }
            BaselineVerdict::Outside { baseline, change, most } => {
                failed += 1;
                let says = format!("{:+.1} %: FAILED, at most ±{:.0} %", change * 100.0, most * 100.0);
                (figure(baseline), says)
            }
            BaselineVerdict::Unknown => {
                skipped += 1;
                ("–".to_owned(), String::new())
            }
        };
        writeln!(out, "{name:<34} {:>12} {baseline:>12}  {says}", figure(*instructions))?;
    }
    let of = |name: &str| counted.iter().find(|it| it.name == name).map(|it| it.instructions);
    for (name, beside, most) in RELATIVE {
        let Some((ours, theirs)) = of(name).zip(of(beside)) else { continue };
        let share = ours / theirs;
        let says = if share <= most { "" } else { ": FAILED" };
        writeln!(out, "{name} ÷ {beside}: {share:.2}, at most {most}{says}")?;
        if share <= most { passed += 1 } else { failed += 1 }
    }
    if skipped > 0 {
        writeln!(out, "SKIPPED {skipped} baselines: none is of {build}")?;
    }
    // Skipped baselines are counted by the line above.
    writeln!(out, "{passed} passed, {failed} failed, 0 skipped")?;
    ensure!(
        failed == 0,
        "{failed} paths take more or fewer instructions than their baselines; if that is meant, run it again with --write"
    );
    Ok(())
}

/// The version in a program's first line, such as `3.19.0`.
fn version_of(program: &str, argument: &str) -> String {
    let line = first_line_of(program, &[argument]).unwrap_or_default();
    let is_version = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    let mut words = line.split([' ', '-', '(', ')']);
    words.rfind(is_version).unwrap_or("unknown").to_owned()
}
