//! Servers under our own load generator, taking turns: rate, CPU a request, latency.
//!
//! Every server is kept to core 0 and the load to core 1. Not here: who takes part ([`resp`](crate::resp),
//! [`http`](crate::http), [`echo`](crate::echo), [`observed`](crate::observed)).

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use tollgate_load::{Ask, Distribution, End, Plan};

use crate::process::{Process, pinned};
use crate::report::{Spread, Table, figure};
use crate::settings::Settings;

/// A server and the requests that it gets.
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) process: Process,
    /// `resp`, `http` or `grpc`.
    pub(crate) scheme: &'static str,
    /// Path of the HTTP request.
    pub(crate) path: &'static str,
    pub(crate) ask: Ask,
    pub(crate) keys: u64,
}

/// Connections, requests in flight and requests in all of one kind of load.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) connections: usize,
    pub(crate) in_flight: usize,
    pub(crate) requests: u64,
}

/// Results of one contender in the runs of one shape.
#[derive(Clone, Default)]
pub(crate) struct Runs {
    pub(crate) rate: Vec<f64>,
    pub(crate) cpu_us: Vec<f64>,
    pub(crate) load_us: Vec<f64>,
    pub(crate) p50_us: Vec<f64>,
    pub(crate) p99_us: Vec<f64>,
}

/// One key for each request: `bench`'s only rule.
pub(crate) fn check() -> Ask {
    Ask::Check { domain: "bench".to_owned(), entries: vec![("key".to_owned(), "{key}".to_owned())], hits: 1 }
}

/// The words of a command.
pub(crate) fn command(words: &str) -> Ask {
    Ask::Command(words.split(' ').map(str::to_owned).collect())
}

/// Lets the contenders take turns, once to warm up and then as often as is wanted.
pub(crate) fn measure(
    contenders: &[Contender],
    shape: Shape,
    settings: &Settings,
) -> anyhow::Result<Vec<Runs>> {
    let mut runs = vec![Runs::default(); contenders.len()];
    for repeat in 0..=settings.repeats {
        settings.say(&format!("{} × {}, run {repeat}", shape.connections, shape.in_flight));
        for turn in 0..contenders.len() {
            let at = (turn + repeat) % contenders.len();
            let contender = &contenders[at];
            let plan = plan(contender, shape, settings, repeat as u64)?;
            let cpu_before = contender.process.cpu_seconds()?;
            let report = plan.run(&mut |_| {})?;
            let cpu = contender.process.cpu_seconds()? - cpu_before;
            ensure!(report.errors == 0, "{}: {:?}", contender.name, report.error_kinds);
            // The first is the warm-up.
            if repeat > 0 {
                let runs = &mut runs[at];
                runs.rate.push(report.rate);
                runs.cpu_us.push(cpu * 1e6 / report.requests as f64);
                runs.load_us.push(report.load_cpu_us_per_request);
                runs.p50_us.push(report.latency_us.p50);
                runs.p99_us.push(report.latency_us.p99);
            }
        }
    }
    Ok(runs)
}

fn plan(contender: &Contender, shape: Shape, settings: &Settings, seed: u64) -> anyhow::Result<Plan> {
    let Contender { scheme, path, process, .. } = contender;
    let requests = settings.size(shape.requests, shape.requests / 10, shape.requests / 1_000);
    Ok(Plan {
        target: format!("{scheme}://127.0.0.1:{}{path}", process.port).parse()?,
        ask: contender.ask.clone(),
        connections: shape.connections,
        in_flight: shape.in_flight,
        rate: None,
        end: End::Requests(requests),
        warm_up: Duration::ZERO,
        keys: contender.keys,
        distribution: Distribution::Uniform,
        seed,
        threads: 1,
        cores: if std::thread::available_parallelism()?.get() > 1 { vec![1] } else { Vec::new() },
        patience: Duration::from_secs(10),
        ca: None,
        identity: None,
        token: None,
    })
}

/// A table of those runs, each rate also as a ratio to the first contender's.
pub(crate) fn table(
    name: &'static str,
    title: String,
    contenders: &[Contender],
    runs: &[Runs],
    shape: Shape,
    settings: &Settings,
) -> Table {
    let first = runs.first().map_or(f64::NAN, |runs| Spread::of(runs.rate.clone()).median);
    let row = |(contender, runs): (&Contender, &Runs)| {
        let rate = Spread::of(runs.rate.clone());
        vec![
            contender.name.clone(),
            rate.cell(),
            figure(rate.median / first),
            Spread::of(runs.cpu_us.clone()).cell(),
            Spread::of(runs.load_us.clone()).cell(),
            Spread::of(runs.p50_us.clone()).cell(),
            Spread::of(runs.p99_us.clone()).cell(),
        ]
    };
    let of_first = contenders.first().map_or_else(String::new, |first| format!("× {}", first.name));
    let columns =
        ["server", "requests/s", &of_first, "server CPU µs per request", "load CPU µs", "p50 µs", "p99 µs"];
    let Shape { connections, in_flight, .. } = shape;
    let mut notes = vec![format!(
        "One server core, one load core, {connections} connections × {in_flight} in flight, median (least–most)."
    )];
    notes.extend(settings.notes());
    Table {
        name,
        title,
        command: settings.command(name.split('-').next().unwrap_or(name)),
        columns: columns.map(str::to_owned).to_vec(),
        rows: contenders.iter().zip(runs).map(row).collect(),
        notes,
    }
}

/// `tollgate serve` with one surface open, and one rule that admits `limit` an hour for each key.
pub(crate) fn tollgate(
    binary: &Path,
    folder: &Path,
    scheme: &str,
    limit: u32,
    more: &[&str],
) -> anyhow::Result<Process> {
    let rules = folder.join(format!("admit-{limit}"));
    std::fs::create_dir_all(&rules)?;
    let text = format!(
        "domain: bench\ndescriptors:\n  - key: key\n    rate_limit:\n      unit: day\n      requests_per_unit: {limit}\n"
    );
    std::fs::write(rules.join("bench.yaml"), text)?;
    Process::start(|port| {
        let mut command = pinned(0, binary);
        command.arg("serve").arg("--rules").arg(&rules).args(["--log-level", "error"]).args(more);
        for surface in ["grpc", "http", "resp"] {
            let address = if surface == scheme { format!("127.0.0.1:{port}") } else { "off".to_owned() };
            command.arg(format!("--{surface}")).arg(address);
        }
        Ok(command)
    })
}
