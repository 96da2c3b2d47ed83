//! The accept loop without TLS: its bounds, its end, and what one connection can do to the others.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::any::Any;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::common::{TestServer, rest, say};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tollgate_net::{AcceptLimits, Address, Listeners, Sockets, Stream, Surface};

#[tokio::test]
async fn connections_above_the_cap_are_closed_and_places_come_back() {
    let server =
        TestServer::start(None, AcceptLimits { max_connections: 3, ..AcceptLimits::default() }).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = server.connect().await;
        assert_eq!(say(&mut stream, "one of three").await, "one of three");
        held.push(stream);
    }
    for closed in 1..=20 {
        assert_eq!(rest(&mut server.connect().await).await, b"");
        assert_eq!(server.counts(), [3, 3 + closed, closed, 0, 0]);
    }
    for held in &mut held {
        assert_eq!(say(held, "still").await, "still");
    }
    drop(held.pop());
    server.opened(2).await;
    let mut next = server.connect().await;
    assert_eq!(say(&mut next, "a place").await, "a place");
    assert_eq!(rest(&mut server.connect().await).await, b"", "and one only");
    assert_eq!(server.counts(), [3, 25, 21, 1, 0]);
}

/// The kernel reports a listening socket's backlog as its send queue.
#[test]
fn the_backlog_is_that_of_the_setting() {
    let sockets = Sockets { count: 2, backlog: 16, ..Sockets::default() };
    let listeners = Listeners::bind("127.0.0.1:0", sockets).expect("a free port");
    let Address::Tcp(address) = listeners.address else { panic!("{listeners:?}") };
    let port = format!("sport = :{}", address.port());
    let Ok(output) = Command::new("ss").args(["-Hltn", &port]).output() else {
        println!("SKIPPED the backlog of a socket: there is no ss");
        return;
    };
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let backlogs: Vec<_> = table.lines().map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(backlogs, [Some("16"), Some("16")], "{table}");
}

#[tokio::test]
async fn a_panic_costs_one_connection() {
    let server =
        TestServer::start(None, AcceptLimits { max_connections: 2, ..AcceptLimits::default() }).await;
    let mut other = server.connect().await;
    assert_eq!(say(&mut other, "before").await, "before");
    for panics in 1..=5 {
        let mut hurt = server.connect().await;
        assert_eq!(say(&mut hurt, "panic").await, "");
        server.opened(1).await;
        assert_eq!(server.counts(), [1, 1 + panics, 0, panics, 0]);
    }
    assert_eq!(say(&mut other, "after").await, "after");
}

#[tokio::test]
async fn a_drain_stops_accepting_and_lets_each_connection_end() {
    let server = TestServer::start(None, AcceptLimits::default()).await;
    let mut streams = [server.connect().await, server.connect().await];
    for stream in &mut streams {
        assert_eq!(say(stream, "here").await, "here");
    }
    server.drain.send_replace(true);
    for stream in &mut streams {
        assert_eq!(rest(stream).await, b"bye");
    }
    server.ended.await.expect("no panic");
    assert!(TcpStream::connect(server.address).await.is_err(), "nobody listens");
    assert_eq!((server.stats.open(), server.stats.closed.get()), (0, 2));
}

/// Serves until the peer goes, drain or not.
struct Patient;

impl Surface for Patient {
    async fn serve<IO>(self: Arc<Self>, mut io: IO, _drain: watch::Receiver<bool>)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        rest(&mut io).await;
    }
}

#[tokio::test]
async fn new_connections_are_turned_away_while_old_ones_finish() {
    let server = TestServer::with(Patient, None, AcceptLimits::default()).await;
    let old = server.connect().await;
    server.opened(1).await;
    server.drain.send_replace(true);
    let mut is_taken = true;
    for _ in 0..1_000 {
        is_taken = TcpStream::connect(server.address).await.is_ok();
        if !is_taken {
            break;
        }
    }
    assert!(!is_taken, "the next server may have the port");
    assert!(!server.ended.is_finished());
    drop(old);
    server.ended.await.expect("no panic");
}

/// Clients connect as fast as they can while the listener closes: one that is connected is served.
#[test]
fn no_connection_that_was_made_is_reset_when_the_listener_closes() {
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(close_while_clients_connect);
        }
    });
}

fn close_while_clients_connect() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let server = runtime.block_on(TestServer::with(Patient, None, AcceptLimits::default()));
    let to = server.address;
    let served = AtomicU64::new(0);
    let ask_until_refused = || -> std::io::Result<()> {
        while let Ok(mut stream) = std::net::TcpStream::connect(to) {
            stream.write_all(b"request")?;
            stream.shutdown(Shutdown::Write)?;
            stream.read_to_end(&mut Vec::new())?;
            served.fetch_add(1, Relaxed);
        }
        Ok(())
    };
    std::thread::scope(|threads| {
        let clients = [(); 4].map(|()| threads.spawn(ask_until_refused));
        runtime.block_on(async {
            while served.load(Relaxed) < 50 {
                tokio::task::yield_now().await;
            }
            server.drain.send_replace(true);
            server.ended.await.expect("no panic");
        });
        for client in clients {
            client.join().expect("no panic").expect("not reset");
        }
    });
}

#[tokio::test]
async fn a_drain_before_the_first_connection_ends_at_once() {
    let server = TestServer::start(None, AcceptLimits::default()).await;
    server.drain.send_replace(true);
    server.ended.await.expect("no panic");
}

#[tokio::test]
async fn without_anybody_to_say_drain_connections_are_accepted_for_ever() {
    let TestServer { address, drain, ended, .. } = TestServer::start(None, AcceptLimits::default()).await;
    let mut before = TcpStream::connect(address).await.expect("accepted");
    drop(drain);
    for _ in 0..3 {
        let mut after = TcpStream::connect(address).await.expect("accepted");
        assert_eq!(say(&mut after, "after").await, "after");
    }
    assert_eq!(say(&mut before, "before").await, "before");
    assert!(!ended.is_finished());
}

/// Says whether small replies go out at once.
struct Prompt;

impl Surface for Prompt {
    async fn serve<IO>(self: Arc<Self>, mut io: IO, _drain: watch::Receiver<bool>)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = (&io as &dyn Any).downcast_ref::<Stream>();
        let prompt = stream.is_some_and(|io| matches!(io, Stream::Tcp(io) if io.nodelay().unwrap()));
        let _ = io.write_all(if prompt { b"prompt" } else { b"late" }).await;
    }
}

#[tokio::test]
async fn small_replies_go_out_at_once() {
    let server = TestServer::with(Prompt, None, AcceptLimits::default()).await;
    assert_eq!(rest(&mut server.connect().await).await, b"prompt");
}
