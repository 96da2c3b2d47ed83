//! One connection, one request in flight: our cost above an echo of the same protocol.

use crate::process::built_tollgate;
use crate::report::{Spread, Table, figure};
use crate::responder::ResponderKind;
use crate::settings::Settings;
use crate::surfaces::{Contender, Runs, Shape, check, command, measure, tollgate};

const SHAPE: Shape = Shape { connections: 1, in_flight: 1, requests: 40_000 };
const KEYS: u64 = 10_000;
/// Budget of a decision at p99 above an echo of the same protocol, in microseconds. A table shows whether it
/// was met; the gate checks the instructions of a request instead (`count`), which do not depend on the
/// machine's load.
const BUDGET_P99_US: f64 = 20.0;

/// Measures the echo and ours of every protocol, in turns.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<Table> {
    let folder = tempfile::tempdir()?;
    let binary = built_tollgate()?;
    let mut contenders = Vec::new();
    for (scheme, name, echo, ask) in [
        ("resp", "Redis protocol", ResponderKind::Tokio, command(crate::resp::ADMIT)),
        ("http", "HTTP/1.1", ResponderKind::Hyper, check()),
        ("grpc", "gRPC", ResponderKind::Tonic, check()),
    ] {
        settings.say(&format!("echo: {name}"));
        let ours = tollgate(&binary, folder.path(), scheme, u32::MAX, &[])?;
        for (who, process) in [(echo.name(), echo.start()?), ("**tollgate**", ours)] {
            let name = format!("{name}: {who}");
            let ask = ask.clone();
            contenders.push(Contender { name, process, scheme, path: "", ask, keys: KEYS });
        }
    }
    let runs = measure(&contenders, SHAPE, settings)?;
    let p50 = |runs: &Runs| Spread::of(runs.p50_us.clone()).median;
    let p99 = |runs: &Runs| Spread::of(runs.p99_us.clone()).median;
    let mut rows = Vec::new();
    for (index, (contender, of)) in contenders.iter().zip(&runs).enumerate() {
        // Contenders come in pairs: the echo, then ours.
        let echo = &runs[index - index % 2];
        rows.push(vec![
            contender.name.clone(),
            Spread::of(of.p50_us.clone()).cell(),
            figure(p50(of) - p50(echo)),
            Spread::of(of.p99_us.clone()).cell(),
            figure(p99(of) - p99(echo)),
            verdict(index % 2 == 1, p99(of) - p99(echo)).to_owned(),
            Spread::of(of.cpu_us.clone()).cell(),
        ]);
    }
    let columns = [
        "server",
        "p50 µs",
        "above the echo",
        "p99 µs",
        "p99 above the echo's",
        "budget",
        "server CPU µs per request",
    ];
    let mut notes = vec![format!(
        "One connection, one in flight; server and load on separate cores. The budget of a decision is \
         {BUDGET_P99_US} µs at p99 above the echo."
    )];
    notes.extend(settings.notes());
    Ok(Table {
        name: "echo",
        title: "Unloaded: latency above an echo".to_owned(),
        command: settings.command("echo"),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
        notes,
    })
}

fn verdict(is_ours: bool, above_us: f64) -> &'static str {
    match above_us {
        _ if !is_ours => "",
        ..=BUDGET_P99_US => "kept",
        _ => "exceeded",
    }
}
