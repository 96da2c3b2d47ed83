//! One connection: HTTP/1.1 by `hyper`, cut off by a timer that requests do not touch, and ended by a drain.
//!
//! `hyper` first reads heads of the usual size, whose bounds cost nothing. A head that exceeds them is read
//! again by a second one with the bounds of the settings; its reply is the last of the connection, so that
//! large buffers are given back. The bytes of such heads count against what all connections may hold.
//!
//! Not here: what is answered (`route`).

mod activity;
mod unreadable;
mod watched_io;

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};

use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};
use tollgate_net::{Budget, BudgetShare, DrainWatch, IdleTimer, OverBudget, Surface};

use self::activity::{Activity, Phase};
use self::watched_io::WatchedIo;
use crate::admin::Caller;
use crate::api::{Api, HttpSurface};
use crate::body::Request;
use crate::reply::Reply;
use crate::settings::SurfaceSettings;
use crate::wake::TaskWake;

/// Longest wait of a drained connection for its next request, which may be on its way: the reply to it closes
/// the connection.
const LINGER: std::time::Duration = std::time::Duration::from_secs(1);

/// Bytes of a head of the usual size, and the fields for which `hyper` has room without allocating.
const USUAL_BYTES: usize = 16 * 1024;
const USUAL_FIELDS: usize = 100;

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
        let mut io = WatchedIo::new(io, &activity);
        let mut drain = DrainWatch::new(drain);
        let mut heads = Heads::usual(&self.settings);
        let connection =
            Arc::new(ConnectionContext { surface: self, activity, peer, wake: Arc::new(TaskWake::new()) });
        let problem = loop {
            let (back, ended) = connection.drive(io, heads, &mut drain).await;
            io = back;
            let larger = heads.larger(&connection.surface.settings);
            match (ended, larger) {
                (Ended::Done, _) => return,
                (Ended::Early(error), _) => {
                    tracing::debug!(%error, "an HTTP connection ended early");
                    return;
                }
                (Ended::Unreadable(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE), Some(larger)) => {
                    heads = larger;
                }
                (Ended::Unreadable(status), _) => {
                    break unreadable::problem(status, heads.max_bytes, heads.max_fields);
                }
                (Ended::OverBudget, _) => break unreadable::over_budget(),
            }
        };
        let HttpSurface { api, settings, .. } = &*connection.surface;
        let mut reply = api.unreadable(peer, &problem);
        api.add_fields(reply.headers_mut());
        // Boxed, so that idle connections hold no room for it.
        let sent = Box::pin(unreadable::send_last(io.socket(), reply, settings.write_timeout));
        if let Err(error) = sent.await {
            tracing::debug!(%error, "a client did not take the reply to a request that cannot be read");
        }
    }
}

/// Bounds on the heads of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heads {
    max_bytes: usize,
    max_fields: usize,
}

impl Heads {
    fn usual(settings: &SurfaceSettings) -> Self {
        let Self { max_bytes, max_fields } = Self::largest(settings);
        Self { max_bytes: max_bytes.min(USUAL_BYTES), max_fields: max_fields.min(USUAL_FIELDS) }
    }

    fn largest(settings: &SurfaceSettings) -> Self {
        let max_bytes = settings.max_header_bytes.max(MIN_HEADER_BYTES);
        Self { max_bytes, max_fields: settings.max_header_fields.min(MOST_FIELDS) }
    }

    /// Those of the settings, if they are larger.
    fn larger(self, settings: &SurfaceSettings) -> Option<Self> {
        Some(Self::largest(settings)).filter(|largest| *largest != self)
    }

    /// `hyper` with these bounds.
    fn reader(self) -> http1::Builder {
        let mut builder = http1::Builder::new();
        builder
            .max_buf_size(self.max_bytes)
            // A client that has sent everything may close its side and still wait for the reply.
            .half_close(true)
            // Without a queue of buffers. Not `pipeline_flush`: it keeps the replies to all requests that
            // have arrived, without bound.
            .writev(false);
        if self.max_fields != USUAL_FIELDS {
            builder.max_headers(self.max_fields);
        }
        builder
    }

    const fn is_usual(self) -> bool {
        self.max_bytes <= USUAL_BYTES && self.max_fields <= USUAL_FIELDS
    }
}

/// The most fields of which a map of fields takes each under a name of its own, and more.
const MOST_FIELDS: usize = 24_000;

