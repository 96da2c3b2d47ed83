//! One connection: HTTP/1.1 by `hyper`, watched by one lazy timer instead of one a request, and ended by a drain.
//!
//! The timer looks a few times within the shortest timeout whether anything has moved since; so requests pay nothing
//! for it, and a connection is cut off at its timeout or up to half as much later. Not here: what is answered (`route`).

use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tollgate_net::{Surface, draining};
use tollgate_store::Store;

use crate::answer::Answer;
use crate::api::HttpApi;
use crate::settings::HttpSettings;

/// Least that `hyper` takes as a cap on a head.
const MIN_HEADER_BYTES: usize = 8 * 1024;

impl<S: Store + 'static> Surface for HttpApi<S> {
    async fn serve<IO>(self: Arc<Self>, io: IO, mut drain: watch::Receiver<bool>)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let pulse = Arc::new(Pulse::default());
        let io = Watched { io: TokioIo::new(io), pulse: Arc::clone(&pulse) };
        let line = Arc::new(Line { api: self, pulse });
        let watched = Arc::clone(&line);
        let service = service_fn(move |request| {
            let line = Arc::clone(&line);
            async move { Ok::<_, Infallible>(line.answer(request).await) }
        });
        let settings = &watched.api.settings;
        let mut connection = pin!(
            http1::Builder::new()
                .max_buf_size(settings.max_header_bytes.max(MIN_HEADER_BYTES))
                // Whoever has said all may close that side and still wait for the answer.
                .half_close(true)
                // Without a queue of buffers. Not `pipeline_flush`: it keeps the answers to all requests that have arrived, without bound.
                .writev(false)
                .serve_connection(io, service)
        );
        let news = drain.clone();
        let mut draining = pin!(draining(&mut drain));
        let mut has_asked = false;
        let mut is_draining = false;
        let mut patience = Patience::new(settings);
        let ended = poll_fn(|cx| {
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                return Poll::Ready(ended.map_err(|error| error.to_string()));
            }
            // It wakes this task, always the same one; so there is nothing to ask again before there is news.
            let has_news = !has_asked || news.has_changed().unwrap_or(true);
            has_asked = true;
            if has_news && !is_draining && draining.as_mut().poll(cx).is_ready() {
                is_draining = true;
                connection.as_mut().graceful_shutdown();
                if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                    return Poll::Ready(ended.map_err(|error| error.to_string()));
                }
            }
            patience.poll(cx, &watched.pulse, settings).map(|why| Err(why.to_owned()))
        });
        if let Err(error) = ended.await {
            tracing::debug!(%error, "an HTTP connection ended early");
        }
    }
}

/// What the requests of one connection share.
struct Line<S: Store> {
    api: Arc<HttpApi<S>>,
    pulse: Arc<Pulse>,
}

impl<S: Store + 'static> Line<S> {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let number = self.pulse.begin();
        let mut answer = self.api.answer(request).await;
        if self.api.settings.max_requests.is_some_and(|most| number >= most) {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        self.pulse.end();
        answer
    }
}

/// What a connection did last. Written by its one task; atomics only because that task may move between threads.
#[derive(Debug, Default)]
struct Pulse {
    /// Requests whose head has arrived.
    begun: AtomicU64,
    is_answering: AtomicBool,
    /// Bytes have come since the last answer: a head has begun.
    has_received: AtomicBool,
    /// The client takes no more bytes.
    is_blocked: AtomicBool,
    /// Bytes that it took.
    sent: AtomicU64,
}

impl Pulse {
    /// A request's head is there. Its number, from 1.
    fn begin(&self) -> u64 {
        let number = self.begun.load(Relaxed) + 1;
        self.begun.store(number, Relaxed);
        self.is_answering.store(true, Relaxed);
        number
    }

    fn end(&self) {
        self.is_answering.store(false, Relaxed);
        self.has_received.store(false, Relaxed);
    }

    fn phase(&self) -> Phase {
        let begun = self.begun.load(Relaxed);
        if self.is_blocked.load(Relaxed) {
            Phase::Writing(self.sent.load(Relaxed))
        } else if self.is_answering.load(Relaxed) {
            Phase::Answering
        } else if begun == 0 || self.has_received.load(Relaxed) {
            Phase::Head(begun)
        } else {
            Phase::Idle(begun)
        }
    }
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The client to take bytes; it has taken so many.
    Writing(u64),
    /// A body, which has a timeout of its own, or us.
    Answering,
    /// The end of a head, after so many requests.
    Head(u64),
    /// The next request, after so many.
    Idle(u64),
}

/// How long a connection has waited for the same thing.
struct Patience {
    ticks: Interval,
    phase: Phase,
    /// Ticks at which it was the same.
    still: u32,
}

impl Patience {
    fn new(settings: &HttpSettings) -> Self {
        let shortest = settings.header_timeout.min(settings.idle_timeout).min(settings.write_timeout);
        let step = (shortest / 4).clamp(Duration::from_millis(5), Duration::from_secs(5));
        let mut ticks = interval_at(Instant::now() + step, step);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { ticks, phase: Phase::Head(0), still: 0 }
    }

    /// Ready, with the reason, when it has waited too long.
    fn poll(&mut self, cx: &mut Context<'_>, pulse: &Pulse, settings: &HttpSettings) -> Poll<&'static str> {
        while self.ticks.poll_tick(cx).is_ready() {
            let phase = pulse.phase();
            self.still = if phase == self.phase { self.still.saturating_add(1) } else { 0 };
            self.phase = phase;
            let (timeout, why) = match phase {
                Phase::Writing(_) => (settings.write_timeout, "the client takes no byte of its answer"),
                Phase::Answering => continue,
                Phase::Head(_) => (settings.header_timeout, "a request's head took too long"),
                Phase::Idle(_) => (settings.idle_timeout, "no request came"),
            };
            if self.ticks.period().saturating_mul(self.still) >= timeout {
                return Poll::Ready(why);
            }
        }
        Poll::Pending
    }
}

/// The socket, telling the pulse what goes through it.
struct Watched<IO> {
    io: TokioIo<IO>,
    pulse: Arc<Pulse>,
}

impl<IO: AsyncRead + Unpin> Read for Watched<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buffer);
        if read.is_ready() {
            self.pulse.has_received.store(true, Relaxed);
        }
        read
    }
}

impl<IO: AsyncWrite + Unpin> Watched<IO> {
    fn told(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.pulse.is_blocked.store(written.is_pending(), Relaxed);
        if let Poll::Ready(Ok(bytes)) = written {
            self.pulse.sent.store(self.pulse.sent.load(Relaxed).wrapping_add(bytes as u64), Relaxed);
        }
        written
    }
}

impl<IO: AsyncWrite + Unpin> Write for Watched<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.told(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.told(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.pulse.is_blocked.store(flushed.is_pending(), Relaxed);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
