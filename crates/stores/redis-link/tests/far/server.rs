//! A server that is far away: its replies, and the times at which they arrive.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, sleep_until};
use tollgate_redis_link::{Address, Network, Script, Wire};

use super::Chance;

/// The reply to a command that a test looks at.
pub(super) enum Said {
    /// The usual reply.
    Usual,
    Bytes(Vec<u8>),
    /// The connection is cut before anything more of this read is said.
    Cut,
    /// No reply, ever.
    Nothing,
}

type Says = Box<dyn FnMut(usize, &[Vec<u8>]) -> Said + Send>;

pub(super) struct Far {
    state: Mutex<ServerState>,
}

pub(super) struct ServerState {
    /// Time of a request and its reply together.
    pub(super) round_trip: Duration,
    /// Number of reads per thousand that are answered later, and the delay.
    pub(super) late_share: u64,
    pub(super) late_by: Duration,
    /// Nothing arrives before this instant.
    pub(super) stalled_until: Option<Instant>,
    /// Scripts it knows, by their hash; all scripts where `None`.
    pub(super) knows: Option<HashSet<Vec<u8>>>,
    pub(super) says: Option<Says>,
    pub(super) connections: usize,
    /// The most bytes that are on their way, and the instant until which it reads none.
    pub(super) buffer: usize,
    pub(super) reads_from: Option<Instant>,
    /// Cuts a connection after this number of reads.
    pub(super) cuts_after: Option<u64>,
    /// Reads so far, and those that were answered late.
    pub(super) reads: u64,
    pub(super) late: u64,
    /// Calls that it ran, and scripts that it loaded.
    pub(super) ran: u64,
    pub(super) loaded: u64,
    chance: Chance,
}

impl std::fmt::Debug for Far {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Far")
    }
}

/// Connects clients to it, in place of the network.
#[derive(Debug)]
pub(super) struct To(pub(super) Arc<Far>);

impl Network for To {
    fn connect<'a>(
        &'a self,
        _: &'a Address,
    ) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn Wire>>> + Send + 'a>> {
        Box::pin(async { Ok(Box::new(self.0.connect().await) as Box<dyn Wire>) })
    }
}

impl Far {
    pub(super) fn away(round_trip: Duration) -> Arc<Self> {
        let state = ServerState {
            round_trip,
            late_share: 0,
            late_by: Duration::ZERO,
            stalled_until: None,
            knows: None,
            says: None,
            connections: 0,
            buffer: 1 << 20,
            reads_from: None,
            cuts_after: None,
            reads: 0,
            late: 0,
            ran: 0,
            loaded: 0,
            chance: Chance(0x9e37_79b9_7f4a_7c15),
        };
        Arc::new(Self { state: Mutex::new(state) })
    }

    pub(super) fn set(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock()
    }

    /// Sets the reply of the test, by the number of the connection and each command.
    pub(super) fn says(&self, says: impl FnMut(usize, &[Vec<u8>]) -> Said + Send + 'static) {
        self.set().says = Some(Box::new(says));
    }

    async fn connect(self: &Arc<Self>) -> DuplexStream {
        let (near, wire, nth, takes) = {
            let mut state = self.set();
            state.connections += 1;
            let (near, wire) = duplex(state.buffer);
            (near, wire, state.connections, state.round_trip)
        };
        tokio::time::sleep(takes).await;
        tokio::spawn(self.clone().serve(nth, wire));
        near
    }

    async fn serve(self: Arc<Self>, nth: usize, wire: DuplexStream) {
        let (mut from, mut to) = tokio::io::split(wire);
        let (replies, mut due) = mpsc::unbounded_channel::<(Instant, Option<Vec<u8>>)>();
        tokio::spawn(async move {
            while let Some((at, bytes)) = due.recv().await {
                sleep_until(at).await;
                match bytes {
                    Some(bytes) if to.write_all(&bytes).await.is_ok() => {}
                    _ => break,
                }
            }
            to.shutdown().await.ok();
        });
        let mut input = Vec::new();
        let mut last = Instant::now();
        loop {
            let from_then_on = self.set().reads_from;
            if let Some(at) = from_then_on {
                sleep_until(at).await;
            }
            input.reserve(1 << 16); // all that was sent at once is one read
            if !matches!(from.read_buf(&mut input).await, Ok(1..)) {
                return;
            }
            let mut said = Vec::new();
            let mut cut = false;
            let mut state = self.set();
            let mut says = state.says.take();
            while let Some((words, length)) = command(&input) {
                input.drain(..length);
                match says.as_mut().map_or(Said::Usual, |says| says(nth, &words)) {
                    Said::Usual => said.extend(state.usual(&words)),
                    Said::Bytes(bytes) => said.extend(bytes),
                    Said::Nothing => {}
                    Said::Cut => {
                        cut = true;
                        break;
                    }
                }
            }
            if state.says.is_none() {
                state.says = says;
            }
            let mut takes = state.round_trip;
            state.reads += 1;
            let share = state.late_share;
            if state.chance.one_of(share) {
                state.late += 1;
                takes += state.late_by;
            }
            let now = Instant::now();
            last = last.max(now + takes).max(state.stalled_until.unwrap_or(now));
            replies.send((last, Some(said))).ok();
            let cuts = state.cuts_after.is_some_and(|reads| reads == 0);
            state.cuts_after = state.cuts_after.map(|reads| reads.saturating_sub(1)).filter(|_| !cuts);
            if cut || cuts {
                replies.send((last, None)).ok();
                return;
            }
        }
    }
}

impl ServerState {
    fn usual(&mut self, words: &[Vec<u8>]) -> Vec<u8> {
        let bulk = |bytes: &[u8]| [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        match &words[0][..] {
            b"HELLO" => b"%2\r\n+mode\r\n+standalone\r\n+role\r\n+master\r\n".to_vec(),
            b"PING" => words.get(1).map_or_else(|| b"+PONG\r\n".to_vec(), |mark| bulk(mark)),
            b"SCRIPT" => {
                self.loaded += 1;
                let sha = Script::of(&[&String::from_utf8_lossy(&words[2])]).sha().to_owned();
                self.knows.iter_mut().for_each(|knows| {
                    knows.insert(sha.clone().into_bytes());
                });
                bulk(sha.as_bytes())
            }
            b"EVALSHA" if self.knows.as_ref().is_some_and(|knows| !knows.contains(&words[1])) => {
                b"-NOSCRIPT no such script\r\n".to_vec()
            }
            b"EVALSHA" if words.len() == 4 => {
                self.ran += 1;
                bulk(&words[3])
            }
            _ => b":1\r\n".to_vec(),
        }
    }
}

/// The first command of `input` and its length, if all of it is there.
fn command(input: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let mut at = 0;
    let number = |at: &mut usize| -> Option<usize> {
        let end = *at + input[*at..].iter().position(|byte| *byte == b'\n')?;
        let number = std::str::from_utf8(&input[*at + 1..end - 1]).ok()?.parse().ok()?;
        *at = end + 1;
        Some(number)
    };
    let mut words = Vec::new();
    for _ in 0..number(&mut at)? {
        let length = number(&mut at)?;
        words.push(input.get(at..at + length)?.to_vec());
        at += length + 2;
        (at <= input.len()).then_some(())?;
    }
    Some((words, at))
}
