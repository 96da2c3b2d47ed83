//! TLS in front of a surface: which clients get through, which do not, and at what price for the others.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::{TestServer, rest, say};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tollgate_net::{AcceptLimits, Tls, TlsFiles};
use tollgate_testkit::certificates::Authority;

/// A certificate of `authority` for a surface that speaks `alpn`.
fn tls(authority: &Authority, client_ca: Option<&Authority>, alpn: &[&str]) -> Arc<Tls> {
    let folder = TempDir::new().expect("a folder");
    let (cert, key) = authority.issue("server", 2060).write(folder.path());
    let client_ca = client_ca.map(|authority| {
        let file = folder.path().join("ca.crt");
        std::fs::write(&file, authority.pem()).expect("written");
        file
    });
    let files = TlsFiles { cert, key, client_ca, client_name: None, is_client_optional: false };
    Arc::new(Tls::load(files, alpn).expect("files without fault"))
}

async fn connect(server: &TestServer, client: Arc<ClientConfig>) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(client).connect(name, server.connect().await).await
}

/// The reply to `word` on a new connection; empty when it fails.
async fn ask(server: &TestServer, client: &Arc<ClientConfig>, word: &str) -> String {
    match connect(server, Arc::clone(client)).await {
        Ok(mut stream) => say(&mut stream, word).await,
        Err(_) => String::new(),
    }
}

#[tokio::test]
async fn old_and_new_clients_are_served_and_agree_on_the_protocol() {
    let authority = Authority::new();
    let server = TestServer::start(Some(tls(&authority, None, &["h2"])), AcceptLimits::default()).await;
    for (versions, alpn, agreed) in [
        (&[&rustls::version::TLS13], &["h2"][..], Some(&b"h2"[..])),
        (&[&rustls::version::TLS12], &["http/1.1", "h2"], Some(b"h2")),
        (&[&rustls::version::TLS13], &[], None),
    ] {
        let mut client = (*authority.client(None, alpn)).clone();
        let builder = ClientConfig::builder_with_provider(Arc::clone(client.crypto_provider()));
        let builder = builder.with_protocol_versions(versions).expect("versions");
        let mut only = builder.with_root_certificates(authority.roots()).with_no_client_auth();
        std::mem::swap(&mut only.alpn_protocols, &mut client.alpn_protocols);
        let mut stream = connect(&server, Arc::new(only)).await.expect("through");
        assert_eq!(stream.get_ref().1.alpn_protocol(), agreed);
        assert_eq!(stream.get_ref().1.protocol_version(), Some(versions[0].version));
        assert_eq!(say(&mut stream, "hello").await, "hello");
    }
    let other = authority.client(None, &["http/1.1"]);
    assert!(connect(&server, other).await.is_err(), "no protocol in common");
    server.opened(0).await;
    assert_eq!(server.counts(), [0, 4, 0, 4, 1]);
}

#[tokio::test]
async fn a_surface_that_names_no_protocol_takes_every_client() {
    let authority = Authority::new();
    let server = TestServer::start(Some(tls(&authority, None, &[])), AcceptLimits::default()).await;
    for alpn in [&[][..], &["redis"], &["h2", "http/1.1"]] {
        assert_eq!(ask(&server, &authority.client(None, alpn), "PING").await, "PING");
    }
}

