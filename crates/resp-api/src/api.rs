//! The surface: what the connections of one limiter share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tollgate_core::{Clock, Timestamp};
use tollgate_limiter::Limiter;
use tollgate_net::Surface;
use tollgate_store::Store;

use crate::connection::Connection;
use crate::figures::Figures;
use crate::settings::RespSettings;

/// The Redis protocol in front of a limiter. One serves any number of listeners and threads.
#[derive(Debug)]
pub struct RespApi<S: Store> {
    pub(crate) limiter: Arc<Limiter<S>>,
    clock: Clocked,
    pub(crate) settings: RespSettings,
    pub(crate) figures: Figures,
    /// When it was made.
    pub(crate) started: Timestamp,
    /// Clients so far.
    clients: AtomicU64,
}

/// A clock that a debug print does not ask.
struct Clocked(Arc<dyn Clock>);

impl std::fmt::Debug for Clocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

impl<S: Store> RespApi<S> {
    /// A surface that asks `limiter` at the time of `clock`.
    #[must_use]
    pub fn new(limiter: Arc<Limiter<S>>, clock: Arc<dyn Clock>, settings: RespSettings) -> Self {
        let (started, clock) = (clock.now(), Clocked(clock));
        Self { limiter, clock, settings, figures: Figures::default(), started, clients: AtomicU64::new(0) }
    }

    /// What it counts.
    #[must_use]
    pub const fn figures(&self) -> &Figures {
        &self.figures
    }

    /// The limiter.
    #[must_use]
    pub const fn limiter(&self) -> &Arc<Limiter<S>> {
        &self.limiter
    }

    /// The time. One reading serves all commands that came together.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.0.now()
    }
}

impl<S: Store> Surface for RespApi<S> {
    async fn serve<IO>(self: Arc<Self>, io: IO, drain: watch::Receiver<bool>)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let id = self.clients.fetch_add(1, Ordering::Relaxed) + 1;
        Connection::new(self, io, id).serve(drain).await;
    }
}
