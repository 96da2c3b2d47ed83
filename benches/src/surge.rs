//! Twenty times the usual load on one key: in memory, over an exact store, and with leases. Real servers,
//! real Redis; the load is `tollgate bench` on a fixed schedule, so a slow reply does not lower it.
//!
//! Not here: the same as a test (`surge` of `e2e`), which works out the ideal from the arrivals.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::process::{Process, built_tollgate, free_port};
use crate::report::{Spread, Table};
use crate::settings::Settings;

/// The limit of the crowd's key, a second; its burst is a second's worth.
const LIMIT: u64 = 2_000;
/// Requests per second of the neighbours, far below the limit.
const NEIGHBOURS: u64 = 500;

struct Mode {
    name: &'static str,
    sharing: &'static str,
    nodes: usize,
    needs_redis: bool,
}

const MODES: [Mode; 3] = [
    Mode { name: "memory, one node", sharing: "local", nodes: 1, needs_redis: false },
    Mode { name: "exact, two nodes", sharing: "exact", nodes: 2, needs_redis: true },
    Mode { name: "leased, two nodes", sharing: "leased", nodes: 2, needs_redis: true },
];

/// Results of one load.
struct LoadResult {
    requests: f64,
    admitted: f64,
    denied: f64,
    errors: f64,
    seconds: f64,
    p99_us: f64,
}

/// One run of one mode.
struct Run {
    /// Admitted permits in the span, as a share of those that the limit supplied in it.
    goodput: f64,
    offered: f64,
    answered: f64,
    p99_ms: f64,
    neighbours: f64,
    neighbours_p99_ms: f64,
}

/// Measures the usual load and the surge in every mode.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let binary = built_tollgate()?;
    let mut rows = Vec::new();
    for mode in &MODES {
        if mode.needs_redis && !settings.has("redis-server") {
            continue;
        }
        for times in [1, 20] {
            settings.say(&format!("surge: {}, {times} × the limit", mode.name));
            let runs = (0..settings.repeats).map(|_| mode.run(&binary, times, settings));
            let runs = runs.collect::<anyhow::Result<Vec<Run>>>()?;
            let spread = |of: fn(&Run) -> f64| Spread::of(runs.iter().map(of).collect()).cell();
            rows.push(vec![
                format!("{}, {times} × the limit", mode.name),
                spread(|run| run.goodput * 100.0),
                spread(|run| run.offered),
                spread(|run| run.answered * 100.0),
                spread(|run| run.p99_ms),
                spread(|run| run.neighbours * 100.0),
                spread(|run| run.neighbours_p99_ms),
            ]);
        }
    }
    let columns = [
        "mode and load",
        "admitted, % of the limit",
        "offered/s",
        "answered, %",
        "p99 ms",
        "neighbours admitted, %",
        "neighbours' p99 ms",
    ];
    let mut notes = vec![format!(
        "One key with {LIMIT} a second and a burst of as many, asked for on a fixed schedule over the Redis protocol; \
         the limit gives its burst and {LIMIT} a second. Beside it {NEIGHBOURS} requests a second of other keys. Latencies count \
         from the intended time; servers, Redis and load share the machine's cores."
    )];
    notes.extend(settings.notes());
    Ok(vec![Table {
        name: "surge",
        title: "Twenty times the load on one key".to_owned(),
        command: settings.command("surge"),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
        notes,
    }])
}

