//! The very bytes of our calls from a client that does nothing else: it writes commands and counts replies.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::bail;

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
    /// From a recorded command; `sample` is the part of its key to randomize.
    pub(super) fn of(command: &[Vec<u8>], sample: &str) -> anyhow::Result<Self> {
        let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
        for word in command {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        let mut at = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(sample.as_bytes()));
        let (Some(at), None) = (at.next(), at.next()) else { bail!("{sample} is not there once") };
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
        let mut dice = Dice::new(3);
        let mut out = Vec::new();
        let mut took = Vec::new();
        let mut replies = Replies::default();
        for _ in 0..count / depth {
            out.clear();
            for _ in 0..depth {
                out.extend_from_slice(&self.before);
                write!(out, "user:{:015}", dice.below(population))?;
                out.extend_from_slice(&self.after);
            }
            let (result, span) = timed(|| {
                stream.write_all(&out)?;
                let mut came = 0;
                while came < depth {
                    came += replies.read(&mut stream)?;
                }
                Ok::<_, anyhow::Error>(())
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
    /// Sends `count` of them at a fixed rate, each when it is due regardless of earlier ones, and reads
    /// replies in between: the cost of a connection, Redis and this machine at such a pace without our code.
    /// Latencies in µs from when each was due.
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
        let mut dice = Dice::new(5);
        let mut out = Vec::new();
        let mut replies = Replies::default();
        let mut sent = 0;
        let mut took = Vec::with_capacity(count);
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
            let came = replies.read(&mut stream)?;
            let now = begun.elapsed().as_secs_f64();
            for _ in 0..came {
                took.push((now - took.len() as f64 / rate) * 1e6);
            }
        }
        took.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| took.get((took.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
        Ok((at(0.5), at(0.99)))
    }
}

/// Bytes of replies that are not counted yet.
#[derive(Default)]
struct Replies(Vec<u8>);

impl Replies {
    /// Reads once; answers how many replies are whole now.
    fn read(&mut self, stream: &mut TcpStream) -> anyhow::Result<usize> {
        let mut buffer = [0; 1 << 14];
        match stream.read(&mut buffer) {
            Ok(0) => bail!("redis-server closed the connection"),
            Ok(length) => self.0.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error.into()),
        }
        let mut count = 0;
        let mut at = 0;
        while let Some(length) = first_reply(&self.0[at..])? {
            (count, at) = (count + 1, at + length);
        }
        self.0.drain(..at);
        Ok(count)
    }
}

/// Bytes of the first reply; `None` where it is not all there.
fn first_reply(bytes: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(end) = bytes.windows(2).position(|it| it == b"\r\n") else { return Ok(None) };
    let head = String::from_utf8_lossy(&bytes[..end]);
    let after = end + 2;
    let number = || head.get(1..).unwrap_or_default().parse::<i64>();
    let whole = match bytes.first() {
        Some(b'$') => usize::try_from(number()?).map_or(after, |length| after + length + 2),
        Some(b'*') => {
            let mut whole = after;
            for _ in 0..number()? {
                let Some(length) = first_reply(bytes.get(whole..).unwrap_or_default())? else {
                    return Ok(None);
                };
                whole += length;
            }
            whole
        }
        Some(b'+' | b':') => after,
        _ => bail!("redis-server: {head}"),
    };
    Ok((whole <= bytes.len()).then_some(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_counted_once_all_of_it_is_there() {
        for reply in
            ["+OK\r\n", ":7\r\n", "$3\r\na\r\n\r\n", "$-1\r\n", "*2\r\n$1\r\na\r\n*1\r\n:1\r\n", "*-1\r\n"]
        {
            let bytes = reply.as_bytes();
            for cut in 0..bytes.len() {
                assert_eq!(first_reply(&bytes[..cut]).expect("no error"), None, "{reply:?} up to {cut}");
            }
            let two = [bytes, bytes].concat();
            assert_eq!(first_reply(&two).expect("no error"), Some(bytes.len()), "{reply:?}");
        }
        assert!(first_reply(b"-ERR no\r\n").is_err());
    }

    #[test]
    fn a_command_whose_key_is_not_there_once_is_none_to_send() {
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        assert!(Raw::of(&words(&["GET", "user:1"]), "user:1").is_ok());
        for odd in [&["GET", "other"][..], &["GET", "user:1", "user:1"]] {
            assert!(Raw::of(&words(odd), "user:1").is_err(), "{odd:?}");
        }
    }
}
