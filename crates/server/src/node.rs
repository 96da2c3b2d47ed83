//! State shared by the surfaces of one process: the limiter, the clock, the source of rules, and readiness.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::Clock;
use tollgate_limiter::follow::Follower;
use tollgate_rule_files::WatchHandle;

use crate::any_store::NodeLimiter;
use crate::node_control::controlled::Controlled;
use crate::settings::store::ReadyNeeds;

/// Interval at which a process that started without rules checks for some.
const RULES_CHECK: Duration = Duration::from_millis(20);

/// Shared by all surfaces.
pub(crate) struct ServerNode {
    /// Makes the decisions.
    pub(crate) limiter: Arc<NodeLimiter>,
    /// The one clock of the process.
    pub(crate) clock: Arc<dyn Clock>,
    /// Where the rules come from.
    pub(crate) rules: NodeRules,
    /// State of the store that the process needs to be ready.
    needs: ReadyNeeds,
    /// The store has replied at least once.
    has_met_store: AtomicBool,
    draining: AtomicBool,
    ready: watch::Sender<bool>,
    /// Turns true with `draining`.
    leaving: watch::Sender<bool>,
}

/// Where the rules of a node come from.
#[derive(Debug)]
pub(crate) enum NodeRules {
    /// From files alone.
    Files {
        /// Has the files read again. The source ends when it is dropped.
        files: WatchHandle,
        /// Puts each change in force.
        follower: Follower,
    },
    /// From a control plane, and perhaps from files.
    Control(Controlled),
}

impl NodeRules {
    /// Has the files read again.
    pub(crate) fn reload(&self) {
        match self {
            Self::Files { files, .. } => files.reload_now(),
            Self::Control(controlled) => controlled.reload(),
        }
    }

    /// Why the current rule files are not in force; `None` when they are.
    fn last_error(&self) -> Option<Arc<str>> {
        match self {
            Self::Files { follower, .. } => follower.state().error,
            Self::Control(controlled) => controlled.last_error(),
        }
    }

    /// The control plane that rules come from, if they do.
    pub(crate) const fn control(&self) -> Option<&Controlled> {
        match self {
            Self::Files { .. } => None,
            Self::Control(controlled) => Some(controlled),
        }
    }
}

impl std::fmt::Debug for ServerNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("is_ready", &self.is_ready()).finish_non_exhaustive()
    }
}

impl ServerNode {
    /// A node that is ready when `limiter` has rules and its store is in the state that it `needs`.
    pub(crate) fn new(
        limiter: Arc<NodeLimiter>,
        clock: Arc<dyn Clock>,
        rules: NodeRules,
        needs: ReadyNeeds,
    ) -> Self {
        let node = Self {
            limiter,
            clock,
            rules,
            needs,
            has_met_store: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            ready: watch::Sender::new(false),
            leaving: watch::Sender::new(false),
        };
        node.update();
        node
    }

    /// Whether rules are loaded.
    pub(crate) fn has_rules(&self) -> bool {
        self.limiter.rules().policy().is_loaded()
    }

    /// Whether the process is about to end.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Whether clients should use this process.
    pub(crate) fn is_ready(&self) -> bool {
        self.has_rules() && !self.is_draining() && self.has_its_store()
    }

    fn has_its_store(&self) -> bool {
        let is_up = self.limiter.store().is_up();
        if is_up {
            self.has_met_store.store(true, Ordering::Relaxed);
        }
        match self.needs {
            ReadyNeeds::Nothing => true,
            ReadyNeeds::FirstReply => self.has_met_store.load(Ordering::Relaxed),
            ReadyNeeds::Store => is_up,
        }
    }

    /// Readiness, and each change of it.
    pub(crate) fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// Turns true when the process is about to end.
    pub(crate) fn leaving(&self) -> watch::Receiver<bool> {
        self.leaving.subscribe()
    }

    /// From now on clients should use other processes.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.update();
        self.leaving.send_replace(true);
    }

    /// Updates readiness as soon as rules are loaded; for a process that started without them.
    pub(crate) async fn await_rules(&self) {
        while !self.has_rules() {
            tokio::time::sleep(RULES_CHECK).await;
        }
        self.update();
    }

    /// Updates readiness with the status of the control plane. Ends at once without a control plane.
    pub(crate) async fn watch_control(&self) {
        let Some(mut status) = self.rules.control().map(Controlled::status) else { return };
        while status.changed().await.is_ok() {
            self.update();
        }
    }

    /// Connects to a shared store and updates readiness with the store's state. (The store logs its changes
    /// itself.)
    pub(crate) async fn watch_store(&self) {
        let store = self.limiter.store();
        let mut changes = store.changes();
        store.start();
        while changes.next().await.is_some() {
            self.update();
        }
    }

    fn update(&self) {
        self.ready.send_replace(self.is_ready());
    }
}

impl tollgate_http_api::NodeStatus for ServerNode {
    fn is_draining(&self) -> bool {
        Self::is_draining(self)
    }

    fn state(&self) -> tollgate_http_api::NodeState {
        tollgate_http_api::NodeState {
            is_ready: self.is_ready(),
            is_draining: self.is_draining(),
            last_error: self.rules.last_error(),
            control: self.rules.control().map(Controlled::view),
            store: self.limiter.store().view(),
        }
    }
}
