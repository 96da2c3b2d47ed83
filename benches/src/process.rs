//! A server as a process of its own: started on a free port, kept to core 0, watched, stopped.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::machine;

/// Names the server to measure, where it is not to be built.
const BINARY: &str = "TOLLGATE_BIN";

/// Longest time for a server to start listening, and the interval between checks.
const PATIENCE: Duration = Duration::from_secs(10);
const ASKS_EVERY: Duration = Duration::from_millis(20);

/// A running server; stopped when dropped.
pub(crate) struct Process {
    pub(crate) port: u16,
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It is going away whether or not it listens.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts what `command` makes of a free port, and waits until it listens there.
    pub(crate) fn start(command: impl FnOnce(u16) -> anyhow::Result<Command>) -> anyhow::Result<Self> {
        Self::start_on(free_port()?, command)
    }

    /// The same for one that may take this long to begin.
    pub(crate) fn start_patiently(
        patience: Duration,
        command: impl FnOnce(u16) -> anyhow::Result<Command>,
    ) -> anyhow::Result<Self> {
        Self::start_within(patience, free_port()?, command)
    }

    /// The same on a given port.
    pub(crate) fn start_on(
        port: u16,
        command: impl FnOnce(u16) -> anyhow::Result<Command>,
    ) -> anyhow::Result<Self> {
        Self::start_within(PATIENCE, port, command)
    }

    fn start_within(
        patience: Duration,
        port: u16,
        command: impl FnOnce(u16) -> anyhow::Result<Command>,
    ) -> anyhow::Result<Self> {
        let mut command = command(port)?;
        // Tollgate takes variables with its prefix for settings, and does not start if it does not know their
        // names.
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"TOLLGATE_"))
        {
            command.env_remove(name);
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn()?;
        let mut process = Self { port, child };
        process.wait(patience).with_context(|| format!("{command:?}"))?;
        Ok(process)
    }

    /// Waits until it listens.
    fn wait(&mut self, patience: Duration) -> anyhow::Result<()> {
        for _ in 0..patience.as_millis() / ASKS_EVERY.as_millis() {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended before it listened: {status}");
            }
            #[allow(clippy::disallowed_methods, reason = "asks again until it listens")]
            std::thread::sleep(ASKS_EVERY);
        }
        bail!("nobody listens on port {}", self.port)
    }

    /// Seconds of CPU that it has used so far, its threads together.
    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        let mut nanos = 0.0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            // A thread that has ended meanwhile is not counted.
            let Ok(times) = std::fs::read_to_string(task?.path().join("schedstat")) else { continue };
            nanos += times.split(' ').next().context("schedstat")?.parse::<f64>()?;
        }
        Ok(nanos / 1e9)
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// MiB of memory that it has now.
    pub(crate) fn resident_mib(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
        let kib: f64 = line.split_whitespace().next().context("VmRSS")?.parse()?;
        Ok(kib / 1024.0)
    }
}

/// The server to measure: the binary beside this one, built first, or the one that the environment
/// names.
pub(crate) fn built_tollgate() -> anyhow::Result<PathBuf> {
    if let Some(binary) = std::env::var_os(BINARY) {
        return Ok(binary.into());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status =
        Command::new(cargo).args(["build", "--profile", "dist", "--package", "tollgate-server"]).status()?;
    ensure!(status.success(), "the server does not build");
    Ok(std::env::current_exe()?.with_file_name("tollgate"))
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

pub(crate) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
