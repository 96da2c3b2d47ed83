//! One HTTP/2 connection: takes calls, answers them, goes away in time.
//!
//! One task drives a connection. It accepts every call that has arrived, decides them one after another in
//! place, and sends all replies in one write: no task, no lock and no write per call. After [`TURN`] calls it
//! yields to other connections, so that none starves. A call that cannot be answered at once (its message is
//! incomplete, its store is remote, its health is watched) continues in a task of its own, if there is a
//! place for it (`shared`), until its client resets it.
//!
//! Not here: accepting connections (`tollgate_net`), the answers themselves (`service`, `health`,
//! `reflection`).

use std::future::poll_fn;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::thread::LocalKey;
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tollgate_buffers::{BufferPool, Buffers, CallBuffers};
use tollgate_core::Timestamp;
use tollgate_net::{BudgetShare, DrainWatch, Surface};
use tollgate_store::Store;

use crate::body::Incoming;
use crate::handshake::{handshake, is_of_faults};
use crate::head::{Rejection, admit};
use crate::health::{self, Signs};
use crate::keep_alive::{Activity, Dead, Due, KeepAlive};
use crate::lingering::Lingering;
use crate::outgoing::{self, Outgoing};
use crate::reflection;
use crate::service::{AnswerBuffers, Caller, RateLimitService};
use crate::shared::{ConnectionCalls, TooMany, WaitingGuard};
use crate::status::{Code, Reason, Status};
use crate::undecided::CallKind;
use crate::unsent::{HELD_BYTES, Unsent};

/// Calls answered before other connections have their turn.
const TURN: usize = 256;

/// Calls answered before their replies are sent. HTTP/2 keeps three frames for each until then, and the room
/// for the most that it ever kept. Measured: 20 connections of 1,000 calls each cost 17 MiB, and 45 at 256.
const BATCH: usize = 32;

/// Calls whose message does not arrive in time, after which a connection is asked to go away: what HTTP/2
/// keeps for many open calls is given back with the connection only.
const MAX_LATE: usize = 16;

impl<S: Store> Surface for RateLimitService<S> {
    fn serve<IO>(self: Arc<Self>, io: IO, drain: watch::Receiver<bool>) -> impl Future<Output = ()> + Send
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.serve_peer(io, None, drain)
    }

    async fn serve_peer<IO>(self: Arc<Self>, io: IO, peer: Option<IpAddr>, drain: watch::Receiver<bool>)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if let Err(error) = serve_connection(self, io, peer, drain).await {
            tracing::debug!(%error, "a gRPC connection ended early");
        }
    }
}

/// Why a connection ended early. Calls that were answered stay answered.
#[derive(Debug, thiserror::Error)]
enum ConnectionError {
    /// The peer sent no HTTP/2 in time.
    #[error("no HTTP/2 within {0:?}")]
    Handshake(Duration),
    /// The peer broke the protocol, or the connection broke.
    #[error(transparent)]
    Http2(#[from] h2::Error),
    /// A ping was not answered, or replies were not read, within their timeout.
    #[error("the peer did not respond in time")]
    Dead,
    /// Clients do not take their replies, and this one holds more of them than an equal share.
    #[error("too many replies that clients do not take")]
    Unread,
}

/// Serves one connection until it ends; when `drain` turns true, asks the peer to go away and lets calls
/// finish.
///
/// `io` is a plain or an encrypted stream; HTTP/2 is spoken without being asked for ("prior knowledge").
async fn serve_connection<IO, S>(
    service: Arc<RateLimitService<S>>,
    io: IO,
    peer: Option<IpAddr>,
    drain: watch::Receiver<bool>,
) -> Result<(), ConnectionError>
where
    IO: AsyncRead + AsyncWrite + Unpin,
    S: Store,
{
    let limits = &service.limits;
    let calls = service.shared.connection();
    let mut h2 = timeout(limits.handshake_timeout, handshake(io, limits, &calls))
        .await
        .map_err(|_| ConnectionError::Handshake(limits.handshake_timeout))??;
    let may_be_asked = !*service.draining.borrow();
    let mut asking = may_be_asked.then(|| DrainWatch::new(service.draining.clone()));
    let mut closing = DrainWatch::new(drain.clone());
    let pings = h2.ping_pong();
    let mut connection = Connection {
        keep_alive: KeepAlive::new(limits, pings),
        h2,
        service,
        peer,
        calls,
        drain,
        is_closing: false,
        arrived: None,
        answered: 0,
        elsewhere: JoinSet::new(),
        late: 0,
        unread: None,
    };
    poll_fn(|cx| {
        if asking.as_mut().is_some_and(|asking| asking.has_begun(cx)) {
            asking = None;
            // Calls that are on their way are answered, however long the rest of the server takes to end.
            connection.h2.graceful_shutdown();
        }
        if !connection.is_closing && closing.has_begun(cx) {
            connection.is_closing = true;
            connection.leave(connection.service.limits.drain_timeout);
        }
        connection.poll(cx)
    })
    .await
}

/// Calls accepted and not read yet. The allocation belongs to the thread, so that idle connections have none.
#[derive(Default)]
struct Arrived(Vec<(Request<RecvStream>, SendResponse<Unsent>)>);

thread_local!(static ARRIVED: BufferPool<Arrived> = const { BufferPool::new() });

impl Buffers for Arrived {
    /// One connection at a time has its turn.
    const KEPT: usize = 1;