#[tokio::test]
async fn bytes_that_are_not_tls_end_their_own_connection_only() {
    let authority = Authority::new();
    let server = TestServer::start(Some(tls(&authority, None, &[])), AcceptLimits::default()).await;
    let mut other = connect(&server, authority.client(None, &[])).await.expect("through");
    let rude: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\nhost: tollgate\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        &[0; 70_000],
        &[0xff; 70_000],
        b"\x16\x03\x01\xff\xff\x01\xff\xff\xff", // a hello that would be 16 MiB
    ];
    for (number, bytes) in (1..).zip(rude) {
        let mut stream = server.connect().await;
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        assert!(rest(&mut stream).await.len() < 100, "an alert at most");
        server.opened(1).await;
        assert_eq!(server.counts(), [1, 1 + number, 0, number, number]);
        assert_eq!(say(&mut other, "other").await, "other");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_handshake_holds_a_place_until_its_time_is_up() {
    let authority = Authority::new();
    let limits = AcceptLimits { max_connections: 3, handshake_timeout: Duration::from_secs(7) };
    let server = TestServer::start(Some(tls(&authority, None, &[])), limits).await;
    let client = authority.client(None, &[]);
    let began = tokio::time::Instant::now();
    let mut silent = server.connect().await;
    let mut slow = server.connect().await;
    slow.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc").await.expect("sent");
    server.opened(2).await;
    assert_eq!(ask(&server, &client, "between").await, "between");
    server.opened(2).await;
    let held = connect(&server, Arc::clone(&client)).await.expect("the third place");
    assert_eq!(ask(&server, &client, "a fourth").await, "");
    assert_eq!(server.counts(), [3, 5, 1, 1, 0]);
    for stream in [&mut silent, &mut slow] {
        assert_eq!(rest(stream).await, b"");
    }
    assert!(began.elapsed() >= Duration::from_secs(7), "{:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    server.opened(1).await;
    assert_eq!(server.counts(), [1, 5, 1, 3, 2]);
    assert_eq!(ask(&server, &client, "a place").await, "a place");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_drain_leaves_no_time_for_slow_handshakes_and_lets_the_others_finish() {
    let authority = Authority::new();
    let server = TestServer::start(Some(tls(&authority, None, &[])), AcceptLimits::default()).await;
    let client = authority.client(None, &[]);
    let mut silent = server.connect().await;
    let mut served = connect(&server, Arc::clone(&client)).await.expect("through");
    assert_eq!(say(&mut served, "served").await, "served");
    let mut through = connect(&server, client).await.expect("on its side, not yet on the server's");
    let began = tokio::time::Instant::now();
    server.drain.send_replace(true);
    assert_eq!(rest(&mut served).await, b"bye");
    assert_eq!(rest(&mut through).await, b"bye");
    assert_eq!(rest(&mut silent).await, b"");
    server.ended.await.expect("no panic");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(server.stats.tls_failed.get(), 0, "it was we who ended it");
}

#[tokio::test]
async fn a_panic_costs_one_connection() {
    let authority = Authority::new();
    let server = TestServer::start(Some(tls(&authority, None, &[])), AcceptLimits::default()).await;
    let client = authority.client(None, &[]);
    let mut other = connect(&server, Arc::clone(&client)).await.expect("through");
    assert_eq!(ask(&server, &client, "panic").await, "");
    server.opened(1).await;
    assert_eq!(say(&mut other, "after").await, "after");
}

#[tokio::test]
async fn a_client_needs_a_certificate_of_the_authority_that_was_named() {
    let ours = Authority::new();
    let theirs = Authority::new();
    let server = TestServer::start(Some(tls(&ours, Some(&theirs), &[])), AcceptLimits::default()).await;
    let friend = theirs.issue("friend", 2060);
    let stranger = ours.issue("stranger", 2060);
    let expired = theirs.issue("expired", 2020);
    for (own, heard) in [(Some(&friend), "hello"), (None, ""), (Some(&stranger), ""), (Some(&expired), "")] {
        assert_eq!(ask(&server, &ours.client(own, &[]), "hello").await, heard, "{own:?}");
    }
    server.opened(0).await;
    assert_eq!(server.counts(), [0, 4, 0, 4, 3]);
}

#[tokio::test]
async fn a_clients_certificate_must_hold_the_name_that_was_set() {
    let authority = Authority::new();
    let folder = TempDir::new().expect("a folder");
    let (cert, key) = authority.issue("server", 2060).write(folder.path());
    let ca = folder.path().join("ca.crt");
    std::fs::write(&ca, authority.pem()).expect("written");
    let of = |names: &[&str]| authority.issue_for(names, "client", 2060);
    let envoy = of(&["envoy.mesh.internal"]);
    let other = of(&["other.mesh.internal"]);
    let many = of(&["a.mesh.internal", "envoy.mesh.internal"]);
    let pattern = of(&["*.mesh.internal"]);
    let address = of(&["10.0.0.7"]);
    let below = of(&["envoy.mesh.internal.example"]);
    let stranger = Authority::new().issue_for(&["envoy.mesh.internal"], "stranger", 2060);
    for (name, passes) in [
        (None, [true, true, true, true, true, true]),
        (Some("envoy.mesh.internal"), [true, false, true, true, false, false]),
        (Some("10.0.0.7"), [false, false, false, false, true, false]),
    ] {
        let cert = cert.clone();
        let key = key.clone();
        let client_ca = Some(ca.clone());
        let files = TlsFiles {
            cert,
            key,
            client_ca,
            client_name: name.map(str::to_owned),
            is_client_optional: false,
        };
        let tls = Arc::new(Tls::load(files, &[]).expect("files without fault"));
        let server = TestServer::start(Some(tls), AcceptLimits::default()).await;
        for (own, passes) in [&envoy, &other, &many, &pattern, &address, &below].into_iter().zip(passes) {
            let heard = ask(&server, &authority.client(Some(own), &[]), "hello").await;
            assert_eq!(heard == "hello", passes, "{name:?} {own:?}");
        }
        for own in [None, Some(&stranger)] {
            assert_eq!(ask(&server, &authority.client(own, &[]), "hello").await, "", "{name:?} {own:?}");
        }
    }
    let files = TlsFiles {
        cert,
        key,
        client_ca: Some(ca),
        client_name: Some("no name".to_owned()),
        is_client_optional: false,
    };
    let error = Tls::load(files, &[]).expect_err("not a name").to_string();
    assert_eq!(
        error,
        "invalid name of clients' certificates \"no name\": expected a DNS name or an IP address"
    );
}