impl Mode {
    fn run(&self, binary: &Path, times: u64, settings: &Settings) -> anyhow::Result<Run> {
        let folder = tempfile::tempdir()?;
        let sharing = self.sharing;
        let rules = format!(
            "domain: bench\ndescriptors:\n  - key: crowd\n    rate_limit: {{unit: second, requests_per_unit: {LIMIT}, \
             algorithm: token_bucket, sharing: {sharing}}}\n  - key: calm\n    rate_limit: {{unit: minute, \
             requests_per_unit: 100000, algorithm: token_bucket, sharing: {sharing}}}\n"
        );
        std::fs::write(folder.path().join("bench.yaml"), rules)?;
        let redis_port = free_port()?;
        let redis = self.needs_redis.then(|| redis(redis_port, folder.path())).transpose()?;
        let store = match redis {
            Some(_) => format!("redis://127.0.0.1:{redis_port}"),
            None => "memory".to_owned(),
        };
        let nodes = (0..self.nodes).map(|_| node(binary, folder.path(), &store));
        let nodes = nodes.collect::<anyhow::Result<Vec<Process>>>()?;
        let seconds = settings.size(5, 3, 1);
        let share = |rate: u64| rate / nodes.len() as u64;
        let ask = |entry: &str, rate: u64| {
            let asked = nodes.iter().map(|node| load(binary, node.port, entry, share(rate), seconds));
            asked.collect::<anyhow::Result<Vec<Child>>>()
        };
        let crowd = ask("crowd=all", times * LIMIT)?;
        let calm = ask("calm={key}", NEIGHBOURS)?;
        let read =
            |loads: Vec<Child>| loads.into_iter().map(report).collect::<anyhow::Result<Vec<LoadResult>>>();
        let crowd = read(crowd)?;
        let calm = read(calm)?;
        let sum = |loads: &[LoadResult], of: fn(&LoadResult) -> f64| loads.iter().map(of).sum::<f64>();
        let most =
            |loads: &[LoadResult], of: fn(&LoadResult) -> f64| loads.iter().map(of).fold(0.0, f64::max);
        let span = most(&crowd, |load| load.seconds);
        let requests = sum(&crowd, |load| load.requests);
        // At the usual load no more can be admitted than is asked for.
        let gave = (LIMIT as f64 * (1.0 + span)).min(requests);
        Ok(Run {
            goodput: sum(&crowd, |load| load.admitted) / gave,
            offered: requests / span,
            answered: (sum(&crowd, |load| load.admitted + load.denied)
                / sum(&crowd, |load| load.requests + load.errors))
            .min(1.0),
            p99_ms: most(&crowd, |load| load.p99_us) / 1e3,
            neighbours: sum(&calm, |load| load.admitted) / sum(&calm, |load| load.requests),
            neighbours_p99_ms: most(&calm, |load| load.p99_us) / 1e3,
        })
    }
}

fn redis(port: u16, folder: &Path) -> anyhow::Result<Process> {
    Process::start_on(port, |port| {
        let mut command = Command::new("redis-server");
        command.args(["--save", "", "--appendonly", "no", "--port", &port.to_string()]).current_dir(folder);
        Ok(command)
    })
}

fn node(binary: &Path, rules: &Path, store: &str) -> anyhow::Result<Process> {
    Process::start(|port| {
        let mut command = Command::new(binary);
        command.arg("serve").arg("--rules").arg(rules).args(["--store", store, "--log-level", "error"]);
        // The default deadline is for a network; here the store shares the cores with everything else.
        command.args(["--store-deadline", "400ms", "--workers", "1", "--grpc", "off", "--http", "off"]);
        command.arg("--resp").arg(format!("127.0.0.1:{port}"));
        Ok(command)
    })
}

/// A load that has begun.
fn load(binary: &Path, port: u16, entry: &str, rate: u64, seconds: u64) -> anyhow::Result<Child> {
    let mut command = Command::new(binary);
    command.args(["bench", "--json", "--target", &format!("resp://127.0.0.1:{port}"), "--entry", entry]);
    command.args(["--rate", &rate.to_string(), "--duration", &format!("{seconds}s"), "--warm-up", "0s"]);
    command.args(["--connections", "16", "--in-flight", "64", "--keys", "100"]);
    Ok(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?)
}

fn report(load: Child) -> anyhow::Result<LoadResult> {
    let output = load.wait_with_output()?;
    let report: Value = serde_json::from_slice(&output.stdout).context("what tollgate bench printed")?;
    let number = |value: &Value, name: &str| value.as_f64().with_context(|| format!("{name} in {report}"));
    let load = LoadResult {
        requests: number(&report["requests"], "requests")?,
        admitted: number(&report["admitted"], "admitted")?,
        denied: number(&report["denied"], "denied")?,
        errors: number(&report["errors"], "errors")?,
        seconds: number(&report["seconds"], "seconds")?,
        p99_us: number(&report["latency_us"]["p99"], "p99")?,
    };
    ensure!(load.requests > 0.0, "a load without requests: {report}");
    Ok(load)
}