    fn pool() -> &'static LocalKey<BufferPool<Self>> {
        &ARRIVED
    }

    fn reset(&mut self) {
        self.0.clear();
        self.0.shrink_to(TURN);
    }
}

/// A call that the limiter answers, whose header has been read.
struct UnaryCall {
    question: CallKind,
    incoming: Incoming,
    caller: Caller,
    respond: SendResponse<Unsent>,
    /// The time that it may take.
    within: Duration,
    /// When it was accepted.
    now: Timestamp,
}

struct Connection<IO, S: Store> {
    h2: h2::server::Connection<Lingering<IO>, Unsent>,
    service: Arc<RateLimitService<S>>,
    /// Where the peer is.
    peer: Option<IpAddr>,
    /// The places of its calls that wait.
    calls: Arc<ConnectionCalls>,
    drain: watch::Receiver<bool>,
    is_closing: bool,
    /// Calls that were accepted in an earlier turn and not read yet.
    arrived: Option<CallBuffers<Arrived>>,
    /// Calls so far.
    answered: u64,
    /// Calls that are answered in tasks of their own.
    elsewhere: JoinSet<Ended>,
    /// Calls whose message did not arrive in time.
    late: usize,
    /// Budget held by replies that the peer does not read.
    unread: Option<BudgetShare>,
    keep_alive: KeepAlive,
}

/// Outcome of a call in a task of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// With a reply, or because its client reset it.
    Done,
    /// Its message did not arrive in time.
    WithoutMessage,
}

