//! One `ShouldRateLimit` call, from the bytes of its message to the bytes of its reply; `slots` for those of
//! holders, `check` for those of programs that want exact times. Not here: how bytes come and go.

pub(crate) mod check;
pub(crate) mod slots;

use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::LocalKey;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use tokio::sync::watch;
use tollgate_buffers::{BufferPool, Buffers};
use tollgate_core::{Clock, Timestamp};
use tollgate_limiter::{Answer, Latency, Limiter, Patience, RequestError, Scratch};
use tollgate_net::{Budget, Presence, SharedClock};
use tollgate_store::Store;

use crate::limits::Limits;
use crate::proto::rls;
use crate::reply::{self, ReplyOptions};
use crate::shared::Shared;
use crate::status::{Code, Status};
use crate::wire::{Caps, Lists, Parsed, WireError};

/// State shared by connections: the limiter, and the form of its replies. Make one for each core, so that
/// cores share only what is [`Shared`].
#[derive(Debug)]
pub struct RateLimitService<S: Store> {
    pub(crate) limiter: Arc<Limiter<S>>,
    clock: SharedClock,
    options: ReplyOptions,
    pub(crate) limits: Limits,
    pub(crate) ready: watch::Receiver<bool>,
    pub(crate) draining: watch::Receiver<bool>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) budget: Arc<Budget>,
    /// Budget of replies that peers do not read.
    pub(crate) unread: Arc<Budget>,
    latency: Latency,
    latency_over_http: Latency,
}

/// Name of the surface in metrics and spans.
pub(crate) const GRPC: &str = "grpc";
const HTTP: &str = "http";

/// Part of the caller's deadline that is kept for the reply after a wait for its turn.
const REPLY_TIME: Duration = Duration::from_millis(10);

/// Where a call came from, for its trace, and how much time it has.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) surface: &'static str,
    traceparent: Option<HeaderValue>,
    /// Longest wait for its turn, if a rule makes it wait.
    pub(crate) time_left: Duration,
    /// Where it is.
    pub(crate) peer: Option<IpAddr>,
    /// Whether it is still there. `None` over gRPC: its stream is dropped when it leaves.
    pub(crate) presence: Option<Arc<Presence>>,
}

impl Caller {
    /// Over HTTP, without a trace.
    pub(crate) const fn over_http(presence: Option<Arc<Presence>>) -> Self {
        Self { surface: HTTP, traceparent: None, time_left: Duration::MAX, peer: None, presence }
    }

    fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_ref().and_then(|it| it.to_str().ok())
    }
}

/// The buffers of one call, used again by the next on the same thread.
#[derive(Debug, Default)]
pub(crate) struct AnswerBuffers {
    lists: Lists,
    scratch: Scratch,
    out: BytesMut,
}

thread_local!(static POOL: BufferPool<AnswerBuffers> = const { BufferPool::new() });

impl Buffers for AnswerBuffers {
    /// Enough for the calls of a thread that wait for their store.
    const KEPT: usize = 256;

    fn pool() -> &'static LocalKey<BufferPool<Self>> {
        &POOL
    }

    fn reset(&mut self) {
        self.out.clear();
    }
}

impl From<WireError> for Status {
    fn from(error: WireError) -> Self {
        Self::invalid(error.to_string()).because(error.reason())
    }
}

