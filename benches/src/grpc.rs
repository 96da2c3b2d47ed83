//! gRPC servers under h2load: rate, latency, and CPU a request, the servers taking turns.
//!
//! Every server is pinned to core 0 and the load to core 1. h2load sends one fixed `ShouldRateLimit` message
//! of 46 bytes. Not here: the echo servers that show the limits of the transport alone ([`echo`]).

mod echo;
mod h2load;
mod servers;

use crate::report::{Spread, Table, figure};
use crate::settings::Settings;

pub(crate) use echo::{Behind, Runtime, Serve};

/// Connections, streams in flight on each, requests of a run.
const SHAPES: [(usize, usize, usize); 3] = [(16, 16, 200_000), (64, 100, 200_000), (1, 1, 20_000)];

/// Results of one server in the runs of one shape.
#[derive(Default)]
struct Runs {
    rate: Vec<f64>,
    cpu_us: Vec<f64>,
    p50_us: Vec<f64>,
    p99_us: Vec<f64>,
}

/// Measures every server that can be started.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    // h2load is in the package nghttp2-client.
    if !settings.has("h2load") {
        return Ok(Vec::new());
    }
    let folder = tempfile::tempdir()?;
    let servers = servers::start(folder.path(), settings)?;
    let mut tables = Vec::new();
    for (connections, streams, count) in SHAPES {
        let count = settings.size(count, count / 10, count / 200);
        let mut runs: Vec<Runs> = servers.iter().map(|_| Runs::default()).collect();
        for repeat in 0..=settings.repeats {
            settings.say(&format!("grpc: {connections} × {streams}, run {repeat}"));
            for turn in 0..servers.len() {
                let at = (turn + repeat) % servers.len();
                let server = &servers[at];
                let runs = &mut runs[at];
                let load = h2load::Load { server, connections, streams, folder: folder.path() };
                let cpu_before = server.process.cpu_seconds()?;
                let rate = load.rate(count)?;
                let cpu = server.process.cpu_seconds()? - cpu_before;
                let (p50, p99) = load.latency(count / 2)?;
                // The first is the warm-up.
                if repeat > 0 {
                    runs.rate.push(rate);
                    runs.cpu_us.push(cpu * 1e6 / count as f64);
                    runs.p50_us.push(p50);
                    runs.p99_us.push(p99);
                }
            }
        }
        tables.push(table(&servers, runs, connections, streams, settings));
    }
    Ok(tables)
}

fn table(
    servers: &[servers::GrpcServer],
    runs: Vec<Runs>,
    connections: usize,
    streams: usize,
    settings: &Settings,
) -> Table {
    let in_flight = (connections * streams) as f64;
    let mut rows = Vec::new();
    let mut limitador = None;
    for (server, runs) in servers.iter().zip(runs) {
        let rate = Spread::of(runs.rate);
        let p99 = Spread::of(runs.p99_us);
        // limitador is started first, so each server behind it has a ratio.
        limitador = limitador.or((server.name == servers::LIMITADOR).then_some(rate.median));
        rows.push(vec![
            server.name.to_owned(),
            rate.cell(),
            limitador.map_or_else(|| "–".to_owned(), |theirs| figure(rate.median / theirs)),
            Spread::of(runs.cpu_us).cell(),
            Spread::of(runs.p50_us).cell(),
            p99.cell(),
            figure(p99.median / (in_flight / rate.median * 1e6)),
        ]);
    }
    let columns = [
        "server",
        "requests/s",
        "× limitador",
        "server CPU µs per request",
        "p50 µs",
        "p99 µs",
        "p99 ÷ (in flight ÷ rate)",
    ];
    let mut notes = vec![format!(
        "One server core, {connections} connections × {streams} in flight, cleartext HTTP/2, median (least–most). Latency from \
         runs of their own, since its log slows the load generator down."
    )];
    notes.extend(settings.notes());
    let (name, heading) = match (connections, streams) {
        (1, 1) => ("grpc-1x1", "gRPC, one connection, one in flight"),
        (16, 16) => ("grpc-16x16", "gRPC, 16 × 16"),
        _ => ("grpc-64x100", "gRPC, 64 × 100"),
    };
    Table {
        name,
        title: heading.to_owned(),
        command: settings.command("grpc"),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
        notes,
    }
}
