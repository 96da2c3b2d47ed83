//! One `ShouldRateLimit` call, from the bytes of its message to the bytes of its reply. Not here: how bytes come and go.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use tokio::sync::watch;
use tollgate_core::{Clock, Timestamp};
use tollgate_limiter::{Limiter, RequestError, Scratch};
use tollgate_store::Store;

use crate::body::Budget;
use crate::limits::Limits;
use crate::reply::{self, ReplyOptions};
use crate::status::{Code, Status};
use crate::wire::{Caps, Parsed, Room, WireError};

/// What connections share: the limiter, and how it is spoken for. Make one for each core, so that its cores share nothing here.
#[derive(Debug)]
pub struct RateLimitService<S: Store> {
    limiter: Arc<Limiter<S>>,
    clock: Clocked,
    options: ReplyOptions,
    pub(crate) limits: Limits,
    pub(crate) ready: watch::Receiver<bool>,
    pub(crate) budget: Arc<Budget>,
}

/// A clock that a debug print does not ask.
struct Clocked(Arc<dyn Clock>);

impl std::fmt::Debug for Clocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

/// Where a call came from, for its trace.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    surface: &'static str,
    traceparent: Option<HeaderValue>,
}

impl Caller {
    /// Over HTTP, by somebody who says nothing of traces.
    pub(crate) const HTTP: Self = Self { surface: "http", traceparent: None };
}

/// Buffers of one call, used again by the next.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    room: Room,
    scratch: Scratch,
    out: BytesMut,
}

/// Desks that a thread keeps for calls that wait for their store.
const SPARE: usize = 256;

thread_local! {
    #[expect(clippy::vec_box, reason = "a desk is lent by its address")]
    static DESKS: RefCell<Vec<Box<Desk>>> = const { RefCell::new(Vec::new()) };
}

impl Desk {
    /// One that a call has given back, or a new one.
    pub(crate) fn spare() -> Box<Self> {
        DESKS.with(|desks| desks.try_borrow_mut().ok().and_then(|mut desks| desks.pop())).unwrap_or_default()
    }

    /// Keeps it for another call of this thread.
    pub(crate) fn keep(self: Box<Self>) {
        DESKS.with(|desks| {
            if let Ok(mut desks) = desks.try_borrow_mut()
                && desks.len() < SPARE
            {
                desks.push(self);
            }
        });
    }
}

impl From<WireError> for Status {
    fn from(error: WireError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<RequestError> for Status {
    fn from(error: RequestError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl<S: Store> RateLimitService<S> {
    /// A service that asks `limiter` at the time of `clock`. Health says `SERVING` while `ready` holds true.
    #[must_use]
    pub fn new(
        limiter: Arc<Limiter<S>>,
        clock: Arc<dyn Clock>,
        ready: watch::Receiver<bool>,
        options: ReplyOptions,
        limits: Limits,
    ) -> Self {
        let budget = Budget::new(limits.max_buffered_bytes);
        Self { limiter, clock: Clocked(clock), options, limits, ready, budget }
    }

    /// Who asks over gRPC with these headers; only looked at while anybody samples.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Caller {
        let parent = if self.limiter.is_sampling() { headers.get("traceparent") } else { None };
        Caller { surface: "grpc", traceparent: parent.cloned() }
    }

    /// The time. One reading serves all calls that came together.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.0.now()
    }

    /// Answers an encoded `RateLimitRequest` with a `RateLimitResponse`, encoded and framed.
    ///
    /// The time from `now`, when the call was taken off its connection with others that had arrived, to its decision is
    /// observed as its latency: what it waited for the calls before it is part of that, the way over the wire is not.
    pub(crate) async fn answer(
        &self,
        message: &[u8],
        caller: &Caller,
        now: Timestamp,
        desk: &mut Desk,
    ) -> Result<Bytes, Status> {
        let caps = Caps { descriptors: self.limits.max_descriptors, entries: self.limits.max_entries };
        let parsed = Parsed::read(message, &mut desk.room, caps)?;
        let descriptors = parsed.descriptors(&mut desk.room)?;
        let request = parsed.request(&descriptors);
        let traceparent = caller.traceparent.as_ref().and_then(|it| it.to_str().ok());
        let span = self.limiter.call_span(caller.surface, request.domain, traceparent);
        let answer = self.limiter.decide(&request, now, &mut desk.scratch).await?;
        if let Some(span) = span {
            answer.record(&span);
        }
        self.limiter.metrics().observe_latency(self.now().since(now));
        if answer.domain().is_none() && answer.policy().domains().is_empty() {
            return Err(Status::new(Code::Unavailable, "no rules are loaded; nothing was counted"));
        }
        let reply = reply::write(&answer, &request, parsed.hits_addend, &self.options, now, &mut desk.out);
        drop(answer);
        desk.room.keep(descriptors);
        parsed.give_back(&mut desk.room);
        Ok(reply)
    }
}
