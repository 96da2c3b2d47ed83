//! Limits the actual use of requests: tokens, bytes, seconds.

mod body;
mod used;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use smallvec::SmallVec;
use tollgate::{Clock, MonotonicClock};
use tollgate_headers::LimitState;
use tower_layer::Layer;
use tower_service::Service;

use self::body::Meter;
pub use self::body::MeteredBody;
pub use self::used::Used;
use self::used::{Account, ByFields};
use crate::body::Body;
use crate::grpc;
use crate::key::{Head, KeyBytes};
use crate::limit::{Limit, RequestCounter, Stated};
use crate::replies::{Replies, rejection};

/// Limits the actual use of requests, such as the tokens of a model or the bytes of a transfer: a request
/// passes while anything is left of every limit, and its use counts in full once it is known. Missing permits
/// become a debt, and requests are denied until it is repaid. The total use is at most the limit plus the use
/// of the requests in flight.
///
/// There are three ways to report the use, which add up:
///
/// - The service calls [`Used::add`], which each request has among its extensions.
/// - [`used`](Self::used) reads it from the status and the fields of the response, and from its trailers.
/// - [`bytes`](Self::bytes) counts the bytes of the response's body.
///
/// Each counts at once, while a body is still sent: a client that goes away has used the part that it
/// received. Clones, and all services that they wrap, count together. Each permit that was used takes
/// [`Limit::cost`] of them.
///
/// # Example
/// ```
/// use http::{HeaderName, Request, Response, StatusCode};
/// use tollgate_tower::{Key, Limit, PostPaidLayer, Quota, Used};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tokens = Limit::new(Quota::per_day(1_000))?.by(Key::header(HeaderName::from_static("x-team")));
/// let service = ServiceBuilder::new().layer(PostPaidLayer::new(tokens)).service(service_fn(
///     async |request: Request<()>| {
///         if let Some(used) = request.extensions().get::<Used>() {
///             used.add(900); // as soon as it is known
///         }
///         Ok::<_, std::io::Error>(Response::new(String::new()))
///     },
/// ));
/// let ask = async || {
///     let request = Request::builder().header("x-team", "search").body(())?;
///     Ok::<_, Box<dyn std::error::Error>>(service.clone().oneshot(request).await?)
/// };
/// assert_eq!(ask().await?.status(), StatusCode::OK);
/// assert_eq!(ask().await?.headers()["x-ratelimit-remaining"], "100"); // before it
/// assert_eq!(ask().await?.status(), StatusCode::TOO_MANY_REQUESTS); // 800 are owed
/// # Ok(())
/// # }
/// ```
pub struct PostPaidLayer<C = MonotonicClock> {
    shared: Arc<PostPaidLimits<C>>,
}

struct PostPaidLimits<C> {
    limits: Vec<Limit<C>>,
    replies: Replies,
    by_fields: Option<Arc<ByFields>>,
    counts_bytes: bool,
}

impl<C> PostPaidLayer<C> {
    /// A layer with one limit.
    #[must_use]
    pub fn new(limit: Limit<C>) -> Self {
        let replies = Replies::default();
        let shared = PostPaidLimits { limits: vec![limit], replies, by_fields: None, counts_bytes: false };
        Self { shared: Arc::new(shared) }
    }

    /// Adds a limit: a request passes while something is left of all limits, and its use counts in each.
    #[must_use]
    pub fn and(self, limit: Limit<C>) -> Self {
        self.with(|shared| shared.limits.push(limit))
    }

    /// Sets the fields and replies that clients get. The fields of a response say what was left before it.
    #[must_use]
    pub fn replies(self, replies: Replies) -> Self {
        self.with(|shared| shared.replies = replies)
    }

    /// Counts the permits that `used` returns: it gets the fields of the head, and once more those of the
    /// trailers if there are any. The numbers of both add up.
    ///
    /// # Example
    /// ```
    /// # use tollgate_tower::{Limit, PostPaidLayer, Quota};
    /// let layer = PostPaidLayer::new(Limit::new(Quota::per_day(1_000_000))?).used(|_status, fields| {
    ///     let tokens = fields.get("x-tokens-used").and_then(|it| it.to_str().ok());
    ///     tokens.and_then(|it| it.parse().ok()).unwrap_or(0)
    /// });
    /// # Ok::<(), tollgate_tower::QuotaError>(())
    /// ```
    #[must_use]
    pub fn used(self, used: impl Fn(StatusCode, &HeaderMap) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|shared| shared.by_fields = Some(Arc::new(used)))
    }

    /// Counts each byte of the bodies of responses, as it is handed to the server.
    #[must_use]
    pub fn bytes(self) -> Self {
        self.with(|shared| shared.counts_bytes = true)
    }

    fn with(mut self, change: impl FnOnce(&mut PostPaidLimits<C>)) -> Self {
        change(Arc::make_mut(&mut self.shared));
        self
    }
}

impl<C> Clone for PostPaidLayer<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<C> Clone for PostPaidLimits<C> {
    fn clone(&self) -> Self {
        Self {
            limits: self.limits.clone(),
            replies: self.replies.clone(),
            by_fields: self.by_fields.clone(),
            counts_bytes: self.counts_bytes,
        }
    }
}

impl<C> std::fmt::Debug for PostPaidLayer<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PostPaidLayer").field(&self.shared).finish()
    }
}

