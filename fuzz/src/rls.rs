//! Any bytes as the message of a gRPC call, or as a whole connection: never a panic, one gRPC status of those
//! that the documentation names, and the next call of the connection is decided.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tollgate_core::{Clock, ManualClock, Timestamp};
use tollgate_envoy_rls::{Limits, RateLimitService, ReplyOptions};
use tollgate_limiter::{Limiter, LimiterSettings};
use tollgate_net::Surface as _;
use tollgate_rule_files::parse_text;
use tollgate_store_memory::{MemoryConfig, MemoryStore};

const RULES: &str = "
domain: d
descriptors:
  - {key: k, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: s, rate_limit: {algorithm: concurrency, limit: 2, ttl: 30s}}
";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// `OK`, `INVALID_ARGUMENT`, `NOT_FOUND`.
const STATUSES: [i32; 3] = [0, 3, 5];
/// Further statuses for an invalid length prefix: `RESOURCE_EXHAUSTED` (length too large), `UNIMPLEMENTED`
/// and `INTERNAL`.
const STATUSES_OF_PREFIXES: [i32; 3] = [8, 12, 13];

type Service = RateLimitService<MemoryStore>;

fn service() -> &'static (Runtime, Arc<Service>) {
    static SERVICE: OnceLock<(Runtime, Arc<Service>)> = OnceLock::new();
    SERVICE.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let policy = parse_text("d.yaml", RULES).expect("rules without fault");
        let store = MemoryStore::new(MemoryConfig::default());
        let limiter = Arc::new(Limiter::new(policy, store, LimiterSettings::default()));
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Timestamp::from_unix_seconds(1_700_000_000)));
        let ready = watch::channel(true).1;
        let service =
            RateLimitService::new(limiter, clock, ready, ReplyOptions::default(), Limits::default());
        (runtime, Arc::new(service))
    })
}

/// Sends `bytes`; the first of them says as what.
///
/// # Panics
/// When a promise of the surface is broken.
pub fn call_any_bytes(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let path = match kind % 8 {
        0..=2 => SHOULD_RATE_LIMIT,
        3 => "/tollgate.check.v1.CheckService/Check",
        4 => "/tollgate.check.v1.CheckService/Lease",
        5 => "/tollgate.slots.v1.SlotService/Acquire",
        6 => "/tollgate.slots.v1.SlotService/Release",
        _ => {
            return connect(|mut io| async move {
                let said = [PREFACE, bytes].concat();
                let _ = io.write_all(&said).await; // it may be closed before all is said
                let _ = io.shutdown().await;
                let _ = io.read_to_end(&mut Vec::new()).await;
            });
        }
    };
    // In some calls the length prefix is arbitrary too.
    let is_framed = kind & 8 == 0;
    let message = if is_framed { framed(bytes) } else { Bytes::copy_from_slice(bytes) };
    connect(|io| async move {
        let (mut send, connection) = h2::client::handshake(io).await.expect("a handshake");
        let talk = async {
            let (status, code) = one(&mut send, path, message).await;
            let is_documented =
                STATUSES.contains(&code) || !is_framed && STATUSES_OF_PREFIXES.contains(&code);
            assert!(status == 200 && is_documented, "{path}: {status}, {code}");
            let usual = framed(b"\x0a\x01d\x12\x08\x0a\x06\x0a\x01k\x12\x01v");
            assert_eq!(one(&mut send, SHOULD_RATE_LIMIT, usual).await, (200, 0), "after {path}");
            drop(send);
        };
        let ((), ended) = tokio::join!(talk, connection);
        ended.expect("a connection that stays open");
    });
}

async fn one(send: &mut h2::client::SendRequest<Bytes>, path: &str, message: Bytes) -> (u16, i32) {
    let head = call(path).body(()).expect("a header");
    let (response, mut out) = send.send_request(head, false).expect("an open connection");
    out.send_data(message, true).expect("an open call");
    outcome(response).await.expect("a status")
}

fn framed(message: &[u8]) -> Bytes {
    let mut framed = vec![0];
    framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
    framed.extend_from_slice(message);
    framed.into()
}

/// A client that speaks to the service until it has no more to say.
fn connect<F: Future<Output = ()>>(client: impl FnOnce(DuplexStream) -> F) {
    let (runtime, service) = service();
    runtime.block_on(async {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (_stay, drain) = watch::channel(false);
        tokio::join!(Arc::clone(service).serve(theirs, drain), client(ours));
    });
}

// The crate of test helpers has these too, but needs macros, which cannot be built with counters.

/// The path of Envoy's rate limit service.
const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The header of a call as gRPC wants it.
fn call(path: &str) -> http::request::Builder {
    http::Request::post(format!("http://tollgate{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
}

/// HTTP status and gRPC status of a call, wherever the latter is; -1 without one.
async fn outcome(response: h2::client::ResponseFuture) -> Result<(u16, i32), h2::Error> {
    let response = response.await?;
    let code = response.status().as_u16();
    let status = |headers: &http::HeaderMap| {
        headers.get("grpc-status").map(|status| status.to_str().expect("digits").parse().expect("a number"))
    };
    if let Some(status) = status(response.headers()) {
        return Ok((code, status));
    }
    let mut body = response.into_body();
    while let Some(chunk) = body.data().await {
        let length = chunk?.len();
        body.flow_control().release_capacity(length)?;
    }
    Ok((code, body.trailers().await?.as_ref().and_then(status).unwrap_or(-1)))
}
