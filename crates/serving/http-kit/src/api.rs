//! The interface of a surface's API, and the state that its connections share.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::HeaderMap;
use tollgate_net::Budget;

use crate::body::Request;
use crate::operations::Operation;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::settings::SurfaceSettings;
use crate::shared::Shared;

/// The operations of one HTTP surface, and what answers them.
pub trait Api: Send + Sync + Sized + 'static {
    /// Identifies an operation in [`answer`](Self::answer): usually an enum.
    type Route: Copy + Send + Sync + 'static;

    /// Whether clients should connect elsewhere: replies then carry `Connection: close`. Asked for each one.
    fn is_draining(&self) -> bool {
        false
    }

    /// Adds fields to every reply of this surface, also to those that no operation makes: for unknown paths,
    /// other methods, `OPTIONS`, faults.
    fn add_fields(&self, fields: &mut HeaderMap) {
        let _ = fields;
    }

    /// The reply to a request whose head cannot be read, for metrics and logs too. Its path is not known, and
    /// its connection ends.
    fn unreadable(&self, peer: Option<IpAddr>, problem: &Problem) -> Reply {
        self.rejected(peer, problem);
        problem.reply()
    }

    /// A request from `peer` was answered by a problem: for metrics and logs.
    fn rejected(&self, peer: Option<IpAddr>, problem: &Problem) {
        let _ = (peer, problem);
    }

    /// Every operation. Requests are routed by this table, so those that come most belong first.
    fn operations() -> &'static [Operation<Self::Route>];

    /// Answers a request of `route`. The request is authorized: the admin token has been checked where the
    /// operation wants it.
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
/// connection of every worker, or one each worker, so that cores share only what is [`Shared`].
#[derive(Debug)]
pub struct HttpSurface<A> {
    pub(crate) api: Arc<A>,
    pub(crate) settings: SurfaceSettings,
    pub(crate) shared: Arc<Shared>,
    /// This worker's values of the budgets in `shared`.
    pub(crate) bodies: Arc<Budget>,
    pub(crate) replies: Arc<Budget>,
}

impl<A: Api> HttpSurface<A> {
    /// Serves `api` within the bounds of `settings`, alone.
    #[must_use]
    pub fn new(api: A, settings: SurfaceSettings) -> Self {
        let shared = Arc::new(settings.shared());
        Self::sharing(api, settings, shared)
    }

    /// Serves `api` within the bounds of `settings`, which the surfaces of other workers share.
    #[must_use]
    pub fn sharing(api: A, settings: SurfaceSettings, shared: Arc<Shared>) -> Self {
        let bodies = shared.bodies.for_worker();
        let replies = shared.replies.for_worker();
        Self { api: Arc::new(api), settings, shared, bodies, replies }
    }

    /// The API that it serves.
    #[must_use]
    pub const fn api(&self) -> &Arc<A> {
        &self.api
    }

    /// State that it shares with the surfaces of other workers.
    #[must_use]
    pub const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}
