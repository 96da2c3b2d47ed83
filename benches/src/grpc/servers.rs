//! The servers under test: how each is started, asked, and stopped.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use prost::Message as _;

use super::echo::{self, Behind, Runtime, Serve};
use crate::machine;
use crate::settings::Settings;

/// What the others are compared with.
pub(crate) const LIMITADOR: &str = "limitador crate behind tonic";
pub(super) const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A running server; stopped when dropped.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
    pub(crate) path: &'static str,
    /// The one request that is sent, with its five bytes of gRPC framing.
    pub(crate) body: Vec<u8>,
    child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is going away whether or not it listens.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Seconds of CPU that it has used so far, its threads together.
    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // After the name in brackets: state, then eleven fields, then user and system ticks.
        let fields = stat.rsplit_once(')').context("stat")?.1;
        let ticks: Vec<f64> =
            fields.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
        Ok(ticks.iter().sum::<f64>() / 100.0)
    }
}

/// Starts everybody that is there, limitador first, and sees that each answers.
pub(crate) fn start(folder: &Path, settings: &Settings) -> anyhow::Result<Vec<Server>> {
    let body = framed(&echo::request());
    ensure!(body.len() == 46, "the request is {} bytes long, not 46", body.len());
    let mut servers = Vec::new();
    let mut add =
        |name, path, body, command: &dyn Fn(u16) -> anyhow::Result<Command>| -> anyhow::Result<()> {
            settings.say(&format!("grpc: starting {name}"));
            let port = free_port()?;
            let child = command(port)?.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
            let server = Server { name, port, path, body, child };
            wait_for(port).with_context(|| format!("{name} does not listen"))?;
            servers.push(server);
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
    if machine::first_line_of("limitador-server", &["--version"]).is_some() {
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
    if machine::first_line_of("throttlecrab-server", &["--version"]).is_some() {
        let body = framed(&echo::ThrottleRequest::hot().encode_to_vec());
        add("throttlecrab-server (own message)", "/throttlecrab.RateLimiter/Throttle", body, &|port| {
            let mut command = pinned(0, Path::new("throttlecrab-server"));
            command.args(["--grpc", "--grpc-host", "127.0.0.1", "--log-level", "error", "--grpc-port"]);
            command.arg(port.to_string());
            Ok(command)
        })?;
    }
    let tollgate = built_tollgate(&itself)?;
    for (name, file, limit) in [("**tollgate**", "admit", u32::MAX), ("**tollgate**, denying", "deny", 1)] {
        let rules = folder.join(file);
        std::fs::create_dir(&rules)?;
        std::fs::write(rules.join("bench.yaml"), tollgate_rules(limit))?;
        add(name, SHOULD_RATE_LIMIT, body.clone(), &|port| {
            let mut command = pinned(0, &tollgate);
            command.arg("serve").arg("--rules").arg(&rules).args(["--http", "off", "--grpc"]);
            command.arg(format!("127.0.0.1:{port}"));
            Ok(command)
        })?;
    }
    for server in servers.iter().filter(|server| server.path == SHOULD_RATE_LIMIT) {
        echo::ask(server.port).with_context(|| format!("{} answers wrongly", server.name))?;
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

/// The release binary beside this one, built first.
fn built_tollgate(itself: &Path) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(["build", "--release", "--package", "tollgate-server"]).status()?;
    ensure!(status.success(), "the server does not build");
    Ok(itself.with_file_name("tollgate"))
}

/// A gRPC message: not compressed, its length, itself.
fn framed(message: &[u8]) -> Vec<u8> {
    let mut body = vec![0];
    body.extend((message.len() as u32).to_be_bytes());
    body.extend(message);
    body
}

/// `program`, kept to one core where `taskset` is there.
pub(crate) fn pinned(core: usize, program: &Path) -> Command {
    if machine::first_line_of("taskset", &["--version"]).is_none() {
        return Command::new(program);
    }
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &core.to_string()]).arg(program);
    command
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn wait_for(port: u16) -> anyhow::Result<()> {
    for _ in 0..500 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok(());
        }
        #[allow(
            clippy::disallowed_methods,
            reason = "asks again until a process that is no child's child listens"
        )]
        std::thread::sleep(Duration::from_millis(20));
    }
    anyhow::bail!("nobody listens on port {port}")
}
