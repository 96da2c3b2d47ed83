//! The end of the process as gRPC clients see it: each connection is asked to go away as soon as the process
//! is about to end, and no call is lost.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use tokio::task::{JoinSet, yield_now};

use super::*;

/// `ShouldRateLimit` for a descriptor `api_key=bob` of the domain `shop`, with its prefix.
pub(crate) const BOB: &[u8] = b"\0\0\0\0\x18\x0a\x04shop\x12\x10\x0a\x0e\x0a\x07api_key\x12\x03bob";

/// Where it is asked.
pub(crate) const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Calls in flight on a connection.
const IN_FLIGHT: usize = 16;

fn ask(send: &mut SendRequest<Bytes>) -> Result<ResponseFuture, h2::Error> {
    let head = http::Request::post(format!("http://t{PATH}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let (response, mut out) = send.send_request(head.body(()).expect("a header"), false)?;
    out.send_data(Bytes::from_static(BOB), true)?;
    Ok(response)
}

/// The `grpc-status` in the trailers.
async fn outcome(response: ResponseFuture) -> Result<Option<http::HeaderValue>, h2::Error> {
    let mut body = response.await?.into_body();
    while let Some(chunk) = body.data().await {
        let length = chunk?.len();
        body.flow_control().release_capacity(length)?;
    }
    Ok(body.trailers().await?.and_then(|trailers| trailers.get("grpc-status").cloned()))
}

/// Calls on one connection after another until the server listens no more. `Err` if a call that was sent had
/// no answer, and the server did not say that it had not begun it.
async fn call_until_closed(
    to: SocketAddr,
    answered: Arc<AtomicU64>,
    connections: Arc<AtomicU64>,
) -> Result<(), String> {
    while let Ok(stream) = tokio::net::TcpStream::connect(to).await {
        let Ok((mut send, connection)) = h2::client::handshake(stream).await else { break };
        let ended = tokio::spawn(connection);
        connections.fetch_add(1, Relaxed);
        let (mut calls, mut is_served) = (JoinSet::new(), false);
        loop {
            // An error here is one of a call that was not sent.
            let is_open = poll_fn(|cx| send.poll_ready(cx)).await.is_ok();
            let sent = if is_open { ask(&mut send).ok() } else { None };
            let is_last = sent.is_none();
            if let Some(response) = sent {
                calls.spawn(outcome(response));
            }
            while calls.len() >= IN_FLIGHT || is_last && !calls.is_empty() {
                match calls.join_next().await.expect("some").expect("no panic") {
                    Ok(status) => assert_eq!(status.expect("a status"), "0"),
                    // The server says that it has not begun this one: it crossed the announcement on its way.
                    Err(error) if error.is_go_away() && error.is_remote() => continue,
                    // It was still waiting to be accepted when the server stopped listening.
                    Err(error) if error.is_io() && !is_served => return Ok(()),
                    Err(error) => return Err(format!("a call was lost: {error}")),
                }
                is_served = true;
                answered.fetch_add(1, Relaxed);
            }
            if is_last {
                break;
            }
        }
        drop(send);
        ended.await.expect("no panic").map_err(|error| format!("a connection broke: {error}"))?;
    }
    Ok(())
}

#[test]
fn no_call_on_a_kept_grpc_connection_is_lost_when_the_server_ends() {
    const CLIENTS: u64 = 32;
    let folder = rules(RULES);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for delay in ["0", "1h"] {
        let server = Server::start(folder.path(), &["--drain-delay", delay, "--workers", "2"]);
        let to: SocketAddr = server.says("grpc").and_then(|text| text.parse().ok()).expect("an address");
        let (answered, connections) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        runtime.block_on(async {
            let until = async |count: &AtomicU64, wanted: u64| {
                while count.load(Relaxed) < wanted {
                    yield_now().await;
                }
            };
            let mut clients = JoinSet::new();
            for _ in 0..CLIENTS {
                clients.spawn(call_until_closed(to, Arc::clone(&answered), Arc::clone(&connections)));
            }
            until(&connections, CLIENTS).await;
            until(&answered, 1_000).await;
            server.signal("TERM");
            if delay == "1h" {
                // Each was asked to go away, and is served on another connection until the end.
                until(&connections, 2 * CLIENTS).await;
                let more = answered.load(Relaxed) + 1_000;
                until(&answered, more).await;
                assert_eq!(connections.load(Relaxed), 2 * CLIENTS, "asked once");
                server.signal("TERM");
            }
            while let Some(client) = clients.join_next().await {
                assert_eq!(client.expect("no panic"), Ok(()), "with a delay of {delay}");
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
    let server = Server::start(folder.path(), &["--drain-delay", "100ms", "--workers", "2"]);
    let body = folder.path().join("body");
    std::fs::write(&body, BOB).expect("written");
    let mut command = Command::new("h2load");
    command.args(["--duration=4", "--clients=20", "--max-concurrent-streams=10"]);
    command.args(["--header=content-type: application/grpc", "--header=te: trailers"]);
    command
        .arg("--data")
        .arg(&body)
        .arg(format!("http://{}{PATH}", server.says("grpc").expect("an address")));
    let Ok(load) = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        println!("SKIPPED h2load is not installed (package nghttp2-client)");
        return;
    };
    while metric(&server, "tollgate_connections{surface=\"grpc\"}") < 20 {}
    // h2load counts a call as failed that it had not sent yet when it is asked to go away. Each of its turns
    // sends for all connections, at most 10 calls on each: after 400, each has sent its first ones.
    let calls = || metric(&server, "tollgate_decision_latency_seconds_count{surface=\"grpc\"}");
    let opened = calls();
    while calls() < opened + 400 {}
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    let report = load.wait_with_output().expect("it ends").stdout;
    let report = String::from_utf8_lossy(&report);
    assert!(report.contains(" succeeded, 0 failed, 0 errored, 0 timeout"), "{report}");
    assert!(!report.contains(" 0 succeeded"), "{report}");
}
