//! Any bytes over HTTP: as the body of a check, a reservation or a commit, as the query of explain, or as a
//! whole connection. There is always a well-formed answer, never a panic, and the next request of the
//! connection is served.

use std::sync::{Arc, OnceLock};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tollgate_core::{Clock, ManualClock, Timestamp};
use tollgate_envoy_rls::{Limits, RateLimitService, ReplyOptions};
use tollgate_http_api::{HttpApi, HttpSettings, NodeState, NodeStatus};
use tollgate_http_kit::{AdminAccess, HttpSurface, SurfaceSettings};
use tollgate_limiter::{Limiter, LimiterSettings};
use tollgate_net::Surface as _;
use tollgate_rule_files::parse_text;
use tollgate_store_memory::{MemoryConfig, MemoryStore};

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: a
    response: {status: 402, body: '{{rule}} {{retry_after}}', headers: {X-Rule: '{{rule}}'}}
    rate_limit: {unit: second, requests_per_unit: 1, algorithm: token_bucket, burst: 5}
";

struct Ready;

impl NodeStatus for Ready {
    fn state(&self) -> NodeState {
        NodeState { is_ready: true, ..NodeState::default() }
    }
}

fn api() -> &'static (Runtime, Arc<HttpSurface<HttpApi<MemoryStore>>>) {
    static API: OnceLock<(Runtime, Arc<HttpSurface<HttpApi<MemoryStore>>>)> = OnceLock::new();
    API.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let policy = parse_text("shop.yaml", RULES).expect("rules without fault");
        let store = MemoryStore::new(MemoryConfig::default());
        let limiter = Arc::new(Limiter::new(policy, store, LimiterSettings::default()));
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Timestamp::from_unix_seconds(1_700_000_000)));
        let (_, ready) = watch::channel(true);
        let options = ReplyOptions::default();
        let limits = Limits::default();
        let service = RateLimitService::new(Arc::clone(&limiter), Arc::clone(&clock), ready, options, limits);
        let json = Arc::new(Arc::new(service).over_http(Default::default()));
        let api = HttpApi::new(limiter, clock, Arc::new(Ready), json, HttpSettings::default());
        let admin = AdminAccess { is_loopback: true, ..AdminAccess::default() };
        (runtime, Arc::new(HttpSurface::new(api, SurfaceSettings { admin, ..SurfaceSettings::default() })))
    })
}

/// Sends `bytes`; the first of them says as what.
///
/// # Panics
/// When a promise of the surface is broken.
pub fn answer_any_bytes(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let (head, body) = match kind % 8 {
        0 | 1 => ("POST /v1/check", bytes),
        2 => ("POST /v1/check?status=rule", bytes),
        3 => ("POST /v1/reserve", bytes),
        4 => ("POST /v1/commit", bytes),
        5 => return query("/v1/explain", bytes),
        6 => return query("/v1/check", bytes),
        _ => return anything(bytes),
    };
    let mut request =
        format!("{head} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
    request.extend_from_slice(body);
    one_and_on(request);
}

/// `bytes` as a query, as far as a request's line can hold them.
fn query(path: &str, bytes: &[u8]) {
    let mut query = String::new();
    for byte in bytes.iter().filter(|byte| byte.is_ascii_graphic() && **byte != b'#') {
        match byte {
            // Bytes that no URL may contain unescaped.
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => query += &format!("%{byte:02x}"),
            byte => query.push(char::from(*byte)),
        }
    }
    if query.len() < 7_000 {
        one_and_on(format!("GET {path}?{query} HTTP/1.1\r\nhost: x\r\n\r\n").into_bytes());
    }
}

/// A whole connection of anything.
fn anything(bytes: &[u8]) {
    let answers = talk(bytes.to_vec());
    assert!(answers.is_empty() || answers.starts_with(b"HTTP/1."), "{:?}", String::from_utf8_lossy(&answers));
}

/// Sends a request that is well framed, and one after it, which is served whatever came of the first.
fn one_and_on(mut request: Vec<u8>) {
    let is_told = request.windows(7).any(|it| it == b"status=");
    request.extend_from_slice(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let answers = talk(request);
    let (status, content_type, body, rest) = split(&answers);
    match status {
        200 => assert_eq!(content_type, "application/json"),
        400..500 if is_told => return, // a refusal by a rule, in the status that was asked for
        400 | 404 | 413 => assert_eq!(content_type, "application/problem+json"),
        other => panic!("{other}: {}", String::from_utf8_lossy(&answers)),
    }
    let json: Value = serde_json::from_slice(body).expect("JSON, as it says");
    if status == 200 {
        assert!(
            ["outcome", "decisions", "id", "ending", "asked"].iter().any(|it| json.get(it).is_some()),
            "{json}"
        );
    } else {
        assert_eq!(json["status"], status);
        assert!(
            json["detail"].as_str().is_some_and(|detail| !detail.is_empty() && detail.len() < 10_000),
            "{json}"
        );
    }
    if status != 413 {
        assert_eq!(split(rest).0, 200, "{}", String::from_utf8_lossy(&answers));
    }
}

/// Status, type and body of the first answer, and what follows it.
fn split(answers: &[u8]) -> (u16, &str, &[u8], &[u8]) {
    let end = answers.windows(4).position(|it| it == b"\r\n\r\n").expect("a head");
    let head = std::str::from_utf8(&answers[..end]).expect("ASCII");
    let field = |name: &str| {
        let mut lines = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(it, _)| it.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    };
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let length = field("content-length").parse().unwrap_or(0);
    let (body, rest) = answers[end + 4..].split_at(length);
    (status, field("content-type"), body, rest)
}

/// All that comes back when `request` is all that is sent.
fn talk(request: Vec<u8>) -> Vec<u8> {
    let (runtime, api) = api();
    runtime.block_on(async {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (_stay, drain) = watch::channel(false);
        let served = Arc::clone(api).serve(theirs, drain);
        let (mut from, mut to) = tokio::io::split(ours);
        let asked = async move {
            let _ = to.write_all(&request).await; // it may be closed before all is said
            let _ = to.shutdown().await;
        };
        let mut answers = Vec::new();
        let ((), (), read) = tokio::join!(served, asked, from.read_to_end(&mut answers));
        read.expect("an end");
        answers
    })
}
