//! The pages of envoyproxy/ratelimit's debug port: its rules and counts, for people and their tools.

use std::sync::Arc;

use hyper::{Method, StatusCode};
use tollgate_http_kit::reply::text;
use tollgate_http_kit::{Access, Api, Operation, Problem, Reply, Request};
use tollgate_limiter::Limiter;
use tollgate_store::Store;

use crate::api::peer_health;
use crate::describe;
use crate::explain::rlconfig;
use crate::node::NodeStatus;
use crate::slow::Slow;

/// The debug pages of one limiter, to be served by a `tollgate_http_kit::HttpSurface`.
pub struct DebugPages<S: Store> {
    limiter: Arc<Limiter<S>>,
    node: Arc<dyn NodeStatus>,
    slow: Slow,
}

/// Operations of [`DebugPages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugRoute {
    /// The list of the pages.
    Index,
    /// The rules in force.
    Rules,
    /// The counts by rule.
    Stats,
    Health,
    /// Profiles of the Go runtime: a stub, since there are none here.
    Profiles,
}

/// The list of the pages, one per line, as envoyproxy/ratelimit writes it.
const INDEX: &str = "/healthcheck: whether the server is ready, as on the HTTP port\n\
                     /rlconfig: print out the currently loaded configuration for debugging\n\
                     /stats: print out stats\n";

static OPERATIONS: &[Operation<DebugRoute>] = &[
    page("/", DebugRoute::Index, "debugIndex", "The pages of this port"),
    page("/rlconfig", DebugRoute::Rules, "debugRules", "The rules in force"),
    page(
        "/stats",
        DebugRoute::Stats,
        "debugStats",
        "The counts by rule, by the names of envoyproxy/ratelimit",
    ),
    page("/healthcheck", DebugRoute::Health, "debugHealth", "Has rules and is not draining"),
    page("/debug/pprof/{*}", DebugRoute::Profiles, "debugProfiles", "Not served: profiles of Go"),
];

const fn page(
    path: &'static str,
    route: DebugRoute,
    id: &'static str,
    summary: &'static str,
) -> Operation<DebugRoute> {
    let method = Method::GET;
    let access = Access::Anyone;
    let describe = describe::health as _;
    Operation { method, path, route, access, id, summary, describe }
}

impl<S: Store> DebugPages<S> {
    /// The pages of `limiter`, and of `node` for the health check.
    #[must_use]
    pub fn new(limiter: Arc<Limiter<S>>, node: Arc<dyn NodeStatus>) -> Self {
        Self { limiter, node, slow: Slow::default() }
    }
}

impl<S: Store + 'static> Api for DebugPages<S> {
    type Route = DebugRoute;

    fn operations() -> &'static [Operation<DebugRoute>] {
        OPERATIONS
    }

    fn is_draining(&self) -> bool {
        self.node.is_draining()
    }

    async fn answer(self: &Arc<Self>, route: DebugRoute, _: Request<'_>) -> Result<Reply, Problem> {
        let limiter = Arc::clone(&self.limiter);
        match route {
            DebugRoute::Index => Ok(text(StatusCode::OK, INDEX)),
            DebugRoute::Rules => {
                self.slow.reply(move || text(StatusCode::OK, rlconfig(limiter.rules().policy()))).await
            }
            DebugRoute::Stats => {
                self.slow.reply(move || text(StatusCode::OK, limiter.metrics().peer_stats())).await
            }
            DebugRoute::Health => Ok(peer_health(&*self.node)),
            DebugRoute::Profiles => Err(Problem::new(
                StatusCode::NOT_FOUND,
                "profiles of the Go runtime are not served: this server is not written in Go; use perf on its process",
            )),
        }
    }
}

impl<S: Store> std::fmt::Debug for DebugPages<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DebugPages").finish_non_exhaustive()
    }
}
