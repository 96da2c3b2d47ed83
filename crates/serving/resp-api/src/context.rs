//! State shared by all connections of the surface.

use std::sync::Arc;

use tollgate_core::Timestamp;
use tollgate_limiter::{Latency, Limiter};
use tollgate_net::{Budget, Guesses, SharedClock};
use tollgate_store::Store;

use crate::settings::RespSettings;
use crate::stats::{Counts, Stats};

/// The limiter, its clock, the settings and the counters.
pub(crate) struct Context<S: Store> {
    pub(crate) limiter: Arc<Limiter<S>>,
    pub(crate) clock: SharedClock,
    pub(crate) settings: RespSettings,
    pub(crate) stats: Stats,
    pub(crate) latency: Latency,
    /// Guesses at the password.
    pub(crate) guesses: Guesses,
    /// Bounds the bytes of partial commands of all connections.
    pub(crate) budget: Arc<Budget>,
    /// Bounds the buffers of connections whose clients do not take their replies.
    pub(crate) unread: Arc<Budget>,
    /// When the surface was created.
    pub(crate) started: Timestamp,
}

impl<S: Store> Context<S> {
    /// The current time. One reading serves all commands that arrived together.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Adds the `counts` of commands that arrived at `arrived` to the counters and metrics.
    pub(crate) fn report(&self, counts: Counts, arrived: Timestamp) {
        self.stats.add(counts);
        let decisions = counts.admitted + counts.denied;
        if decisions > 0 {
            self.latency.observe_all(self.now().since(arrived), decisions);
        }
    }
}
