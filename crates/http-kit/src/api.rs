//! What a surface brings, and what its connections share.

use std::sync::Arc;

use tollgate_net::Budget;

use crate::body::Request;
use crate::operations::Operation;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::settings::SurfaceSettings;

/// The operations of one HTTP surface, and what answers them.
pub trait Api: Send + Sync + Sized + 'static {
    /// What an operation is called in [`answer`](Self::answer): usually an enum.
    type Route: Copy + Send + Sync + 'static;

    /// Whether clients should connect elsewhere: replies then carry `Connection: close`. Asked for each one.
    fn is_draining(&self) -> bool {
        false
    }

    /// Every operation. Requests are routed by this table, so those that come most belong first.
    fn operations() -> &'static [Operation<Self::Route>];

    /// Answers a request of `route`. It may be asked: the admin token has been checked where the operation
    /// wants it.
    ///
    /// # Errors
    /// A [`Problem`], which is sent as `application/problem+json`.
    fn answer(
        self: &Arc<Self>,
        route: Self::Route,
        request: Request<'_>,
    ) -> impl Future<Output = Result<Reply, Problem>> + Send;
}

/// An [`Api`] as a surface: serves it on connections; see `tollgate_net::Surface`. One value serves every
/// connection of every worker, or one each worker, so that cores share nothing.
#[derive(Debug)]
pub struct HttpSurface<A> {
    pub(crate) api: Arc<A>,
    pub(crate) settings: SurfaceSettings,
    pub(crate) budget: Arc<Budget>,
}

impl<A: Api> HttpSurface<A> {
    /// Serves `api` within the bounds of `settings`.
    #[must_use]
    pub fn new(api: A, settings: SurfaceSettings) -> Self {
        let budget = Arc::new(Budget::new(settings.max_buffered_bytes));
        Self { api: Arc::new(api), settings, budget }
    }

    /// What it serves.
    #[must_use]
    pub const fn api(&self) -> &Arc<A> {
        &self.api
    }

    /// Bytes of half-arrived bodies that are held now; for a metric.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.budget.held()
    }
}
