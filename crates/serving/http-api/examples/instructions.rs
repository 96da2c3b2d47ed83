//! Sends checks over a connection in memory, one after another, to be counted by a profiler:
//!
//! ```sh
//! cargo build --release -p tollgate-http-api --example instructions
//! for n in 2000 12000; do valgrind --tool=callgrind target/release/examples/instructions $n; done
//! ```
//! A ten thousandth of the difference is the cost of one check, without sockets.
#![allow(clippy::expect_used, reason = "an example that fails says where")]

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::sync::watch;
use tollgate_core::Clock;
use tollgate_http_api::{HttpApi, HttpSettings, NodeState, NodeStatus};
use tollgate_http_kit::{HttpSurface, SurfaceSettings};
use tollgate_limiter::{Limiter, LimiterSettings};
use tollgate_net::Surface as _;
use tollgate_rule_files::parse_text;
use tollgate_store_memory::{MemoryConfig, MemoryStore};

const RULES: &str = "
domain: bench
descriptors:
  - key: api_key
    rate_limit: {unit: second, requests_per_unit: 1000000000, algorithm: token_bucket}
";

const BODY: &str = r#"{"domain":"bench","descriptors":[[{"key":"api_key","value":"0123456789abcdef"}]]}"#;

struct Always;

impl NodeStatus for Always {
    fn state(&self) -> NodeState {
        NodeState { is_ready: true, ..NodeState::default() }
    }
}

fn main() {
    let count: usize = std::env::args().nth(1).and_then(|it| it.parse().ok()).expect("how many");
    let policy = parse_text("bench.yaml", RULES).expect("rules");
    let store = MemoryStore::new(MemoryConfig::default());
    let limiter = Arc::new(Limiter::new(policy, store, LimiterSettings::default()));
    let clock: Arc<dyn Clock> = Arc::new(tollgate_clock::SystemClock::new());
    let json = Arc::new(|_, _| Box::pin(async { Default::default() }) as _);
    let api = HttpApi::new(limiter, clock, Arc::new(Always), json, HttpSettings::default());
    let surface = Arc::new(HttpSurface::new(api, SurfaceSettings::default()));
    let request = format!(
        "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (mut client, server) = duplex(64 * 1024);
        let asks = async {
            let mut reply = [0; 4096];
            for _ in 0..count {
                client.write_all(request.as_bytes()).await.expect("it reads");
                let read = client.read(&mut reply).await.expect("it answers");
                assert!(reply[..read].starts_with(b"HTTP/1.1 200"));
            }
            drop(client);
        };
        tokio::join!(surface.serve(server, watch::channel(false).1), asks);
    });
}
