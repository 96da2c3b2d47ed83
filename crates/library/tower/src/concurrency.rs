//! Caps the number of requests that a service works on at the same time.

mod body;
mod judge;
mod slots;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use tollgate::adaptive::Finish;
use tollgate::{
    AdaptiveLimiter, Clock, ConcurrencyLimiter, EnterError, KeyedConcurrencyLimiter, MonotonicClock,
};
use tower_layer::Layer;
use tower_service::Service;

use self::body::Held;
pub use self::body::HeldBody;
use self::judge::Judge;
use self::slots::{Slot, Slots};
use crate::body::Body;
use crate::grpc;
use crate::key::{Head, Key, KeyBytes};
use crate::replies::busy;

const NO_SLOT: &str = "too many requests are in flight; retry later";
const BUSY: &str = "too many requests wait already; retry later";

/// Caps the number of requests that a service works on at the same time: a fixed number, a number per caller,
/// or the number that does not slow it down. A request without a slot gets 503 with `Retry-After`, or
/// `UNAVAILABLE` with a `RetryInfo`, at once or after a wait; the service does not see it.
///
/// A request holds its slot from when it is passed on until its response is read to the end, or dropped. Its
/// latency is measured until then. A request that is dropped gives its slot back, or leaves the line.
///
/// # What an adaptive limit learns from
///
/// - An *overload*: status 408, 429, 503 or 504; gRPC `DEADLINE_EXCEEDED`, `RESOURCE_EXHAUSTED` or
///   `UNAVAILABLE`; an error that is a timeout.
/// - *Ignored*: another 5xx; gRPC `CANCELLED`, `UNKNOWN`, `UNIMPLEMENTED`, `INTERNAL` or `DATA_LOSS`; another
///   error; a response that is dropped before its end.
/// - A *success*: anything else. The time that it took counts.
///
/// [`judge`](Self::judge) and [`overload_error`](Self::overload_error) change that. Put a rate limit of your
/// own outside of this layer, so that its denials are not taken for an overload.
///
/// # Example
/// ```
/// use http::{Request, Response, StatusCode};
/// use tollgate::{AdaptiveLimiter, adaptive::Vegas};
/// use tollgate_tower::ConcurrencyLayer;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let backend = AdaptiveLimiter::new(Vegas::default().initial(1))?;
/// let service = ServiceBuilder::new()
///     .layer(ConcurrencyLayer::adaptive(backend.clone()))
///     .service(service_fn(async |_: Request<()>| Ok::<_, std::io::Error>(Response::new(String::new()))));
///
/// let running = backend.try_enter()?; // other code shares its slots
/// let rejected = service.clone().oneshot(Request::new(())).await?;
/// assert_eq!(rejected.status(), StatusCode::SERVICE_UNAVAILABLE);
/// assert_eq!(rejected.headers()["retry-after"], "1");
/// running.ignore();
/// assert_eq!(service.oneshot(Request::new(())).await?.status(), StatusCode::OK);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ConcurrencyLayer<C = MonotonicClock> {
    slots: Slots<C>,
    judge: Arc<Judge>,
    settings: Settings,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    max_wait: Duration,
    retry_after: Duration,
    status: StatusCode,
    until_head: bool,
}

impl ConcurrencyLayer {
    /// At most `limit` requests of all clones of this layer.
    #[must_use]
    pub fn fixed(limit: u64) -> Self {
        Self::new(ConcurrencyLimiter::direct(limit))
    }

    /// Uses the slots of `limiter`, which other code may share, and whose number may be changed.
    #[must_use]
    pub fn new(limiter: ConcurrencyLimiter) -> Self {
        Self::of(Slots::Fixed(limiter))
    }

    /// At most `limit` requests for each value of `key`, such as each caller: a slow or greedy caller takes
    /// no slots of the others. Requests without the key share the slots of one key.
    #[must_use]
    pub fn per_key(limit: u64, key: Key) -> Self {
        let limiter: KeyedConcurrencyLimiter<[u8]> = ConcurrencyLimiter::keyed(limit);
        Self::of(Slots::Keyed(limiter, key))
    }
}

impl<C: Clock> ConcurrencyLayer<C> {
    /// Admits the number of requests that `limiter` has learned. Other code may share its slots.
    #[must_use]
    pub fn adaptive(limiter: AdaptiveLimiter<C>) -> Self {
        Self::of(Slots::Adaptive(limiter))
    }

    fn of(slots: Slots<C>) -> Self {
        let settings = Settings {
            max_wait: Duration::ZERO,
            retry_after: Duration::from_secs(1),
            status: StatusCode::SERVICE_UNAVAILABLE,
            until_head: false,
        };
        Self { slots, judge: Arc::default(), settings }
    }

    /// Lets requests wait for a slot for at most `max_wait`, first in, first out; 0 if nothing is set.
    #[must_use]
    pub const fn max_wait(mut self, max_wait: Duration) -> Self {
        self.settings.max_wait = max_wait;
        self
    }

    /// The most requests that wait at a time, for all that share the slots; 100,000 if nothing is set. More
    /// are rejected at once.
    #[must_use]
    pub fn max_waiting(self, most: usize) -> Self {
        self.slots.set_max_waiting(most);
        self
    }

    /// Sets the `Retry-After` of rejected clients, in whole seconds rounded up; 1 s if nothing is set, and no
    /// field if zero. No layer knows when a slot will be free.
    #[must_use]
    pub const fn retry_after(mut self, span: Duration) -> Self {
        self.settings.retry_after = span;
        self
    }

