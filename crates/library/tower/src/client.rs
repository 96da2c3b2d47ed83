//! Keeps an outgoing client within the limits of the servers that it calls.

mod backoff;
pub(crate) mod cache;
mod error;
mod replay;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use tollgate::{AcquireError, Clock, KeyedRateLimiter, MonotonicClock, Quota, QuotaError};
use tollgate_headers::{Reading, read};
use tower_layer::Layer;
use tower_service::Service;

pub use self::backoff::Backoff;
use self::cache::Cache;
pub use self::error::{ClientError, Limited, LimitedBy};
pub use self::replay::{NoReplay, Replay, ReplayClone};
use crate::body::Body;
use crate::grpc;
use crate::key::{Head, Key, KeyBytes, key_of};
use crate::limit::Paid;

/// Keeps an outgoing client within the limits of the servers that it calls.
///
/// It reads what servers say about their limits: `Retry-After`, `Retry-After-Ms`, `X-RateLimit-…` and every
/// generation of the IETF fields, and gRPC's `RetryInfo`. While a server wants no requests, they wait here,
/// or fail at once with [`Limited`], without being sent. The server's answers apply whatever [limit of its
/// own](ClientLayer::own_limit) the client keeps: that limit only spares needless requests.
///
/// A request counts as denied by the server when the status is 429, when it is 503 with a wait, or when
/// gRPC's is `RESOURCE_EXHAUSTED`. Such a request is sent again only if [`retry`](ClientLayer::retry) says
/// so, after the wait that the server named, or after a backoff; a 503 only where the method is idempotent.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use http::{Request, Response, StatusCode};
/// use http_body_util::Empty;
/// use tollgate_tower::client::{ClientError, ClientLayer, LimitedBy};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # type Body = Empty<bytes::Bytes>;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let server = service_fn(async |_: Request<Body>| {
///     let denied = Response::builder().status(StatusCode::TOO_MANY_REQUESTS).header("retry-after", "60");
///     Ok::<_, std::io::Error>(denied.body(Body::new()).expect("a response"))
/// });
/// let client = ServiceBuilder::new().layer(ClientLayer::new()).service(server);
///
/// let ask = async || {
///     let request = Request::get("http://api.example/v1").body(Body::new()).expect("a request");
///     match client.clone().oneshot(request).await {
///         Err(ClientError::Limited(limited)) => limited,
///         other => panic!("{other:?}"),
///     }
/// };
/// let first = ask().await;
/// assert_eq!((first.by, first.was_sent), (LimitedBy::Server, true));
/// // The server is left alone for that minute.
/// let second = ask().await;
/// assert_eq!((second.by, second.was_sent), (LimitedBy::Server, false));
/// assert!(second.retry_after.is_some_and(|wait| wait > Duration::from_secs(55)));
/// # }
/// ```
pub struct ClientLayer<P = NoReplay, C = MonotonicClock> {
    replay: P,
    shared: Arc<ClientCore<C>>,
}

struct ClientCore<C> {
    scope: Key,
    max_wait: Duration,
    longest_hold: Duration,
    retries: u32,
    backoff: Backoff,
    holds_at_zero: bool,
    own: Option<KeyedRateLimiter<[u8], C>>,
    /// Admits everything; servers that want no requests are blocked in it.
    held: KeyedRateLimiter<[u8], C>,
    cache: Option<Arc<Cache>>,
}

/// Scopes take little memory: about 30 bytes each.
const SCOPES_BYTES: u64 = 1 << 20;
const LONGEST_HOLD: Duration = Duration::from_secs(3_600);

impl ClientLayer {
    /// A layer that fails at once while a server wants no requests, and never sends a request again.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(MonotonicClock::new())
    }
}

impl Default for ClientLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock + Clone + 'static> ClientLayer<NoReplay, C> {
    /// As [`ClientLayer::new`], on the time of `clock`, which must be the time of day: servers send dates.
    ///
    /// # Panics
    /// Never: there is always a quota without a limit.
    #[must_use]
    pub fn with_clock(clock: C) -> Self {
        #[expect(clippy::expect_used, reason = "no number of this quota can be out of bounds")]
        let held = KeyedRateLimiter::with_memory(Quota::unlimited(), clock, SCOPES_BYTES)
            .expect("no limit is valid");
        let authority = Key::from_fn(|head| {
            let of_target = head.uri.authority().map(|it| it.as_str().to_owned());
            of_target.or_else(|| Some(head.headers.get(http::header::HOST)?.to_str().ok()?.to_owned()))
        });
        let shared = ClientCore {
            scope: authority,
            max_wait: Duration::ZERO,
            longest_hold: LONGEST_HOLD,
            retries: 0,
            backoff: Backoff::default(),
            holds_at_zero: false,
            own: None,
            held,
            cache: None,
        };
        Self { replay: NoReplay, shared: Arc::new(shared) }
    }
}

