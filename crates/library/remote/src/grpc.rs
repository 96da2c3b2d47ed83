//! Questions over gRPC: each is a call, and all calls share one connection. Calls that come together leave in
//! one write, and the service decides those that have arrived together. A call may wait for its turn at the
//! service, since it holds up no other call.

mod line;
mod messages;

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use prost::Message;
use tokio::runtime::Handle;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::time::{Instant, timeout_at};

use self::line::{CallEnd, Http2Connection};
pub(crate) use self::messages::LeaseRequest;
use self::messages::{CheckRequest, CheckResponse, LeaseResponse, ReturnRequest, ReturnResponse};
use crate::answer::Answer;
use crate::connect::{Connector, PAUSE};
use crate::error::RemoteError;
use crate::lease::Offer;
use crate::question::Question;

const CHECK: &str = "/tollgate.check.v1.CheckService/Check";
const LEASE: &str = "/tollgate.check.v1.CheckService/Lease";
const RETURN: &str = "/tollgate.check.v1.CheckService/Return";

/// Longer than any request that a service decides by its rules. The service rejects shorter ones that are too
/// large for it.
const MAX_MESSAGE: usize = 64 << 20;
/// Bytes before each message: one flag and four of length.
const PREFIX: usize = 5;
/// Number of connections on which a service may report a call as not begun before the call fails.
const MOST_ATTEMPTS: usize = 3;

/// Codes of gRPC.
mod code {
    pub(super) const OK: u32 = 0;
    pub(super) const INVALID_ARGUMENT: u32 = 3;
    pub(super) const DEADLINE_EXCEEDED: u32 = 4;
    pub(super) const NOT_FOUND: u32 = 5;
    pub(super) const UNIMPLEMENTED: u32 = 12;
}

/// The service, over gRPC.
#[derive(Debug)]
pub(crate) struct Channel {
    connector: Connector,
    runtime: Handle,
    state: Mutex<ConnectionState>,
    /// Held while a connection is being made.
    connecting: Arc<AsyncMutex<()>>,
    places: Semaphore,
    most: usize,
}

#[derive(Debug, Default)]
struct ConnectionState {
    line: Option<Arc<Http2Connection>>,
    /// End of the pause in which no connection is tried, and the error of the last attempt.
    down: Option<(Instant, String)>,
}

impl Channel {
    pub(crate) fn new(connector: Connector, runtime: Handle, most: usize) -> Self {
        let places = Semaphore::new(most);
        Self { connector, runtime, state: Mutex::default(), connecting: Arc::default(), places, most }
    }

    /// Calls that have no answer yet.
    pub(crate) fn waiting(&self) -> usize {
        self.most - self.places.available_permits()
    }

    /// Asks within `deadline`; also returns the service's offer of a lease.
    pub(crate) async fn check(
        self: &Arc<Self>,
        question: &Question<'_>,
        deadline: Duration,
    ) -> Result<(Answer, Option<Offer>), RemoteError> {
        let mut response: CheckResponse = self.call(CHECK, &CheckRequest::from(question), deadline).await?;
        let offer = response.offer.take().map(Offer::from);
        Ok((response.into(), offer))
    }

