//! Shared counters: a store of ours on one local Redis, beside redis-benchmark sending the very same command.
//!
//! Redis has core 0; whoever asks has core 1: redis-benchmark, or this process, where many tasks on one single-threaded runtime call
//! the store as a worker of a server does. Not here: what a server adds to it (`grpc`, `resp`, `http`).

mod bytes;
mod drive;
mod exact;
mod leased;
mod outage;
mod raw;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::machine::first_line_of;
use crate::process::{Process, pinned};
use crate::report::Table;
use crate::settings::Settings;

/// The core of Redis; [`ASKING`] is the other one.
const SERVING: usize = 0;
const ASKING: usize = 1;

/// What to measure; everything where nothing is named.
#[derive(clap::Args)]
pub(crate) struct Shared {
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    part: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
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
    #[cfg(feature = "peers")]
    pub(crate) const ALL: Self = Self { part: Vec::new() };

    /// Measures, and shows each table as soon as it is there.
    pub(crate) fn run(
        &self,
        settings: &Settings,
        mut show: impl FnMut(&Table) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if first_line_of("redis-server", &["--version"]).is_none() {
            settings.say("shared: SKIPPED, redis-server is not installed");
            return Ok(());
        }
        let mut cores = CpuSet::new();
        cores.set(ASKING.min(std::thread::available_parallelism().map_or(0, |cores| cores.get() - 1)));
        sched_setaffinity(None, &cores)?;
        for (part, run) in [
            (Part::Exact, exact::run as fn(&Settings) -> anyhow::Result<Table>),
            (Part::Leased, leased::run),
            (Part::Outage, outage::run),
            (Part::Bytes, bytes::run),
        ] {
            if self.part.is_empty() || self.part.contains(&part) {
                show(&run(settings)?)?;
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

    /// Asks one command, given as a line; answers what it says, be it a line or a string.
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

    /// Every command, as its words, that arrives while `work` is done.
    fn overheard(&self, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Vec<Vec<Vec<u8>>>> {
        const LAST: &str = "that was all";
        let mut stream = TcpStream::connect(("127.0.0.1", self.process.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "MONITOR\r\n")?;
        let mut lines = BufReader::new(stream).lines();
        lines.next().context("MONITOR")??;
        work()?;
        self.ask(&format!("ECHO \"{LAST}\""))?;
        let mut commands = Vec::new();
        for line in lines {
            let line = line?;
            let command = quoted(line.split_once("] ").map_or("", |(_, command)| command))?;
            if command.last().is_some_and(|word| word == LAST.as_bytes()) {
                return Ok(commands);
            }
            commands.push(command);
        }
        bail!("the connection that listens was closed")
    }
}

/// The words of a line of `MONITOR`, which are all in quotes, with what is not printable as `\\x00`.
fn quoted(line: &str) -> anyhow::Result<Vec<Vec<u8>>> {
    let (mut words, mut word) = (Vec::new(), None);
    let mut rest = line.trim().bytes();
    while let Some(byte) = rest.next() {
        match (byte, &mut word) {
            (b'"', None) => word = Some(Vec::new()),
            (b'"', Some(_)) => words.extend(word.take()),
            (_, None) => {}
            (b'\\', Some(word)) => word.push(match rest.next().context("a backslash at the end")? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'a' => 7,
                b'b' => 8,
                b'x' => {
                    let digits = [rest.next().unwrap_or_default(), rest.next().unwrap_or_default()];
                    u8::from_str_radix(std::str::from_utf8(&digits)?, 16)?
                }
                other => other,
            }),
            (byte, Some(word)) => word.push(byte),
        }
    }
    ensure!(word.is_none(), "a word does not end: {line}");
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_redis_writes_them() {
        let words = quoted(r#""EVALSHA" "a b" "" "\x00\xff\"\\n\n" "#).expect("words");
        assert_eq!(words, [b"EVALSHA".to_vec(), b"a b".to_vec(), Vec::new(), b"\x00\xff\"\\n\n".to_vec()]);
        assert!(quoted("\"x").is_err());
    }
}
