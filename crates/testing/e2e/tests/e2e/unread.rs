//! gRPC peers that send and read nothing: the server's memory for them stays small, others are served
//! meanwhile, and the memory comes back. The frames are written by hand: no client library does this.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tokio::time::Instant;

use crate::rls::{self, Client};
use crate::start::rules;
use crate::tollgate::{Start, Tollgate};

const RULES: &str = "domain: d
descriptors:
  - {key: client, rate_limit: {unit: second, requests_per_unit: 1000000}}
";
/// Calls of an honest client after which the attackers write again.
const ROUND: usize = 10;
/// Growth that may remain: pages that the allocator keeps.
const REMAINS: u64 = 24 << 20;
/// Longer than 99 of 100 calls of others wait, also on a busy machine.
const SLOW: Duration = Duration::from_secs(2);
/// Rounds in which no attacker can write a byte, after which all that is to happen has happened.
const QUIET: usize = 20;

/// Frames that a peer sends, over and over, after the preface.
#[derive(Clone, Copy)]
enum Sends {
    /// Calls with their messages.
    WholeCalls,
    /// Headers without a message.
    HeadersOnly,
    /// Messages of calls that ended long ago.
    MessagesOfEndedCalls,
    Pings,
    Settings,
}

/// Many peers that read nothing.
struct Attack {
    sends: Sends,
    connections: usize,
    frames: usize,
    /// The window for each reply, if not the usual one.
    window: Option<u32>,
}

const HEADERS: u8 = 1;
const DATA: u8 = 0;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    out.extend([length[1], length[2], length[3], kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
}

/// The header block of the first call of a connection, which the table of header fields remembers.
fn first_block() -> Vec<u8> {
    let mut block = vec![0x83, 0x86]; // POST, http
    for (field, value) in [(0x44, rls::PATH), (0x5f, "application/grpc")] {
        block.extend([field, u8::try_from(value.len()).expect("short")]);
        block.extend(value.as_bytes());
    }
    block
}

/// That of a further one, by reference.
const NEXT_BLOCK: [u8; 4] = [0x83, 0x86, 0xbf, 0xbe];

impl Attack {
    /// All that one connection sends.
    fn bytes(&self) -> Vec<u8> {
        let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let window = self.window.map(|bytes| [&[0, 4], &bytes.to_be_bytes()[..]].concat());
        frame(SETTINGS, 0, 0, &window.unwrap_or_default(), &mut out);
        let message = prost::Message::encode_to_vec(&rls::hit("d", "client", "x"));
        let body = [&[0, 0, 0, 0, u8::try_from(message.len()).expect("short")], &message[..]].concat();
        let mut block = first_block();
        for number in 0..self.frames {
            let stream = 2 * u32::try_from(number).expect("few") + 1;
            match self.sends {
                Sends::WholeCalls => {
                    frame(HEADERS, END_HEADERS, stream, &block, &mut out);
                    frame(DATA, END_STREAM, stream, &body, &mut out);
                }
                Sends::HeadersOnly => frame(HEADERS, END_HEADERS, stream, &block, &mut out),
                Sends::MessagesOfEndedCalls => {
                    if number == 0 {
                        frame(HEADERS, END_HEADERS, 20_001, &block, &mut out);
                        frame(DATA, END_STREAM, 20_001, &body, &mut out);
                    }
                    frame(DATA, END_STREAM, stream % 20_000, &body, &mut out);
                }
                Sends::Pings => frame(PING, 0, 0, b"12345678", &mut out),
                Sends::Settings => frame(SETTINGS, 0, 0, &[], &mut out),
            }
            block = NEXT_BLOCK.to_vec();
        }
        out
    }

    /// Runs the attack beside an honest client. Ends when no peer can write any more.
    async fn run(&self, server: &Tollgate) -> Seen {
        let mut honest = Client::connect(server.grpc).await.expect("it listens");
        // Memory for serving such clients is allocated before the attack.
        for _ in 0..1_000 {
            assert!(honest.admits(rls::hit("d", "client", "honest")).await);
        }
        let before = server.resident();
        let bytes = self.bytes();
        let mut peers: Vec<Peer> = (0..self.connections).map(|_| Peer::connect(server.grpc)).collect();
        let mut most = before;
        let mut quiet = 0;
        let mut waits = Vec::new();
        while quiet < QUIET {
            let written: usize = peers.iter_mut().map(|peer| peer.write(&bytes)).sum();
            quiet = if written == 0 { quiet + 1 } else { 0 };
            for _ in 0..ROUND {
                let asked = Instant::now();
                assert!(honest.admits(rls::hit("d", "client", "honest")).await);
                waits.push(asked.elapsed());
            }
            most = most.max(server.resident());
        }
        drop(peers);
        // The memory comes back; a hang ends with the test's own timeout.
        while server.resident() > before + REMAINS {
            assert!(honest.admits(rls::hit("d", "client", "honest")).await);
        }
        waits.sort_unstable();
        Seen { grown: most - before, slow: waits[waits.len() * 99 / 100] }
    }
}

/// Result of an attack.
struct Seen {
    /// Bytes that the server grew by at most.
    grown: u64,
    /// The 99th percentile of the honest client's waits.
    slow: Duration,
}

struct Peer {
    stream: TcpStream,
    sent: usize,
    is_closed: bool,
}

impl Peer {
    fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).expect("it listens");
        stream.set_nonblocking(true).expect("a socket");
        Self { stream, sent: 0, is_closed: false }
    }

    /// Writes as much as it can of the rest of `bytes`; returns the number of bytes written.
    fn write(&mut self, bytes: &[u8]) -> usize {
        if self.is_closed || self.sent == bytes.len() {
            return 0;
        }
        match self.stream.write(&bytes[self.sent..]) {
            Ok(written) => {
                self.sent += written;
                written
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => {
                self.is_closed = true;
                0
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_that_read_nothing_take_little_memory_for_a_while_and_others_are_served() {
    let rules = rules(RULES);
    for (name, sends, frames, window, most) in [
        // Without a bound on the faults of a peer this is 176 MiB.
        ("whole calls", Sends::WholeCalls, 1_000, None, 80),
        ("whole calls without a window for replies", Sends::WholeCalls, 1_000, Some(0), 96),
        ("headers alone", Sends::HeadersOnly, 1_000, None, 80),
        ("messages of calls that have ended", Sends::MessagesOfEndedCalls, 5_000, None, 64),
        ("pings", Sends::Pings, 20_000, None, 32),
        ("settings", Sends::Settings, 20_000, None, 32),
    ] {
        let server = Start::new(rules.path()).args(["--workers", "2"]).go();
        let seen = Attack { sends, connections: 400, frames, window }.run(&server).await;
        println!("{name}: grown by {} MiB, others wait {:?}", seen.grown >> 20, seen.slow);
        assert!(seen.grown < most << 20, "{name}: grown by {} MiB", seen.grown >> 20);
        assert!(seen.slow < SLOW, "{name}: others wait {:?}", seen.slow);
    }
}
