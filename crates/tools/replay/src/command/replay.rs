//! `tollgate replay`: what rules would have done to a trace.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use tollgate_charts::Language;
use tollgate_human_text::with_causes;
use tollgate_limiter::Policy;
use tollgate_policy::Charge;
use tollgate_rule_files::Options;

use super::bound::{Reading, waiting};
use super::outcome::CommandOutcome;
use super::progress::Progress;
use crate::generate::{self, Shape, generate};
use crate::html::html;
use crate::run::{ReplaySettings, Replayed, run};
use crate::source::Source;
use crate::suggest::yaml;

/// Replay a log with a set of rules, or compare two sets on it.
///
/// The log's requests are decided by the code that serves, on the log's own clock, in memory. Reads the same
/// formats as `bound`. Exit 0: the log was replayed. 2: it cannot be read to its end, a request
/// could not be decided, or the rules are invalid.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  tollgate replay access.log.gz --rules examples/rules --map domain=shop
  tollgate replay day.csv --rules today.yaml --rules tomorrow.yaml --json
  tollgate replay day.csv --rules today.yaml --percentile 99 --suggest
  tollgate replay day.csv --rules today.yaml --html report.html --lang zh-CN
  tollgate replay --generate surge --requests 1000000 --seed 7 > trace.csv")]
pub struct Replay {
    /// The log; `-` is standard input.
    #[arg(value_name = "TRACE", required_unless_present = "generate")]
    trace: Option<PathBuf>,
    /// File or folder of rules; a second one is compared with the first.
    #[arg(long, value_name = "PATH", required_unless_present = "generate")]
    rules: Vec<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// Limits that are charged when one of them denies, in domains that do not say it: as --charge of the
    /// server.
    #[arg(long, value_name = "HOW", default_value = "each")]
    charge: ChargeOf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Also decide each rule's requests by every algorithm, with the rule's limit and window. Takes as much
    /// memory as one more set of rules.
    #[arg(long)]
    algorithms: bool,
    /// Write the report as one HTML file too, with charts, and with what --algorithms finds.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Language of that file.
    #[arg(long, value_name = "LANG", default_value = "en", requires = "html")]
    lang: Language,
    /// Print a rule file with numbers that are enough for --percentile of the keys, instead of the report.
    #[arg(long, conflicts_with = "json")]
    suggest: bool,
    /// Share of the keys that a suggestion is enough for.
    #[arg(long, value_name = "PERCENT", default_value_t = 99.0, value_parser = percentile)]
    percentile: f64,
    /// Memory in MiB: for the counters of each set of rules, and as much for comparing them with exact logs.
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    max_memory: u32,
    /// Write a trace instead, as CSV to standard output.
    #[arg(long, value_name = "SHAPE", conflicts_with_all = ["trace", "rules"], help_heading = GENERATE)]
    generate: Option<Shape>,
    /// Requests of the trace.
    #[arg(long, value_name = "N", default_value_t = 100_000, requires = "generate", help_heading = GENERATE)]
    requests: u64,
    /// Requests a second, on average.
    #[arg(long, value_name = "N", default_value_t = 100.0, value_parser = positive, requires = "generate", help_heading = GENERATE)]
    rate: f64,
    /// Clients.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000), requires = "generate", help_heading = GENERATE)]
    clients: u64,
    /// How uneven clients are: the exponent of Zipf's law, 0 for even, usually 0.6 to 2.7.
    #[arg(long, value_name = "ALPHA", default_value_t = 1.0, value_parser = alpha, requires = "generate", help_heading = GENERATE)]
    zipf: f64,
    /// The same seed makes the same trace.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "generate", help_heading = GENERATE)]
    seed: u64,
}

const GENERATE: &str = "Generating";

/// The limits that are charged when one of them denies.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ChargeOf {
    /// Each of its limits.
    Each,
    /// None of them.
    Together,
}

impl From<ChargeOf> for Charge {
    fn from(of: ChargeOf) -> Self {
        match of {
            ChargeOf::Each => Self::Each,
            ChargeOf::Together => Self::Together,
        }
    }
}

fn number_in(text: &str, range: std::ops::RangeInclusive<f64>, want: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!("write {want}")),
    }
}

