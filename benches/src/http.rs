//! Servers of `/v1/check` and its like, and the ceiling: hyper saying `ok`.

use std::path::Path;

use tollgate_load::Ask;

use crate::process::{Process, built_tollgate, pinned};
use crate::report::Table;
use crate::responder;
use crate::settings::Settings;
use crate::surfaces::{Contender, Shape, check, measure, table, tollgate};

const SHAPE: Shape = Shape { connections: 64, in_flight: 1, requests: 300_000 };
const MANY: u64 = 1_000_000;
const FEW: u64 = 10_000;

/// Measures every server that can be started.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<Table> {
    let folder = tempfile::tempdir()?;
    let mut contenders = Vec::new();
    let mut add = |name: &str, path, ask, keys, process: Process| {
        settings.say(&format!("http: {name} is there"));
        contenders.push(Contender { name: name.to_owned(), process, scheme: "http", path, ask, keys });
    };
    // The ceiling is asked the same, and answers after it has read it.
    add("hyper `ok`", "", check(), MANY, responder::Kind::Hyper.start()?);
    if settings.has("throttlecrab-server") {
        let process = Process::start(|port| {
            let mut command = pinned(0, Path::new("throttlecrab-server"));
            command.args(["--http", "--http-host", "127.0.0.1", "--log-level", "error", "--http-port"]);
            command.arg(port.to_string());
            Ok(command)
        })?;
        let body = r#"{"key":"{key}","max_burst":1000,"count_per_period":1000,"period":3600}"#;
        add("throttlecrab-server", "/throttle", Ask::Body(body.to_owned()), MANY, process);
    }
    let binary = built_tollgate()?;
    let ours = |limit| tollgate(&binary, folder.path(), "http", limit, &[]);
    add("**tollgate**, /v1/check", "", check(), MANY, ours(u32::MAX)?);
    add("**tollgate**, 10,000 keys admitted", "", check(), FEW, ours(u32::MAX)?);
    add("**tollgate**, 10,000 keys denied", "", check(), FEW, ours(1)?);
    add("**tollgate**, denied with 429", "/v1/check?status=429", check(), FEW, ours(1)?);
    let runs = measure(&contenders, SHAPE, settings)?;
    Ok(table("http", "HTTP/1.1, 64 × 1".to_owned(), &contenders, &runs, SHAPE, settings))
}
