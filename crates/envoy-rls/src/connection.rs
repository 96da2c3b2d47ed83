//! One HTTP/2 connection: takes calls, answers them, goes away in time.
//!
//! One task drives a connection. It accepts every call that has arrived, decides them one after another in
//! place, and sends all replies in one write: no task, no lock and no write per call. After [`TURN`] calls it
//! yields to other connections, so that none starves. A call that cannot be answered at once (its message is
//! incomplete, its store is remote, its health is watched) continues in a task of its own.
//!
//! Not here: accepting connections (`tollgate_net`), the answers themselves (`service`, `health`,
//! `reflection`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_buffers::CallBuffers;
use tollgate_core::Timestamp;
use tollgate_net::{Surface, draining};
use tollgate_store::Store;

use crate::body::Incoming;
use crate::head::{Rejection, admit};
use crate::health::{self, Signs};
use crate::keep_alive::{Activity, Dead, Due, KeepAlive};
use crate::outgoing::{self, Outgoing};
use crate::reflection;
use crate::service::{AnswerBuffers, Caller, RateLimitService};
use crate::status::{Code, Status};

/// Calls answered before the other connections have their turn.
const TURN: usize = 256;

impl<S: Store> Surface for RateLimitService<S> {
    async fn serve<IO>(self: Arc<Self>, io: IO, drain: watch::Receiver<bool>)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if let Err(error) = serve_connection(self, io, drain).await {
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
}

/// Serves one connection until it ends; when `drain` turns true, asks the peer to go away and lets calls
/// finish.
///
/// `io` is a plain or an encrypted stream; HTTP/2 is spoken without being asked for ("prior knowledge").
async fn serve_connection<IO, S>(
    service: Arc<RateLimitService<S>>,
    io: IO,
    drain: watch::Receiver<bool>,
) -> Result<(), ConnectionError>
where
    IO: AsyncRead + AsyncWrite + Unpin,
    S: Store,
{
    let limits = &service.limits;
    let handshake = h2::server::Builder::new()
        .max_concurrent_streams(limits.max_concurrent_streams)
        .max_header_list_size(limits.max_header_list_bytes)
        .initial_connection_window_size(1 << 20)
        .handshake(io);
    let mut h2 = timeout(limits.handshake_timeout, handshake)
        .await
        .map_err(|_| ConnectionError::Handshake(limits.handshake_timeout))??;
    let mut leave = drain.clone();
    let mut leaving = pin!(draining(&mut leave));
    let pings = h2.ping_pong();
    let mut connection = Connection {
        keep_alive: KeepAlive::new(limits, pings),
        h2,
        service,
        drain,
        is_draining: false,
        arrived: Vec::new(),
        answered: 0,
        elsewhere: JoinSet::new(),
    };
    std::future::poll_fn(|cx| connection.poll(cx, leaving.as_mut())).await
}

/// A `ShouldRateLimit` call whose header has been read.
struct UnaryCall {
    incoming: Incoming,
    caller: Caller,
    respond: SendResponse<Bytes>,
    /// The time that it may take.
    within: Duration,
    /// When it was accepted.
    now: Timestamp,
}

struct Connection<IO, S: Store> {
    h2: h2::server::Connection<IO, Bytes>,
    service: Arc<RateLimitService<S>>,
    drain: watch::Receiver<bool>,
    is_draining: bool,
    /// Calls accepted and not read yet.
    arrived: Vec<(Request<RecvStream>, SendResponse<Bytes>)>,
    /// Calls so far.
    answered: u64,
    /// Calls that are answered in tasks of their own.
    elsewhere: JoinSet<()>,
    keep_alive: KeepAlive,
}

impl<IO, S> Connection<IO, S>
where
    IO: AsyncRead + AsyncWrite + Unpin,
    S: Store,
{
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        leaving: Pin<&mut impl Future<Output = ()>>,
    ) -> Poll<Result<(), ConnectionError>> {
        if !self.is_draining && leaving.poll(cx).is_ready() {
            self.is_draining = true;
            self.leave(self.service.limits.drain_timeout);
        }
        let mut turn = 0;
        loop {
            // Takes what has come, and lets out what was answered.
            loop {
                match self.h2.poll_accept(cx) {
                    Poll::Ready(Some(Ok(call))) => self.arrived.push(call),
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error.into())),
                    Poll::Ready(None) => return Poll::Ready(Ok(())),
                    Poll::Pending => break,
                }
            }
            if self.arrived.is_empty() {
                break;
            }
            if turn >= TURN {
                cx.waker().wake_by_ref();
                break;
            }
            turn += self.arrived.len();
            self.answer_all(cx);
        }
        while let Poll::Ready(Some(_)) = self.elsewhere.poll_join_next(cx) {}
        self.poll_keep_alive(cx)
    }

    /// Answers all calls that have arrived, at one reading of the clock.
    fn answer_all(&mut self, cx: &mut Context<'_>) {
        let now = self.service.now();
        self.answered += self.arrived.len() as u64;
        let mut arrived = std::mem::take(&mut self.arrived);
        for (request, respond) in arrived.drain(..) {
            self.answer(cx, request, respond, now);
        }
        self.arrived = arrived;
    }

    fn answer(
        &mut self,
        cx: &mut Context<'_>,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        now: Timestamp,
    ) {
        let (head, body) = request.into_parts();
        let within = match admit(&head.method, &head.headers) {
            Ok(within) => within.unwrap_or(Duration::MAX).min(self.service.limits.request_timeout),
            Err(Rejection::NotGrpc(code)) => return outgoing::reject(&mut respond, code),
            Err(Rejection::Status(status)) => return outgoing::fail(&mut respond, &status),
        };
        let limits = &self.service.limits;
        let mut incoming = Incoming::new(body, limits.max_message_bytes, self.service.budget.share());
        let method = match head.uri.path() {
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => {
                let caller = self.service.caller(&head.headers);
                return self.should_rate_limit(cx, UnaryCall { incoming, caller, respond, within, now });
            }
            "/grpc.health.v1.Health/Check" => health::Method::Check,
            "/grpc.health.v1.Health/List" => health::Method::List,
            "/grpc.health.v1.Health/Watch" => health::Method::Watch,
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => {
                self.elsewhere.spawn(async move {
                    let _ = timeout(within, reflection::serve(incoming, Outgoing::new(respond))).await;
                });
                return;
            }
            _ => {
                let status = Status::new(Code::Unimplemented, "no such service or method");
                return outgoing::fail(&mut respond, &status);
            }
        };
        let signs = Signs { ready: self.service.ready.clone(), drain: self.drain.clone() };
        self.elsewhere.spawn(async move {
            let outgoing = Outgoing::new(respond);
            match timeout(within, incoming.only()).await.unwrap_or_else(|_| Err(late())) {
                Err(status) => outgoing.finish(Err(status)),
                // A watch lasts as long as the peer wants.
                Ok(message) if method == health::Method::Watch => {
                    health::serve(method, message, outgoing, signs).await;
                }
                Ok(message) => {
                    let _ = timeout(within, health::serve(method, message, outgoing, signs)).await;
                }
            }
        });
    }

    fn should_rate_limit(
        &mut self,
        cx: &mut Context<'_>,
        UnaryCall { mut incoming, caller, mut respond, within, now }: UnaryCall,
    ) {
        let arrived = {
            let only = pin!(incoming.only());
            only.poll(cx)
        };
        let message = match arrived {
            Poll::Ready(Ok(message)) => message,
            Poll::Ready(Err(status)) => return outgoing::fail(&mut respond, &status),
            Poll::Pending => {
                let service = Arc::clone(&self.service);
                self.elsewhere.spawn(async move {
                    let answer = async {
                        let message = incoming.only().await?;
                        let mut buffers = CallBuffers::<AnswerBuffers>::take();
                        service.answer(&message, &caller, service.now(), &mut buffers).await
                    };
                    let result = timeout(within, answer).await.unwrap_or_else(|_| Err(late()));
                    outgoing::reply(&mut respond, result);
                });
                return;
            }
        };
        let service = Arc::clone(&self.service);
        let mut answer = Box::pin(async move {
            let mut buffers = CallBuffers::<AnswerBuffers>::take();
            service.answer(&message, &caller, now, &mut buffers).await
        });
        match catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(cx))) {
            Ok(Poll::Ready(result)) => outgoing::reply(&mut respond, result),
            Ok(Poll::Pending) => {
                self.elsewhere.spawn(async move {
                    let result = timeout(within, answer).await.unwrap_or_else(|_| Err(late()));
                    outgoing::reply(&mut respond, result);
                });
            }
            Err(_) => {
                tracing::error!("a decision panicked; its call was answered with INTERNAL");
                outgoing::fail(&mut respond, &Status::new(Code::Internal, "internal error"));
            }
        }
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

fn late() -> Status {
    Status::new(Code::DeadlineExceeded, "deadline exceeded; permits may have been taken")
}
