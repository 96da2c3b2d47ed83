//! Shared counters: a store of ours on one local Redis, beside redis-benchmark sending the very same command.
//!
//! Redis has core 0, and its client core 1: redis-benchmark, or this process, where many tasks on one
//! single-threaded runtime call the store as a worker of a server does. Not here: the additional cost of a
//! server (`grpc`, `resp`, `http`).

mod bytes;
mod drive;
mod exact;
mod heard;
mod leased;
mod outage;
mod raw;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::process::{Process, pinned};
use crate::report::Table;
use crate::settings::Settings;

/// The core of Redis; [`ASKING`] is the other one.
const SERVING: usize = 0;
const ASKING: usize = 1;

/// The parts to measure; all of them by default.
#[derive(clap::Args)]
pub(crate) struct Shared {
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    part: Vec<Measurement>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Measurement {
    /// Beside redis-benchmark; hot keys.
    Exact,
    /// Permits taken ahead of time.
    Leased,
    /// Redis stands still, or dies.
    Outage,
    /// Memory of a counter.
    Bytes,
}

impl Shared {
    /// Measures, and shows each table as soon as it is there.
    pub(crate) fn run(
        &self,
        settings: &Settings,
        mut show: impl FnMut(&Table) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if !settings.has("redis-server") {
            return Ok(());
        }
        let mut cores = CpuSet::new();
        cores.set(ASKING.min(std::thread::available_parallelism().map_or(0, |cores| cores.get() - 1)));
        sched_setaffinity(None, &cores)?;
        for (part, run) in [
            (Measurement::Exact, exact::run as fn(&Settings) -> anyhow::Result<Vec<Table>>),
            (Measurement::Leased, leased::run),
            (Measurement::Outage, outage::run),
            (Measurement::Bytes, bytes::run),
        ] {
            if self.part.is_empty() || self.part.contains(&part) {
                run(settings)?.iter().try_for_each(&mut show)?;
            }
        }
        Ok(())
    }
}

/// A Redis on core 0, which keeps nothing on disk.
struct Redis {
    process: Process,
}

impl Redis {
    fn start() -> anyhow::Result<Self> {
        Ok(Self { process: Process::start(Self::command)? })
    }

    /// Once more on the port of one that was killed, empty.
    fn start_on(port: u16) -> anyhow::Result<Self> {
        Ok(Self { process: Process::start_on(port, Self::command)? })
    }

    fn command(port: u16) -> anyhow::Result<std::process::Command> {
        let mut command = pinned(SERVING, Path::new("redis-server"));
        command
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"])
            .arg(port.to_string());
        Ok(command)
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.process.port)
    }

    /// Loads a script; answers its SHA-1.
    fn load(&self, script: &str) -> anyhow::Result<String> {
        self.tell(&format!("*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n${}\r\n{script}\r\n", script.len()))
    }

    /// Sends one command, given as a line; returns the reply, a line or a string.
    fn ask(&self, command: &str) -> anyhow::Result<String> {
        self.tell(&format!("{command}\r\n"))
    }

    fn tell(&self, command: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.process.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.write_all(command.as_bytes())?;
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        reader.read_line(&mut head)?;
        let head = head.trim_end();
        let Some(length) = head.strip_prefix('$') else {
            ensure!(!head.starts_with('-'), "{command}: {head}");
            return Ok(head.to_owned());
        };
        let mut text = vec![0; length.parse()?];
        reader.read_exact(&mut text)?;
        Ok(String::from_utf8(text)?)
    }

    /// One number of its `INFO`.
    fn info(&self, name: &str) -> anyhow::Result<f64> {
        let info = self.ask("INFO")?;
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(line.with_context(|| format!("no {name}"))?.parse()?)
    }
}
