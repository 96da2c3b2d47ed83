//! The error of each algorithm against an exact limit, and the memory of a key.
//!
//! Exact means: admit while fewer than the limit were admitted in the window that ends now. The oracle keeps
//! that in a queue of its own and shares no code with the algorithms. Time comes from the trace, so every
//! figure is the same on every machine, except the bytes, which are those that the memory store counts
//! against its cap.

use std::collections::HashMap;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use tollgate_core::{Algorithm, Align, Cost, LeakyForm, Period, Quota, Refill, Shape, State, Timestamp};
use tollgate_exact::ExactLog;
use tollgate_store::{Counter, Key};
use tollgate_store_memory::{MemoryConfig, MemoryStore};

use crate::report::{Table, figure};
use crate::requests::Dice;
use crate::settings::Settings;

const LIMIT: u64 = 100;
const WINDOW_S: u64 = 3_600;
/// On the grid of the window, so that traces begin with one.
const BEGIN_S: u64 = WINDOW_S * 400_000;

#[derive(clap::Args)]
pub(crate) struct Accuracy {
    /// Arrivals as `second,client,…` under one line of headings; `-` is standard input. Made up where not
    /// given: clients that come in bursts.
    trace: Option<PathBuf>,
}

impl Accuracy {
    pub(crate) fn run(&self, settings: &Settings) -> anyhow::Result<Table> {
        let trace = match &self.trace {
            Some(path) => parse(&read(path)?)?,
            None => made_up(),
        };
        let exact = exact(&trace);
        let mut rows = Vec::new();
        for (name, algorithm) in algorithms() {
            let quota = Quota::new(LIMIT, Period::Span(Duration::from_secs(WINDOW_S)), algorithm)?;
            let admitted = replay(&quota, &trace);
            let share = |wrong: fn(bool, bool) -> bool| {
                let count = admitted.iter().zip(&exact).filter(|&(&ours, &right)| wrong(ours, right)).count();
                format!("{:.3} %", count as f64 * 100.0 / trace.len() as f64)
            };
            rows.push(vec![
                name,
                figure(bytes_a_key(&quota, settings)),
                figure(worst(&quota)),
                figure(sustained(&quota)),
                most_in_any_window(&trace, &admitted).to_string(),
                share(|ours, right| ours && !right),
                share(|ours, right| !ours && right),
            ]);
        }
        let columns = [
            "algorithm",
            "bytes per key",
            "most in a window, attacked",
            "steady flood passes",
            "most in a window of the trace",
            "wrongly admitted",
            "wrongly denied",
        ];
        let (name, trace_name) = match &self.trace {
            Some(path) => ("accuracy-trace", format!("{} requests of {}", trace.len(), path.display())),
            None => ("accuracy", format!("{} generated requests", trace.len())),
        };
        let clients = trace.iter().map(|&(_, client)| client).collect::<std::collections::HashSet<_>>().len();
        let notes = vec![format!(
            "{LIMIT} per {WINDOW_S} s for each of {clients} clients; the trace is {trace_name}. Attacked: the most that passes in any window \
             when a flood begins at the worst instant, in limits. Steady flood: what passes in the long run, in limits per window. Wrongly: against an exact log, in shares of all requests. Bytes: what a key with a full state adds to an empty store, as the memory store counts it against its cap."
        )];
        let title = "Error and memory of each algorithm".to_owned();
        let columns = columns.map(str::to_owned).to_vec();
        let file = self.trace.as_ref().map(|path| format!(" {}", path.display())).unwrap_or_default();
        let command = settings.command(&format!("accuracy{file}"));
        Ok(Table { name, title, command, columns, rows, notes })
    }
}

fn algorithms() -> Vec<(String, Algorithm)> {
    let burst = None;
    let initial = None;
    let overdraft = 0;
    let refill = Refill::Continuous;
    let mut all = vec![
        Algorithm::FixedWindow { align: Align::Calendar },
        Algorithm::TokenBucket { burst, initial, overdraft, refill },
        Algorithm::LeakyBucket { capacity: None, form: LeakyForm::Meter },
        Algorithm::SlidingWindowCounter,
        Algorithm::SlidingWindowLog { log_denied: false },
    ];
    all.extend([1, 2, 5, 10, 20, 60].map(Algorithm::sliding_window));
    let name = |algorithm: &Algorithm| match algorithm {
        Algorithm::SlidingWindow { cells, .. } => format!("`sliding_window`, cells: {cells}"),
        other => format!("`{}`", other.name()),
    };
    all.into_iter().map(|algorithm| (name(&algorithm), algorithm)).collect()
}

fn read(path: &std::path::Path) -> anyhow::Result<String> {
    let mut text = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text)?;
    } else {
        text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    }
    Ok(text)
}

/// (second, client) of every request.
fn parse(text: &str) -> anyhow::Result<Vec<(u64, u64)>> {
    let parse_line = |line: &str| {
        let mut fields =
            line.split(',').map(|field| field.trim().parse::<f64>().ok().map(|number| number as u64));
        Some((fields.next()??, fields.next()??))
    };
    let lines = text.lines().enumerate().skip(1);
    lines.map(|(at, line)| parse_line(line).with_context(|| format!("line {}: {line}", at + 1))).collect()
}

