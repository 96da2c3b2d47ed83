//! Memory of a server with every surface open that tracks 100 keys.

use std::time::Duration;

use anyhow::ensure;
use tollgate_load::{Distribution, End, Plan};

use crate::process::{Process, built_tollgate, free_port};
use crate::report::{Spread, Table};
use crate::settings::Settings;
use crate::surfaces::check;

const KEYS: u64 = 100;
/// Requests per surface.
const REQUESTS: u64 = 20_000;

/// Starts a server as a user would, asks it over every surface, and looks at its memory.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<Table> {
    let folder = tempfile::tempdir()?;
    let rules =
        "domain: bench\ndescriptors:\n  - key: key\n    rate_limit: {unit: hour, requests_per_unit: 1000}\n";
    std::fs::write(folder.path().join("bench.yaml"), rules)?;
    let binary = built_tollgate()?;
    let requests = settings.size(REQUESTS, REQUESTS, 200);
    let mut fresh = Vec::new();
    let mut after = Vec::new();
    for repeat in 0..settings.repeats.max(1) {
        settings.say(&format!("footprint: run {repeat}"));
        let grpc = free_port()?;
        let http = free_port()?;
        let server = Process::start(|resp| {
            let mut command = std::process::Command::new(&binary);
            command.arg("serve").arg("--rules").arg(folder.path());
            for (surface, port) in [("grpc", grpc), ("http", http), ("resp", resp)] {
                command.arg(format!("--{surface}")).arg(format!("127.0.0.1:{port}"));
            }
            Ok(command)
        })?;
        fresh.push(server.resident_mib()?);
        for (scheme, port) in [("resp", server.port), ("http", http), ("grpc", grpc)] {
            let report = plan(&format!("{scheme}://127.0.0.1:{port}"), requests)?.run(&mut |_| {})?;
            ensure!(report.errors == 0, "{:?}", report.error_kinds);
        }
        after.push(server.resident_mib()?);
    }
    let rows = [("just started", fresh), ("after 20,000 requests on 100 keys over each surface", after)];
    let rows = rows.map(|(when, mib)| vec![when.to_owned(), Spread::of(mib).cell()]).to_vec();
    let mut notes =
        vec!["`tollgate serve` with gRPC, HTTP and RESP open and otherwise its defaults, VmRSS.".to_owned()];
    notes.extend(settings.notes());
    Ok(Table {
        name: "footprint",
        title: "Memory of a small server".to_owned(),
        command: settings.command("footprint"),
        columns: ["when", "MiB resident"].map(str::to_owned).to_vec(),
        rows,
        notes,
    })
}

fn plan(target: &str, requests: u64) -> anyhow::Result<Plan> {
    Ok(Plan {
        target: target.parse()?,
        ask: check(),
        connections: 16,
        in_flight: 1,
        rate: None,
        end: End::Requests(requests),
        warm_up: Duration::ZERO,
        keys: KEYS,
        distribution: Distribution::Uniform,
        seed: 1,
        threads: 1,
        cores: Vec::new(),
        patience: Duration::from_secs(10),
        ca: None,
        identity: None,
        token: None,
    })
}