impl<P, C: Clock + 'static> ClientLayer<P, C> {
    /// Sets the scope of a server's limit; the authority of the target (`api.example:8080`) if nothing is
    /// set. Use a header where the server counts by an API key, and the client has several.
    #[must_use]
    pub fn scope(mut self, scope: Key) -> Self {
        self.change(|shared| shared.scope = scope);
        self
    }

    /// Lets a request wait for up to `max_wait` in all until it may be sent, or sent again. Zero, that is
    /// failing at once, if nothing is set.
    #[must_use]
    pub fn wait_up_to(mut self, max_wait: Duration) -> Self {
        self.change(|shared| shared.max_wait = max_wait);
        self
    }

    /// The longest that a server can hold requests back with one answer; an hour if nothing is set.
    #[must_use]
    pub fn longest_hold(mut self, longest: Duration) -> Self {
        self.change(|shared| shared.longest_hold = longest);
        self
    }

    /// Sets the waits where the server names none, and the variation of all waits.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.change(|shared| shared.backoff = backoff);
        self
    }

    /// Holds requests back also after a response that passed and says that no permit is left, until the reset
    /// that it names. A server whose permits come back one by one names the time until all are back, so this
    /// waits for longer than it must there; it suits servers that count in windows.
    #[must_use]
    pub fn hold_at_zero(mut self) -> Self {
        self.change(|shared| shared.holds_at_zero = true);
        self
    }

    /// A limit that the client keeps for itself, for each [scope](ClientLayer::scope): its requests wait
    /// here, or fail, before the server has to deny them. It is an estimate; the server's answers apply as
    /// well. A second call replaces the limit.
    ///
    /// # Errors
    /// [`QuotaError`] says which number of the quota is out of its bounds, and the bound.
    pub fn own_limit(mut self, quota: Quota, clock: C) -> Result<Self, QuotaError> {
        let own = KeyedRateLimiter::with_memory(quota, clock, SCOPES_BYTES)?;
        self.change(|shared| shared.own = Some(own));
        Ok(self)
    }

    /// Keeps up to `entries` responses of up to 64 KiB each for as long as their `Cache-Control: max-age`
    /// says: of `GET` with status 200 and neither `Vary` nor `no-store`. A request with another
    /// `Authorization`, `Cookie` or `Accept…` field has a response of its own.
    #[must_use]
    pub fn cache(mut self, entries: usize) -> Self {
        self.change(|shared| shared.cache = Some(Arc::new(Cache::new(entries))));
        self
    }

    /// Sends denied requests again, up to `retries` times, as long as the waits fit into
    /// [`wait_up_to`](ClientLayer::wait_up_to). `replay` copies the body: [`ReplayClone`], or a [`Replay`] of
    /// your own.
    #[must_use]
    pub fn retry<R>(mut self, retries: u32, replay: R) -> ClientLayer<R, C> {
        self.change(|shared| shared.retries = retries);
        ClientLayer { replay, shared: self.shared }
    }

    fn change(&mut self, change: impl FnOnce(&mut ClientCore<C>)) {
        change(Arc::make_mut(&mut self.shared));
    }
}

impl<P: Clone, C> Clone for ClientLayer<P, C> {
    fn clone(&self) -> Self {
        Self { replay: self.replay.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<C> Clone for ClientCore<C> {
    fn clone(&self) -> Self {
        Self {
            scope: self.scope.clone(),
            own: self.own.clone(),
            held: self.held.clone(),
            cache: self.cache.clone(),
            ..*self
        }
    }
}

impl<P, C> std::fmt::Debug for ClientLayer<P, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientLayer")
            .field("max_wait", &self.shared.max_wait)
            .field("retries", &self.shared.retries)
            .field("backoff", &self.shared.backoff)
            .finish_non_exhaustive()
    }
}

impl<S, P: Clone, C> Layer<S> for ClientLayer<P, C> {
    type Service = Client<S, P, C>;

