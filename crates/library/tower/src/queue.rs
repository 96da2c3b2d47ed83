//! Lets requests wait for their turn instead of denying them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use tollgate::{AcquireError, Clock, Decision, MonotonicClock};
use tower_layer::Layer;
use tower_service::Service;

use crate::body::Body;
use crate::grpc;
use crate::key::{Head, KeyBytes};
use crate::limit::{Limit, Paid, RequestCounter};
use crate::replies::{Replies, rejection};

/// Lets requests wait for their turn, first in, first out for each key, for a limited time. A request whose
/// turn cannot come in time is denied at once, and the service does not see it.
///
/// A request that is dropped while it waits leaves the line and gives its permits back. Clones, and all
/// services that they wrap, have the same lines.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use http::{Request, Response};
/// use tollgate_tower::{Limit, Quota, QueueLayer};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let evenly = Limit::new(Quota::per_second(200).burst(1))?;
/// let service = ServiceBuilder::new()
///     .layer(QueueLayer::new(evenly, Duration::from_secs(1)).max_waiting(100))
///     .service(service_fn(async |_: Request<()>| Ok::<_, std::io::Error>(Response::new(String::new()))));
/// for _ in 0..3 {
///     assert!(service.clone().oneshot(Request::new(())).await?.status().is_success()); // one every 5 ms
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct QueueLayer<C = MonotonicClock> {
    shared: Arc<QueueSettings<C>>,
}

#[derive(Debug)]
struct QueueSettings<C> {
    limit: Limit<C>,
    max_wait: Duration,
    replies: Replies,
}

impl<C: Clock + 'static> QueueLayer<C> {
    /// Makes requests wait for at most `max_wait`.
    #[must_use]
    pub fn new(limit: Limit<C>, max_wait: Duration) -> Self {
        Self { shared: Arc::new(QueueSettings { limit, max_wait, replies: Replies::default() }) }
    }

    /// The most requests that wait at a time, of all keys together; 100,000 if nothing is set. More get 503,
    /// or `UNAVAILABLE`.
    #[must_use]
    pub fn max_waiting(self, most: usize) -> Self {
        self.shared.limit.limiter().set_max_waiting(most);
        self
    }

    /// Sets the fields and replies that clients get.
    #[must_use]
    pub fn replies(self, replies: Replies) -> Self {
        let QueueSettings { limit, max_wait, .. } = &*self.shared;
        Self { shared: Arc::new(QueueSettings { limit: limit.clone(), max_wait: *max_wait, replies }) }
    }
}

impl<C> Clone for QueueLayer<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<S, C> Layer<S> for QueueLayer<C> {
    type Service = Queue<S, C>;

    fn layer(&self, inner: S) -> Queue<S, C> {
        Queue { inner, shared: Arc::clone(&self.shared) }
    }
}

/// A service behind a [`QueueLayer`].
#[derive(Debug)]
pub struct Queue<S, C = MonotonicClock> {
    inner: S,
    shared: Arc<QueueSettings<C>>,
}

impl<S: Clone, C> Clone for Queue<S, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<C: Clock + 'static> QueueSettings<C> {
    /// Waits for the turn of `key`; otherwise the reply to its client.
    async fn wait(&self, key: &KeyBytes, is_grpc: bool) -> Result<(), Response<Bytes>> {
        let limiter = self.limit.limiter();
        let permits = self.limit.permits();
        let error = match limiter.try_acquire(key.as_slice(), permits, self.max_wait).await {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        let left = limiter.peek(key);
        let limit = left.limit();
        let remaining = left.remaining();
        let reset_ns = nanos(left.reset_after());
        let decision = match error {
            AcquireError::TooLong { retry_after } => {
                Decision::deny(limit, remaining, nanos(retry_after).max(1), reset_ns)
            }
            AcquireError::Late => Decision::deny(limit, remaining, reset_ns.max(1), reset_ns),
            AcquireError::NeverFits { .. } => Decision::never(limit, remaining, reset_ns),
            _ => return Err(rejection(StatusCode::SERVICE_UNAVAILABLE, BUSY, is_grpc)),
        };
        let stated = self.limit.stated(key, decision);
        Err(self.replies.denial(&[self.limit.state(&stated)], is_grpc))
    }
}

const BUSY: &str = "too many requests wait already; retry later";

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl<S, B, R, C> Service<Request<B>> for Queue<S, C>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: 'static,
    C: Clock + 'static,
{
    type Response = Response<Body<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    /// Always ready: a request that waits for its turn must not keep places of the inner service.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut inner = self.inner.clone();
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let is_grpc = grpc::is_call(request.headers());
            let place = shared.limit.place(&Head::of(&request));
            let turn = match place {
                RequestCounter::Counted(key) => {
                    shared.wait(&key, is_grpc).await.map(|()| Some(shared.limit.paid(key)))
                }
                RequestCounter::Uncounted => Ok(None),
                RequestCounter::Rejected(status, why) => Err(rejection(status, why, is_grpc)),
            };
            let paid = match turn {
                Ok(paid) => paid,
                Err(reply) => return Ok(reply.map(Body::here)),
            };
            std::future::poll_fn(|context| inner.poll_ready(context)).await?;
            let response = inner.call(request);
            paid.into_iter().for_each(Paid::used);
            Ok(response.await?.map(Body::inner))
        })
    }
}
