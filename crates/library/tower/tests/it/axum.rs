//! The example of the documentation, served by axum over real sockets.

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tollgate_tower::{Quota, RateLimitLayer};

/// The status of a request to `to` from this address of the machine.
async fn status(from: &str, to: SocketAddr) -> u16 {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(format!("{from}:0").parse().expect("an address")).expect("an address of this machine");
    let mut stream = socket.connect(to).await.expect("a server");
    stream
        .write_all(b"GET /search HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}

fn app() -> Router {
    let layer = RateLimitLayer::per_peer(Quota::per_minute(2)).expect("a quota");
    Router::new().route("/search", get(async || "found")).layer(layer)
}

#[test]
fn the_page_of_the_library_has_the_lines_that_are_run_here() {
    let page = include_str!("../../../tollgate/src/lib.rs");
    for line in [
        "let layer = RateLimitLayer::per_peer(Quota::per_second(10))?;",
        r#"let app = Router::new().route("/search", get(search)).layer(layer);"#,
        "axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;",
    ] {
        assert!(page.contains(&format!("//! {line}\n")), "{line}");
    }
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("an address");
    (listener, at)
}

#[tokio::test]
async fn each_address_that_connects_has_a_limit_of_its_own() {
    let (listener, at) = listener().await;
    let app = app().into_make_service_with_connect_info::<SocketAddr>();
    let server = tokio::spawn(axum::serve(listener, app).into_future());
    for (from, want) in [
        ("127.0.0.1", 200),
        ("127.0.0.1", 200),
        ("127.0.0.1", 429),
        ("127.0.0.2", 200),
        ("127.0.0.2", 200),
        ("127.0.0.2", 429),
        ("127.0.0.1", 429),
    ] {
        assert_eq!(status(from, at).await, want, "{from}");
    }
    server.abort();
}

#[tokio::test]
async fn without_addresses_no_client_passes_and_none_shuts_out_the_others() {
    let (listener, at) = listener().await;
    let server = tokio::spawn(axum::serve(listener, app()).into_future());
    for from in ["127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.2"] {
        assert_eq!(status(from, at).await, 500, "{from}");
    }
    server.abort();
}