    fn layer(&self, inner: S) -> Client<S, P, C> {
        Client { inner, replay: self.replay.clone(), shared: Arc::clone(&self.shared) }
    }
}

/// A client behind a [`ClientLayer`].
pub struct Client<S, P = NoReplay, C = MonotonicClock> {
    inner: S,
    replay: P,
    shared: Arc<ClientCore<C>>,
}

impl<S: Clone, P: Clone, C> Clone for Client<S, P, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), replay: self.replay.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<S: std::fmt::Debug, P, C> std::fmt::Debug for Client<S, P, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<C: Clock + 'static> ClientCore<C> {
    /// Waits until a request may be sent, for at most `patience`, which it reduces by the time that it
    /// waited. Returns the permit of the client's own limit.
    async fn wait(
        &self,
        scope: &KeyBytes,
        patience: &mut Duration,
        was_sent: bool,
    ) -> Result<Option<Paid<C>>, Limited> {
        let mut paid = None;
        if let Some(own) = &self.own {
            let waited = own.try_acquire(scope.as_slice(), 1, *patience).await;
            let waited = waited.map_err(|error| limited(error, LimitedBy::Client, *patience, was_sent))?;
            paid = Some(Paid::new(own, scope.clone(), 1));
            *patience = patience.saturating_sub(waited);
        }
        // Last, since a server may have denied other requests meanwhile.
        let waited = self.held.try_acquire(scope.as_slice(), 1, *patience).await;
        let waited = waited.map_err(|error| limited(error, LimitedBy::Server, *patience, was_sent))?;
        *patience = patience.saturating_sub(waited);
        Ok(paid)
    }

    /// Applies the limits that a server reports; returns the denial if it denied the request.
    fn heed<B>(&self, scope: &KeyBytes, response: &Response<B>, attempt: u32) -> Option<Denial> {
        let fields = response.headers();
        let now = self.held.now();
        let reading = read(fields, now);
        let named = grpc::retry_delay(fields).or_else(|| Some(reading.as_ref()?.wait()));
        let named = named.filter(|wait| !wait.is_zero());
        let is_denied = match response.status() {
            StatusCode::TOO_MANY_REQUESTS => true,
            StatusCode::SERVICE_UNAVAILABLE => named.is_some(),
            _ => grpc::is_exhausted(fields),
        };
        let wait = match named {
            Some(_) if !is_denied && !self.holds_at_zero => None,
            Some(named) => Some(self.backoff.vary(named.min(self.longest_hold))),
            None => is_denied.then(|| self.backoff.wait(attempt)),
        };
        if let Some(wait) = wait {
            self.held.block(scope, now + wait);
        }
        is_denied.then(|| Denial {
            status: response.status(),
            wait: wait.unwrap_or_default(),
            reading: reading.map(Box::new),
        })
    }
}

struct Denial {
    status: StatusCode,
    wait: Duration,
    reading: Option<Box<Reading>>,
}

fn limited(error: AcquireError, by: LimitedBy, patience: Duration, was_sent: bool) -> Limited {
    let retry_after = match &error {
        AcquireError::TooLong { retry_after } => Some(retry_after.saturating_add(patience)),
        _ => None,
    };
    Limited { by, retry_after, was_sent, status: None, reading: None }
}

impl<S, B, R, P, C> Service<Request<B>> for Client<S, P, C>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    P: Replay<B>,
    C: Clock + 'static,
{
    type Response = Response<Body<R>>;
    type Error = ClientError<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    /// Always ready: a request that waits must not keep places of the inner service.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inner = self.inner.clone();
        let replay = self.replay.clone();
        let shared = Arc::clone(&self.shared);
        Box::pin(send(inner, replay, shared, request))
    }
}

async fn send<S, B, R, P, C>(
    mut inner: S,
    replay: P,
    shared: Arc<ClientCore<C>>,
    mut request: Request<B>,
) -> Result<Response<Body<R>>, ClientError<S::Error>>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: http_body::Body<Data = Bytes>,
    P: Replay<B>,
    C: Clock + 'static,
{
    let mut cached = None;
    if let Some(cache) = &shared.cache
        && let Some(name) = cache::name_of(&request)
    {
        if let Some(response) = cache.get(&name, shared.held.now()) {
            return Ok(response.map(Body::here));
        }
        cached = Some((Arc::clone(cache), name));
    }
    let (scope, _) = key_of(std::slice::from_ref(&shared.scope), &Head::of(&request));
    let is_idempotent = request.method().is_idempotent();
    let mut patience = shared.max_wait;
    let mut attempt = 0;
    loop {
        let paid = shared.wait(&scope, &mut patience, attempt > 0).await?;
        // Copied before the call, which consumes the request.
        let again = if attempt < shared.retries { replay::copy(&replay, &request) } else { None };
        std::future::poll_fn(|context| inner.poll_ready(context)).await.map_err(ClientError::Service)?;
        let response = inner.call(request);
        paid.into_iter().for_each(Paid::used);
        let response = response.await.map_err(ClientError::Service)?;
        let Some(denial) = shared.heed(&scope, &response, attempt) else {
            let now = shared.held.now();
            return Ok(match cached {
                Some((cache, name)) => cache.record(name, response, now).map(Body::recorded),
                None => response.map(Body::inner),
            });
        };
        // Unlike a 429, a 503 may come after the work has begun, so only idempotent requests are repeated.
        let may_repeat = denial.status != StatusCode::SERVICE_UNAVAILABLE || is_idempotent;
        match again.filter(|_| may_repeat && denial.wait <= patience) {
            Some(again) => request = again,
            None => {
                return Err(ClientError::Limited(Limited {
                    by: LimitedBy::Server,
                    retry_after: Some(denial.wait),
                    was_sent: true,
                    status: Some(denial.status),
                    reading: denial.reading,
                }));
            }
        }
        attempt += 1;
    }
}
