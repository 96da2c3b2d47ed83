//! A connection whose first bytes were read already, and are read again.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// A connection, and the bytes to read before its own.
pub(crate) struct Rewound<IO> {
    first: Vec<u8>,
    /// Bytes of `first` that were read again.
    read: usize,
    io: IO,
}

impl<IO: AsyncRead + Unpin> Rewound<IO> {
    /// Reads from `io` until it is certain whether it begins with `start`. Returns that too.
    ///
    /// # Errors
    /// When it cannot be read, or ends without a byte.
    pub(crate) async fn until_it_differs(mut io: IO, start: &[u8]) -> io::Result<(Self, bool)> {
        let mut first = vec![0; start.len()];
        let mut filled = 0;
        while filled < start.len() && first[..filled] == start[..filled] {
            match io.read(&mut first[filled..]).await? {
                0 if filled == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                0 => break,
                bytes => filled += bytes,
            }
        }
        first.truncate(filled);
        let is_start = first == start;
        Ok((Self { first, read: 0, io }, is_start))
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Rewound<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { first, read, io } = &mut *self;
        if *read == first.len() {
            return Pin::new(io).poll_read(cx, buffer);
        }
        let bytes = buffer.remaining().min(first.len() - *read);
        buffer.put_slice(&first[*read..*read + bytes]);
        *read += bytes;
        if *read == first.len() {
            (*first, *read) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Rewound<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[test]
    fn what_was_looked_at_is_read_again_however_it_arrives() {
        let runtime = crate::worker::small_runtime().expect("a runtime");
        runtime.block_on(async {
            for (sent, is_start) in [
                ("PRI * and more", true),
                ("PRI *", true),
                ("PRI", false),
                ("PUT /x", false),
                ("GET / HTTP/1.1", false),
                ("P", false),
            ] {
                for step in [1, 2, 100] {
                    let (mut ours, theirs) = tokio::io::duplex(64);
                    let writing = async {
                        for part in sent.as_bytes().chunks(step) {
                            ours.write_all(part).await.expect("written");
                            tokio::task::yield_now().await;
                        }
                        drop(ours);
                    };
                    let (looked, ()) = tokio::join!(Rewound::until_it_differs(theirs, b"PRI *"), writing);
                    let (mut io, found) = looked.expect("read");
                    let mut read = String::new();
                    io.read_to_string(&mut read).await.expect("read");
                    assert_eq!((found, &*read), (is_start, sent), "{step} bytes at a time");
                }
            }
            let (ours, theirs) = tokio::io::duplex(64);
            drop(ours);
            assert!(Rewound::until_it_differs(theirs, b"PRI *").await.is_err());
        });
    }
}
