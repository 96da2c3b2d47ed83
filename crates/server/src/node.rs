//! What the surfaces of one process share: the limiter, the clock, the source of the rules, and whether clients should come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::Clock;
use tollgate_limiter::follow::Follower;
use tollgate_rule_files::WatchHandle;

use crate::counters::NodeLimiter;

/// How often a process that started without rules looks whether there are some.
const LOOK: Duration = Duration::from_millis(20);

/// Shared by the surfaces.
pub struct Node {
    /// Decides.
    pub limiter: Arc<NodeLimiter>,
    /// The one clock of the process.
    pub clock: Arc<dyn Clock>,
    /// Where the rules come from.
    pub rules: NodeRules,
    /// It is ready only while the store answers.
    needs_store: bool,
    draining: AtomicBool,
    ready: watch::Sender<bool>,
}

/// Where the rules of a node come from.
#[derive(Debug)]
pub struct NodeRules {
    /// Has the files read again; the source ends with it.
    pub files: WatchHandle,
    /// Puts each change in force.
    pub follower: Follower,
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
        rules: NodeRules,
        needs_store: bool,
    ) -> Self {
        let node = Self {
            limiter,
            clock,
            rules,
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

    /// Whether the process was told to go.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Whether clients should be sent here.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.has_rules() && !self.is_draining() && (!self.needs_store || self.limiter.store().is_up())
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

    /// Connects to a shared store, and from then on is ready or not as the store's state says. (The store itself tells each change
    /// of it to the log.)
    pub async fn watch_store(&self) {
        let store = self.limiter.store();
        let mut changes = store.changes();
        store.start();
        while changes.next().await.is_some() {
            self.tell();
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
            last_error: self.rules.follower.state().error.as_deref().map(Into::into),
            store: self.limiter.store().view(),
        }
    }
}