impl<IO, S> Connection<IO, S>
where
    IO: AsyncRead + AsyncWrite + Unpin,
    S: Store,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        let mut arrived = self.arrived.take().unwrap_or_else(CallBuffers::take);
        let mut turn = 0;
        loop {
            // Sends the replies that are ready, and accepts the calls that have arrived.
            while arrived.0.len() < BATCH {
                match self.h2.poll_accept(cx) {
                    Poll::Ready(Some(Ok(call))) => arrived.0.push(call),
                    Poll::Ready(Some(Err(error))) => {
                        if is_of_faults(&error) {
                            self.calls.count_faulty();
                        }
                        return Poll::Ready(Err(error.into()));
                    }
                    Poll::Ready(None) => return Poll::Ready(Ok(())),
                    Poll::Pending => break,
                }
            }
            if arrived.0.is_empty() {
                break;
            }
            if turn >= TURN {
                cx.waker().wake_by_ref();
                self.arrived = Some(arrived);
                break;
            }
            turn += arrived.0.len();
            self.answer_all(cx, &mut arrived);
        }
        self.hold_unsent()?;
        while let Poll::Ready(Some(ended)) = self.elsewhere.poll_join_next(cx) {
            if matches!(ended, Ok(Ended::WithoutMessage)) {
                self.late += 1;
                if self.late == MAX_LATE {
                    tracing::debug!("a gRPC connection has too many calls without a message");
                    self.leave(self.service.limits.max_connection_age_grace);
                    // Sends the GOAWAY.
                    cx.waker().wake_by_ref();
                }
            }
        }
        self.poll_keep_alive(cx)
    }

    /// Counts the replies that could not be sent against what all connections may hold.
    fn hold_unsent(&mut self) -> Result<(), ConnectionError> {
        let bytes = self.calls.unsent() * HELD_BYTES;
        if bytes == 0 {
            self.unread = None;
            return Ok(());
        }
        let share = self.unread.get_or_insert_with(|| self.service.unread.share());
        if share.resize(bytes).is_err() && self.calls.holds_too_much(bytes) {
            self.calls.count_cut();
            return Err(ConnectionError::Unread);
        }
        Ok(())
    }

    /// Answers all calls that have arrived, at one reading of the clock.
    fn answer_all(&mut self, cx: &mut Context<'_>, arrived: &mut Arrived) {
        let now = self.service.now();
        self.answered += arrived.0.len() as u64;
        for (request, respond) in arrived.0.drain(..) {
            self.answer(cx, request, respond, now);
        }
    }

    fn answer(
        &mut self,
        cx: &mut Context<'_>,
        request: Request<RecvStream>,
        mut respond: SendResponse<Unsent>,
        now: Timestamp,
    ) {
        let (head, body) = request.into_parts();
        let within = match admit(&head.method, &head.headers) {
            Ok(within) => within.unwrap_or(Duration::MAX).min(self.service.limits.request_timeout),
            Err(Rejection::NotGrpc(code)) => {
                self.service.reject(self.peer, code.as_str(), Reason::Malformed, "not a gRPC call");
                return outgoing::reject(&mut respond, code);
            }
            Err(Rejection::Status(status)) => return self.fail(None, &mut respond, status),
        };
        let limits = &self.service.limits;
        let mut incoming = Incoming::new(body, limits.max_message_bytes, self.service.budget.share());
        if let Some(question) = CallKind::of(head.uri.path()) {
            let caller = self.service.caller(&head.headers, within, self.peer);
            return self.ask(cx, UnaryCall { question, incoming, caller, respond, within, now });
        }
        let method = match head.uri.path() {
            "/grpc.health.v1.Health/Check" => health::Method::Check,
            "/grpc.health.v1.Health/List" => health::Method::List,
            "/grpc.health.v1.Health/Watch" => health::Method::Watch,
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => {
                let Some(place) = self.place(None, &mut respond, NOTHING_COUNTED) else { return };
                let within = within.min(limits.message_timeout);
                let calls = Arc::clone(&self.calls);
                self.elsewhere.spawn(async move {
                    let _place = place;
                    match timeout(within, reflection::serve(incoming, Outgoing::new(respond, calls))).await {
                        Ok(()) => Ended::Done,
                        Err(_) => Ended::WithoutMessage,
                    }
                });
                return;
            }
            _ => {
                let status = Status::new(Code::Unimplemented, "no such service or method");
                return self.fail(None, &mut respond, status);
            }
        };
        let Some(place) = self.place(None, &mut respond, NOTHING_COUNTED) else { return };
        let signs = Signs { ready: self.service.ready.clone(), drain: self.drain.clone() };
        let message_within = within.min(limits.message_timeout);
        let service = Arc::clone(&self.service);
        let calls = Arc::clone(&self.calls);
        let peer = self.peer;
        self.elsewhere.spawn(async move {
            let _place = place;
            let outgoing = Outgoing::new(respond, calls);
            match timeout(message_within, incoming.only()).await {
                Err(_) => {
                    outgoing.finish(service.failed(None, peer, no_message()).map(drop));
                    return Ended::WithoutMessage;
                }
                Ok(Err(status)) => outgoing.finish(service.failed(None, peer, status).map(drop)),
                // A watch lasts as long as the peer wants.
                Ok(Ok(message)) if method == health::Method::Watch => {
                    health::serve(method, message, outgoing, signs).await;
                }
                Ok(Ok(message)) => {
                    let _ = timeout(within, health::serve(method, message, outgoing, signs)).await;
                }
            }
            Ended::Done
        });
    }

    fn ask(
        &mut self,
        cx: &mut Context<'_>,
        UnaryCall { question, mut incoming, mut caller, mut respond, within, now }: UnaryCall,
    ) {
        let arrived = {
            let only = pin!(incoming.only());
            only.poll(cx)
        };
        let message = match arrived {
            Poll::Ready(Ok(message)) => message,
            Poll::Ready(Err(status)) => return self.fail(Some(question), &mut respond, status),
            Poll::Pending => {
                let place = self.place(Some(question), &mut respond, NOTHING_COUNTED);
                let Some(place) = place else { return };
                let service = Arc::clone(&self.service);
                let calls = Arc::clone(&self.calls);
                let peer = self.peer;
                self.elsewhere.spawn(async move {
                    let _place = place;
                    let began = Instant::now();
                    let message_within = within.min(service.limits.message_timeout);
                    let message = match timeout(message_within, incoming.only()).await {
                        Ok(Ok(message)) => message,
                        Ok(Err(status)) => {
                            let result = service.failed(Some(question), peer, status);
                            outgoing::reply(&mut respond, &calls, result);
                            return Ended::Done;
                        }
                        Err(_) => {
                            let status = incoming.failed().unwrap_or_else(no_message);
                            let result = service.failed(Some(question), peer, status);
                            outgoing::reply(&mut respond, &calls, result);
                            return Ended::WithoutMessage;
                        }
                    };
                    drop(incoming);
                    let now = service.now();
                    let time_left = within.saturating_sub(began.elapsed());
                    caller.time_left = time_left;
                    // Boxed, so that a call that waits for its message holds no room for this.
                    let answer = Box::pin(decide(Arc::clone(&service), question, message, caller, now));
                    let late = || service.failed(Some(question), peer, late());
                    reply_unless_reset(answer, respond, calls, time_left, late).await
                });
                return;
            }
        };
        let mut answer = Box::pin(decide(Arc::clone(&self.service), question, message, caller, now));
        match catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(cx))) {
            Ok(Poll::Ready(result)) => outgoing::reply(&mut respond, &self.calls, result),
            Ok(Poll::Pending) => {
                let place = self.place(Some(question), &mut respond, "permits may have been taken");
                let Some(place) = place else { return };
                let service = Arc::clone(&self.service);
                let calls = Arc::clone(&self.calls);
                let peer = self.peer;
                self.elsewhere.spawn(async move {
                    let _place = place;
                    let late = || service.failed(Some(question), peer, late());
                    reply_unless_reset(answer, respond, calls, within, late).await
                });
            }
            Err(_) => {
                tracing::error!("a decision panicked; its call was answered with INTERNAL");
                let status = Status::new(Code::Internal, "internal error");
                self.fail(None, &mut respond, status);
            }
        }
    }

    /// Answers a call that has failed.
    #[cold]
    fn fail(&self, question: Option<CallKind>, respond: &mut SendResponse<Unsent>, status: Status) {
        outgoing::reply(respond, &self.calls, self.service.failed(question, self.peer, status));
    }

    /// A place for a call that has to wait. Without one the call has failed, and `so_far` says what became of
    /// its permits.
    fn place(
        &self,
        question: Option<CallKind>,
        respond: &mut SendResponse<Unsent>,
        so_far: &'static str,
    ) -> Option<WaitingGuard> {
        self.calls
            .place()
            .map_err(|TooMany| {
                let message = format!("too many calls wait; {so_far}");
                self.fail(question, respond, Status::new(Code::ResourceExhausted, message));
            })
            .ok()
    }

    /// Asks the peer to go away; calls get `grace` to finish.
    fn leave(&mut self, grace: Duration) {
        self.h2.graceful_shutdown();
        self.keep_alive.leave(grace);
    }

    fn poll_keep_alive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        loop {
            let activity = Activity {
                calls: self.answered,
                has_streams: self.h2.has_streams(),
                has_answers_due: !self.elsewhere.is_empty(),
            };
            match ready!(self.keep_alive.poll(cx, &self.service.limits, activity)) {
                Err(Dead) => return Poll::Ready(Err(ConnectionError::Dead)),
                Ok(Due::Nothing) => {}
                Ok(Due::Leave) => {
                    self.leave(self.service.limits.max_connection_age_grace);
                    // Sends the GOAWAY.
                    cx.waker().wake_by_ref();
                }
                Ok(Due::End) => return Poll::Ready(Ok(())),
            }
        }
    }
}

