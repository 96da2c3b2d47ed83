//! The command `tollgate bench`: its flags and its output.

use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tollgate_human_text::with_causes;

use crate::report::grouped;
use crate::{Ask, Distribution, End, Plan, Progress, Protocol, Target};

/// Load-test a running server, and report admitted, denied and failed requests, latency and CPU.
///
/// Every request checks one descriptor of --domain, or sends what --throttle, --command or --body says. In
/// all texts {key} is replaced by a key that is drawn for the request. Exit 0: every request got a decision.
/// 1: some failed, or no rule matched any of them. 2: the server cannot be reached, or flags contradict each
/// other.
#[derive(Clone, Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = EXAMPLES)]
pub struct Bench {
    /// Server to test: grpc://, http:// or resp://HOST:PORT or unix:/path; grpcs, https and resps with TLS.
    #[arg(long, alias = "http", value_name = "URL", default_value = "grpc://127.0.0.1:8081", help_heading = SERVER)]
    target: Target,
    /// File whose first line is sent as AUTH (RESP) or as a bearer token.
    #[arg(long, value_name = "FILE", help_heading = SERVER, hide_short_help = true)]
    token_file: Option<PathBuf>,
    /// Certificates (PEM) that the server's is verified with, for TLS.
    #[arg(long, value_name = "FILE", help_heading = SERVER)]
    ca: Option<PathBuf>,
    /// Certificate (PEM) that is shown to the server, if it requires one; with --key.
    #[arg(long, value_name = "FILE", requires = "key", help_heading = SERVER, hide_short_help = true)]
    cert: Option<PathBuf>,
    /// Its private key (PEM).
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = SERVER, hide_short_help = true)]
    key: Option<PathBuf>,
    /// Domain of the requests.
    #[arg(long, value_name = "NAME", default_value = "bench", help_heading = REQUESTS)]
    domain: String,
    /// Entry of the descriptor, repeatable; {key} is replaced by the key [default: key={key}].
    #[arg(long = "entry", value_name = "KEY=VALUE", value_parser = entry, help_heading = REQUESTS)]
    entries: Vec<(String, String)>,
    /// Permits per request.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = REQUESTS, hide_short_help = true)]
    hits: u64,
    /// RESP: send CL.THROTTLE {key} with this limit instead of checking rules.
    #[arg(long, value_name = "BURST COUNT PERIOD", conflicts_with_all = ["command", "body", "entries"], help_heading = REQUESTS)]
    throttle: Option<String>,
    /// RESP: send these words, with {key}, instead of checking rules.
    #[arg(long, value_name = "WORDS", conflicts_with_all = ["body", "entries"], help_heading = REQUESTS, hide_short_help = true)]
    command: Option<String>,
    /// HTTP: post this body, with {key}, instead of checking rules.
    #[arg(long, value_name = "JSON", conflicts_with = "entries", help_heading = REQUESTS, hide_short_help = true)]
    body: Option<String>,
    /// Number of keys that {key} is drawn from.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000_000_000_000), help_heading = REQUESTS)]
    keys: u64,
    /// How often each key is drawn: uniform, or zipf:EXPONENT.
    #[arg(long, value_name = "HOW", default_value = "uniform", help_heading = REQUESTS, hide_short_help = true)]
    distribution: Distribution,
    /// Seed of the random numbers: the same seed draws the same keys.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = REQUESTS, hide_short_help = true)]
    seed: u64,
    /// Connections.
    #[arg(long, short, value_name = "N", default_value_t = 16, value_parser = at_least_one, help_heading = LOAD)]
    connections: usize,
    /// Maximum in-flight requests per connection.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one, help_heading = LOAD)]
    in_flight: usize,
    /// Requests per second on a fixed schedule.
    ///
    /// They are independent of the replies (open loop); without it each reply is followed by the next request
    /// (closed loop).
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000), help_heading = LOAD)]
    rate: Option<u64>,
    /// How long to measure.
    #[arg(long, short, value_name = "TIME", default_value = "10s", value_parser = duration, help_heading = LOAD)]
    duration: Duration,
    /// Measure this number of requests instead.
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "duration", help_heading = LOAD)]
    requests: Option<u64>,
    /// Load before the measurement, not counted [default: 1s, none with --requests].
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = LOAD, hide_short_help = true)]
    warm_up: Option<Duration>,
    /// How long to wait for a reply after the last one.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration, help_heading = LOAD, hide_short_help = true)]
    timeout: Duration,
    /// Threads that send the requests.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one, help_heading = LOAD, hide_short_help = true)]
    threads: usize,
    /// Cores that the threads are pinned to, in turn: 1 or 2,3.
    #[arg(long = "core", value_name = "CORE", value_delimiter = ',', help_heading = LOAD, hide_short_help = true)]
    cores: Vec<usize>,
    /// Print one JSON object instead of text.
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

