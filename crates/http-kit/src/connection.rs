//! One connection: HTTP/1.1 by `hyper`, cut off by a timer that requests do not touch, and ended by a drain.
//!
//! Not here: what is answered (`route`).

use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};
use tollgate_net::{Budget, BudgetShare, DrainWatch, IdleTimer, OverBudget, Presence, ReadAhead, Surface};

use crate::admin::Caller;
use crate::api::{Api, HttpSurface};
use crate::body::Request;
use crate::reply::Reply;
use crate::settings::SurfaceSettings;
use crate::wake::TaskWake;

/// How long a drained connection waits for the next request, which may be on its way: its reply is the one
/// that closes.
const LINGER: Duration = Duration::from_secs(1);

/// The smallest cap on a head that `hyper` accepts.
const MIN_HEADER_BYTES: usize = 8 * 1024;

impl<A: Api> Surface for HttpSurface<A> {
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
        let activity = Arc::new(Activity::default());
        let io = WatchedIo { io: TokioIo::new(ReadAhead::new(io)), activity: Arc::clone(&activity) };
        let wake = Arc::new(TaskWake::new());
        let waker = Waker::from(Arc::clone(&wake));
        let shared = Arc::new(Connection { surface: self, activity, peer, wake });
        let requests = Arc::clone(&shared);
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            let connection = Arc::clone(&requests);
            async move { Ok::<_, Infallible>(connection.answer(&mut request).await) }
        });
        let settings = &shared.surface.settings;
        let mut connection = pin!(
            http1::Builder::new()
                .max_buf_size(settings.max_header_bytes.max(MIN_HEADER_BYTES))
                // A client that has sent everything may close its side and still wait for the reply.
                .half_close(true)
                // Without a queue of buffers. Not `pipeline_flush`: it keeps the replies to all requests that
                // have arrived, without bound.
                .writev(false)
                .serve_connection(io, service)
        );
        let mut drain = DrainWatch::new(drain);
        let mut linger: Option<Pin<Box<Sleep>>> = None;
        let mut is_closing = false;
        let mut idle = IdleTimer::new(Phase::Head(0));
        let mut unread = Unread { budget: &shared.surface.replies, share: None };
        let ended = poll_fn(|cx| {
            shared.wake.register(cx);
            let mut waked = Context::from_waker(&waker);
            if let Poll::Ready(ended) = connection.as_mut().poll(&mut waked) {
                return Poll::Ready(ended.map_err(|error| error.to_string()));
            }
            if linger.is_none() && drain.has_begun(cx) {
                shared.activity.is_draining.store(true, Relaxed);
                linger = Some(Box::pin(sleep(LINGER)));
            }
            if !is_closing && linger.as_mut().is_some_and(|linger| linger.as_mut().poll(cx).is_ready()) {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
                if let Poll::Ready(ended) = connection.as_mut().poll(&mut waked) {
                    return Poll::Ready(ended.map_err(|error| error.to_string()));
                }
            }
            if unread.hold(shared.activity.unread_bytes()).is_err() {
                shared.surface.shared.over_budget.fetch_add(1, Relaxed);
                return Poll::Ready(Err("too many bytes of replies that clients do not take".to_owned()));
            }
            let phase = shared.activity.phase();
            idle.poll(cx, phase, phase.timeout(settings)).map(|()| {
                if matches!(phase, Phase::Writing(_)) {
                    shared.surface.shared.slow_readers.fetch_add(1, Relaxed);
                }
                Err(phase.overdue().to_owned())
            })
        });
        if let Err(error) = ended.await {
            tracing::debug!(%error, "an HTTP connection ended early");
        }
    }
}

/// What the requests of one connection share.
struct Connection<A> {
    surface: Arc<HttpSurface<A>>,
    activity: Arc<Activity>,
    /// Where the client is.
    peer: Option<IpAddr>,
    wake: Arc<TaskWake>,
}

