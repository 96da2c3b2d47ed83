//! Clients that are slow, greedy, or use another protocol. Each affects only itself.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::time::Duration;

use crate::common::{RULES, Server, loopback, one};
use tollgate_http_api::HttpSettings;
use tollgate_http_kit::SurfaceSettings;
use tollgate_limiter::Undecided;

/// So short that a test need not wait, and only for clients that are to be cut off.
fn impatient() -> SurfaceSettings {
    let short = Duration::from_millis(60);
    SurfaceSettings {
        header_timeout: short,
        body_timeout: short,
        idle_timeout: short,
        write_timeout: short,
        ..loopback()
    }
}

async fn others_are_served(server: &Server) {
    assert_eq!(server.client().await.get("/healthz").await.status, 200);
}

/// Returns when `is_so`; the test's timeout is the bound.
async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_head_that_never_ends_is_cut_off_also_when_it_drips() {
    let server = Server::with(impatient()).await;
    for begun in ["", "GET", "GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: "] {
        let mut client = server.client().await;
        client.send(begun).await;
        assert!(client.is_closed().await, "an answer to half a head");
    }
    let mut dripping = server.client().await;
    dripping.send("GET /healthz HTTP/1.1\r\n").await;
    let mut drops = tokio::time::interval(Duration::from_millis(5));
    loop {
        tokio::select! {
            closed = dripping.is_closed() => break assert!(closed),
            _ = drops.tick() => {}
        }
        dripping.send("x-slow: 1\r\n").await;
    }
    others_are_served(&server).await;
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let server = Server::with(impatient()).await;
    let mut client = server.client().await;
    assert_eq!(client.get("/healthz").await.status, 200);
    assert!(client.is_closed().await);
    others_are_served(&server).await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_answered_408() {
    let server = Server::with(impatient()).await;
    for (path, begun) in
        [("/v1/check", ""), ("/v1/check", "{\"domain\""), ("/json", "{"), ("/v1/reserve", "{")]
    {
        let mut client = server.client().await;
        client.send(format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{begun}")).await;
        let reply = client.reply().await.expect("an answer");
        assert_eq!(reply.status, 408, "{path} {begun}");
        assert!(reply.text().contains("the body did not arrive within"));
        assert!(client.is_closed().await);
    }
    others_are_served(&server).await;
}

#[tokio::test]
async fn a_client_that_goes_away_in_a_body_costs_no_other_client() {
    let server = Server::plain().await;
    let mut clients = Vec::new();
    for _ in 0..50 {
        let mut client = server.client().await;
        client.send("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{\"domain\"").await;
        clients.push(client);
    }
    until(|| server.shared.buffered_bytes() == 50 * 9).await;
    assert_eq!(server.connections.open(), 50);
    drop(clients);
    until(|| server.shared.buffered_bytes() == 0 && server.connections.open() == 0).await;
    others_are_served(&server).await;
}

#[tokio::test]
async fn bodies_above_their_cap_are_rejected_also_without_a_length() {
    let api = HttpSettings { max_body_bytes: 64 << 10, max_batch_bytes: 1 << 20, ..HttpSettings::default() };
    let server = Server::start(RULES, api).await;
    let body =
        |value: &str| format!(r#"{{"domain":"shop","descriptors":[[{{"key":"user","value":"{value}"}}]]}}"#);
    let small = body("a longer name than ann");
    let large = body(&"x".repeat(70_000));
    let huge = " ".repeat(1024 * 1024 + 1);
    let one_in_a_batch = format!(r#"{{"requests":[{large}]}}"#);
    let large_in_a_batch = format!(r#"{{"requests":[{small},{large}]}}"#);
    for (path, body, status) in [
        ("/v1/reserve", &large, 200),
        ("/v1/acquire", &large, 413),
        ("/v1/commit", &large, 413),
        ("/v1/throttle", &large, 413),
    ] {
        let mut client = server.client().await;
        let reply = client.post(path, body).await;
        assert_eq!(reply.status, status, "{path}");
        assert_eq!(status == 200, reply.text().contains(r#""outcome":"deny""#), "{path}");
        let mut client = server.client().await;
        client.send(format!("POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")).await;
        for piece in body.as_bytes().chunks(30_000) {
            client.send(format!("{:x}\r\n", piece.len())).await;
            client.send(piece).await;
            client.send("\r\n").await;
        }
        client.send("0\r\n\r\n").await;
        assert_eq!(client.reply().await.map(|reply| reply.status), Some(status), "{path} in chunks");
    }
    // A check is decided; a proxy says in which status it wants denials.
    for (path, body, status) in [
        ("/v1/check", &large, 200),
        ("/v1/check", &one_in_a_batch, 200),
        ("/v1/check", &large_in_a_batch, 200),
        ("/v1/check", &huge, 200),
        ("/v1/check?status=403", &large, 403),
        ("/v1/check?status=rule", &huge, 429),
        ("/json", &large, 429),
        ("/json", &huge, 429),
    ] {
        let reply = server.client().await.post(path, body).await;
        assert_eq!(reply.status, status, "{path}");
        let denied = [("outcome", "deny"), ("overallCode", "OVER_LIMIT")];
        let detail = reply.json()["detail"].as_str().map(str::to_owned).unwrap_or_default();
        let is_denied = denied.iter().any(|(name, value)| reply.json()[name] == *value);
        assert!(is_denied || detail.contains("larger than") || detail.starts_with("requests[1]:"), "{path}");
    }
    assert_eq!((server.rejected(200, "too_large").await, server.rejected(429, "too_large").await), (6, 3));
    // Many requests share the cap of a batch, and none of them is large.
    let many = format!(r#"{{"requests":[{}]}}"#, vec![small; 900].join(","));
    assert!(many.len() > 64 * 1024);
    assert_eq!(server.client().await.post("/v1/check", &many).await.status, 200);
    let mut client = server.client().await;
    client.send("POST /v1/commit HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 99999999999\r\n\r\n").await;
    assert_eq!(client.reply().await.expect("an answer").status, 413, "rejected before a byte of it is sent");
    others_are_served(&server).await;
}

#[tokio::test]
async fn half_arrived_bodies_have_a_budget_together() {
    let settings = SurfaceSettings { max_buffered_bytes: 10_000, ..loopback() };
    let server = Server::undecided(Undecided::Error, settings).await;
    let mut waiting = Vec::new();
    let mut client = server.client().await;
    client
        .send(format!(
            "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 30000\r\n\r\n{}",
            " ".repeat(9_000)
        ))
        .await;
    waiting.push(client);
    let mut other = server.client().await;
    other
        .send(format!(
            "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 30000\r\n\r\n{}",
            " ".repeat(30_000)
        ))
        .await;
    assert!(other.reply().await.expect("an answer").problem(503).contains("half-arrived"));
    drop(waiting);
    let mut client = server.client().await;
    assert_eq!(
        client.post("/v1/check", &one("api_key", "k")).await.status,
        200,
        "whole bodies need no budget"
    );
}

#[tokio::test]
async fn header_floods_and_nonsense_are_answered_by_the_setting() {
    let many: String = (0..200).map(|i| format!("x-{i}: y\r\n")).collect();
    let rows = [
        (format!("GET / HTTP/1.1\r\nhost: x\r\n{many}\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(20_000)), 431),
        (format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "y".repeat(70_000)), 431),
        ("GET / HTTP/1.1\r\nx: a\u{1}b\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\nx: a\rb\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\nx: a\r\n b\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\nbad header\r\n\r\n".into(), 400),
        ("GET / HTTP/9.9\r\n\r\n".into(), 400),
        ("\0\0\0\0\r\n\r\n".into(), 400),
        ("*3\r\n$3\r\nSET\r\n".into(), 400),
        ("POST /v1/check HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx".into(), 400),
        ("POST /v1/check HTTP/1.1\r\ncontent-length: -1\r\n\r\n".into(), 400),
    ];
    for (undecided, decided) in
        [(Undecided::Deny, Some(403)), (Undecided::Allow, Some(200)), (Undecided::Error, None)]
    {
        let server = Server::undecided(undecided, loopback()).await;
        for (sent, status) in &rows {
            let mut client = server.client().await;
            // Behind a request that is answered.
            client.send(format!("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n{sent}")).await;
            assert_eq!(client.reply().await.expect("an answer").status, 200);
            let reply = client.reply().await.unwrap_or_else(|| panic!("no answer to {sent:.60}"));
            reply.problem(decided.unwrap_or(*status));
            assert!(client.is_closed().await);
        }
        let counted = |status| server.rejected(decided.unwrap_or(status), "malformed");
        assert_eq!(counted(400).await, 9);
        assert_eq!(server.rejected(decided.unwrap_or(431), "too_large").await, 3);
        let mut client = server.client().await;
        client.send("POST /v1/check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n").await;
        assert_eq!(client.reply().await.expect("an answer").status, 400);
        others_are_served(&server).await;
    }
}

#[tokio::test]
async fn pipelines_are_answered_in_their_order() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let mut sent = String::new();
    for number in 0..100 {
        let body = one("api_key", &format!("k{}", number % 3));
        sent +=
            &format!("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        sent += "GET /v1/chek HTTP/1.1\r\nhost: x\r\n\r\n";
    }
    client.send(&sent).await;
    for number in 0..100 {
        let json = client.reply().await.expect("an answer").json();
        assert_eq!(json["remaining"], 99 - number / 3, "request {number}");
        assert_eq!(client.reply().await.expect("an answer").status, 404);
    }
}

#[tokio::test]
async fn chunked_bodies_and_those_that_wait_for_a_go_are_read() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let body = one("api_key", "k");
    let (one, two) = body.split_at(10);
    client
        .send(format!(
            "POST /v1/check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{one}\r\n{:x}\r\n{two}\r\n0\r\nx-trailer: 1\r\n\r\n",
            one.len(),
            two.len()
        ))
        .await;
    assert_eq!(client.reply().await.expect("an answer").json()["remaining"], 99);
    client
        .send(format!(
            "POST /v1/check HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
            body.len()
        ))
        .await;
    assert_eq!(client.reply().await.expect("go on").status, 100);
    client.send(&body).await;
    assert_eq!(client.reply().await.expect("an answer").json()["remaining"], 98);
}

#[tokio::test]
async fn a_client_that_reads_no_answers_is_held_back_and_then_cut_off() {
    let server =
        Server::with(SurfaceSettings { idle_timeout: Duration::from_secs(600), ..impatient() }).await;
    let mut client = server.client().await;
    let many = "GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(100);
    // Writes until the sockets of both sides are full: the server reads no further ahead.
    let flood = async {
        while tokio::io::AsyncWriteExt::write_all(&mut client.stream, many.as_bytes()).await.is_ok() {}
    };
    flood.await; // ends only because the server closes
    others_are_served(&server).await;
}
