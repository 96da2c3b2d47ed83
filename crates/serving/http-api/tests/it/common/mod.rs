//! A server on a port of its own, and a client that sends any bytes and reads what comes.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollgate_core::{ManualClock, Timestamp};
use tollgate_envoy_rls::{Limits, RateLimitService, ReplyOptions};
use tollgate_http_api::{HttpApi, HttpSettings, NodeState, NodeStatus};
use tollgate_http_kit::{AdminAccess, HttpSurface, Shared, SurfaceSettings};
use tollgate_limiter::{Limiter, LimiterSettings, Policy, Undecided};
use tollgate_net::{AcceptLimits, ConnectionStats, accept};
use tollgate_rule_files::{Options, load, parse_text};
use tollgate_store::Store;
use tollgate_store_memory::{MemoryConfig, MemoryStore};

pub const RULES: &str = r#"
domain: shop
descriptors:
  - key: user
    rate_limit: {name: per_user, unit: minute, requests_per_unit: 2}
  - key: api_key
    rate_limit: {unit: hour, requests_per_unit: 100}
  - key: told
    response:
      status: 402
      content_type: application/json
      body: '{"error": "slow down, {{domain}}", "retry_after": {{retry_after}}}'
      headers: {X-Support: "https://example.com/{{limit}}"}
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: shadowed
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: paced
    rate_limit: {unit: second, requests_per_unit: 10, algorithm: leaky_bucket, form: queue, capacity: 10}
  - key: tokens
    rate_limit: {unit: second, requests_per_unit: 1, algorithm: token_bucket, burst: 10}
  - key: never
    rate_limit: {requests_per_unit: 5, algorithm: total}
  - key: export
    rate_limit: {algorithm: concurrency, limit: 2, ttl: 30s}
  - key: free
    rate_limit: {unlimited: true}
  - key: 'quo"te'
    rate_limit: {unit: minute, requests_per_unit: 5}
"#;

/// 2023-11-14 22:13:20 UTC: 20 s into its minute.
pub const NOW: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);

/// The state that the process reports; tests set it.
#[derive(Debug)]
pub struct ReportedState(pub Mutex<NodeState>);

impl NodeStatus for ReportedState {
    fn state(&self) -> NodeState {
        self.0.lock().clone()
    }
}

pub fn policy(rules: &str) -> Policy {
    parse_text("shop.yaml", rules).expect("rules without fault")
}

/// An API, and what tests set beside it.
pub struct TestApi<S: Store> {
    pub api: HttpApi<S>,
    pub clock: ManualClock,
    pub node: Arc<ReportedState>,
}

pub fn api_of(policy: Policy, settings: HttpSettings) -> TestApi<MemoryStore> {
    let store = MemoryStore::new(MemoryConfig::default());
    api_over(Limiter::new(policy, store, LimiterSettings::default()), settings)
}

pub fn api_over<S: Store>(limiter: Limiter<S>, settings: HttpSettings) -> TestApi<S> {
    let limiter = Arc::new(limiter);
    let clock = ManualClock::at(NOW);
    let state = NodeState { is_ready: true, ..NodeState::default() };
    let node = Arc::new(ReportedState(Mutex::new(state)));
    let (_, ready) = watch::channel(true);
    let at: Arc<dyn tollgate_core::Clock> = Arc::new(clock.clone());
    let options = ReplyOptions::default();
    let limits = Limits::default();
    let service =
        Arc::new(RateLimitService::new(Arc::clone(&limiter), Arc::clone(&at), ready, options, limits));
    let process: Arc<dyn NodeStatus> = Arc::clone(&node) as _;
    let api = HttpApi::new(limiter, at, process, Arc::new(service.over_http(settings.style)), settings);
    TestApi { api, clock, node }
}

/// Settings of a port that only this machine reaches.
pub fn loopback() -> SurfaceSettings {
    let admin = AdminAccess { is_loopback: true, ..AdminAccess::default() };
    SurfaceSettings { admin, ..SurfaceSettings::default() }
}

pub struct Server {
    pub address: SocketAddr,
    pub clock: ManualClock,
    pub node: Arc<ReportedState>,
    pub drain: watch::Sender<bool>,
    pub ended: JoinHandle<()>,
    pub connections: Arc<ConnectionStats>,
    /// State that its workers would share.
    pub shared: Arc<Shared>,
}

impl Server {
    pub async fn plain() -> Self {
        Self::with(loopback()).await
    }

    /// With connections of these settings.
    pub async fn with(settings: SurfaceSettings) -> Self {
        Self::serve(api_of(policy(RULES), HttpSettings::default()), settings).await
    }

    /// A server that answers undecided requests as `undecided` says.
    pub async fn undecided(undecided: Undecided, settings: SurfaceSettings) -> Self {
        let store = MemoryStore::new(MemoryConfig::default());
        let of_limiter = LimiterSettings { undecided, ..LimiterSettings::default() };
        let limiter = Limiter::new(policy(RULES), store, of_limiter);
        Self::serve(api_over(limiter, HttpSettings::default()), settings).await
    }