    /// The status of a rejection; 503 if nothing is set. A gRPC call gets `RESOURCE_EXHAUSTED` for 429, and
    /// `UNAVAILABLE` otherwise.
    #[must_use]
    pub const fn status(mut self, status: StatusCode) -> Self {
        self.settings.status = status;
        self
    }

    /// Gives the slot up when the service returns the head of its response, and measures until then: for
    /// responses whose bodies take long for other reasons than load, such as streams of events. The trailers
    /// of gRPC are not seen.
    #[must_use]
    pub const fn until_head(mut self) -> Self {
        self.settings.until_head = true;
        self
    }

    /// Decides which responses are an overload. It gets the fields of the head, and once more those of the
    /// trailers if there are any; the last answer counts.
    ///
    /// # Example
    /// ```
    /// use http::StatusCode;
    /// use tollgate::adaptive::Finish;
    /// use tollgate_tower::ConcurrencyLayer;
    ///
    /// // A limit of the backend's own says nothing about its load.
    /// let layer = ConcurrencyLayer::fixed(10).judge(|status, _fields| match status {
    ///     StatusCode::SERVICE_UNAVAILABLE => Finish::Overload,
    ///     status if status.is_success() => Finish::Success,
    ///     _ => Finish::Ignored,
    /// });
    /// ```
    #[must_use]
    pub fn judge(mut self, judge: impl Fn(StatusCode, &HeaderMap) -> Finish + Send + Sync + 'static) -> Self {
        Arc::make_mut(&mut self.judge).set_of_fields(judge);
        self
    }

    /// Decides which errors of the type `E` are an overload, besides timeouts: an `io::Error` of the kind
    /// `TimedOut`, tokio's `Elapsed`, and a boxed error with one of them among its causes. Called again, for
    /// another type.
    ///
    /// # Example
    /// ```
    /// use tollgate_tower::ConcurrencyLayer;
    ///
    /// type BoxError = Box<dyn std::error::Error + Send + Sync>;
    ///
    /// let layer = ConcurrencyLayer::fixed(10)
    ///     .overload_error(|error: &BoxError| error.to_string().contains("timed out"));
    /// ```
    #[must_use]
    pub fn overload_error<E: 'static>(
        mut self,
        is_overload: impl Fn(&E) -> bool + Send + Sync + 'static,
    ) -> Self {
        Arc::make_mut(&mut self.judge).add_of_error(is_overload);
        self
    }
}

impl<C> Clone for ConcurrencyLayer<C> {
    fn clone(&self) -> Self {
        Self { slots: self.slots.clone(), judge: Arc::clone(&self.judge), settings: self.settings }
    }
}

impl<S, C> Layer<S> for ConcurrencyLayer<C> {
    type Service = Concurrency<S, C>;

    fn layer(&self, inner: S) -> Concurrency<S, C> {
        Concurrency { inner, layer: self.clone() }
    }
}

/// A service behind a [`ConcurrencyLayer`].
#[derive(Debug)]
pub struct Concurrency<S, C = MonotonicClock> {
    inner: S,
    layer: ConcurrencyLayer<C>,
}

impl<S: Clone, C> Clone for Concurrency<S, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<C: Clock> ConcurrencyLayer<C> {
    /// A slot, or the reply to a client that gets none.
    async fn enter(&self, key: &KeyBytes, is_grpc: bool) -> Result<Slot<C>, Response<Bytes>> {
        let Settings { max_wait, retry_after, status, .. } = self.settings;
        let error = match self.slots.enter(key, max_wait).await {
            Ok(slot) => return Ok(slot),
            Err(error) => error,
        };
        let message = if matches!(error, EnterError::QueueFull { .. }) { BUSY } else { NO_SLOT };
        Err(busy(status, message, retry_after, is_grpc))
    }

    /// The response of a request that holds `slot`.
    fn held<R>(&self, slot: Slot<C>, response: Response<R>) -> Response<HeldBody<R, C>>
    where
        R: http_body::Body<Data = Bytes>,
    {
        let status = response.status();
        let judge = Arc::clone(&self.judge);
        let finish = judge.fields(status, response.headers());
        if self.settings.until_head {
            slot.finish(finish);
            return response.map(|body| HeldBody::free(Body::inner(body)));
        }
        response.map(|body| HeldBody::new(Body::inner(body), Held { slot, status, finish, judge }))
    }
}

impl<S, B, R, C> Service<Request<B>> for Concurrency<S, C>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: 'static,
    B: Send + 'static,
    R: http_body::Body<Data = Bytes> + 'static,
    C: Clock + 'static,
{
    type Response = Response<HeldBody<R, C>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    /// Always ready: a request that waits for a slot must not keep places of the inner service.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut inner = self.inner.clone();
        let layer = self.layer.clone();
        Box::pin(async move {
            let key = layer.slots.key(&Head::of(&request));
            let slot = match layer.enter(&key, grpc::is_call(request.headers())).await {
                Ok(slot) => slot,
                Err(reply) => return Ok(reply.map(|bytes| HeldBody::free(Body::here(bytes)))),
            };
            let response = async {
                std::future::poll_fn(|context| inner.poll_ready(context)).await?;
                inner.call(request).await
            };
            match response.await {
                Ok(response) => Ok(layer.held(slot, response)),
                Err(error) => {
                    slot.finish(layer.judge.error(&error));
                    Err(error)
                }
            }
        })
    }
}