const SERVER: &str = "Server";
const REQUESTS: &str = "Requests";
const LOAD: &str = "Load";
const OUTPUT: &str = "Output";

const SHORT_HELP: &str = "\
Examples:
  tollgate bench --target http://127.0.0.1:8080 --domain shop --entry api_key={key}
  tollgate bench --target resp://127.0.0.1:6390 --rate 20000 --duration 60s

`tollgate bench --help` describes all options.";
const EXAMPLES: &str = "\
Examples:
  tollgate bench --domain shop --entry api_key={key} --entry plan=gold
  tollgate bench --target http://127.0.0.1:8080 --domain shop --entry api_key={key} --in-flight 16
  tollgate bench --target resp://127.0.0.1:6390 --rate 20000 --duration 60s --distribution zipf:0.99
  tollgate bench --target http://unix:/run/tollgate/http.sock --domain shop --entry api_key={key}
  tollgate bench --target grpcs://limits:8081 --ca ca.crt --cert client.crt --key client.key
  tollgate bench -n 100000 --json                one JSON object, for scripts";

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// Every request was answered.
    Answered,
    /// Some requests got an error or no reply, which the report lists; or no rule matched any of them.
    Errors,
    /// There was no measurement: the target cannot be reached, or the arguments contradict each other. The
    /// reason was written to `talk`.
    CouldNotRun,
}

