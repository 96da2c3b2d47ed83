//! The very bytes of our calls from a client that does nothing else: writes so many commands, counts as many replies.

use std::io::{BufRead, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use tokio::time::Instant;

use super::Redis;
use crate::requests::Dice;
use crate::stopwatch::timed;

/// One command, whose key is random.
pub(super) struct Raw {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Raw {
    /// Of a command that was heard; `sample` is what of its key is random.
    pub(super) fn of(command: &[Vec<u8>], sample: &str) -> anyhow::Result<Self> {
        let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
        for word in command {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        let at = bytes.windows(sample.len()).position(|it| it == sample.as_bytes()).context("no such key")?;
        let after = bytes.split_off(at + sample.len());
        bytes.truncate(at);
        Ok(Self { before: bytes, after })
    }

    /// Sends `count` of them, `depth` at a time; answers the rate, and latencies of a round trip in µs.
    pub(super) fn run(
        &self,
        redis: &Redis,
        depth: usize,
        count: usize,
        population: u64,
    ) -> anyhow::Result<(f64, f64, f64)> {
        let mut stream = TcpStream::connect(("127.0.0.1", redis.process.port))?;
        stream.set_nodelay(true)?;
        let mut reader = BufReader::with_capacity(1 << 16, stream.try_clone()?);
        let (mut dice, mut out, mut took) = (Dice::new(3), Vec::new(), Vec::new());
        for _ in 0..count / depth {
            out.clear();
            for _ in 0..depth {
                out.extend_from_slice(&self.before);
                write!(out, "user:{:015}", dice.below(population))?;
                out.extend_from_slice(&self.after);
            }
            let (result, span) = timed(|| {
                stream.write_all(&out)?;
                (0..depth).try_for_each(|_| skip(&mut reader))
            });
            result?;
            took.push(span);
        }
        let seconds = took.iter().sum::<Duration>().as_secs_f64();
        let rate = (took.len() * depth) as f64 / seconds;
        took.sort_unstable();
        let at = |share: f64| {
            took.get((took.len() as f64 * share) as usize).map_or(f64::NAN, |it| it.as_secs_f64() * 1e6)
        };
        Ok((rate, at(0.5), at(0.99)))
    }
}

impl Raw {
    /// Sends `count` of them, so many a second, each when it is due whatever became of those before, and reads what has come in between:
    /// what a connection, Redis and this machine do at such a pace when nobody works. Latencies in µs from when each was due.
    pub(super) fn paced(
        &self,
        redis: &Redis,
        rate: f64,
        count: usize,
        population: u64,
    ) -> anyhow::Result<(f64, f64)> {
        let mut stream = TcpStream::connect(("127.0.0.1", redis.process.port))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let (mut dice, mut out, mut came) = (Dice::new(5), Vec::new(), Vec::new());
        let (mut sent, mut took) = (0, Vec::with_capacity(count));
        let begun = Instant::now();
        while took.len() < count {
            let due = (begun.elapsed().as_secs_f64() * rate) as usize;
            while sent < due.min(count) {
                out.extend_from_slice(&self.before);
                write!(out, "user:{:015}", dice.below(population))?;
                out.extend_from_slice(&self.after);
                sent += 1;
            }
            match stream.write(&out) {
                Ok(written) => drop(out.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            let mut buffer = [0; 1 << 14];
            match stream.read(&mut buffer) {
                Ok(0) => bail!("redis-server closed the connection"),
                Ok(length) => came.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error.into()),
            }
            let now = begun.elapsed().as_secs_f64();
            // Every reply is a string of 32 bytes.
            let whole = came.len() / REPLY * REPLY;
            for reply in came[..whole].chunks(REPLY) {
                ensure!(reply.starts_with(b"$32\r\n"), "redis-server: {:?}", String::from_utf8_lossy(reply));
                took.push((now - took.len() as f64 / rate) * 1e6);
            }
            came.drain(..whole);
        }
        took.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| took.get((took.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
        Ok((at(0.5), at(0.99)))
    }
}

/// Bytes of one reply: an instant, an expiry and a number.
const REPLY: usize = "$32\r\n".len() + 32 + "\r\n".len();

/// Reads one reply.
fn skip(reader: &mut impl BufRead) -> anyhow::Result<()> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    let text = String::from_utf8_lossy(&line);
    let number = || text.get(1..).unwrap_or_default().trim().parse::<i64>();
    match line.first() {
        Some(b'-') => bail!("redis-server: {text}"),
        Some(b'$') => {
            let length = number()?;
            if length >= 0 {
                reader.read_exact(&mut vec![0; length as usize + 2])?;
            }
            Ok(())
        }
        Some(b'*') => (0..number()?).try_for_each(|_| skip(reader)),
        Some(b'+' | b':') => Ok(()),
        _ => bail!("redis-server: {text:?}"),
    }
}
