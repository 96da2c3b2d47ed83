//! A surface on a real socket with a manual clock, and a client that shows replies as short texts.
#![allow(
    dead_code,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a failed step of a test must say which"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tollgate_core::{ManualClock, Timestamp};
use tollgate_limiter::{Limiter, LimiterSettings, Policy};
use tollgate_net::{AcceptLimits, ConnectionStats, accept};
use tollgate_resp_api::{RespApi, RespSettings};
use tollgate_rule_files::parse_text;
use tollgate_store::Store;
use tollgate_store_memory::{MemoryConfig, MemoryStore};

pub(crate) const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {requests_per_unit: 2, unit: minute}
    descriptors:
      - key: plan
        value: gold
        rate_limit: {name: gold, requests_per_unit: 5, unit: hour, algorithm: token_bucket, burst: 3}
  - key: export
    rate_limit: {algorithm: concurrency, limit: 2, ttl: 30s}
  - key: free
    rate_limit: {unlimited: true}
  - key: never
    rate_limit: {requests_per_unit: 0, unit: second}
  - key: 用户
    rate_limit: {requests_per_unit: 1, unit: second}
";

/// Beginning of a minute, an hour and a day.
pub(crate) const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_006_400);

pub(crate) type Api = RespApi<MemoryStore>;

pub(crate) struct Server<S: Store = MemoryStore> {
    pub(crate) address: SocketAddr,
    pub(crate) clock: ManualClock,
    pub(crate) api: Arc<RespApi<S>>,
    pub(crate) drain: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

pub(crate) fn policy(text: &str) -> Policy {
    parse_text("shop.yaml", text).expect("the rules are right")
}

pub(crate) fn memory() -> MemoryStore {
    MemoryStore::new(MemoryConfig { max_bytes: 16 << 20, ..MemoryConfig::default() })
}

pub(crate) fn api(clock: &ManualClock, settings: RespSettings) -> Arc<Api> {
    let limiter = Limiter::new(policy(RULES), memory(), LimiterSettings::default());
    Arc::new(RespApi::new(Arc::new(limiter), Arc::new(clock.clone()), settings))
}

impl Server {
    pub(crate) fn start(settings: RespSettings) -> Self {
        let clock = ManualClock::at(NOON);
        Self::of(api(&clock, settings), clock)
    }
}

impl<S: Store> Server<S> {
    pub(crate) fn of(api: Arc<RespApi<S>>, clock: ManualClock) -> Self {
        let (drain, draining) = watch::channel(false);
        let (told, address) = std::sync::mpsc::channel();
        let surface = Arc::clone(&api);
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                told.send(listener.local_addr().expect("an address")).expect("somebody waits");
                let limits = Arc::new(AcceptLimits::default());
                let stats = Arc::new(ConnectionStats::default());
                accept(listener, surface, None, limits, stats, draining).await;
            });
        });
        let address = address.recv().expect("it listens");
        Self { address, clock, api, drain, thread: Some(thread) }
    }

    pub(crate) fn connect(&self) -> RespClient {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(300))).expect("a timeout");
        stream.set_nodelay(true).expect("a socket");
        RespClient { reader: BufReader::new(stream) }
    }

    pub(crate) fn advance_ms(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }

    /// Waits until this number of clients is connected.
    pub(crate) fn await_clients(&self, clients: usize) {
        while self.api.stats().clients() != clients {
            std::thread::yield_now();
        }
    }
}

impl<S: Store> Drop for Server<S> {
    fn drop(&mut self) {
        self.drain.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the server panicked");
        }
    }
}

pub(crate) struct RespClient {
    reader: BufReader<TcpStream>,
}

impl RespClient {
    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        self.reader.get_mut()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream().write_all(bytes).expect("it takes bytes");
    }

    /// Sends words and shows the reply.
    pub(crate) fn ask(&mut self, words: &str) -> String {
        self.send(&command(words));
        self.reply()
    }

    /// The next reply; `(closed)` if the connection ended.
    pub(crate) fn reply(&mut self) -> String {
        let mut line = Vec::new();
        match self.reader.read_until(b'\n', &mut line) {
            Ok(0) => return "(closed)".to_owned(),
            Ok(_) => {}
            Err(error) => return format!("({})", error.kind()),
        }
        assert!(line.ends_with(b"\r\n"), "{line:?}");
        let line = String::from_utf8_lossy(&line[..line.len() - 2]).into_owned();
        let (kind, rest) = line.split_at(1);
        let count = || rest.parse::<usize>().expect("a length");
        match kind {
            "+" | "-" | "_" => {
                if kind == "_" {
                    "null".to_owned()
                } else {
                    line
                }
            }
            ":" => rest.to_owned(),
            "$" | "*" if rest == "-1" => "nil".to_owned(),
            "$" | "=" => {
                let mut body = vec![0; count() + 2];
                self.reader.read_exact(&mut body).expect("the body comes");
                assert_eq!(&body[body.len() - 2..], b"\r\n");
                format!("{:?}", String::from_utf8_lossy(&body[..body.len() - 2]))
            }
            "*" => format!("[{}]", self.replies(count())),
            "~" => format!("~[{}]", self.replies(count())),
            "%" => format!("{{{}}}", self.replies(2 * count())),
            _ => panic!("no reply begins like {line:?}"),
        }
    }

    fn replies(&mut self, count: usize) -> String {
        (0..count).map(|_| self.reply()).collect::<Vec<_>>().join(", ")
    }

    /// Everything that comes until the server closes.
    pub(crate) fn rest(mut self) -> String {
        let mut all = Vec::new();
        let _ = self.stream().shutdown(Shutdown::Write);
        let _ = self.reader.read_to_end(&mut all);
        String::from_utf8_lossy(&all).into_owned()
    }
}

/// Words between blanks as an array of bulk strings; `\0` and the like as in Rust.
pub(crate) fn command(words: &str) -> Vec<u8> {
    frame(&words.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

pub(crate) fn frame(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Runs a table of words and replies against a new client.
pub(crate) fn story<S: Store>(server: &Server<S>, rows: &[(&str, &str)]) {
    let mut client = server.connect();
    for (number, (words, want)) in rows.iter().enumerate() {
        match words.strip_prefix("... ") {
            Some(ms) => server.advance_ms(ms.parse().expect("milliseconds")),
            None => assert_eq!(&client.ask(words), want, "row {number}: {words}"),
        }
    }
}
