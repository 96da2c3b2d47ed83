//! Closes a connection only once its peer has read everything.
//!
//! A socket that is closed while bytes of the peer wait in it resets the connection, and the peer may lose
//! replies that it has not read yet. HTTP/2 peers send acknowledgements and window updates until the end. So
//! after the last frame this waits for the peer to close its side, and discards what still arrives.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tollgate_net::LazyTimer;

/// Longest wait for the peer to close its side.
const LINGER: Duration = Duration::from_secs(1);

/// A stream whose shutdown ends when the peer has closed its side too, or had [`LINGER`] to do so.
pub(crate) struct Lingering<IO> {
    io: IO,
    timer: LazyTimer,
    /// Until when it waits, once its own side is closed.
    until: Option<Instant>,
}

impl<IO> Lingering<IO> {
    pub(crate) const fn new(io: IO) -> Self {
        Self { io, timer: LazyTimer::new(), until: None }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Lingering<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { io, timer, until } = self.get_mut();
        let until = match *until {
            Some(until) => until,
            None => {
                ready!(Pin::new(&mut *io).poll_shutdown(cx))?;
                *until.insert(Instant::now() + LINGER)
            }
        };
        let mut discarded = [0; 4 * 1024];
        loop {
            if timer.poll(cx, until).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut buffer = ReadBuf::new(&mut discarded);
            let read = ready!(Pin::new(&mut *io).poll_read(cx, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_ends_when_the_peer_has_closed_its_side_and_reads_what_comes_before() {
        let (mut peer, ours) = tokio::io::duplex(16);
        let mut ours = Lingering::new(ours);
        ours.write_all(b"the last frame").await.expect("room");
        let began = Instant::now();
        let closing = tokio::spawn(async move { ours.shutdown().await });
        peer.write_all(&[7; 10_000]).await.expect("read, though nobody wants it");
        let mut read = String::new();
        peer.read_to_string(&mut read).await.expect("its side is closed");
        assert!(!closing.is_finished() && read == "the last frame");
        drop(peer);
        closing.await.expect("no panic").expect("closed");
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_never_closes_has_a_second() {
        let (_peer, ours) = tokio::io::duplex(16);
        let began = Instant::now();
        Lingering::new(ours).shutdown().await.expect("closed");
        assert!((LINGER..LINGER * 2).contains(&began.elapsed()), "{:?}", began.elapsed());
    }
}