/// Outcome of driving `hyper`.
enum Ended {
    /// As it should.
    Done,
    /// Because of the client, or of its silence.
    Early(String),
    /// At a head to which it would reply by this status.
    Unreadable(StatusCode),
    /// Because of the bytes of heads that all connections hold.
    OverBudget,
}

/// State shared by the requests of one connection.
struct ConnectionContext<A> {
    surface: Arc<HttpSurface<A>>,
    activity: Arc<Activity>,
    /// Where the client is.
    peer: Option<IpAddr>,
    wake: Arc<TaskWake>,
}

impl<A: Api> ConnectionContext<A> {
    /// Serves requests whose heads are within `heads`. Also returns the socket, which returns the bytes of an
    /// unanswered request again.
    async fn drive<IO>(
        self: &Arc<Self>,
        io: WatchedIo<IO>,
        heads: Heads,
        drain: &mut DrainWatch,
    ) -> (WatchedIo<IO>, Ended)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self { surface, activity, wake, .. } = &**self;
        let settings = &surface.settings;
        let waker = Waker::from(Arc::clone(wake));
        let requests = Arc::clone(self);
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            let connection = Arc::clone(&requests);
            async move { Ok::<_, Infallible>(connection.answer(&mut request).await) }
        });
        // The reply to a large head is the last, so that large buffers are given back.
        if !heads.is_usual() {
            activity.is_last.store(true, Relaxed);
        }
        activity.begin_reading();
        let mut connection = heads.reader().serve_connection(TokioIo::new(io), service);
        let mut linger: Option<Pin<Box<Sleep>>> = None;
        let mut is_closing = false;
        let mut idle = IdleTimer::new(Phase::Head(0));
        let mut unread = Unread { budget: &surface.replies, share: None };
        let mut head_share = surface.bodies.share();
        let ended = poll_fn(|cx| {
            wake.register(cx);
            let mut waked = Context::from_waker(&waker);
            let polled = Pin::new(&mut connection).poll(&mut waked);
            if let Some(ended) = ended(activity, polled) {
                return Poll::Ready(ended);
            }
            // In a drain the next reply is the last. Without a request within `LINGER` the connection ends.
            if linger.is_none() && drain.has_begun(cx) {
                activity.is_last.store(true, Relaxed);
                linger = Some(Box::pin(sleep(LINGER)));
            }
            if !is_closing && linger.as_mut().is_some_and(|linger| linger.as_mut().poll(cx).is_ready()) {
                is_closing = true;
                Pin::new(&mut connection).graceful_shutdown();
                let polled = Pin::new(&mut connection).poll(&mut waked);
                if let Some(ended) = ended(activity, polled) {
                    return Poll::Ready(ended);
                }
            }
            if !heads.is_usual() && head_share.resize(activity.received_bytes()).is_err() {
                surface.shared.over_budget.fetch_add(1, Relaxed);
                return Poll::Ready(Ended::OverBudget);
            }
            if unread.hold(activity.unread_bytes()).is_err() {
                surface.shared.over_budget.fetch_add(1, Relaxed);
                let error = "too many bytes of replies that clients do not take";
                return Poll::Ready(Ended::Early(error.to_owned()));
            }
            let phase = activity.phase();
            idle.poll(cx, phase, phase.timeout(settings)).map(|()| {
                if matches!(phase, Phase::Writing(_)) {
                    surface.shared.slow_readers.fetch_add(1, Relaxed);
                }
                Ended::Early(phase.overdue().to_owned())
            })
        });
        let ended = ended.await;
        let parts = connection.into_parts();
        let mut io = parts.io.into_inner();
        // A second reader with larger bounds may read these bytes again.
        io.socket().put_back(&parts.read_buf);
        (io, ended)
    }

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
            if is_last || self.activity.is_last.load(Relaxed) || self.surface.api.is_draining() {
                reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            self.activity.end_request(reply.body());
            reply
        };
        self.surface.answer(request, finish).await
    }
}

/// Whether the connection is over for `hyper`.
fn ended(activity: &Activity, polled: Poll<Result<(), hyper::Error>>) -> Option<Ended> {
    if let Some(status) = activity.take_unreadable() {
        return Some(Ended::Unreadable(status));
    }
    match polled {
        Poll::Pending => None,
        Poll::Ready(Ok(())) => Some(Ended::Done),
        Poll::Ready(Err(error)) => Some(Ended::Early(error.to_string())),
    }
}

/// Share of the budget of unread replies that a connection holds. Most never hold any.
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
