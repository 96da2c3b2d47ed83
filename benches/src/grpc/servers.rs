//! The servers under test: how each is started, asked, and stopped.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use prost::Message as _;

use super::echo::{self, Behind, Runtime, SHOULD_RATE_LIMIT, Serve};
use crate::process::{Process, built_tollgate, free_port, pinned};
use crate::settings::Settings;

/// The reference that the others are compared with.
pub(crate) const LIMITADOR: &str = "limitador crate behind tonic";

/// A running server.
pub(crate) struct GrpcServer {
    pub(crate) name: &'static str,
    pub(crate) process: Process,
    pub(crate) path: &'static str,
    /// The one request that is sent, with its five bytes of gRPC framing.
    pub(crate) body: Vec<u8>,
}

/// Starts every available server, limitador first, and checks that each answers.
pub(crate) fn start(folder: &Path, settings: &Settings) -> anyhow::Result<Vec<GrpcServer>> {
    let body = framed(&echo::request());
    ensure!(body.len() == 46, "the request is {} bytes long, not 46", body.len());
    let mut servers = Vec::new();
    let mut add =
        |name, path, body, command: &dyn Fn(u16) -> anyhow::Result<Command>| -> anyhow::Result<()> {
            settings.say(&format!("grpc: starting {name}"));
            let process = Process::start(command).with_context(|| format!("{name} does not start"))?;
            servers.push(GrpcServer { name, process, path, body });
            Ok(())
        };

    let itself = std::env::current_exe()?;
    for (name, behind, runtime) in [
        (LIMITADOR, Behind::Limitador, Runtime::Multi),
        ("tonic echo, multi-thread runtime", Behind::Echo, Runtime::Multi),
        ("tonic echo, current-thread runtime", Behind::Echo, Runtime::Current),
    ] {
        add(name, SHOULD_RATE_LIMIT, body.clone(), &|port| {
            Ok(Serve { behind, runtime, port }.command(&itself))
        })?;
    }
    if settings.has("limitador-server") {
        let limits = folder.join("limits.yaml");
        std::fs::write(&limits, LIMITADOR_LIMITS)?;
        add("limitador-server", SHOULD_RATE_LIMIT, body.clone(), &|port| {
            let mut command = pinned(0, Path::new("limitador-server"));
            command.args(["--rls-ip", "127.0.0.1", "--rls-port"]).arg(port.to_string());
            command.args(["--http-ip", "127.0.0.1", "--http-port"]).arg(free_port()?.to_string());
            command.arg(&limits).arg("memory");
            Ok(command)
        })?;
    }
    if settings.has("throttlecrab-server") {
        let body = framed(&echo::ThrottleRequest::hot().encode_to_vec());
        add("throttlecrab-server (own message)", "/throttlecrab.RateLimiter/Throttle", body, &|port| {
            let mut command = pinned(0, Path::new("throttlecrab-server"));
            command.args(["--grpc", "--grpc-host", "127.0.0.1", "--log-level", "error", "--grpc-port"]);
            command.arg(port.to_string());
            Ok(command)
        })?;
    }
    let tollgate = built_tollgate()?;
    for (name, file, limit) in [("**tollgate**", "admit", u32::MAX), ("**tollgate**, denying", "deny", 1)] {
        let rules = folder.join(file);
        std::fs::create_dir(&rules)?;
        std::fs::write(rules.join("bench.yaml"), tollgate_rules(limit))?;
        add(name, SHOULD_RATE_LIMIT, body.clone(), &|port| {
            let mut command = pinned(0, &tollgate);
            command
                .arg("serve")
                .arg("--rules")
                .arg(&rules)
                .args(["--http", "off", "--resp", "off", "--grpc"]);
            command.arg(format!("127.0.0.1:{port}"));
            Ok(command)
        })?;
    }
    // Only the server with a message of its own is not asked: the others must know this one.
    for server in servers.iter().filter(|server| server.path == SHOULD_RATE_LIMIT) {
        echo::ask(server.process.port).with_context(|| format!("{} answers wrongly", server.name))?;
    }
    Ok(servers)
}

const LIMITADOR_LIMITS: &str = "- namespace: bench
  max_value: 4294967295
  seconds: 1
  conditions: []
  variables: [\"descriptors[0].remote_address\"]
";

fn tollgate_rules(limit: u32) -> String {
    format!(
        "domain: bench\ndescriptors:\n  - key: remote_address\n    rate_limit:\n      unit: hour\n      requests_per_unit: {limit}\n"
    )
}

/// A gRPC message: not compressed, its length, itself.
fn framed(message: &[u8]) -> Vec<u8> {
    let mut body = vec![0];
    body.extend((message.len() as u32).to_be_bytes());
    body.extend(message);
    body
}