impl Bench {
    /// Runs it, and writes the report to `out`, progress and errors to `talk`.
    ///
    /// # Errors
    /// When `out` or `talk` cannot be written to.
    pub fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> io::Result<RunOutcome> {
        let is_json = self.json;
        let plan = match self.plan() {
            Ok(plan) => plan,
            Err(fault) => {
                writeln!(talk, "tollgate bench: {fault}")?;
                return Ok(RunOutcome::CouldNotRun);
            }
        };
        let domain = match &plan.ask {
            Ask::Check { domain, .. } => domain.clone(),
            _ => String::new(),
        };
        let mut progress = ProgressLine::new(io::stderr().is_terminal());
        let mut told = Ok(());
        let report = plan.run(&mut |now| {
            if told.is_ok() {
                told = progress.write(now, talk);
            }
        });
        told?;
        progress.clear(talk)?;
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                writeln!(talk, "tollgate bench: {}", with_causes(&error))?;
                return Ok(RunOutcome::CouldNotRun);
            }
        };
        if is_json {
            serde_json::to_writer(&mut *out, &report)?;
            writeln!(out)?;
        } else {
            write!(out, "{report}")?;
        }
        if report.nothing_matched() {
            writeln!(
                talk,
                "warning: nothing was limited: the server has no rule in domain {domain:?} for this descriptor; give the \
                 --domain and the --entry of a rule (`tollgate explain` shows which rule applies)"
            )?;
        }
        let is_good = report.errors == 0 && !report.nothing_matched();
        Ok(if is_good { RunOutcome::Answered } else { RunOutcome::Errors })
    }

    fn plan(self) -> Result<Plan, String> {
        let is_resp = self.target.protocol == Protocol::Resp;
        let is_http = self.target.protocol == Protocol::Http;
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        // The first arms reject requests that the protocol of the target does not have.
        let ask = match (self.throttle, self.command, self.body) {
            (Some(_), ..) | (_, Some(_), _) if !is_resp => {
                return Err("--throttle and --command need a resp:// target".to_owned());
            }
            (.., Some(_)) if !is_http => return Err("--body needs an http:// target".to_owned()),
            (Some(limit), ..) => {
                let limit = words(&limit);
                if limit.len() != 3 || limit.iter().any(|word| word.parse::<u64>().is_err()) {
                    return Err("--throttle wants three whole numbers: \"BURST COUNT PERIOD\"".to_owned());
                }
                let mut command = vec!["CL.THROTTLE".to_owned(), "{key}".to_owned()];
                command.extend(limit);
                command.extend((self.hits != 1).then(|| self.hits.to_string()));
                Ask::Command(command)
            }
            (_, Some(command), _) => match words(&command) {
                command if command.is_empty() => return Err("--command is empty".to_owned()),
                command => Ask::Command(command),
            },
            (.., Some(body)) => Ask::Body(body),
            _ => {
                let mut entries = self.entries;
                if entries.is_empty() {
                    entries.push(("key".to_owned(), "{key}".to_owned()));
                }
                Ask::Check { domain: self.domain, entries, hits: self.hits }
            }
        };
        let token = self.token_file.map(|file| read_token(&file)).transpose()?;
        Ok(Plan {
            target: self.target,
            ask,
            connections: self.connections,
            in_flight: self.in_flight,
            rate: self.rate,
            end: self.requests.map_or(End::After(self.duration), End::Requests),
            // A run of a fixed number of requests has no warm-up by default.
            warm_up: self.warm_up.unwrap_or(Duration::from_secs(u64::from(self.requests.is_none()))),
            keys: self.keys,
            distribution: self.distribution,
            seed: self.seed,
            threads: self.threads.min(self.connections),
            cores: self.cores,
            patience: self.timeout,
            ca: self.ca,
            identity: self.cert.zip(self.key),
            token,
        })
    }
}

/// Replies per second while a run lasts: in one place of a terminal, or in lines.
#[derive(Debug)]
struct ProgressLine {
    is_terminal: bool,
    /// Replies and seconds when it was last written.
    last: (u64, u64),
}

impl ProgressLine {
    /// Lines are written every second up to this one, and then every tenth second.
    const OFTEN: u64 = 10;

    const fn new(is_terminal: bool) -> Self {
        Self { is_terminal, last: (0, 0) }
    }

    fn write(&mut self, now: Progress, talk: &mut dyn Write) -> io::Result<()> {
        let Progress { replies, seconds } = now;
        if !self.is_terminal && seconds > Self::OFTEN && !seconds.is_multiple_of(10) {
            return Ok(());
        }
        let since = (replies - self.last.0) / (seconds - self.last.1).max(1);
        self.last = (replies, seconds);
        let (begin, end) = if self.is_terminal { ("\r", "  ") } else { ("", "\n") };
        write!(talk, "{begin}{seconds:>4} s  {:>12} replies/s{end}", grouped(since))?;
        talk.flush()
    }

    /// Makes room for the report.
    fn clear(&self, talk: &mut dyn Write) -> io::Result<()> {
        if self.is_terminal && self.last.1 > 0 { write!(talk, "\r{:40}\r", "") } else { Ok(()) }
    }
}

fn read_token(file: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("{}: the first line is no token of visible ASCII characters", file.display()));
    }
    Ok(token.to_owned())
}

fn at_least_one(given: &str) -> Result<usize, String> {
    match given.parse() {
        Ok(number @ 1..=100_000) => Ok(number),
        _ => Err("write a whole number from 1 to 100000".to_owned()),
    }
}