impl<A: Api> Connection<A> {
    async fn answer(&self, received: &mut hyper::Request<Incoming>) -> Reply {
        let number = self.activity.begin_request();
        let HttpSurface { settings, bodies, shared, .. } = &*self.surface;
        let request = Request {
            received,
            body_timeout: settings.body_timeout,
            budget: bodies,
            admin: &settings.admin,
            caller: Caller { peer: self.peer, shared },
            presence: &self.activity.presence,
            wake: &self.wake,
        };
        let is_last = settings.max_requests.is_some_and(|max| number >= max);
        let finish = |mut reply: Reply| {
            self.surface.api.add_fields(reply.headers_mut());
            if is_last || self.activity.is_draining.load(Relaxed) || self.surface.api.is_draining() {
                reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            self.activity.end_request(reply.body());
            reply
        };
        self.surface.answer(request, finish).await
    }
}

/// What a connection did last. Written by its one task; atomics only because that task may move between
/// threads.
#[derive(Debug, Default)]
struct Activity {
    /// Requests whose head has arrived.
    requests: AtomicU64,
    is_answering: AtomicBool,
    /// The next reply is the last.
    is_draining: AtomicBool,
    /// Bytes have arrived since the last reply: a head has begun.
    has_received: AtomicBool,
    /// The client takes no more bytes.
    is_blocked: AtomicBool,
    /// Bytes that it took.
    sent: AtomicU64,
    /// Bytes of the last reply's body. There is never more than one reply: the next request is read when the
    /// client has taken the reply before.
    reply_bytes: AtomicU64,
    /// Whether the client is still there, for a request that waits.
    presence: Arc<Presence>,
}

impl Activity {
    /// A request's head is there. Returns its number, from 1.
    fn begin_request(&self) -> u64 {
        let number = self.requests.load(Relaxed) + 1;
        self.requests.store(number, Relaxed);
        self.is_answering.store(true, Relaxed);
        number
    }

    fn end_request(&self, reply: &impl Body) {
        self.reply_bytes.store(reply.size_hint().lower(), Relaxed);
        self.is_answering.store(false, Relaxed);
        self.presence.unwatch();
        self.has_received.store(false, Relaxed);
    }

    /// Bytes that are held because the client takes none.
    fn unread_bytes(&self) -> usize {
        let is_blocked = self.is_blocked.load(Relaxed);
        if is_blocked { self.reply_bytes.load(Relaxed) as usize } else { 0 }
    }

    fn phase(&self) -> Phase {
        let requests = self.requests.load(Relaxed);
        if self.is_blocked.load(Relaxed) {
            Phase::Writing(self.sent.load(Relaxed))
        } else if self.is_answering.load(Relaxed) {
            Phase::Answering
        } else if requests == 0 || self.has_received.load(Relaxed) {
            Phase::Head(requests)
        } else {
            Phase::Idle(requests)
        }
    }
}

/// What a connection holds of the budget of replies that are not taken. Most never hold any.
struct Unread<'b> {
    budget: &'b Arc<Budget>,
    share: Option<BudgetShare>,
}

impl Unread<'_> {
    fn hold(&mut self, bytes: usize) -> Result<(), OverBudget> {
        match &mut self.share {
            None if bytes == 0 => Ok(()),
            share => {
                let share = share.get_or_insert_with(|| self.budget.share());
                // One large reply to one slow client may be larger than the budget.
                share.resize(bytes).or_else(|error| if share.is_alone() { Ok(()) } else { Err(error) })
            }
        }
    }
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The client to take bytes, after it has taken this many.
    Writing(u64),
    /// A body, which has a timeout of its own, or the API.
    Answering,
    /// The end of a head, after this many requests.
    Head(u64),
    /// The next request, after this many.
    Idle(u64),
}

impl Phase {
    const fn timeout(self, settings: &SurfaceSettings) -> Option<Duration> {
        match self {
            Self::Writing(_) => Some(settings.write_timeout),
            Self::Answering => None,
            Self::Head(_) => Some(settings.header_timeout),
            Self::Idle(_) => Some(settings.idle_timeout),
        }
    }

    const fn overdue(self) -> &'static str {
        match self {
            Self::Writing(_) => "the client did not take its reply in time",
            Self::Answering => "no reply in time",
            Self::Head(_) => "a request's head did not arrive in time",
            Self::Idle(_) => "idle for too long",
        }
    }
}

/// The socket, recording in [`Activity`] what goes through it.
struct WatchedIo<IO> {
    io: TokioIo<ReadAhead<IO>>,
    activity: Arc<Activity>,
}

impl<IO: AsyncRead + Unpin> Read for WatchedIo<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buffer);
        if read.is_ready() {
            self.activity.has_received.store(true, Relaxed);
        }
        read
    }
}

impl<IO: AsyncWrite + Unpin> WatchedIo<IO> {
    fn record(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let Activity { is_blocked, sent, .. } = &*self.activity;
        is_blocked.store(written.is_pending(), Relaxed);
        if let Poll::Ready(Ok(bytes)) = written {
            sent.store(sent.load(Relaxed).wrapping_add(bytes as u64), Relaxed);
        }
        written
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Write for WatchedIo<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
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
        activity.presence.look(io.inner_mut(), cx);
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.activity.is_blocked.store(flushed.is_pending(), Relaxed);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
