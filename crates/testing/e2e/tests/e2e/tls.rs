//! TLS on every surface of the binary: which clients get in, which do not, and a new certificate without a
//! restart. Not here: the handshakes' own cases (`net`, `envoy-rls`).

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tollgate_testkit::certificates::{Authority, Issued};

use crate::rls::{self, PATIENCE};
use crate::start::rules;
use crate::tollgate::{Start, Tollgate};

const RULES: &str =
    "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: year, requests_per_unit: 1}}\n";

/// A server with a certificate of `authority` in `folder`.
fn start(folder: &std::path::Path, issued: &Issued, more: &[&str]) -> Tollgate {
    let (cert, key) = issued.write(folder);
    let flags = ["--tls-cert", &cert.display().to_string(), "--tls-key", &key.display().to_string()];
    std::fs::write(folder.join("rules.yaml"), RULES).expect("written");
    Start::new(&folder.join("rules.yaml")).args(flags).args(more.iter().copied()).go()
}

async fn connect(to: SocketAddr, config: Arc<ClientConfig>) -> std::io::Result<TlsStream<TcpStream>> {
    let name = "localhost".try_into().expect("a name");
    let stream = TcpStream::connect(to).await?;
    timeout(PATIENCE, TlsConnector::from(config).connect(name, stream)).await?
}

/// The response to `request`, up to the end.
async fn ask(to: SocketAddr, config: Arc<ClientConfig>, request: &str) -> std::io::Result<String> {
    let mut stream = connect(to, config).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await??;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Asks once over gRPC.
async fn should_rate_limit(to: SocketAddr, config: Arc<ClientConfig>) -> Option<rls::RateLimitResponse> {
    let stream = connect(to, config).await.ok()?;
    let (mut client, connection) = h2::client::handshake(stream).await.ok()?;
    let driven = tokio::spawn(connection);
    let request = ::http::Request::post(format!("https://localhost{}", rls::PATH))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let (answer, mut body) = client.send_request(request.body(()).expect("a request"), false).ok()?;
    let message = rls::hit("shop", "user", "alice").encode_to_vec();
    let framed = [&[0, 0, 0, 0, message.len() as u8][..], &message].concat();
    body.send_data(Bytes::from(framed), true).ok()?;
    let mut answer = timeout(PATIENCE, answer).await.ok()?.ok()?.into_body();
    let message = answer.data().await?.ok()?;
    driven.abort();
    rls::RateLimitResponse::decode(&message[5..]).ok()
}

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn every_surface_speaks_tls_and_answers_no_client_that_does_not() {
    let folder = rules(RULES);
    let authority = Authority::new();
    let server = start(folder.path(), &authority.issue("tollgate", 2100), &[]);
    assert!(server.printed().contains("  tls     grpc, http, resp\n"), "{}", server.printed());
    let answer = should_rate_limit(server.grpc, authority.client(None, &["h2"])).await.expect("an answer");
    assert_eq!(answer.overall_code, rls::OK);
    let answer = ask(server.http, authority.client(None, &["http/1.1"]), HEALTH).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let answer = ask(server.resp, authority.client(None, &[]), "PING\r\nQUIT\r\n").await.expect("an answer");
    assert_eq!(answer, "+PONG\r\n+OK\r\n");
    for surface in [server.grpc, server.http, server.resp] {
        let stranger = Authority::new().client(None, &[]);
        assert!(connect(surface, stranger).await.is_err(), "a client that trusts another authority");
        let mut plain = TcpStream::connect(surface).await.expect("it listens");
        plain.write_all(b"PING\r\n\r\n").await.expect("sent");
        let mut answer = Vec::new();
        timeout(PATIENCE, plain.read_to_end(&mut answer)).await.expect("in time").ok(); // or reset
        assert!(!String::from_utf8_lossy(&answer).contains("PONG"));
    }
    let metrics = ask(server.http, authority.client(None, &[]), &HEALTH.replace("healthz", "metrics")).await;
    let metrics = metrics.expect("an answer");
    for surface in ["grpc", "http", "resp"] {
        let series = format!("tollgate_tls_handshakes_failed_total{{surface=\"{surface}\"}} 2");
        assert!(metrics.contains(&series), "{series}: {metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_clients_show_a_certificate_where_there_is_a_client_ca_and_other_surfaces_may_stay_plain() {
    let folder = rules(RULES);
    let authority = Authority::new();
    let ca = folder.path().join("ca.crt");
    std::fs::write(&ca, authority.pem()).expect("written");
    let ca = ca.display().to_string();
    let more = ["--grpc-client-ca", &ca, "--tls", "grpc"];
    let server = start(folder.path(), &authority.issue("tollgate", 2100), &more);
    let envoy = authority.issue("envoy", 2100);
    let stranger = Authority::new().issue("envoy", 2100);
    for (own, is_admitted) in [(Some(&envoy), true), (None, false), (Some(&stranger), false)] {
        let answer = should_rate_limit(server.grpc, authority.client(own, &["h2"])).await;
        assert_eq!(answer.is_some(), is_admitted, "{own:?}");
    }
    assert_eq!(crate::http::get(server.http, "/healthz", &[]).await.expect("an answer").status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_used_and_an_invalid_one_is_reported_and_not_used() {
    let folder = rules(RULES);
    let old = Authority::new();
    let new = Authority::new();
    let server = start(folder.path(), &old.issue("tollgate", 2100), &[]);
    assert!(connect(server.http, old.client(None, &[])).await.is_ok());
    std::fs::write(folder.path().join("tls.key"), "no key").expect("written");
    server.signal("HUP");
    while !server.printed().contains("certificate reload failed; keeping the current one") {
        tokio::task::yield_now().await;
    }
    assert!(connect(server.http, old.client(None, &[])).await.is_ok(), "the old one is in use");
    new.issue("tollgate", 2100).write(folder.path());
    server.signal("HUP");
    for surface in [server.grpc, server.http, server.resp] {
        while connect(surface, new.client(None, &[])).await.is_err() {}
    }
    assert!(connect(server.http, old.client(None, &[])).await.is_err());
}

#[test]
fn a_certificate_that_cannot_be_used_stops_the_start_with_its_file() {
    let folder = rules(RULES);
    let (_, key) = Authority::new().issue("tollgate", 2100).write(folder.path());
    std::fs::write(folder.path().join("tls.crt"), "").expect("written");
    let cert = folder.path().join("tls.crt").display().to_string();
    let flags = ["--tls-cert", &cert, "--tls-key", &key.display().to_string()];
    let ended = Start::new(folder.path()).args(flags).try_go().err().expect("no start");
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.printed.contains(&format!("{cert}: holds no certificate")), "{}", ended.printed);
}