/// Message of a call that fails before its own message has arrived.
const NOTHING_COUNTED: &str = "nothing was counted";

fn late() -> Status {
    Status::new(Code::DeadlineExceeded, "deadline exceeded; permits may have been taken")
}

fn no_message() -> Status {
    Status::new(Code::DeadlineExceeded, "the call's message did not arrive in time; nothing was counted")
}

/// Answers a call whose message has arrived.
async fn decide<S: Store>(
    service: Arc<RateLimitService<S>>,
    question: CallKind,
    message: Bytes,
    caller: Caller,
    now: Timestamp,
) -> Result<Bytes, Status> {
    let result = match question {
        CallKind::Check => {
            let mut buffers = CallBuffers::<AnswerBuffers>::take();
            service.answer(&message, &caller, now, &mut buffers).await
        }
        // Boxed, as the next, so that the usual check holds no room for this.
        CallKind::Exact(method) => Box::pin(service.answer_check_call(method, message, &caller, now)).await,
        CallKind::Slot(method) => Box::pin(service.answer_slot_call(method, message, &caller, now)).await,
    };
    result.or_else(|status| service.failed(Some(question), caller.peer, status))
}

/// Sends what `answer` returns `within` its time. Ends without a reply when the client resets the call.
async fn reply_unless_reset(
    answer: impl Future<Output = Result<Bytes, Status>>,
    mut respond: SendResponse<Unsent>,
    calls: Arc<ConnectionCalls>,
    within: Duration,
    late: impl FnOnce() -> Result<Bytes, Status>,
) -> Ended {
    let result = tokio::select! {
        biased;
        result = timeout(within, answer) => result.unwrap_or_else(|_| late()),
        // Also when the connection is gone.
        _ = poll_fn(|cx| respond.poll_reset(cx)) => return Ended::Done,
    };
    outgoing::reply(&mut respond, &calls, result);
    Ended::Done
}
