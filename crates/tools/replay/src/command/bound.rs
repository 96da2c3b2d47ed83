//! `tollgate bound`: whether a log of admitted requests keeps a bound.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_core::nanos;
use tollgate_human_text::{InQuotes, parse_duration, parse_rate, rate_meant_by, show_duration};

use super::outcome::CommandOutcome;
use crate::instant::show;
use crate::mapping::{Mapping, client};
use crate::reader::{ReadSettings, Reader};
use crate::row::{Row, Wanted};
use crate::source::{Lines, Source, is_pipe};
use crate::verify::{Claim, Verdict, Verifier};

/// Verify that a log of admitted requests keeps a limit, key by key.
///
/// Reads the log of any limiter, server or proxy once: Common and Combined Log Format, JSON lines, CSV and
/// Envoy's access log, also as gzip or zstd. Prints the worst window, or how near to the limit it came.
/// Exit 0: the bound was kept. 1: it was broken. 2: this cannot be decided: the question is wrong, the log
/// cannot be read to its end, or not all of it could be verified.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  tollgate bound access.log.gz --limit 100 --window 1m
  tollgate bound access.json --rate 10/s --burst 50 --key api_key --map 'admitted=status!=429'
  zcat day.csv.gz | tollgate bound - --limit 100 --window 1h --map time=t_s")]
pub struct Bound {
    /// The log; `-` is standard input.
    #[arg(value_name = "LOG")]
    log: PathBuf,
    /// Most permits of a key in any window; with --window.
    #[arg(long, value_name = "N", requires = "window", required_unless_present = "rate")]
    limit: Option<u64>,
    /// Length of the window, such as 1m; with --limit.
    #[arg(long, value_name = "TIME", requires = "limit", value_parser = span)]
    window: Option<Duration>,
    /// Rate of a bucket, such as 10/s; with --burst.
    #[arg(long, value_name = "RATE", requires = "burst", conflicts_with = "limit")]
    rate: Option<String>,
    /// Most permits of a key at once; with --rate.
    #[arg(long, value_name = "N", requires = "rate")]
    burst: Option<u64>,
    /// Field that names the key; repeat it for a key of several fields [default: the client's address]
    #[arg(long, value_name = "FIELD", conflicts_with = "one_key")]
    key: Vec<String>,
    /// All requests are of one key.
    #[arg(long)]
    one_key: bool,
    #[command(flatten)]
    reading: Reading,
    /// Memory for keys, in MiB; requests of further keys are left out, counted, and make the exit code 2.
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    max_memory: u32,
}

/// Options for reading a log.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Reading {
    /// File that says what the fields of the log mean: time, time_unit, cost, domain, descriptors, format,
    /// columns, admitted.
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
    /// One entry of a mapping, such as time=start_time or format=csv; repeatable.
    #[arg(long = "map", value_name = "KEY=VALUE")]
    map: Vec<String>,
    /// Stop at the first broken line.
    #[arg(long)]
    strict: bool,
    /// Sort requests that are out of order by at most this time; those further back count at the time of the
    /// latest before them.
    #[arg(long, value_name = "TIME", value_parser = tolerance)]
    tolerance: Option<Duration>,
}

impl Reading {
    pub(crate) fn mapping(&self) -> Result<Mapping, String> {
        Mapping::read(self.mapping.as_deref(), &self.map).map_err(|error| error.to_string())
    }

    /// Settings of the reader, sorting within `default` if no tolerance is given.
    pub(crate) fn settings(&self, default: Duration) -> ReadSettings {
        let tolerance_ns = nanos(self.tolerance.unwrap_or(default));
        ReadSettings { is_strict: self.strict, tolerance_ns }
    }
}

/// Reports that the command waits for a writer, if the log is a pipe without one.
pub(super) fn waiting(log: &Path, talk: &mut dyn Write) -> io::Result<()> {
    if is_pipe(log) {
        writeln!(talk, "{} is a pipe: reading what is written to it", log.display())?;
        talk.flush()?;
    }
    Ok(())
}

fn span(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Some(span) if !span.is_zero() => Ok(span),
        _ => Err("write a time above zero, such as 10s, 1m or 1h30m".to_owned()),
    }
}

fn tolerance(text: &str) -> Result<Duration, String> {
    match text {
        "0" => Ok(Duration::ZERO),
        _ => parse_duration(text).ok_or_else(|| "write a time such as 500ms or 10s".to_owned()),
    }
}

/// Logs are written when a request is answered, so that the times of requests are a little out of order.
const TOLERANCE: Duration = Duration::from_secs(10);
/// Between the values of a key: in none of them, since it is in no text.
const BETWEEN: u8 = 0xff;

impl Bound {
    /// Writes the verdict to `out`, and errors in the question or the log to `talk`.
    ///
    /// # Errors
    /// When either cannot be written to.
    pub fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> io::Result<CommandOutcome> {
        waiting(&self.log, talk)?;
        match self.verify() {
            Ok((claim, reader, verdict)) => self.report(claim, &reader, &verdict, out, talk),
            Err(why) => {
                writeln!(talk, "error: {why}")?;
                Ok(CommandOutcome::CouldNotTell)
            }
        }
    }