impl From<RequestError> for Status {
    fn from(error: RequestError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl<S: Store> RateLimitService<S> {
    /// A service that asks `limiter` at the time of `clock`. Health is `SERVING` while `ready` is true.
    #[must_use]
    pub fn new(
        limiter: Arc<Limiter<S>>,
        clock: Arc<dyn Clock>,
        ready: watch::Receiver<bool>,
        options: ReplyOptions,
        limits: Limits,
    ) -> Self {
        let shared = Arc::new(Shared::new(&limits));
        let budget = shared.messages.for_worker();
        let unread = shared.unread.for_worker();
        let [latency, latency_over_http] = [GRPC, HTTP].map(|surface| limiter.metrics().latency(surface));
        // Without a sender it never turns.
        let clock = clock.into();
        let draining = watch::channel(false).1;
        Self {
            limiter,
            clock,
            options,
            limits,
            ready,
            draining,
            shared,
            budget,
            unread,
            latency,
            latency_over_http,
        }
    }

    /// The same service with the places and the budget of `shared`, which the services of other workers use
    /// too.
    #[must_use]
    pub fn sharing(mut self, shared: Arc<Shared>) -> Self {
        self.budget = shared.messages.for_worker();
        self.unread = shared.unread.for_worker();
        self.shared = shared;
        self
    }

    /// The same service, which asks the peers of its connections to go away once `draining` turns true.
    /// Connections that begin later are served until the surface drains: where a load balancer still sends
    /// them here, there is nowhere else to go.
    #[must_use]
    pub fn leaving_when(mut self, draining: watch::Receiver<bool>) -> Self {
        self.draining = draining;
        self
    }

    /// The caller of a gRPC call with these headers, which are only read while traces are sampled.
    pub(crate) fn caller(&self, headers: &HeaderMap, time_left: Duration, peer: Option<IpAddr>) -> Caller {
        let parent = if self.limiter.is_sampling() { headers.get("traceparent") } else { None };
        Caller { surface: GRPC, traceparent: parent.cloned(), time_left, peer, presence: None }
    }

    /// The time. One reading serves all calls that arrived together.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Answers an encoded `RateLimitRequest` with a `RateLimitResponse`, encoded and framed.
    ///
    /// The time from `now`, when the call was taken off its connection with others that had arrived, to its
    /// decision is recorded as its latency, which includes the wait for the calls before it and excludes the
    /// network.
    pub(crate) async fn answer(
        &self,
        message: &[u8],
        caller: &Caller,
        now: Timestamp,
        buffers: &mut AnswerBuffers,
    ) -> Result<Bytes, Status> {
        self.answer_and(message, caller, now, buffers, |_| ()).await
    }

    /// As [`Self::answer`], and lets `seen` look at the answer.
    pub(crate) async fn answer_and(
        &self,
        message: &[u8],
        caller: &Caller,
        now: Timestamp,
        buffers: &mut AnswerBuffers,
        seen: impl FnOnce(&Answer<'_>),
    ) -> Result<Bytes, Status> {
        let caps = Caps { descriptors: self.limits.max_descriptors, entries: self.limits.max_entries };
        let parsed = Parsed::read(message, &mut buffers.lists, caps)?;
        let descriptors = parsed.descriptors(&mut buffers.lists)?;
        let request = parsed.request(&descriptors);
        let span = self.limiter.call_span(caller.surface, request.domain, caller.traceparent());
        let clock = || self.now();
        let longest = caller.time_left.saturating_sub(REPLY_TIME);
        let presence = caller.presence.as_ref();
        let left = |cx: &mut Context<'_>| presence.map_or(Poll::Pending, |presence| presence.poll_left(cx));
        let patience = Patience { now: &clock, sleep: tokio::time::sleep, longest, left: Some(&left) };
        let answer = self.limiter.decide_patiently(&request, now, &patience, &mut buffers.scratch).await?;
        if let Some(span) = span {
            answer.record(&span);
        }
        let latency = if caller.surface == GRPC { &self.latency } else { &self.latency_over_http };
        latency.observe(self.now().since(now).saturating_sub(answer.waited()));
        no_rules(&answer)?;
        seen(&answer);
        let reply = reply::write(&answer, &request, parsed.hits_addend, &self.options, now, &mut buffers.out);
        drop(answer);
        buffers.lists.put_back_descriptors(descriptors);
        parsed.put_back(&mut buffers.lists);
        Ok(reply)
    }
}

/// Rejects the answer if no rules are loaded: to admit would be to guess.
fn no_rules(answer: &Answer<'_>) -> Result<(), Status> {
    if !answer.policy().is_loaded() {
        return Err(Status::new(Code::Unavailable, "no rules are loaded; nothing was counted"));
    }
    Ok(())
}

fn span(span: Duration) -> rls::Duration {
    rls::Duration {
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or(0),
    }
}
