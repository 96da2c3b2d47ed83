//! The console with the metrics beside it: one table of operations.

use std::sync::{Arc, LazyLock};

use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use tollgate_console::Console;
use tollgate_control::{Claim, Control, Origin, Role};
use tollgate_http_kit::openapi::Description;
use tollgate_http_kit::{Access, Api, Operation, Problem, Reply, Request, reply};
use tollgate_observe::Format;

use super::metrics::PlaneMetrics;

/// The part of the port that answers over HTTP/1.1.
#[derive(Debug)]
pub(crate) struct PlaneApi {
    pub(crate) console: Arc<Console>,
    pub(crate) control: Arc<Control>,
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

    fn add_fields(&self, fields: &mut HeaderMap) {
        self.console.add_fields(fields);
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
                let body =
                    Format::Text.render(&self.metrics.registry.lock()) + &self.control.problem_metrics();
                let content_type = HeaderValue::from_static(Format::Text.content_type());
                Ok(reply::reply(StatusCode::OK, content_type, body))
            }
        }
    }
}

impl PlaneApi {
    /// Whether the request has an API token whose owner may see metrics.
    async fn has_token(&self, request: &Request<'_>) -> bool {
        let field = request.headers().get(AUTHORIZATION).and_then(|field| field.to_str().ok());
        let Some((scheme, token)) = field.and_then(|field| field.split_once(' ')) else { return false };
        if !scheme.eq_ignore_ascii_case("bearer") {
            return false;
        }
        let ip = self.console.client_of(request);
        let from = Origin { ip: &ip, ..Origin::default() };
        let entered = self.control.enter(&Claim::token(token.trim(), from)).await;
        entered.is_ok_and(|entered| entered.is_some_and(|(who, _)| who.may_everywhere(Role::Viewer)))
    }
}