    fn claim(&self) -> Result<Claim, String> {
        if let (Some(limit), Some(window)) = (self.limit, self.window) {
            return Ok(Claim::Window { limit, window_ns: nanos(window) });
        }
        let (Some(rate), Some(burst)) = (&self.rate, self.burst) else {
            return Err("say --limit and --window, or --rate and --burst".to_owned());
        };
        let rate = parse_rate(rate).map_err(|_| match rate_meant_by(rate) {
            Some(meant) => format!("--rate {rate}: write {meant}"),
            None => format!("--rate {rate}: write a rate such as 10/s or 300/3h"),
        })?;
        if rate.burst.is_some_and(|of_rate| of_rate != burst) {
            return Err("--rate and --burst name different bursts".to_owned());
        }
        Ok(Claim::Bucket { permits: rate.permits, period_ns: nanos(rate.per.length()).max(1), burst })
    }

    fn verify(&self) -> Result<(Claim, Reader, Verdict), String> {
        let claim = self.claim()?;
        let mapping = self.reading.mapping()?;
        let source = Source::open(&self.log)
            .map_err(|error| format!("cannot read {}: {error}", self.log.display()))?;
        let wanted: Vec<Wanted> = match (self.one_key, self.key.as_slice()) {
            (true, _) => Vec::new(),
            (false, []) => vec![client()],
            (false, names) => names.iter().map(|name| Wanted(vec![name.clone()])).collect(),
        };
        let settings = self.reading.settings(TOLERANCE);
        let mut reader =
            Reader::new(Lines::new(source.bytes), mapping, &wanted, settings).with_keys(wanted.len());
        let mut verifier = Verifier::new(claim, (self.max_memory as usize) << 20);
        let mut row = Row::default();
        let mut key = Vec::new();
        while let Some(at) = reader.next(&mut row).map_err(|error| error.to_string())? {
            key.clear();
            for place in 0..wanted.len() {
                if place > 0 {
                    key.push(BETWEEN);
                }
                key.extend_from_slice(reader.value(&row, place).unwrap_or_default().as_bytes());
            }
            // Without one that is late, a break that is found is still one.
            if !at.is_late {
                verifier.admit(&key, at.cost, at.ns);
            }
        }
        Ok((claim, reader, verifier.finish()))
    }

    fn report(
        &self,
        claim: Claim,
        reader: &Reader,
        verdict: &Verdict,
        out: &mut dyn Write,
        talk: &mut dyn Write,
    ) -> io::Result<CommandOutcome> {
        for note in reader.notes() {
            writeln!(talk, "warning: {note}")?;
        }
        let Some(worst) = &verdict.worst else {
            let why = match reader.tally.lines {
                0 => "the log is empty",
                _ => "the log has no line that can be verified",
            };
            writeln!(talk, "error: {why}")?;
            return Ok(CommandOutcome::CouldNotTell);
        };
        let bound = match claim {
            Claim::Window { limit, window_ns } => {
                format!("{limit} in any {}", show_duration(Duration::from_nanos(window_ns)))
            }
            Claim::Bucket { permits, period_ns, burst } => {
                let period = show_duration(Duration::from_nanos(period_ns));
                format!("{burst} at once and {permits} per {period}")
            }
        };
        let is_broken = verdict.breaking > 0;
        let late = reader.tally.late;
        // Requests that could not be verified leave the answer open, unless the bound is broken anyway.
        let is_whole =
            verdict.left_out == 0 && late == 0 && reader.tally.cut_off.is_none() && reader.tally.broken == 0;
        let answer = match (is_broken, is_whole) {
            (true, _) => "broken",
            (false, true) => "kept",
            (false, false) => "kept as far as verified",
        };
        writeln!(out, "bound    {bound}, for each key")?;
        writeln!(out, "verdict  {answer}")?;
        writeln!(out, "verified {} requests", verdict.verified)?;
        if is_broken {
            writeln!(out, "broken   by {} requests, keys: {}", verdict.breaking, verdict.broken_keys)?;
        }
        let values = worst.key.split(|byte| *byte == BETWEEN).map(String::from_utf8_lossy);
        let key = values.collect::<Vec<_>>().join(", ");
        let key = if self.one_key { "all requests".to_owned() } else { format!("key {}", InQuotes(&key)) };
        let from = show(worst.from_ns);
        let to = show(worst.to_ns);
        writeln!(out, "worst    {key}: {} admitted from {from} to {to}", worst.admitted)?;
        match worst.over() {
            0 => writeln!(out, "         {} may be: {} less", worst.allowed, worst.allowed - worst.admitted)?,
            over => writeln!(out, "         {} may be: {over} more", worst.allowed)?,
        }
        if verdict.left_out > 0 {
            let most = self.max_memory;
            writeln!(
                talk,
                "warning: {} requests were left out: {} keys were active at the same time, more than --max-memory \
                 {most} holds",
                verdict.left_out, verdict.most_keys
            )?;
        }
        if late > 0 {
            writeln!(
                talk,
                "warning: {late} requests were further out of order than the tolerance and were left out"
            )?;
        }
        Ok(match (is_broken, is_whole) {
            (true, _) => CommandOutcome::No,
            (false, true) => CommandOutcome::Yes,
            (false, false) => CommandOutcome::CouldNotTell,
        })
    }
}