    /// The requests that were counted as rejected for `reason` and answered by `status`.
    pub async fn rejected(&self, status: u16, reason: &str) -> u64 {
        let series =
            format!(r#"tollgate_bad_requests_total{{surface="http",status="{status}",reason="{reason}"}} "#);
        let metrics = self.client().await.get("/metrics").await;
        let line = metrics.text().lines().find_map(|line| line.strip_prefix(&series));
        line.map_or(0, |count| count.parse().expect("a number"))
    }

    /// With these rules and replies of these settings.
    pub async fn start(rules: &str, settings: HttpSettings) -> Self {
        Self::serve(api_of(policy(rules), settings), loopback()).await
    }

    pub async fn of_folder(folder: &str) -> Self {
        let policy = load(&[folder.into()], &Options::default()).expect("rules without fault").policy;
        Self::serve(api_of(policy, HttpSettings::default()), loopback()).await
    }

    pub async fn serve<S: Store + 'static>(
        TestApi { api, clock, node }: TestApi<S>,
        settings: SurfaceSettings,
    ) -> Self {
        let surface = Arc::new(HttpSurface::new(api, settings));
        let shared = Arc::clone(surface.shared());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (drain, draining) = watch::channel(false);
        let limits = Arc::new(AcceptLimits::default());
        let connections = Arc::new(ConnectionStats::default());
        let accepting = accept(listener, surface, None, limits, Arc::clone(&connections), draining);
        let ended = tokio::spawn(accepting);
        Self { address, clock, node, drain, ended, connections, shared }
    }

    pub async fn client(&self) -> HttpClient {
        let stream = TcpStream::connect(self.address).await.expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        HttpClient { stream, rest: Vec::new() }
    }
}

/// A reply as received.
#[derive(Debug, Clone)]
pub struct HttpReply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpReply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(it, _)| it == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} is there twice in {self:?}");
        value
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The `detail` of a problem of this status.
    pub fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let json = self.json();
        assert_eq!(json["status"], status);
        json["detail"].as_str().expect("a detail").to_owned()
    }
}

/// One connection to a server.
pub struct HttpClient {
    pub stream: TcpStream,
    pub rest: Vec<u8>,
}

impl HttpClient {
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // A server that has closed already is seen at the next reading.
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// The next answer; `None` when the connection ends first.
    pub async fn reply(&mut self) -> Option<HttpReply> {
        self.reply_to("GET").await
    }

    pub async fn reply_to(&mut self, method: &str) -> Option<HttpReply> {
        let head = loop {
            if let Some(end) = self.rest.windows(4).position(|it| it == b"\r\n\r\n") {
                let head: Vec<u8> = self.rest.drain(..end + 4).collect();
                break String::from_utf8(head).expect("ASCII");
            }
            self.more().await?;
        };
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status line");
        let status: u16 = status.parse().expect("a status");
        let headers: Vec<_> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let mut length = length.map_or(0, |(_, value)| value.parse::<usize>().expect("a number"));
        if method == "HEAD" || status == 204 || status < 200 {
            length = 0;
        }
        while self.rest.len() < length {
            self.more().await?;
        }
        Some(HttpReply { status, headers, body: self.rest.drain(..length).collect() })
    }

    async fn more(&mut self) -> Option<()> {
        let mut buffer = [0; 16 * 1024];
        match self.stream.read(&mut buffer).await {
            Ok(0) | Err(_) => None,
            Ok(read) => {
                self.rest.extend_from_slice(&buffer[..read]);
                Some(())
            }
        }
    }

    /// True when the server closes without another byte.
    pub async fn is_closed(&mut self) -> bool {
        self.rest.is_empty() && self.more().await.is_none()
    }

    pub async fn ask(&mut self, method: &str, target: &str, fields: &str, body: &str) -> HttpReply {
        let length = if body.is_empty() && method != "POST" {
            String::new()
        } else {
            format!("content-length: {}\r\n", body.len())
        };
        self.send(format!("{method} {target} HTTP/1.1\r\nhost: 127.0.0.1\r\n{fields}{length}\r\n{body}"))
            .await;
        self.reply_to(method).await.unwrap_or_else(|| panic!("{method} {target} was not answered"))
    }

    pub async fn get(&mut self, target: &str) -> HttpReply {
        self.ask("GET", target, "", "").await
    }

    pub async fn post(&mut self, target: &str, body: &str) -> HttpReply {
        self.ask("POST", target, "content-type: application/json\r\n", body).await
    }
}

/// A check's body with one descriptor of one entry.
pub fn one(key: &str, value: &str) -> String {
    format!(r#"{{"domain":"shop","descriptors":[[{{"key":"{key}","value":"{value}"}}]]}}"#)
}