/// 200 clients over ten hours: each comes back every now and then for a burst of requests.
fn made_up() -> Vec<(u64, u64)> {
    let mut dice = Dice::new(2_026);
    let mut trace = Vec::new();
    for client in 0..200 {
        let mut second = 0;
        while second < 36_000 {
            for _ in 0..dice.below(60) {
                trace.push((second, client));
                second += dice.below(10);
            }
            second += dice.below(3_000);
        }
    }
    trace.sort_unstable();
    trace
}

fn exact(trace: &[(u64, u64)]) -> Vec<bool> {
    let mut logs: HashMap<u64, ExactLog> = HashMap::new();
    let admit =
        |&(second, client): &(u64, u64)| logs.entry(client).or_default().take(second, 1, WINDOW_S, LIMIT);
    trace.iter().map(admit).collect()
}

fn replay(quota: &Quota, trace: &[(u64, u64)]) -> Vec<bool> {
    let mut states: HashMap<u64, State> = HashMap::new();
    let admit = |&(second, client): &(u64, u64)| {
        let state = states.entry(client).or_insert_with(|| quota.fresh());
        quota.take(state, Cost::ONE, Timestamp::from_unix_seconds(BEGIN_S + second)).is_admitted()
    };
    trace.iter().map(admit).collect()
}

fn most_in_any_window(trace: &[(u64, u64)], admitted: &[bool]) -> u64 {
    let mut windows: HashMap<u64, ExactLog> = HashMap::new();
    let mut most = 0;
    for (&(second, client), _) in trace.iter().zip(admitted).filter(|&(_, &admitted)| admitted) {
        let window = windows.entry(client).or_default();
        window.forget(second, WINDOW_S);
        window.push(second, 1);
        most = most.max(window.sum());
    }
    most
}

/// A client that sends one request per second from `from_s` on, for this many windows.
fn flood(from_s: u64, windows: u64) -> impl Iterator<Item = Duration> {
    (0..windows * WINDOW_S).map(move |second| Duration::from_secs(BEGIN_S + from_s + second))
}

fn passed(quota: &Quota, demand: impl Iterator<Item = Duration>) -> Vec<Duration> {
    let mut state = quota.fresh();
    demand.filter(|&at| quota.take(&mut state, Cost::ONE, Timestamp::ZERO + at).is_admitted()).collect()
}

/// Most in any window, in limits, over floods that begin at different instants of the window.
fn worst(quota: &Quota) -> f64 {
    let most = |times: Vec<Duration>| {
        let window = Duration::from_secs(WINDOW_S);
        let in_window = |last: usize| last + 1 - times.partition_point(|&at| at + window <= times[last]);
        (0..times.len()).map(in_window).max().unwrap_or(0)
    };
    let starts = (0..10).map(|tenth| tenth * WINDOW_S / 10).chain([WINDOW_S - LIMIT]);
    let worst = starts.map(|from_s| most(passed(quota, flood(from_s, 3)))).max().unwrap_or(0);
    worst as f64 / LIMIT as f64
}

/// Admitted in the long run of a flood, in limits per window: all windows but the first, which also spends
/// saved permits.
fn sustained(quota: &Quota) -> f64 {
    const WINDOWS: u64 = 132;
    let second = Duration::from_secs(BEGIN_S + WINDOW_S);
    let count = passed(quota, flood(0, WINDOWS)).into_iter().filter(|&at| at >= second).count();
    count as f64 / (WINDOWS - 1) as f64 / LIMIT as f64
}

/// Memory of a key in its full state, as the store counts it. A state of one word has one size, so one take
/// suffices.
fn bytes_a_key(quota: &Quota, settings: &Settings) -> f64 {
    let (keys, takes) = if quota.shape() == Shape::Word { (1_000_000, 1) } else { (20_000, LIMIT) };
    let keys = keys / settings.size(1, 1, 100);
    let store = MemoryStore::new(MemoryConfig::default());
    let empty = store.stats().bytes;
    let begin = Timestamp::from_unix_seconds(BEGIN_S);
    let mut name = String::new();
    for tick in 0..takes {
        let now = begin + Duration::from_secs(tick * WINDOW_S / LIMIT);
        for id in 0..keys {
            crate::requests::write_key(&mut name, id);
            let _ = store.take_one(Counter::new(Key(name.as_bytes()), quota), Cost::ONE, now);
        }
    }
    let stats = store.stats();
    (stats.bytes - empty) as f64 / stats.tracked_keys.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_log_is_never_wrong_and_a_fixed_window_lets_twice_the_limit_pass() {
        let trace = made_up();
        let window = Period::Span(Duration::from_secs(WINDOW_S));
        let quota = |algorithm| Quota::new(LIMIT, window.clone(), algorithm).expect("a quota");
        let log = quota(Algorithm::SlidingWindowLog { log_denied: false });
        assert_eq!(replay(&log, &trace), exact(&trace));
        let fixed = quota(Algorithm::FixedWindow { align: Align::Calendar });
        assert_eq!((worst(&log), worst(&fixed)), (1.0, 2.0));
    }

    #[test]
    fn a_trace_is_read_below_its_headings() {
        assert_eq!(parse("t_s,client,path\n7,3,/a\n9.0,4,/b\n").expect("a trace"), [(7, 3), (9, 4)]);
        assert!(parse("t_s,client\nseven,3\n").is_err());
    }
}
