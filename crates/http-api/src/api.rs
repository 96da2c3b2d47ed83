//! The surface as a whole: what all its connections share.

use std::sync::Arc;

use tollgate_core::Clock;
use tollgate_envoy_rls::RateLimitService;
use tollgate_limiter::Limiter;
use tollgate_store::Store;

use crate::node::Node;
use crate::settings::HttpSettings;

/// The HTTP API over one limiter. One value serves every connection of every worker; see `tollgate_net::Surface`.
pub struct HttpApi<S: Store, L: Store = S> {
    pub(crate) limiter: Arc<Limiter<S, L>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) node: Arc<dyn Node>,
    /// For `/json`.
    pub(crate) service: Arc<RateLimitService<S, L>>,
    pub(crate) settings: HttpSettings,
}

impl<S: Store, L: Store> HttpApi<S, L> {
    /// An API that asks `limiter` at the time of `clock`. `/json` is answered by `service`, `/readyz` by `node`.
    #[must_use]
    pub fn new(
        limiter: Arc<Limiter<S, L>>,
        clock: Arc<dyn Clock>,
        node: Arc<dyn Node>,
        service: Arc<RateLimitService<S, L>>,
        settings: HttpSettings,
    ) -> Self {
        Self { limiter, clock, node, service, settings }
    }
}

impl<S: Store, L: Store> std::fmt::Debug for HttpApi<S, L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpApi").field("settings", &self.settings).finish_non_exhaustive()
    }
}
