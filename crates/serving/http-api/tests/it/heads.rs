//! Heads as proxies pass them on: large, of many fields, with fields that come twice.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::time::Duration;

use tollgate_http_kit::SurfaceSettings;

use crate::common::{HttpReply, Server, loopback};

/// As the server has it.
fn large() -> SurfaceSettings {
    SurfaceSettings { max_header_bytes: 2 << 20, max_header_fields: 24_000, ..loopback() }
}

/// One check by URL, of the field `x-api-key`, on a connection of its own.
async fn check(server: &Server, fields: &str) -> HttpReply {
    ask(server, "entry_header=user=X-Api-Key&status=429", fields).await
}

async fn ask(server: &Server, query: &str, fields: &str) -> HttpReply {
    let mut client = server.client().await;
    client.send(format!("GET /v1/check?domain=shop&{query} HTTP/1.1\r\nhost: x\r\n{fields}\r\n")).await;
    client.reply().await.expect("an answer")
}

#[tokio::test]
async fn a_head_is_decided_whatever_its_size_up_to_its_bound_and_denied_above() {
    let server = Server::with(large()).await;
    let padding = |bytes: usize| format!("cookie: {}\r\n", "c".repeat(bytes));
    let fields = |count: usize| (0..count).map(|number| format!("x-{number}:\r\n")).collect::<String>();
    for (number, more) in [
        padding(15_000),
        padding(17_000),
        padding(60_000),
        padding(1_000_000),
        padding((2 << 20) - 200),
        fields(90),
        fields(120),
        fields(8_192),
        fields(23_900),
        "a:\r\n".repeat(20_000),
    ]
    .into_iter()
    .enumerate()
    {
        for status in [200, 200, 429] {
            let reply = check(&server, &format!("x-api-key: k{number}\r\n{more}")).await;
            assert_eq!(reply.status, status, "row {number}");
        }
    }
    for (number, more) in [padding(3 << 20), fields(30_000)].into_iter().enumerate() {
        let reply = check(&server, &format!("x-api-key: fresh\r\n{more}")).await;
        let detail = reply.problem(403);
        assert!(detail.contains("more than 2097152 bytes or 24000 fields"), "row {number}: {detail}");
    }
    assert_eq!(server.rejected(403, "too_large").await, 2);
    assert_eq!(server.shared.buffered_bytes(), 0);
}

#[tokio::test]
async fn large_heads_count_against_what_all_connections_hold_and_usual_ones_do_not() {
    let server = Server::with(SurfaceSettings { max_buffered_bytes: 150_000, ..large() }).await;
    let begun = format!(
        "GET /v1/check?domain=shop&entry=user=a HTTP/1.1\r\nhost: x\r\ncookie: {}",
        "c".repeat(100_000)
    );
    let mut first = server.client().await;
    first.send(&begun).await;
    while server.shared.buffered_bytes() < begun.len() {
        tokio::task::yield_now().await;
    }
    let mut second = server.client().await;
    second.send(&begun).await;
    assert!(second.reply().await.expect("an answer").problem(403).contains("half-arrived"));
    assert!(second.is_closed().await);
    assert_eq!(server.rejected(403, "overload").await, 1);
    assert_eq!(
        check(&server, &format!("x-api-key: k\r\ncookie: {}\r\n", "c".repeat(15_000))).await.status,
        200
    );
    first.send("\r\n\r\n").await;
    assert_eq!(first.reply().await.expect("an answer").json()["outcome"], "admit");
    assert!(first.is_closed().await, "large buffers are given back");
    while server.shared.buffered_bytes() > 0 {
        tokio::task::yield_now().await;
    }
}

