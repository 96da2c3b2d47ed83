//! The surface as a whole: what all its connections share.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use hyper::Response;
use tokio::sync::Semaphore;
use tollgate_core::Clock;
use tollgate_limiter::Limiter;
use tollgate_store::Store;

use crate::body::Budget;
use crate::node::Node;
use crate::parsed::Caps;
use crate::settings::HttpSettings;

/// Heavy answers (metrics, rules) that are worked on at once.
const HEAVY: usize = 2;

/// Answers the body of `POST /json`: another transport's call over HTTP, whose meaning is that transport's own business.
pub type PeerJson = dyn Fn(Bytes) -> Pin<Box<dyn Future<Output = Response<String>> + Send>> + Send + Sync;

/// The HTTP API over one limiter. One value serves every connection of every worker; see `tollgate_net::Surface`.
pub struct HttpApi<S: Store> {
    pub(crate) limiter: Arc<Limiter<S>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) node: Arc<dyn Node>,
    pub(crate) json: Arc<PeerJson>,
    pub(crate) settings: HttpSettings,
    pub(crate) caps: Caps,
    pub(crate) budget: Budget,
    pub(crate) heavy: Semaphore,
}

impl<S: Store> HttpApi<S> {
    /// An API that asks `limiter` at the time of `clock`. `/json` is answered by `json`, `/readyz` by `node`.
    #[must_use]
    pub fn new(
        limiter: Arc<Limiter<S>>,
        clock: Arc<dyn Clock>,
        node: Arc<dyn Node>,
        json: Arc<PeerJson>,
        settings: HttpSettings,
    ) -> Self {
        let caps = Caps {
            batch: settings.max_batch,
            descriptors: settings.max_descriptors,
            entries: settings.max_entries,
        };
        let (budget, heavy) = (Budget::new(settings.max_buffered_bytes), Semaphore::new(HEAVY));
        Self { limiter, clock, node, json, settings, caps, budget, heavy }
    }

    /// Bytes of half-arrived bodies that are held now; for a metric.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.budget.held()
    }
}

impl<S: Store> std::fmt::Debug for HttpApi<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpApi").field("settings", &self.settings).finish_non_exhaustive()
    }
}
