//! The console with the metrics beside it: one table of operations.

use std::sync::{Arc, LazyLock};

use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use tollgate_console::Console;
use tollgate_http_kit::openapi::Description;
use tollgate_http_kit::{Access, Api, Operation, Problem, Reply, Request, reply};
use tollgate_observe::Format;

use super::metrics::PlaneMetrics;

/// What is answered over HTTP/1.1.
#[derive(Debug)]
pub(crate) struct PlaneApi {
    pub(crate) console: Arc<Console>,
    pub(crate) metrics: Arc<PlaneMetrics>,
}

/// An operation of the port.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlaneRoute {
    Console(<Console as Api>::Route),
    Metrics,
}

static OPERATIONS: LazyLock<Vec<Operation<PlaneRoute>>> = LazyLock::new(|| {
    let console = Console::operations().iter().map(|it| Operation {
        method: it.method.clone(),
        path: it.path,
        route: PlaneRoute::Console(it.route),
        access: it.access,
        id: it.id,
        summary: it.summary,
        describe: it.describe,
    });
    let metrics = Operation {
        method: Method::GET,
        path: "/metrics",
        route: PlaneRoute::Metrics,
        access: Access::Anyone,
        id: "metrics",
        summary: "Metrics of the control plane",
        describe: Description::default,
    };
    console.chain([metrics]).collect()
});

impl Api for PlaneApi {
    type Route = PlaneRoute;

    fn operations() -> &'static [Operation<PlaneRoute>] {
        &OPERATIONS
    }

    async fn answer(self: &Arc<Self>, route: PlaneRoute, request: Request<'_>) -> Result<Reply, Problem> {
        match route {
            PlaneRoute::Console(route) => self.console.answer(route, request).await,
            PlaneRoute::Metrics => {
                if !request.may_see_files() && !self.has_token(&request).await {
                    let detail = "send `Authorization: Bearer TOKEN` with an API token; without one, metrics are for \
                                  this machine only, while the control plane listens on a loopback address";
                    return Err(Problem::new(StatusCode::UNAUTHORIZED, detail));
                }
                let body = Format::Text.render(&self.metrics.registry.lock());
                let content_type = HeaderValue::from_static(Format::Text.content_type());
                Ok(reply::reply(StatusCode::OK, content_type, body))
            }
        }
    }
}

impl PlaneApi {
    /// Whether the request has an API token whose owner may see metrics.
    #[expect(clippy::unused_async, clippy::unused_self, reason = "tokens are looked up in the database")]
    async fn has_token(&self, request: &Request<'_>) -> bool {
        let _ = request;
        false // no API tokens yet
    }
}