/// The client has sent more than is read, and still receives the reply: a connection that is reset would be
/// an outage to a proxy.
#[tokio::test]
async fn the_reply_to_what_is_not_read_arrives() {
    let server = Server::with(SurfaceSettings { write_timeout: Duration::from_secs(60), ..large() }).await;
    let mut client = server.client().await;
    let head = "GET /v1/check?domain=shop&entry=user=a HTTP/1.1\r\nhost: x\r\ncookie: ";
    client.send(format!("{head}{}", "c".repeat(8 << 20))).await;
    client.reply().await.expect("an answer").problem(403);
    let mut client = server.client().await;
    let body = "x".repeat(20 << 20);
    client
        .send(format!(
            "POST /v1/check?status=403 HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
    client.reply().await.expect("an answer").problem(403);
}

#[tokio::test]
async fn a_field_that_comes_twice_gives_no_fresh_limit() {
    let server = Server::with(large()).await;
    for _ in 0..2 {
        assert_eq!(check(&server, "x-api-key: k1\r\n").await.status, 200);
    }
    for fields in [
        "x-api-key: k1\r\n",
        "x-api-key: k1\r\nx-api-key: other\r\n",
        "x-api-key: other\r\nx-api-key: k1\r\n",
        "X-Api-Key: other\r\nx-api-key: \r\nx-api-key: k1\r\n",
        "x-api-key: k1\r\nx-api-key: k1\r\n",
    ] {
        assert_eq!(check(&server, fields).await.status, 429, "{fields}");
    }
    // A limit that is not used up admits such a request, and counts each value once.
    let reply =
        ask(&server, "entry_header=api_key=X-Api-Key", "x-api-key: a\r\nx-api-key: b\r\nx-api-key: a\r\n")
            .await;
    let json = reply.json();
    let left: Vec<_> =
        json["descriptors"].as_array().unwrap().iter().map(|it| it["remaining"].clone()).collect();
    assert_eq!((json["outcome"].as_str(), left), (Some("admit"), vec![99.into(), 99.into()]));
    // More combinations than are counted are denied.
    let many = (0..17).map(|number| format!("x-api-key: k{number}\r\n")).collect::<String>();
    assert_eq!(check(&server, &many).await.status, 429);
    assert_eq!(ask(&server, "entry_header=user=X-Api-Key", &many).await.json()["undecided"], "too_large");
    assert_eq!(server.rejected(429, "too_large").await, 1);
    // All lines of a list are one value.
    let list = "x-forwarded-for: 192.0.2.1\r\nx-forwarded-for: 192.0.2.2, 192.0.2.3\r\n";
    for (fields, status) in [
        (list, 200),
        ("x-forwarded-for: 192.0.2.1, 192.0.2.2, 192.0.2.3\r\n", 200),
        (list, 429),
        ("x-forwarded-for: 192.0.2.1\r\n", 200),
    ] {
        let reply = ask(&server, "entry_header=user=X-Forwarded-For&status=429", fields).await;
        assert_eq!(reply.status, status, "{fields}");
    }
}

#[tokio::test]
async fn what_a_client_appends_to_the_url_is_a_denial_where_a_proxy_asks() {
    let server = Server::with(large()).await;
    let query = "entry=user=ann&status=403";
    for (appended, want) in [
        ("", 200),
        ("&domain=other", 403),
        ("&status=200", 403),
        ("&status=429", 403),
        ("&hits=x", 403),
        ("&x", 403),
        ("&x=y", 403),
        ("&entry", 403),
        ("&entry==", 403),
        ("&descriptor", 403),
        ("&descriptor=1", 403),
        ("&%zz=1", 403),
        ("&%ff=1", 403),
        ("&entry=a%", 403),
    ] {
        let reply = ask(&server, &format!("{query}{appended}"), "").await;
        assert_eq!(reply.status, want, "{appended}");
    }
    assert_eq!(server.rejected(403, "malformed").await, 13);
    // Twice is a denial also with the status behind, and without any an error, as for every program.
    assert_eq!(ask(&server, "entry=user=bob&hits=1&hits=0&status=429", "").await.status, 429);
    assert_eq!(ask(&server, "entry=user=bob&hits=1&hits=0", "").await.status, 400);
    // Only the configuration can cause these, so they are errors.
    for query in ["status=403", "entry=user=bob&status=200", "domain=shop&status=403&entry_header=x"] {
        let mut client = server.client().await;
        let status = client.get(&format!("/v1/check?{query}")).await.status;
        assert!(matches!(status, 400 | 403), "{query}: {status}");
    }
    assert_eq!(server.client().await.get("/v1/check?status=403").await.status, 400);
}

#[tokio::test]
async fn any_number_of_hits_is_decided() {
    let server = Server::with(large()).await;
    for hits in ["9223372036854775807", "9223372036854775808", "18446744073709551616", &"9".repeat(400)] {
        let reply = ask(&server, &format!("entry=user=ann&status=429&hits={hits}"), "").await;
        assert_eq!(reply.status, 429, "{hits}");
        let body =
            format!(r#"{{"domain":"shop","descriptors":[[{{"key":"tokens","value":"a"}}]],"hits":{hits}}}"#);
        let reply = server.client().await.post("/v1/check", &body).await;
        let number = if hits.len() < 300 { "deny" } else { "" };
        match number {
            "" => drop(reply.problem(400)), // not a number of JSON that a reader takes
            outcome => assert_eq!(reply.json()["outcome"], outcome, "{hits}"),
        }
    }
}
