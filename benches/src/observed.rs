//! Cost of observability: the top-key sketch and the log of denials, on as by default and off.
//!
//! Counters and histograms cannot be turned off; their cost is part of both columns.

use crate::process::built_tollgate;
use crate::report::{Spread, Table, figure};
use crate::settings::Settings;
use crate::surfaces::{Contender, Shape, check, measure, tollgate};

const SHAPE: Shape = Shape { connections: 50, in_flight: 64, requests: 3_000_000 };
const KEYS: u64 = 10_000;
const OFF: &[&str] = &["--top-keys", "0", "--denial-log-level", "off"];

/// Measures the server watched and not watched, admitting and denying, in turns.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<Table> {
    let folder = tempfile::tempdir()?;
    let binary = built_tollgate()?;
    let mut contenders = Vec::new();
    for (what, limit) in [("admitted", u32::MAX), ("denied", 1)] {
        for (how, more) in [("not observed", OFF), ("observed", &[])] {
            let process = tollgate(&binary, folder.path(), "resp", limit, more)?;
            let name = format!("{what}, {how}");
            contenders.push(Contender { name, process, scheme: "resp", path: "", ask: check(), keys: KEYS });
        }
    }
    let runs = measure(&contenders, SHAPE, settings)?;
    let mut rows = Vec::new();
    for (index, (contender, of)) in contenders.iter().zip(&runs).enumerate() {
        let off = Spread::of(runs[index - index % 2].cpu_us.clone());
        let cpu = Spread::of(of.cpu_us.clone());
        let more = format!("{} %", figure((cpu.median / off.median - 1.0) * 100.0));
        let rate = Spread::of(of.rate.clone()).cell();
        rows.push(vec![contender.name.clone(), cpu.cell(), more, rate]);
    }
    let columns = ["TOLLGATE.CHECK", "server CPU µs per request", "more than not observed", "requests/s"];
    let mut notes = vec![format!(
        "{} connections × {} in flight. Observed is the default: 16 top keys per rule, at most ten denials logged per second, \
         tracing off. Metrics are on in both.",
        SHAPE.connections, SHAPE.in_flight
    )];
    notes.extend(settings.notes());
    Ok(Table {
        name: "observed",
        title: "Cost of observability".to_owned(),
        command: settings.command("observed"),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
        notes,
    })
}