fn percentile(text: &str) -> Result<f64, String> {
    number_in(text, 0.0..=100.0, "a share from 0 to 100, such as 99.9")
}

fn positive(text: &str) -> Result<f64, String> {
    number_in(text, 1e-6..=1e9, "a rate above 0 and up to 1e9 a second")
}

fn alpha(text: &str) -> Result<f64, String> {
    number_in(text, 0.0..=10.0, "an exponent from 0 to 10")
}

impl Replay {
    /// Writes the report to `out`; progress, warnings and errors to `talk`.
    ///
    /// # Errors
    /// When either cannot be written to.
    pub fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> io::Result<CommandOutcome> {
        if let Some(shape) = self.generate {
            let &Self { requests, rate, clients, zipf, seed, .. } = &self;
            generate(&generate::TracePlan { shape, requests, rate, clients, alpha: zipf, seed }, out)?;
            return Ok(CommandOutcome::Yes);
        }
        if let Some(trace) = &self.trace {
            waiting(trace, talk)?;
        }
        let replayed = match self.replay(talk) {
            Ok(replayed) => replayed,
            Err(why) => {
                writeln!(talk, "error: {why}")?;
                return Ok(CommandOutcome::CouldNotTell);
            }
        };
        let report = &replayed.report;
        if report.lines.lines > 0 {
            for note in &replayed.notes {
                writeln!(talk, "warning: {note}")?;
            }
        }
        if report.lines.requests == 0 {
            let why = if report.lines.lines == 0 { "the log is empty" } else { "no line can be replayed" };
            writeln!(talk, "error: {why}")?;
            return Ok(CommandOutcome::CouldNotTell);
        }
        if let Some(path) = &self.html {
            let page = html(report, &replayed.notes, self.lang);
            if let Err(error) = std::fs::write(path, page) {
                writeln!(talk, "error: cannot write {}: {error}", path.display())?;
                return Ok(CommandOutcome::CouldNotTell);
            }
            writeln!(talk, "report written to {}", path.display())?;
        }
        match (self.json, self.suggest, report.rules.last()) {
            (true, ..) => {
                serde_json::to_writer_pretty(&mut *out, report)?;
                writeln!(out)?;
            }
            (_, true, Some(side)) => out.write_all(yaml(&replayed.policy, side).as_bytes())?,
            _ => report.write(out)?,
        }
        let is_decided = report.rules.iter().all(|side| side.undecided == 0);
        let is_whole = report.lines.cut_off.is_none() && is_decided;
        Ok(if is_whole { CommandOutcome::Yes } else { CommandOutcome::CouldNotTell })
    }

    fn replay(&self, talk: &mut dyn Write) -> Result<Replayed, String> {
        let mapping = self.reading.mapping()?;
        if self.rules.len() > 2 {
            return Err("give --rules once or twice; a folder may hold several files".to_owned());
        }
        let trace = self.trace.as_deref().ok_or("name a log")?;
        let source =
            Source::open(trace).map_err(|error| format!("cannot read {}: {error}", trace.display()))?;
        let mut sets = Vec::new();
        for path in &self.rules {
            sets.push((path.display().to_string(), load(path, self.charge.into())?));
        }
        let plan = ReplaySettings {
            mapping,
            settings: self.reading.settings(Duration::ZERO),
            max_bytes: (self.max_memory as usize) << 20,
            compares_algorithms: self.algorithms || self.html.is_some(),
            percentile: self.percentile,
        };
        let mut progress = Progress::new(source.so_far.clone(), source.size);
        let replayed = run(source, sets, plan, &mut |requests| {
            progress.step(requests, talk);
            true
        });
        progress.end(talk);
        replayed
    }
}

fn load(path: &std::path::Path, charge: Charge) -> Result<Policy, String> {
    let options = Options { charge, ..Options::default() };
    let rules = tollgate_rule_files::load(&[path.to_path_buf()], &options);
    let rules = rules.map_err(|error| with_causes(&error).to_string())?;
    if rules.policy.domains().is_empty() {
        return Err(format!(
            "{}: no rule file found; only *.yaml, *.yml and *.json are read",
            path.display()
        ));
    }
    Ok(rules.policy)
}
