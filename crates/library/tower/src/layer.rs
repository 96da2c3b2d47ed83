//! Limits the requests that reach a service: admits or denies them at once.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use smallvec::SmallVec;
use tokio::time::Sleep;
use tollgate::{Clock, MonotonicClock, Quota, QuotaError, check_all};
use tollgate_headers::LimitState;
use tower_layer::Layer;
use tower_service::Service;

use crate::body::Body;
use crate::grpc;
use crate::key::{Head, Key, KeyBytes};
use crate::limit::{Limit, Paid, RequestCounter, Stated};
use crate::replies::{Replies, rejection};

/// Limits the requests that reach a service; denied ones get a reply at once, and the service does not see
/// them. Clones, and all services that they wrap, count together.
///
/// # Example
/// ```
/// use http::{HeaderName, Request, Response, StatusCode};
/// use tollgate_tower::{Key, Limit, Quota, RateLimitLayer};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let per_key = Limit::new(Quota::per_minute(2))?.by(Key::header(HeaderName::from_static("x-api-key")));
/// let service = ServiceBuilder::new()
///     .layer(RateLimitLayer::new(per_key))
///     .service(service_fn(async |_: Request<()>| Ok::<_, std::io::Error>(Response::new(String::new()))));
///
/// let ask = async |key: &str| {
///     let request = Request::builder().header("x-api-key", key).body(())?;
///     Ok::<_, Box<dyn std::error::Error>>(service.clone().oneshot(request).await?)
/// };
/// assert_eq!(ask("ann").await?.headers()["x-ratelimit-remaining"], "1");
/// assert_eq!(ask("ann").await?.headers()["x-ratelimit-remaining"], "0");
/// let denied = ask("ann").await?;
/// assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
/// assert_eq!(denied.headers()["retry-after"], "30");
/// assert_eq!(ask("bob").await?.status(), StatusCode::OK);
/// # Ok(())
/// # }
/// ```
pub struct RateLimitLayer<C = MonotonicClock> {
    shared: Arc<LayerLimits<C>>,
}

struct LayerLimits<C> {
    limits: Vec<Limit<C>>,
    replies: Replies,
}

impl RateLimitLayer {
    /// `quota` for each address that connects: see [`Key::peer_ip`].
    ///
    /// # Errors
    /// [`QuotaError`] says which number of the quota is out of its bounds, and the bound.
    pub fn per_peer(quota: Quota) -> Result<Self, QuotaError> {
        Ok(Self::new(Limit::new(quota)?.by(Key::peer_ip())))
    }
}

impl<C> RateLimitLayer<C> {
    /// A layer with one limit.
    #[must_use]
    pub fn new(limit: Limit<C>) -> Self {
        Self { shared: Arc::new(LayerLimits { limits: vec![limit], replies: Replies::default() }) }
    }

    /// Adds a limit: a request takes from all limits, or from none.
    ///
    /// A quota that paces ([`Quota::leaky_queue`]) holds requests only where it is a layer's only limit;
    /// beside others it admits at once the requests that it would delay.
    #[must_use]
    pub fn and(mut self, limit: Limit<C>) -> Self {
        Arc::make_mut(&mut self.shared).limits.push(limit);
        self
    }

    /// Sets the fields and replies that clients get.
    #[must_use]
    pub fn replies(mut self, replies: Replies) -> Self {
        Arc::make_mut(&mut self.shared).replies = replies;
        self
    }
}

impl<C> Clone for RateLimitLayer<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<C> Clone for LayerLimits<C> {
    fn clone(&self) -> Self {
        Self { limits: self.limits.clone(), replies: self.replies.clone() }
    }
}

impl<C> std::fmt::Debug for RateLimitLayer<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimitLayer")
            .field("limits", &self.shared.limits)
            .field("replies", &self.shared.replies)
            .finish()
    }
}

impl<S, C> Layer<S> for RateLimitLayer<C> {
    type Service = RateLimit<S, C>;

