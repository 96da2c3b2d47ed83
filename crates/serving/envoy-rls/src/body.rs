//! gRPC messages in HTTP/2 bodies: a flag, a length, the bytes. Not here: what the bytes say.

use std::pin::pin;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::RecvStream;
use prost::Message;
use tollgate_net::{BudgetShare, OverBudget};

use crate::status::{Code, Reason, Status};

/// Bytes before each message: one flag and four of length.
pub(crate) const PREFIX: usize = 5;

/// Bytes of messages that a peer may send before it has taken the reply to an earlier one.
const MAX_AHEAD: usize = 4 * 1024;

/// The messages of one request body.
pub(crate) struct Incoming {
    stream: RecvStream,
    held: BytesMut,
    /// The message of a unary call, until the end of the body has arrived.
    first: Option<Bytes>,
    /// Bytes held of the budget that all connections share for incomplete messages.
    share: BudgetShare,
    max_message: usize,
    /// Error of a unary call whose remaining bytes are read and dropped.
    failed: Option<Status>,
}

/// Most bytes of a failed call that are read and dropped. A reply while the caller still sends could look
/// like a broken connection.
const MOST_DROPPED: usize = 64 * 1024 * 1024;

impl Incoming {
    pub(crate) fn new(stream: RecvStream, max_message: usize, share: BudgetShare) -> Self {
        Self { stream, held: BytesMut::new(), first: None, share, max_message, failed: None }
    }

    /// The only message of a unary call, without its prefix. Copies nothing when it came in one piece. If the
    /// message is too large, the rest is read before the error is returned.
    ///
    /// May be dropped and called again: what has arrived is kept.
    pub(crate) async fn only(&mut self) -> Result<Bytes, Status> {
        if self.failed.is_none() {
            match self.read_only().await {
                Err(status) if status.reason.is_of_client() => {
                    (self.held, self.first) = (BytesMut::new(), None);
                    // Shrinking never fails.
                    let _ = self.share.resize(0);
                    self.failed = Some(status);
                }
                result => return result,
            }
        }
        let mut left = MOST_DROPPED;
        while let Ok(Some(chunk)) = self.chunk().await {
            left = left.saturating_sub(chunk.len());
            if left == 0 {
                break;
            }
        }
        Err(self.failed.take().unwrap_or_else(nothing))
    }

    /// The error of a call whose message is incomplete, if it is known already.
    pub(crate) const fn failed(&mut self) -> Option<Status> {
        self.failed.take()
    }

    async fn read_only(&mut self) -> Result<Bytes, Status> {
        if self.first.is_none() && self.held.is_empty() {
            let Some(chunk) = self.chunk().await? else { return Err(nothing()) };
            let length = self.length(&chunk)?;
            if length.is_some_and(|length| chunk.len() == PREFIX + length) && self.stream.is_end_stream() {
                return Ok(chunk.slice(PREFIX..));
            }
            self.hold(&chunk)?;
        }
        if self.first.is_none() {
            self.first = Some(self.next().await?.ok_or_else(nothing)?);
        }
        if self.next().await?.is_some() {
            return Err(Status::invalid("the call holds more than one message"));
        }
        self.first.take().ok_or_else(nothing)
    }

    /// The next message, without its prefix; `None` at the end of the body.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(length) = self.length(&self.held)?
                && self.held.len() >= PREFIX + length
            {
                self.held.advance(PREFIX);
                return Ok(Some(self.held.split_to(length).freeze()));
            }
            match self.chunk().await? {
                Some(chunk) => self.hold(&chunk)?,
                None if self.held.is_empty() => return Ok(None),
                None => return Err(Status::invalid("the body ends in the middle of a message")),
            }
        }
    }

    /// Returns the result of `sent`. Bytes that arrive meanwhile are held, at most [`MAX_AHEAD`], so that
    /// HTTP/2 does not hold a whole window of them.
    pub(crate) async fn while_sending<T>(&mut self, sent: impl Future<Output = T>) -> Result<T, Status> {
        let mut sent = pin!(sent);
        loop {
            let chunk = tokio::select! {
                biased;
                sent = &mut sent => return Ok(sent),
                chunk = self.chunk() => chunk?,
            };
            let Some(chunk) = chunk else { return Ok(sent.await) };
            self.hold(&chunk)?;
            if self.held.len() > MAX_AHEAD {
                let message = "too many bytes of messages before the replies to earlier ones were read";
                return Err(Status::new(Code::ResourceExhausted, message));
            }
        }
    }

    /// Length of the message that `bytes` begin with, once its prefix is there.
    fn length(&self, bytes: &[u8]) -> Result<Option<usize>, Status> {
        let Some((&[flag, a, b, c, d], _)) = bytes.split_first_chunk::<PREFIX>() else { return Ok(None) };
        if flag != 0 {
            return Err(match flag {
                1 => Status::new(Code::Internal, "the message is compressed, and no grpc-encoding was named"),
                _ => Status::new(Code::Internal, "the message's first byte is neither 0 nor 1"),
            });
        }
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if length > self.max_message {
            let message = format!("a message of {length} bytes; the largest allowed is {}", self.max_message);
            return Err(Status::new(Code::ResourceExhausted, message).because(Reason::TooLarge));
        }
        Ok(Some(length))
    }

    fn hold(&mut self, chunk: &[u8]) -> Result<(), Status> {
        self.share.grow(chunk.len()).map_err(|OverBudget| {
            Status::new(Code::ResourceExhausted, "too many bytes of half-arrived messages")
        })?;
        self.held.extend_from_slice(chunk);
        Ok(())
    }

    /// The next bytes. The peer may then send as much again.
    async fn chunk(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            match self.stream.data().await {
                None => return Ok(None),
                Some(Err(_)) => return Err(Status::new(Code::Internal, "the call was cut off")),
                Some(Ok(chunk)) => {
                    // Fails only when the stream is gone, which the next read reports.
                    let _ = self.stream.flow_control().release_capacity(chunk.len());
                    if !chunk.is_empty() {
                        return Ok(Some(chunk));
                    }
                }
            }
        }
    }
}

fn nothing() -> Status {
    Status::invalid("the call holds no message")
}

/// A message with its prefix.
pub(crate) fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut out = BytesMut::with_capacity(PREFIX + length);
    out.put_u8(0);
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // Fails only where the buffer cannot grow; this one can.
    let _ = message.encode(&mut out);
    out.freeze()
}

/// Decodes a message of a rare call.
pub(crate) fn parsed<M: Message + Default>(bytes: Bytes) -> Result<M, Status> {
    M::decode(bytes).map_err(|error| {
        Status::invalid(format!("the message cannot be read: {error}")).because(Reason::Malformed)
    })
}
