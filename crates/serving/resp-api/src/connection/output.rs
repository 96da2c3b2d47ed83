//! Writing replies, and ending a connection so that its client receives the last one.

use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tollgate_store::Store;

use super::end::End;
use crate::buffers::INPUT;
use crate::context::Context;

/// Longest time, and most bytes, of reading after the last reply: a client that is cut off while it sends may
/// never see the reply.
pub(super) const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 1024 * 1024;

/// Writes `out` and clears it.
#[inline]
pub(super) async fn write<IO, S>(io: &mut IO, out: &mut Vec<u8>, context: &Context<S>) -> Result<(), End>
where
    IO: AsyncWrite + Unpin + Send,
    S: Store,
{
    if out.is_empty() {
        return Ok(());
    }
    let written = match poll_once(|cx| Pin::new(&mut *io).poll_write(cx, out)).await {
        Poll::Ready(result) => result?,
        Poll::Pending => 0,
    };
    if written < out.len() {
        let held = out.capacity();
        write_slowly(io, &out[written..], held, context).await?;
    }
    out.clear();
    // A socket has nothing to flush, but TLS may.
    match poll_once(|cx| Pin::new(&mut *io).poll_flush(cx)).await {
        Poll::Ready(result) => Ok(result?),
        Poll::Pending => write_slowly(io, &[], out.capacity(), context).await,
    }
}

/// Waits until the client reads its replies. Nothing is read from it meanwhile; its buffers, of which the
/// replies take `held` bytes, count against the budget of all such clients.
#[cold]
async fn write_slowly<IO, S>(io: &mut IO, rest: &[u8], held: usize, context: &Context<S>) -> Result<(), End>
where
    IO: AsyncWrite + Unpin + Send,
    S: Store,
{
    let mut unread = context.unread.share();
    if unread.grow(INPUT + held).is_err() && !unread.is_alone() {
        context.stats.over_budget.fetch_add(1, Relaxed);
        return Err(End::Cut);
    }
    let write = async {
        io.write_all(rest).await?;
        io.flush().await
    };
    let Ok(result) = timeout(context.settings.write_timeout, write).await else {
        context.stats.slow_readers.fetch_add(1, Relaxed);
        return Err(End::Cut);
    };
    Ok(result?)
}

/// Closes the sending side, and reads for a while: a client whose bytes are rejected may lose the last reply.
pub(super) async fn linger<IO: AsyncRead + AsyncWrite + Unpin>(io: &mut IO) -> io::Result<()> {
    io.shutdown().await?;
    let mut left = LINGER_BYTES;
    let mut bytes = [0; 1024];
    while left > 0 {
        match io.read(&mut bytes).await? {
            0 => break,
            read => left = left.saturating_sub(read),
        }
    }
    Ok(())
}

/// The result of polling now.
async fn poll_once<T>(mut poll: impl FnMut(&mut TaskContext<'_>) -> Poll<T>) -> Poll<T> {
    std::future::poll_fn(|cx| Poll::Ready(poll(cx))).await
}