impl<C> std::fmt::Debug for PostPaidLimits<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("limits", &self.limits)
            .field("counts_bytes", &self.counts_bytes)
            .finish_non_exhaustive()
    }
}

impl<S, C> Layer<S> for PostPaidLayer<C> {
    type Service = PostPaid<S, C>;

    fn layer(&self, inner: S) -> PostPaid<S, C> {
        PostPaid { inner, shared: Arc::clone(&self.shared) }
    }
}

/// A service behind a [`PostPaidLayer`].
#[derive(Debug)]
pub struct PostPaid<S, C = MonotonicClock> {
    inner: S,
    shared: Arc<PostPaidLimits<C>>,
}

impl<S: Clone, C> Clone for PostPaid<S, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

/// A request that may start.
struct Started<C: Clock + 'static> {
    used: Used,
    /// Permits left of each limit, by its place among them.
    left: SmallVec<[(usize, Stated); 1]>,
    shared: Arc<PostPaidLimits<C>>,
}

impl<C: Clock + 'static> PostPaidLimits<C> {
    /// Whether something is left of all limits; otherwise the reply to the client.
    fn start(self: &Arc<Self>, head: &Head<'_>) -> Result<Started<C>, Box<Response<Bytes>>> {
        let mut places: SmallVec<[(usize, KeyBytes); 1]> = SmallVec::new();
        for (index, limit) in self.limits.iter().enumerate() {
            match limit.place(head) {
                RequestCounter::Counted(key) => places.push((index, key)),
                RequestCounter::Uncounted => {}
                RequestCounter::Rejected(status, why) => {
                    return Err(Box::new(rejection(status, why, grpc::is_call(head.headers))));
                }
            }
        }
        let mut is_denied = false;
        let mut left = SmallVec::new();
        for (index, key) in &places {
            let limit = &self.limits[*index];
            let decision = match limit.limiter().pay(key, 0) {
                Ok(admitted) => admitted.decision(),
                Err(denied) => {
                    is_denied = true;
                    denied.decision()
                }
            };
            left.push((*index, limit.stated(key, decision)));
        }
        if is_denied {
            return Err(Box::new(self.replies.denial(&self.states(&left), grpc::is_call(head.headers))));
        }
        let accounts = places.into_iter().map(|(index, key)| {
            let limit = &self.limits[index];
            Account { limiter: limit.limiter().clone(), key, cost: limit.permits() }
        });
        let used = Used::of(accounts.collect::<SmallVec<[_; 1]>>());
        Ok(Started { used, left, shared: Arc::clone(self) })
    }

    fn states(&self, left: &[(usize, Stated)]) -> SmallVec<[LimitState<'_>; 1]> {
        left.iter().map(|(index, stated)| self.limits[*index].state(stated)).collect()
    }
}

impl<C: Clock + 'static> Started<C> {
    /// The response with its fields, and the counting of its further use.
    fn finish<R>(self, mut response: Response<R>) -> Response<MeteredBody<R>> {
        let Self { used, left, shared } = self;
        let status = response.status();
        if let Some(by_fields) = &shared.by_fields {
            used.add(by_fields(status, response.headers()));
        }
        if shared.replies.has_fields() && !left.is_empty() {
            shared.replies.mark(&shared.states(&left), status, response.headers_mut());
        }
        let has_meter = shared.counts_bytes || shared.by_fields.is_some();
        let counts_bytes = shared.counts_bytes;
        let meter =
            has_meter.then(|| Meter { used, counts_bytes, status, by_fields: shared.by_fields.clone() });
        response.map(|body| MeteredBody::new(Body::inner(body), meter))
    }
}

impl<S, B, R, C> Service<Request<B>> for PostPaid<S, C>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    C: Clock + 'static,
{
    type Response = Response<MeteredBody<R>>;
    type Error = S::Error;
    type Future = PostPaidFuture<S::Future, C>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        match self.shared.start(&Head::of(&request)) {
            Ok(started) => {
                request.extensions_mut().insert(started.used.clone());
                let future = self.inner.call(request);
                let started = Some(started);
                PostPaidFuture { state: PostPaidState::Called { future, started } }
            }
            Err(response) => {
                // A reservation that made the service ready does not stay.
                let fresh = self.inner.clone();
                drop(std::mem::replace(&mut self.inner, fresh));
                PostPaidFuture { state: PostPaidState::Replied { response: Some(response) } }
            }
        }
    }
}

pin_project! {
    /// The response of a [`PostPaid`].
    pub struct PostPaidFuture<F, C>
    where
        C: Clock,
        C: 'static,
    {
        #[pin]
        state: PostPaidState<F, C>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum PostPaidState<F, C>
    where
        C: Clock,
        C: 'static,
    {
        Called { #[pin] future: F, started: Option<Started<C>> },
        Replied { response: Option<Box<Response<Bytes>>> },
    }
}

impl<F, R, E, C> Future for PostPaidFuture<F, C>
where
    F: Future<Output = Result<Response<R>, E>>,
    C: Clock + 'static,
{
    type Output = Result<Response<MeteredBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Called { future, started } => {
                let response = ready!(future.poll(context))?;
                let Some(started) = started.take() else { return Poll::Pending };
                Poll::Ready(Ok(started.finish(response)))
            }
            StateProjection::Replied { response } => {
                let Some(response) = response.take() else { return Poll::Pending };
                Poll::Ready(Ok((*response).map(|body| MeteredBody::new(Body::here(body), None))))
            }
        }
    }
}
