//! The end of the process as gRPC clients see it: each connection is asked to go away as soon as the process
//! is about to end, and no call is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use tokio::task::{JoinSet, yield_now};
use tollgate_testkit::grpc::{Called, SHOULD_RATE_LIMIT, call_until_closed};

use super::*;

/// `ShouldRateLimit` for a descriptor `api_key=bob` of the domain `shop`, with its prefix.
pub(crate) const BOB: &[u8] = b"\0\0\0\0\x18\x0a\x04shop\x12\x10\x0a\x0e\x0a\x07api_key\x12\x03bob";

#[test]
fn no_call_on_a_kept_grpc_connection_is_lost_when_the_server_ends() {
    const CLIENTS: u64 = 32;
    let folder = rules(RULES);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for delay in ["0", "1h"] {
        let server = ServerProcess::start(folder.path(), &["--drain-delay", delay, "--workers", "2"]);
        let to: SocketAddr = server.says("grpc").and_then(|text| text.parse().ok()).expect("an address");
        let called = Arc::new(Called::default());
        let Called { answered, connections } = &*called;
        runtime.block_on(async {
            let until = async |count: &AtomicU64, wanted: u64| {
                while count.load(Relaxed) < wanted {
                    yield_now().await;
                }
            };
            let mut clients = JoinSet::new();
            for _ in 0..CLIENTS {
                clients.spawn(call_until_closed(to, Bytes::from_static(BOB), Arc::clone(&called)));
            }
            until(connections, CLIENTS).await;
            until(answered, 1_000).await;
            server.signal("TERM");
            if delay == "1h" {
                // Each was asked to go away, and is served on another connection until the end.
                until(connections, 2 * CLIENTS).await;
                let more = answered.load(Relaxed) + 1_000;
                until(answered, more).await;
                assert_eq!(connections.load(Relaxed), 2 * CLIENTS, "asked once");
                server.signal("TERM");
            }
            while let Some(client) = clients.join_next().await {
                let outcome = client.expect("no panic");
                assert!(outcome.is_ok(), "{outcome:?} with a delay of {delay}");
            }
        });
        let (code, said) = server.ended();
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("stopped") && !said.contains("cut off"), "{said}");
    }
}

#[test]
fn h2load_loses_no_call_when_the_server_ends() {
    let folder = rules(RULES);
    let server = ServerProcess::start(folder.path(), &["--drain-delay", "1h", "--workers", "2"]);
    let body = folder.path().join("body");
    std::fs::write(&body, BOB).expect("written");
    let mut command = Command::new("h2load");
    command.args(["--duration=4", "--clients=20", "--max-concurrent-streams=10"]);
    command.args(["--header=content-type: application/grpc", "--header=te: trailers"]);
    command
        .arg("--data")
        .arg(&body)
        .arg(format!("http://{}{SHOULD_RATE_LIMIT}", server.says("grpc").expect("an address")));
    let Ok(load) = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        println!("SKIPPED h2load is not installed (package nghttp2-client)");
        return;
    };
    while metric(&server, "tollgate_connections{surface=\"grpc\"}") < 20 {}
    let calls = || metric(&server, "tollgate_decision_latency_seconds_count{surface=\"grpc\"}");
    while calls() < 400 {}
    server.signal("TERM");
    while metric(&server, "tollgate_connections{surface=\"grpc\"}") > 0 {}
    let answered = calls();
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    let report = load.wait_with_output().expect("it ends").stdout;
    let report = String::from_utf8_lossy(&report);
    // h2load also counts as failed the calls that were queued and not sent when it was asked to go away.
    assert!(report.contains(&format!(" {answered} succeeded, ")), "{answered} answered: {report}");
    assert!(report.contains(" errored, 0 timeout"), "{report}");
}
