//! gRPC over TLS, with and without a client's certificate, as other people's clients speak it.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::sync::Arc;

use crate::common::{GrpcClient, SHOULD_RATE_LIMIT, Server, call, descriptor, framed, outcome, request};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tollgate_envoy_rls::proto::rls::Code;
use tollgate_envoy_rls::{Limits, ReplyOptions};
use tollgate_net::{Tls, TlsFiles};
use tollgate_testkit::certificates::{Authority, Issued};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};

/// A server with a certificate of `authority` that asks clients for one of `clients`.
async fn serve(authority: &Authority, clients: Option<&Authority>) -> Server {
    let folder = TempDir::new().expect("a folder");
    let (cert, key) = authority.issue("server", 2060).write(folder.path());
    let client_ca = clients.map(|clients| {
        let file = folder.path().join("ca.crt");
        std::fs::write(&file, clients.pem()).expect("written");
        file
    });
    let tls =
        Tls::load(TlsFiles { cert, key, client_ca, client_name: None, is_client_optional: false }, &["h2"])
            .expect("files without fault");
    Server::behind(Some(Arc::new(tls)), ReplyOptions::default(), Limits::default()).await
}

async fn connect(server: &Server, authority: &Authority, own: Option<&Issued>) -> Option<GrpcClient> {
    let mut tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(authority.pem()))
        .domain_name("localhost");
    if let Some(own) = own {
        tls = tls.identity(Identity::from_pem(&own.cert, &own.key));
    }
    let endpoint = Channel::from_shared(format!("https://{}", server.address)).expect("a URI");
    let channel = endpoint.tls_config(tls).expect("a configuration").connect().await.ok()?;
    Some(GrpcClient(tonic::client::Grpc::new(channel)))
}

#[tokio::test]
async fn calls_through_tls_are_decided_as_any_other() {
    let authority = Authority::new();
    let server = serve(&authority, None).await;
    let mut client = connect(&server, &authority, None).await.expect("through");
    for code in [Code::Ok, Code::Ok, Code::Ok, Code::OverLimit] {
        let answer = client.ask(request(vec![descriptor("api_key", "k")])).await.expect("an answer");
        assert_eq!(answer.overall_code, code as i32);
    }
    assert_eq!((server.stats.open(), server.stats.tls_failed.get()), (1, 0));
}

#[tokio::test]
async fn only_clients_with_a_certificate_of_the_authority_are_answered() {
    let ours = Authority::new();
    let theirs = Authority::new();
    let server = serve(&ours, Some(&theirs)).await;
    for (own, is_answered) in [
        (Some(theirs.issue("envoy", 2060)), true),
        (Some(ours.issue("envoy", 2060)), false),
        (Some(theirs.issue("envoy", 2020)), false), // no longer good
        (None, false),
    ] {
        let answered = match connect(&server, &ours, own.as_ref()).await {
            None => false,
            Some(mut client) => {
                client.0.ready().await.is_ok()
                    && client.ask(request(vec![descriptor("free", "x")])).await.is_ok()
            }
        };
        assert_eq!(answered, is_answered, "{own:?}");
    }
}

#[tokio::test]
async fn cleartext_is_closed_where_tls_is_spoken() {
    let authority = Authority::new();
    let server = serve(&authority, None).await;
    let stream = TcpStream::connect(server.address).await.expect("connected");
    let (_send, connection) = h2::client::handshake(stream).await.expect("sent");
    assert!(connection.await.is_err());
    while server.stats.tls_failed.get() < 1 {
        tokio::task::yield_now().await;
    }
    let mut client = connect(&server, &authority, None).await.expect("through");
    client.ask(request(vec![descriptor("free", "x")])).await.expect("an answer");
}

#[tokio::test]
async fn replies_of_many_calls_at_once_all_go_out_and_a_drain_ends_the_connection() {
    let authority = Authority::new();
    let server = serve(&authority, None).await;
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = TcpStream::connect(server.address).await.expect("connected");
    let connector = TlsConnector::from(authority.client(None, &["h2"]));
    let stream = connector.connect(name, stream).await.expect("through");
    let (send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    let connection = tokio::spawn(connection);
    let body = framed(&request(vec![descriptor("free", "x"); 100]));
    let calls: Vec<_> = (0..500)
        .map(|_| {
            let mut send = send.clone();
            let body = body.clone();
            tokio::spawn(async move {
                send = send.ready().await?;
                let (response, mut out) =
                    send.send_request(call(SHOULD_RATE_LIMIT).body(()).unwrap(), false)?;
                out.send_data(body, true)?;
                outcome(response).await
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.expect("no panic").expect("an answer"), (200, 0));
    }
    drop(send);
    server.drain.send_replace(true);
    connection.await.expect("no panic").expect("ended well");
    server.ended.await.expect("no panic");
}