    fn layer(&self, inner: S) -> RateLimit<S, C> {
        RateLimit { inner, shared: Arc::clone(&self.shared) }
    }
}

/// A service behind a [`RateLimitLayer`].
#[derive(Debug)]
pub struct RateLimit<S, C = MonotonicClock> {
    inner: S,
    shared: Arc<LayerLimits<C>>,
}

impl<C> std::fmt::Debug for LayerLimits<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl<S: Clone, C> Clone for RateLimit<S, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

/// Decision of each limit that counted a request, by its place among the limits.
type LimitDecisions = SmallVec<[(usize, Stated); 1]>;

enum LimitVerdict<C: Clock + 'static> {
    Pass(LimitDecisions),
    /// The request is admitted, and acts later.
    Later(Box<(LimitDecisions, Duration, Paid<C>)>),
    Reply(BoxedResponse),
}

/// On the heap, since verdicts and futures are moved for each request that passes too.
type BoxedResponse = Box<Response<Bytes>>;

impl<C: Clock + 'static> LayerLimits<C> {
    #[inline]
    fn decide(&self, head: &Head<'_>) -> LimitVerdict<C> {
        let [limit] = self.limits.as_slice() else { return self.decide_together(head) };
        match limit.place(head) {
            RequestCounter::Counted(key) => match limit.limiter().check_n(&key, limit.permits()) {
                Ok(admitted) => {
                    // Without fields, no reply needs the decision.
                    let counted = match self.replies.has_fields() {
                        true => LimitDecisions::from_buf([(0, limit.stated(&key, admitted.decision()))]),
                        false => LimitDecisions::new(),
                    };
                    if admitted.delay().is_zero() {
                        return LimitVerdict::Pass(counted);
                    }
                    let paid = limit.paid(key);
                    LimitVerdict::Later(Box::new((counted, admitted.delay(), paid)))
                }
                Err(denied) => {
                    let stated = limit.stated(&key, denied.decision());
                    self.denial(&[limit.state(&stated)], head)
                }
            },
            RequestCounter::Uncounted => LimitVerdict::Pass(LimitDecisions::new()),
            RequestCounter::Rejected(status, why) => Self::rejection(status, why, head),
        }
    }

    fn decide_together(&self, head: &Head<'_>) -> LimitVerdict<C> {
        let mut places: SmallVec<[(usize, KeyBytes); 4]> = SmallVec::new();
        for (index, limit) in self.limits.iter().enumerate() {
            match limit.place(head) {
                RequestCounter::Counted(key) => places.push((index, key)),
                RequestCounter::Uncounted => {}
                RequestCounter::Rejected(status, why) => return Self::rejection(status, why, head),
            }
        }
        let requests: SmallVec<[_; 4]> = places
            .iter()
            .map(|(index, key)| {
                let limit = &self.limits[*index];
                limit.limiter().request(key.as_slice(), limit.permits())
            })
            .collect();
        let answer = check_all(&requests);
        if answer.is_ok() && !self.replies.has_fields() {
            return LimitVerdict::Pass(LimitDecisions::new());
        }
        let counted = places.iter().enumerate().map(|(place, (index, key))| match &answer {
            Err(by) if by.index == place => (*index, self.limits[*index].stated(key, by.denied.decision())),
            _ => (*index, self.limits[*index].stated(key, self.limits[*index].limiter().peek(key))),
        });
        let counted: LimitDecisions = counted.collect();
        match answer {
            Ok(()) => LimitVerdict::Pass(counted),
            Err(_) => self.denial(&self.states(&counted), head),
        }
    }

    #[cold]
    fn denial(&self, states: &[LimitState<'_>], head: &Head<'_>) -> LimitVerdict<C> {
        LimitVerdict::Reply(Box::new(self.replies.denial(states, grpc::is_call(head.headers))))
    }

    #[cold]
    fn rejection(status: StatusCode, why: &'static str, head: &Head<'_>) -> LimitVerdict<C> {
        LimitVerdict::Reply(Box::new(rejection(status, why, grpc::is_call(head.headers))))
    }

    fn states(&self, counted: &LimitDecisions) -> SmallVec<[LimitState<'_>; 1]> {
        counted.iter().map(|(index, stated)| self.limits[*index].state(stated)).collect()
    }
}

