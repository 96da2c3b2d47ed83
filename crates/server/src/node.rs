//! What the surfaces of one process share: the limiter, the clock, the rules' reloader, and whether clients should come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::Clock;
use tollgate_limiter::reload::Reloader;
use tollgate_store::Store as _;
use tollgate_store_redis::StoreState;

use crate::counters::NodeLimiter;

/// How often a process that started without rules looks whether there are some.
const LOOK: Duration = Duration::from_millis(20);

/// Shared by the surfaces.
pub struct Node {
    /// Decides.
    pub limiter: Arc<NodeLimiter>,
    /// The one clock of the process.
    pub clock: Arc<dyn Clock>,
    /// Keeps the rules as the files are.
    pub reloader: Reloader,
    /// It is ready only while the store answers.
    needs_store: bool,
    draining: AtomicBool,
    ready: watch::Sender<bool>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("is_ready", &self.is_ready()).finish_non_exhaustive()
    }
}

impl Node {
    /// A node that is ready where `limiter` has rules and, if it `needs_store`, a store that answers.
    #[must_use]
    pub fn new(
        limiter: Arc<NodeLimiter>,
        clock: Arc<dyn Clock>,
        reloader: Reloader,
        needs_store: bool,
    ) -> Self {
        let node = Self {
            limiter,
            clock,
            reloader,
            needs_store,
            draining: AtomicBool::new(false),
            ready: watch::Sender::new(false),
        };
        node.tell();
        node
    }

    /// Whether there are rules: those of the last files that were right.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        !self.limiter.rules().policy().domains().is_empty()
    }

    /// Whether the store answers, as far as is known.
    #[must_use]
    pub fn has_store(&self) -> bool {
        self.limiter.store().watch().is_none_or(|state| state.borrow().is_up())
    }

    /// Whether the process was told to go.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Whether clients should be sent here.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.has_rules() && !self.is_draining() && (!self.needs_store || self.has_store())
    }

    /// Whether it is ready, and each change of that.
    #[must_use]
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// From now on clients should go elsewhere.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.tell();
    }

    /// Tells that it is ready as soon as there are rules; for a process that has started without.
    pub async fn await_rules(&self) {
        while !self.has_rules() {
            tokio::time::sleep(LOOK).await;
        }
        self.tell();
    }

    /// Connects to a shared store, and from then on tells each change of its state, once. Never ends where there is one.
    pub async fn watch_store(&self) {
        let store = self.limiter.store();
        let Some(mut states) = store.watch() else { return };
        let name = store.name();
        store.start();
        let mut was = StoreState::Trying;
        loop {
            let state = states.borrow_and_update().clone();
            match (&was, &state) {
                (StoreState::Up | StoreState::Trying, StoreState::Down { why, .. }) => {
                    tracing::warn!(store = %name, %why, "the store gives no answer; each rule decides as its on_store_failure says");
                }
                (StoreState::Down { .. }, StoreState::Up) => {
                    tracing::info!(store = %name, "the store answers again")
                }
                (StoreState::Trying, StoreState::Up) => tracing::info!(store = %name, "the store answers"),
                _ => {}
            }
            was = state;
            self.tell();
            if states.changed().await.is_err() {
                return;
            }
        }
    }

    fn tell(&self) {
        self.ready.send_replace(self.is_ready());
    }
}

impl tollgate_http_api::Node for Node {
    fn state(&self) -> tollgate_http_api::NodeState {
        tollgate_http_api::NodeState {
            is_ready: self.is_ready(),
            is_draining: self.is_draining(),
            last_error: self.reloader.state().fault.as_deref().map(Into::into),
            store: self.limiter.store().view(),
        }
    }
}
