//! The API as a whole: what its connections share, and which method answers which operation.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{HeaderMap, Response, StatusCode};
use tollgate_core::{Clock, Timestamp};
use tollgate_http_kit::reply::{JSON, reply, text};
use tollgate_http_kit::{Api, Operation, Problem, Reply, Request, page};
use tollgate_limiter::{Latency, Limiter};
use tollgate_net::{Presence, SharedClock};
use tollgate_store::Store;

use crate::metrics::Wanted;
use crate::node::NodeStatus;
use crate::operations::{OPERATIONS, Route};
use crate::parsed::Caps;
use crate::settings::HttpSettings;
use crate::slow::Slow;
use crate::{explain, openapi, query};

/// Answers the body of `POST /json`, given whether its client is still there: another transport's call over
/// HTTP, whose meaning is that transport's own business.
pub type PeerJson =
    dyn Fn(Bytes, Arc<Presence>) -> Pin<Box<dyn Future<Output = Response<String>> + Send>> + Send + Sync;

/// The rate limit API over one limiter, to be served by a `tollgate_http_kit::HttpSurface`.
pub struct HttpApi<S: Store> {
    pub(crate) limiter: Arc<Limiter<S>>,
    pub(crate) clock: SharedClock,
    pub(crate) node: Arc<dyn NodeStatus>,
    json: Arc<PeerJson>,
    pub(crate) settings: HttpSettings,
    pub(crate) caps: Caps,
    pub(crate) latency: Latency,
    /// When it was created, and counting began.
    pub(crate) started: Timestamp,
    slow: Slow,
}

impl<S: Store> HttpApi<S> {
    /// An API that asks `limiter` at the time of `clock`. `/json` is answered by `json`, `/readyz` by `node`.
    #[must_use]
    pub fn new(
        limiter: Arc<Limiter<S>>,
        clock: Arc<dyn Clock>,
        node: Arc<dyn NodeStatus>,
        json: Arc<PeerJson>,
        settings: HttpSettings,
    ) -> Self {
        let caps = Caps {
            requests: settings.max_batch,
            descriptors: settings.max_descriptors,
            entries: settings.max_entries,
        };
        let started = clock.now();
        let latency = limiter.metrics().latency("http");
        let clock = clock.into();
        let slow = Slow::default();
        Self { limiter, clock, node, json, settings, caps, latency, started, slow }
    }
}

impl<S: Store + 'static> Api for HttpApi<S> {
    type Route = Route;

    fn unreadable(&self, peer: Option<IpAddr>, problem: &Problem) -> Reply {
        self.answer_unreadable(peer, problem)
    }

    fn rejected(&self, peer: Option<IpAddr>, problem: &Problem) {
        self.reject(peer, problem.status, problem);
    }

    fn operations() -> &'static [Operation<Route>] {
        OPERATIONS
    }

    fn is_draining(&self) -> bool {
        self.node.is_draining()
    }

    async fn answer(self: &Arc<Self>, route: Route, request: Request<'_>) -> Result<Reply, Problem> {
        match route {
            Route::Check => self.check(request).await,
            // Boxed, so that the future of a check stays small.
            route => Box::pin(self.answer_other(route, request)).await,
        }
    }
}

