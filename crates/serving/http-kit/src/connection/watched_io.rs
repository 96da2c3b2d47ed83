//! The socket under `hyper`: records in [`Activity`] what goes through it, and holds back the replies that
//! `hyper` makes by itself.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate_net::ReadAhead;

use super::activity::Activity;

/// The socket, recording in [`Activity`] what goes through it.
pub(super) struct WatchedIo<IO> {
    io: ReadAhead<IO>,
    activity: Arc<Activity>,
}

impl<IO> WatchedIo<IO> {
    pub(super) fn new(io: IO, activity: &Arc<Activity>) -> Self {
        Self { io: ReadAhead::new(io), activity: Arc::clone(activity) }
    }

    /// The socket itself; what was read ahead is returned by its next reads.
    pub(super) const fn socket(&mut self) -> &mut ReadAhead<IO> {
        &mut self.io
    }

    fn record(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.activity.set_blocked(written.is_pending());
        if let Poll::Ready(Ok(bytes)) = written {
            self.activity.send(bytes);
        }
        written
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for WatchedIo<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buffer);
        if read.is_ready() {
            self.activity.receive(buffer.filled().len() - before);
        }
        read
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WatchedIo<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.activity.is_own_reply(bytes) {
            // The connection sees it, and asks no more of `hyper`.
            return Poll::Pending;
        }
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.record(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.record(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    /// `hyper` does not read while a request is answered, but flushes each time that it is polled: here the
    /// client of a request that waits is looked after.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { io, activity } = &mut *self;
        activity.presence.look(io, cx);
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.activity.set_blocked(flushed.is_pending());
        if flushed.is_ready() {
            self.activity.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.activity.is_unreadable() {
            return Poll::Pending;
        }
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