/// `10s`, `500ms`, `2m`, or seconds where no unit is given.
fn duration(given: &str) -> Result<Duration, String> {
    let digits = given.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(given.len());
    let (number, unit) = given.split_at(digits);
    let unit_ms = match unit {
        "ms" => Some(1),
        "" | "s" => Some(1_000),
        "m" => Some(60_000),
        _ => None,
    };
    let ms =
        number.parse::<u64>().ok().zip(unit_ms).and_then(|(number, unit_ms)| number.checked_mul(unit_ms));
    ms.filter(|&ms| ms <= 86_400_000)
        .map(Duration::from_millis)
        .ok_or_else(|| "write a time such as 500ms, 10s or 2m, a day at most".to_owned())
}

fn entry(given: &str) -> Result<(String, String), String> {
    match given.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        bench: Bench,
    }

    fn plan(line: &str) -> Result<Plan, String> {
        let words = std::iter::once("bench").chain(line.split(' ').filter(|word| !word.is_empty()));
        let line = CommandLine::try_parse_from(words.map(|word| word.replace('_', " ")));
        line.map_err(|error| error.to_string())?.bench.plan()
    }

    #[test]
    fn a_line_becomes_a_plan() {
        let it = plan("").expect("all defaults");
        assert_eq!((it.connections, it.in_flight, it.rate, it.threads), (16, 1, None, 1));
        assert_eq!((it.end, it.warm_up), (End::After(Duration::from_secs(10)), Duration::from_secs(1)));
        let it = plan("--requests 50 --connections 2 --threads 8 --core 1,0").expect("counted");
        assert_eq!((it.end, it.warm_up), (End::Requests(50), Duration::ZERO));
        assert_eq!((it.threads, it.cores), (2, vec![1, 0]));
        let it = plan("--http https://h:1 --cert c.crt --key c.key").expect("another name of --target");
        assert_eq!(it.target.protocol, Protocol::Http);
        assert_eq!(it.identity, Some(("c.crt".into(), "c.key".into())));
        let it = plan("--target resp://h:1 --throttle 9_10_60 --hits 2").expect("throttle");
        let want = ["CL.THROTTLE", "{key}", "9", "10", "60", "2"].map(str::to_owned).to_vec();
        assert_eq!(it.ask, Ask::Command(want));
    }

    #[test]
    fn progress_is_one_place_of_a_terminal_or_lines() {
        let mut place = Vec::new();
        let mut lines = Vec::new();
        let mut on_terminal = ProgressLine::new(true);
        let mut in_file = ProgressLine::new(false);
        for seconds in 1..=30 {
            let now = Progress { replies: seconds * 1_500, seconds };
            on_terminal.write(now, &mut place).expect("written");
            in_file.write(now, &mut lines).expect("written");
        }
        on_terminal.clear(&mut place).expect("written");
        in_file.clear(&mut lines).expect("written");
        let lines = String::from_utf8(lines).expect("text");
        assert_eq!(lines.lines().count(), 12, "{lines}");
        assert!(lines.lines().all(|line| line.ends_with("1,500 replies/s")), "{lines}");
        assert!(lines.ends_with("  30 s         1,500 replies/s\n"), "{lines}");
        assert!(!place.contains(&b'\n') && place.ends_with(b"\r"));
    }

    #[test]
    fn a_line_that_contradicts_itself_is_refused_with_the_reason() {
        for (line, reason) in [
            ("--throttle 1_2_3", "need a resp:// target"),
            ("--target resp://h:1 --throttle 1_2", "three whole numbers"),
            ("--target resp://h:1 --body {}", "--body needs an http:// target"),
            ("--duration 3x", "write a time such as"),
            ("--requests 5 --duration 3s", "cannot be used with"),
            ("--connections 0", "from 1 to 100000"),
            ("--entry novalue", "KEY=VALUE"),
            ("--cert client.crt", "--key <FILE>"),
            ("--token-file /no/such/file", "/no/such/file: No such file"),
        ] {
            let told = plan(line).expect_err(line);
            assert!(told.contains(reason), "{line}: {told}");
        }
    }
}