impl<S, B, R, C> Service<Request<B>> for RateLimit<S, C>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    C: Clock + 'static,
{
    type Response = Response<Body<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, Request<B>, C>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        // Each future is made where it is returned: it holds the request, which is large to move.
        match self.shared.decide(&Head::of(&request)) {
            LimitVerdict::Pass(counted) => {
                let marks = self.marks(counted);
                ResponseFuture { state: ResponseState::Called { future: self.inner.call(request) }, marks }
            }
            LimitVerdict::Later(later) => {
                let (counted, delay, paid) = *later;
                let sleep = Box::pin(tokio::time::sleep(delay));
                let held = Some(Box::new((self.take_ready(), request)));
                let state = ResponseState::Held { sleep, held, paid: Some(paid) };
                ResponseFuture { state, marks: self.marks(counted) }
            }
            LimitVerdict::Reply(response) => {
                drop(self.take_ready());
                ResponseFuture { state: ResponseState::Replied { response: Some(response) }, marks: None }
            }
        }
    }
}

impl<S, C> RateLimit<S, C> {
    fn marks(&self, counted: LimitDecisions) -> Option<(Arc<LayerLimits<C>>, LimitDecisions)> {
        (!counted.is_empty()).then(|| (Arc::clone(&self.shared), counted))
    }
}

impl<S: Clone, C> RateLimit<S, C> {
    /// Takes out the ready service, so that a reservation that made it ready does not stay when it is not
    /// called. A clone takes its place, which has to become ready.
    fn take_ready(&mut self) -> S {
        let fresh = self.inner.clone();
        std::mem::replace(&mut self.inner, fresh)
    }
}

pin_project! {
    /// The response of a [`RateLimit`]. Dropped while a pacing quota holds its request, it gives the permits
    /// back.
    pub struct ResponseFuture<S, Q, C>
    where
        S: Service<Q>,
        C: Clock,
        C: 'static,
    {
        #[pin]
        state: ResponseState<S, Q, C>,
        // The decisions that fields report, if there are any.
        marks: Option<(Arc<LayerLimits<C>>, LimitDecisions)>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum ResponseState<S, Q, C>
    where
        S: Service<Q>,
        C: Clock,
        C: 'static,
    {
        Called { #[pin] future: S::Future },
        Held { sleep: Pin<Box<Sleep>>, held: Option<Box<(S, Q)>>, paid: Option<Paid<C>> },
        Replied { response: Option<BoxedResponse> },
    }
}

impl<S, Q, R, C> Future for ResponseFuture<S, Q, C>
where
    S: Service<Q, Response = Response<R>>,
    C: Clock + 'static,
{
    type Output = Result<Response<Body<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProjection::Called { future } => {
                    let mut response = ready!(future.poll(context))?;
                    if let Some((shared, counted)) = this.marks {
                        let states = shared.states(counted);
                        let status = response.status();
                        shared.replies.mark(&states, status, response.headers_mut());
                    }
                    return Poll::Ready(Ok(response.map(Body::inner)));
                }
                StateProjection::Held { sleep, held, paid } => {
                    ready!(sleep.as_mut().poll(context));
                    let Some(held) = held.take() else { return Poll::Pending };
                    let (mut service, request) = *held;
                    let future = service.call(request);
                    paid.take().into_iter().for_each(Paid::used);
                    this.state.set(ResponseState::Called { future });
                }
                StateProjection::Replied { response } => {
                    let Some(response) = response.take() else { return Poll::Pending };
                    return Poll::Ready(Ok((*response).map(Body::here)));
                }
            }
        }
    }
}
