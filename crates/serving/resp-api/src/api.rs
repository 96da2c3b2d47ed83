//! The surface: serves connections for one limiter.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tollgate_core::Clock;
use tollgate_limiter::Limiter;
use tollgate_net::{Budget, Guesses, Surface};
use tollgate_store::Store;

use crate::connection::Connection;
use crate::context::Context;
use crate::settings::RespSettings;
use crate::stats::Stats;

/// The Redis protocol in front of a limiter. One instance serves any number of listeners and threads.
pub struct RespApi<S: Store> {
    context: Arc<Context<S>>,
    /// Connections served so far; the next one's id is one more.
    connections: AtomicU64,
}

impl<S: Store> std::fmt::Debug for RespApi<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RespApi").field("settings", &self.context.settings).finish_non_exhaustive()
    }
}

impl<S: Store> RespApi<S> {
    /// A surface that asks `limiter` at the time of `clock`.
    #[must_use]
    pub fn new(limiter: Arc<Limiter<S>>, clock: Arc<dyn Clock>, settings: RespSettings) -> Self {
        let started = clock.now();
        let budget = Arc::new(Budget::new(settings.max_buffered_bytes));
        let unread = Arc::new(Budget::new(settings.max_unread_bytes));
        let clock = clock.into();
        let stats = Stats::default();
        let guesses = Guesses::new("resp");
        let latency = limiter.metrics().latency("resp");
        let context = Context { limiter, clock, settings, stats, latency, guesses, budget, unread, started };
        Self { context: Arc::new(context), connections: AtomicU64::new(0) }
    }

    /// Counters of this surface.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.context.stats
    }

    /// Guesses at the password.
    #[must_use]
    pub fn guesses(&self) -> &Guesses {
        &self.context.guesses
    }

    /// Bytes of commands that have arrived in part; see [`RespSettings::max_buffered_bytes`].
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.context.budget.held()
    }

    /// Bytes of buffers of connections whose clients do not take their replies; see
    /// [`RespSettings::max_unread_bytes`].
    #[must_use]
    pub fn unread_bytes(&self) -> usize {
        self.context.unread.held()
    }

    #[must_use]
    pub fn limiter(&self) -> &Arc<Limiter<S>> {
        &self.context.limiter
    }
}

impl<S: Store> Surface for RespApi<S> {
    fn serve<IO>(self: Arc<Self>, io: IO, drain: watch::Receiver<bool>) -> impl Future<Output = ()> + Send
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.serve_peer(io, None, drain)
    }

    fn serve_peer<IO>(
        self: Arc<Self>,
        io: IO,
        peer: Option<IpAddr>,
        drain: watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let id = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        Connection::new(Arc::clone(&self.context), io, id, peer).serve(drain)
    }
}
