//! The end of the server: commands that have arrived are answered, later ones are not executed.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::common::{NOON, api, command};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::sync::watch;
use tollgate_core::ManualClock;
use tollgate_net::Surface;
use tollgate_resp_api::RespSettings;

/// A connection of which each read returns at most this number of bytes, as records of TLS do.
struct Pieces {
    io: DuplexStream,
    most: usize,
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let most = self.most;
        let mut part = out.take(most);
        let polled = Pin::new(&mut self.io).poll_read(cx, &mut part);
        let filled = part.filled().len();
        out.advance(filled);
        polled
    }
}

impl AsyncWrite for Pieces {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn commands_that_have_arrived_when_draining_begins_are_all_answered_and_no_later_one_is_executed() {
    const ROOM: usize = 16 << 20;
    let ping = command("PING");
    for (most, commands) in [(usize::MAX, 150_000), (700, 20_000), (5, 30)] {
        let api = api(&ManualClock::at(NOON), RespSettings::default());
        let (mut client, io) = tokio::io::duplex(ROOM);
        client.write_all(&ping.repeat(commands)).await.expect("there is room");
        let (_sender, drain) = watch::channel(true);
        let serving = tokio::spawn(Arc::clone(&api).serve(Pieces { io, most }, drain));
        let mut replies = Vec::new();
        client.read_to_end(&mut replies).await.expect("it ends");
        assert_eq!(replies.len(), 7 * commands, "bytes of replies, in pieces of {most}");
        assert!(replies.chunks(7).all(|reply| reply == b"+PONG\r\n"));
        client.write_all(&ping).await.expect("it is read");
        drop(client);
        serving.await.expect("no panic");
        assert_eq!(api.stats().commands(), commands as u64, "those that were answered");
    }
}

/// A client that never stops sending does not hold the end.
#[tokio::test]
async fn a_client_that_sends_without_end_is_served_for_a_bounded_time() {
    let api = api(&ManualClock::at(NOON), RespSettings::default());
    let (mut client, io) = tokio::io::duplex(1 << 16);
    let (_sender, drain) = watch::channel(true);
    let pings = command("PING").repeat(1_000);
    client.write_all(&pings).await.expect("there is room");
    let serving = tokio::spawn(Arc::clone(&api).serve(io, drain));
    let (mut replies, mut commands) = tokio::io::split(client);
    let sending = tokio::spawn(async move { while commands.write_all(&pings).await.is_ok() {} });
    let mut bytes = vec![0; 1 << 16];
    while replies.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
    serving.await.expect("no panic");
    drop(replies);
    sending.await.expect("it fails to send");
    let executed = api.stats().commands();
    assert!((1..2_000_000).contains(&executed), "{executed} commands");
}
