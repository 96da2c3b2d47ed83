//! Tracks whether a peer is still there while its request waits: during the wait, its connection reads ahead,
//! and so notices the end.
//!
//! A peer that closes its connection looks like a peer that only ends its sending side, until something is
//! written to it. So this is not the place to drop a reply: the waiting request decides what the end means.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most bytes that are read ahead. If a peer sends more, the end after them is not seen.
const MOST_AHEAD: usize = 4096;

/// Whether the peer of one connection has sent its last byte, for those that wait on its behalf.
///
/// # Example
/// ```
/// use std::task::{Context, Poll, Waker};
/// use tollgate_net::Presence;
///
/// let (presence, mut cx) = (Presence::default(), Context::from_waker(Waker::noop()));
/// assert!(presence.poll_left(&mut cx).is_pending());
/// assert!(presence.is_watched()); // the connection looks from now on
/// presence.leave();
/// assert_eq!(presence.poll_left(&mut cx), Poll::Ready(()));
/// ```
#[derive(Debug, Default)]
pub struct Presence {
    has_left: AtomicBool,
    is_watched: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Presence {
    /// Ready once the peer has sent its last byte. From the first call on, the connection looks for it.
    pub fn poll_left(&self, cx: &Context<'_>) -> Poll<()> {
        if self.has_left() {
            return Poll::Ready(());
        }
        let mut waiting = self.waiting.lock();
        if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        drop(waiting);
        self.is_watched.store(true, Relaxed);
        if self.has_left() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Whether a request waits.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.is_watched.load(Relaxed)
    }

    /// Whether the peer has sent its last byte, as far as is known.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.has_left.load(Relaxed)
    }

    /// Ends the wait: the request is answered.
    pub fn unwatch(&self) {
        if self.is_watched() {
            self.is_watched.store(false, Relaxed);
            self.waiting.lock().clear();
        }
    }

    /// The peer has sent its last byte. Wakes those that wait.
    pub fn leave(&self) {
        self.has_left.store(true, Relaxed);
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Looks for the last byte while a request waits; true when it has come now.
    pub fn look<IO: AsyncRead + Unpin>(&self, io: &mut ReadAhead<IO>, cx: &mut Context<'_>) -> bool {
        let comes_now = self.is_watched() && !self.has_left() && io.poll_end(cx).is_ready();
        if comes_now {
            self.leave();
        }
        comes_now
    }
}

/// A connection that can be read ahead by a few kilobytes. The bytes are returned by the next reads.
#[derive(Debug)]
pub struct ReadAhead<IO> {
    io: IO,
    ahead: Vec<u8>,
    has_ended: bool,
}

impl<IO> ReadAhead<IO> {
    /// Nothing is read ahead yet.
    pub const fn new(io: IO) -> Self {
        Self { io, ahead: Vec::new(), has_ended: false }
    }

    /// Returns `bytes` by the next reads, before anything else.
    pub fn put_back(&mut self, bytes: &[u8]) {
        self.ahead.splice(..0, bytes.iter().copied());
    }
}

impl<IO: AsyncRead + Unpin> ReadAhead<IO> {
    /// Ready when the peer has sent its last byte or the connection has failed.
    pub fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.has_ended {
            let mut bytes = [0; 1024];
            let room = (MOST_AHEAD - self.ahead.len()).min(bytes.len());
            if room == 0 {
                return Poll::Pending;
            }
            let mut read = ReadBuf::new(&mut bytes[..room]);
            match Pin::new(&mut self.io).poll_read(cx, &mut read) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !read.filled().is_empty() => {
                    self.ahead.extend_from_slice(read.filled())
                }
                Poll::Ready(_) => self.has_ended = true,
            }
        }
        Poll::Ready(())
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for ReadAhead<IO> {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() && !self.has_ended {
            return Pin::new(&mut self.io).poll_read(cx, buffer);
        }
        let read = self.ahead.len().min(buffer.remaining());
        buffer.put_slice(&self.ahead[..read]);
        self.ahead.drain(..read);
        if self.ahead.is_empty() {
            self.ahead = Vec::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for ReadAhead<IO> {
    #[inline]
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    #[inline]
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "in a test a panic is the finding")]

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn what_was_read_ahead_is_read_next_and_then_the_end() {
        let (ours, mut peer) = duplex(64 * 1024);
        let mut ours = ReadAhead::new(ours);
        let mut cx = Context::from_waker(Waker::noop());
        peer.write_all(b"one two").await.expect("room");
        assert!(ours.poll_end(&mut cx).is_pending());
        peer.shutdown().await.expect("open");
        assert!(ours.poll_end(&mut cx).is_ready());
        let mut three = [0; 3];
        ours.read_exact(&mut three).await.expect("three bytes");
        let mut rest = Vec::new();
        ours.read_to_end(&mut rest).await.expect("the end");
        assert_eq!((&three, rest.as_slice()), (b"one", &b" two"[..]));
        ours.write_all(b"reply").await.expect("the peer still reads");
    }

    #[tokio::test]
    async fn no_more_is_read_ahead_than_a_few_kilobytes() {
        let (ours, mut peer) = duplex(64 * 1024);
        let mut ours = ReadAhead::new(ours);
        let sent: Vec<u8> = (0..=MOST_AHEAD).map(|nth| nth as u8).collect();
        peer.write_all(&sent).await.expect("room");
        drop(peer);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(ours.poll_end(&mut cx).is_pending(), "one byte more hides the end");
        assert_eq!(ours.ahead.len(), MOST_AHEAD);
        let mut read = Vec::new();
        ours.read_to_end(&mut read).await.expect("the end");
        assert_eq!(read, sent);
    }
}