impl<S: Store + 'static> HttpApi<S> {
    /// Every operation that is not called all the time.
    async fn answer_other(
        self: &Arc<Self>,
        route: Route,
        mut request: Request<'_>,
    ) -> Result<Reply, Problem> {
        let max_body = self.settings.max_body_bytes;
        match route {
            Route::Check => self.check(request).await,
            Route::Reserve => {
                // A failure that a client of a proxy can cause is a denial, not an error.
                let reserved = match request.json(max_body).await {
                    Ok(body) => self.reserve(request.headers(), &body).await,
                    Err(problem) => Err(problem),
                };
                reserved.or_else(|problem| self.undecided_reservation(request.peer(), problem))
            }
            Route::Commit => self.commit(&request.json(max_body).await?).await,
            Route::Cancel => self.cancel(&request.json(max_body).await?).await,
            Route::Acquire => {
                let body = request.json(max_body).await?;
                self.acquire(request.headers(), &body).await
            }
            Route::Release => self.release(&request.json(max_body).await?).await,
            Route::Throttle => {
                let body = request.json(max_body).await?;
                self.throttle(request.headers(), &body).await
            }
            Route::Explain => {
                let target = query::descriptor(request.query().unwrap_or_default(), self.caps)?;
                Ok(explain::answer(&self.limiter, &target, self.clock.now(), &self.settings.style))
            }
            Route::Keys => {
                if request.query().is_none_or(str::is_empty) {
                    let detail = "which descriptor? expected ?domain=NAME&entry=KEY=VALUE; the keys of all counters cannot \
                                  be listed, since they are not kept: /v1/rules lists those that are denied most often";
                    return Err(Problem::bad(detail));
                }
                let target = query::descriptor(request.query().unwrap_or_default(), self.caps)?;
                self.keys(request.method(), &target).await
            }
            // Slow with thousands of rules, so made on a thread where no decision waits for it.
            Route::Rules => self.slow(|api| api.rules()).await,
            Route::Usage => self.slow(|api| api.usage()).await,
            Route::PeerJson => Ok(self.peer_json(request).await),
            Route::Metrics => {
                let wanted = Wanted::by(request.headers());
                self.slow(move |api| wanted.reply(api.limiter.metrics())).await
            }
            Route::Health => Ok(text(StatusCode::OK, "ok\n")),
            Route::PeerHealth => Ok(peer_health(&*self.node)),
            Route::Ready => Ok(self.readiness(request.may_see_files())),
            Route::RuleDump => {
                self.slow(|api| text(StatusCode::OK, explain::rlconfig(api.limiter.rules().policy()))).await
            }
            Route::OpenApi => Ok(reply(StatusCode::OK, JSON, openapi::document())),
            Route::Page => Ok(page::page(self.page(request.may_see_files()))),
        }
    }

    /// The caller's trace, if traces are sampled.
    pub(crate) fn traceparent<'f>(&self, fields: &'f HeaderMap) -> Option<&'f str> {
        if !self.limiter.is_sampling() {
            return None;
        }
        fields.get("traceparent").and_then(|value| value.to_str().ok())
    }

    /// Runs `work`, which may take milliseconds with thousands of rules.
    async fn slow(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Reply + Send + 'static,
    ) -> Result<Reply, Problem> {
        let api = Arc::clone(self);
        self.slow.reply(move || work(&api)).await
    }

    /// `/json`: as envoyproxy/ratelimit answers it, including its errors, which are plain text.
    async fn peer_json(&self, mut request: Request<'_>) -> Reply {
        let peer = request.peer();
        match request.body(self.settings.max_body_bytes).await {
            Ok(body) => {
                let answer = (self.json)(body, Arc::clone(request.presence())).await;
                let status = answer.status();
                if status != StatusCode::OK && status != StatusCode::TOO_MANY_REQUESTS {
                    self.reject(peer, status, &Problem::new(status, answer.body().trim_end()));
                }
                answer.map(|body| Full::new(body.into()))
            }
            Err(problem) => self.undecided_peer(peer, &problem),
        }
    }
}

/// `/healthcheck`, envoyproxy/ratelimit's only path for it: it fails also while the process drains.
pub(crate) fn peer_health(node: &dyn NodeStatus) -> Reply {
    match node.state().is_ready {
        true => text(StatusCode::OK, "OK"),
        false => text(StatusCode::INTERNAL_SERVER_ERROR, "not ready; /readyz says why\n"),
    }
}

impl<S: Store> std::fmt::Debug for HttpApi<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpApi").field("settings", &self.settings).finish_non_exhaustive()
    }
}
