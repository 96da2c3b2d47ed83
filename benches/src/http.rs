//! Servers of `/v1/check` and its like, and the ceiling: hyper saying `ok`.

use std::path::{Path, PathBuf};

use tollgate_load::Ask;

use crate::process::{Process, built_tollgate, pinned};
use crate::report::Table;
use crate::responder;
use crate::settings::Settings;
use crate::surfaces::{Contender, Shape, check, measure, table, tollgate};

const SHAPE: Shape = Shape { connections: 64, in_flight: 1, requests: 300_000 };
const MANY: u64 = 1_000_000;
const FEW: u64 = 10_000;

/// One worker that limits by address, admits all, and answers by itself. `return` alone would come before the
/// limit.
const NGINX: &str =
    "daemon off; master_process off; worker_processes 1; pid nginx.pid; error_log error.log crit;
events { worker_connections 512; }
http {
    access_log off; keepalive_requests 1000000000; client_body_temp_path body; proxy_temp_path proxy;
    fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    limit_req_zone $binary_remote_addr zone=all:1m rate=1000000r/s;
    server {
        listen 127.0.0.1:PORT;
        location / { limit_req zone=all burst=1000000 nodelay; error_page 405 =200 /ok; empty_gif; }
        location = /ok { return 200 ok; }
    }
}
";

/// nginx, where Debian puts it if that is not on the path.
fn nginx(settings: &Settings) -> Option<PathBuf> {
    let beside = Path::new("/usr/sbin/nginx");
    if beside.exists() {
        return Some(beside.to_owned());
    }
    settings.has("nginx").then(|| "nginx".into())
}

/// Measures every server that can be started.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<Table> {
    let folder = tempfile::tempdir()?;
    let mut contenders = Vec::new();
    let mut add = |name: &str, path, ask, keys, process: Process| {
        settings.say(&format!("http: {name} is there"));
        contenders.push(Contender { name: name.to_owned(), process, scheme: "http", path, ask, keys });
    };
    // The ceiling is asked the same, and answers after it has read it.
    for kind in [responder::ResponderKind::Hyper, responder::ResponderKind::HyperJson] {
        add(kind.name(), "", check(), MANY, kind.start()?);
    }
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
    if let Some(program) = nginx(settings) {
        let process = Process::start(|port| {
            let config = folder.path().join("nginx.conf");
            std::fs::write(&config, NGINX.replace("PORT", &port.to_string()))?;
            let mut command = pinned(0, &program);
            command.arg("-p").arg(folder.path()).arg("-c").arg(config).args(["-e", "error.log"]);
            Ok(command)
        })?;
        add("nginx, `limit_req` of one address", "/", Ask::Body("{}".to_owned()), 1, process);
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
