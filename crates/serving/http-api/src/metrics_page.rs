//! Metrics on a port of their own, at a path of the operator's choice, as envoyproxy/ratelimit has them.

use std::sync::Arc;

use hyper::{Method, StatusCode};
use tollgate_http_kit::{Access, Api, Operation, Problem, Reply, Request};
use tollgate_limiter::Limiter;
use tollgate_store::Store;

use crate::describe;
use crate::metrics::Wanted;
use crate::slow::Slow;

/// The metrics of one limiter, to be served by a `tollgate_http_kit::HttpSurface`.
pub struct MetricsPage<S: Store> {
    limiter: Arc<Limiter<S>>,
    path: String,
    slow: Slow,
}

/// The only operation of [`MetricsPage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsRoute {
    /// Any path: only one has the metrics.
    Any,
}

static OPERATIONS: &[Operation<MetricsRoute>] = &[Operation {
    method: Method::GET,
    path: "/{*}",
    route: MetricsRoute::Any,
    access: Access::Anyone,
    id: "metrics",
    summary: "Metrics for Prometheus",
    describe: describe::metrics,
}];

impl<S: Store> MetricsPage<S> {
    /// The metrics of `limiter` at `path`, which begins with `/`.
    #[must_use]
    pub fn new(limiter: Arc<Limiter<S>>, path: String) -> Self {
        Self { limiter, path, slow: Slow::default() }
    }
}

impl<S: Store + 'static> Api for MetricsPage<S> {
    type Route = MetricsRoute;

    fn operations() -> &'static [Operation<MetricsRoute>] {
        OPERATIONS
    }

    async fn answer(self: &Arc<Self>, _: MetricsRoute, request: Request<'_>) -> Result<Reply, Problem> {
        if request.path() != self.path {
            let detail = format!("unknown path; the metrics are at {}", self.path);
            return Err(Problem::new(StatusCode::NOT_FOUND, detail));
        }
        let wanted = Wanted::by(request.headers());
        let limiter = Arc::clone(&self.limiter);
        self.slow.reply(move || wanted.reply(limiter.metrics())).await
    }
}

impl<S: Store> std::fmt::Debug for MetricsPage<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetricsPage").field("path", &self.path).finish_non_exhaustive()
    }
}