    /// Leases permits: the id of the lease, and how long the limit takes to refill them; `None` if there is
    /// none.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        wanted: &LeaseRequest,
        deadline: Duration,
    ) -> Result<Option<(String, Duration)>, RemoteError> {
        let response: LeaseResponse = self.call(LEASE, wanted, deadline).await?;
        Ok(response.refill.filter(|_| !response.id.is_empty()).map(|refill| (response.id, refill.into())))
    }

    /// Ends a lease, of which `used` permits are not returned.
    pub(crate) async fn give_back(
        self: &Arc<Self>,
        id: String,
        used: u64,
        deadline: Duration,
    ) -> Result<(), RemoteError> {
        self.call::<ReturnResponse>(RETURN, &ReturnRequest { id, used }, deadline).await.map(drop)
    }

    /// Makes a call within `deadline`. After an error, permits are taken only if it says that they may have
    /// been.
    async fn call<A: Message + Default>(
        self: &Arc<Self>,
        path: &str,
        message: &impl Message,
        deadline: Duration,
    ) -> Result<A, RemoteError> {
        let Ok(_place) = self.places.try_acquire() else {
            return Err(RemoteError::Busy { waiting: self.waiting() });
        };
        let message = framed(message)?;
        let ends = Instant::now() + deadline;
        let mut asked = None;
        match timeout_at(ends, self.exchange(path, message, ends, &mut asked)).await {
            Ok(Err(RemoteError::NoAnswer { .. })) => Err(RemoteError::NoAnswer { waited: deadline }),
            Ok(reply) => read(&reply?),
            Err(_) => match asked {
                None => Err(RemoteError::NotSent { waited: deadline }),
                Some((line, replies)) => {
                    // A service that answers no call at all has disappeared without closing the connection.
                    if line.replies() == replies {
                        self.discard(&line);
                    }
                    Err(RemoteError::NoAnswer { waited: deadline })
                }
            },
        }
    }

    /// Sends a message, and reads the reply. `asked` is set while permits may have been taken: the
    /// connection, and the number of replies over it so far.
    async fn exchange(
        self: &Arc<Self>,
        path: &str,
        message: Bytes,
        ends: Instant,
        asked: &mut Option<(Arc<Http2Connection>, u64)>,
    ) -> Result<Bytes, RemoteError> {
        let mut cause = String::new();
        for _ in 0..MOST_ATTEMPTS {
            let line = self.line().await?;
            let left = ends.saturating_duration_since(Instant::now());
            let sent = || *asked = Some((Arc::clone(&line), line.replies()));
            match line.call(&self.connector, path, message.clone(), left, sent).await {
                Ok(reply) => return Ok(reply),
                Err(CallEnd::Unprocessed(why)) => {
                    *asked = None;
                    self.discard(&line);
                    cause = why;
                }
                Err(CallEnd::Lost(cause)) => {
                    self.discard(&line);
                    return Err(RemoteError::Lost { cause });
                }
                Err(CallEnd::Status { code, message }) => return Err(failed(code, message)),
            }
        }
        Err(RemoteError::Unreachable { cause })
    }

    /// The connection; makes one if there is none.
    async fn line(self: &Arc<Self>) -> Result<Arc<Http2Connection>, RemoteError> {
        if let Some(known) = self.known() {
            return known;
        }
        let guard = Arc::clone(&self.connecting).lock_owned().await;
        if let Some(known) = self.known() {
            return known;
        }
        // In a task, so that callers in a hurry do not keep it from succeeding.
        let channel = Arc::clone(self);
        let connected = self.runtime.spawn(async move {
            let line = Http2Connection::connect(&channel.connector).await;
            let mut state = channel.state.lock();
            match &line {
                Ok(line) => *state = ConnectionState { line: Some(Arc::clone(line)), down: None },
                Err(cause) => state.down = Some((Instant::now() + PAUSE, cause.clone())),
            }
            drop(guard);
            line
        });
        match connected.await {
            Ok(Ok(line)) => Ok(line),
            Ok(Err(cause)) => Err(RemoteError::Unreachable { cause }),
            Err(_) => Err(RemoteError::Unreachable { cause: "the runtime of the connection ended".into() }),
        }
    }

    /// The connection, or the error of the last attempt; `None` if a connection is to be tried.
    fn known(&self) -> Option<Result<Arc<Http2Connection>, RemoteError>> {
        let state = self.state.lock();
        match (&state.line, &state.down) {
            (Some(line), _) => Some(Ok(Arc::clone(line))),
            (None, Some((until, cause))) if Instant::now() < *until => {
                Some(Err(RemoteError::Unreachable { cause: cause.clone() }))
            }
            _ => None,
        }
    }

    /// Makes further calls use another connection.
    fn discard(&self, line: &Arc<Http2Connection>) {
        let mut state = self.state.lock();
        if state.line.as_ref().is_some_and(|current| Arc::ptr_eq(current, line)) {
            state.line = None;
        }
    }
}

fn framed(message: &impl Message) -> Result<Bytes, RemoteError> {
    let length = message.encoded_len();
    if length > MAX_MESSAGE {
        let detail = format!("a question of {length} bytes; the largest is {MAX_MESSAGE}");
        return Err(RemoteError::Rejected { status: 8, detail });
    }
    let mut out = BytesMut::with_capacity(PREFIX + length);
    out.put_u8(0);
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // Fails only where the buffer cannot grow; this one can.
    let _ = message.encode(&mut out);
    Ok(out.freeze())
}

/// Reads the body of a reply: one message, not compressed.
fn read<A: Message + Default>(body: &[u8]) -> Result<A, RemoteError> {
    let lost = |cause: &str| RemoteError::Lost { cause: cause.to_owned() };
    let Some((&[flag, a, b, c, d], message)) = body.split_first_chunk::<PREFIX>() else {
        return Err(lost("the reply has no message"));
    };
    if flag != 0 || u32::from_be_bytes([a, b, c, d]) as usize != message.len() {
        return Err(lost("the reply is not one message"));
    }
    A::decode(message).map_err(|error| lost(&error.to_string()))
}

/// The error of a status other than OK.
fn failed(status: u32, message: String) -> RemoteError {
    match status {
        code::OK => RemoteError::Lost { cause: "the reply has no message".to_owned() },
        code::INVALID_ARGUMENT | code::NOT_FOUND | code::UNIMPLEMENTED => {
            RemoteError::Rejected { status: u16::try_from(status).unwrap_or(u16::MAX), detail: message }
        }
        code::DEADLINE_EXCEEDED => RemoteError::NoAnswer { waited: Duration::ZERO },
        _ => RemoteError::Lost { cause: format!("status {status}: {message}") },
    }
}
