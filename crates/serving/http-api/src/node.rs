//! The state of the process, as `/readyz` reports it.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Timestamp;

/// The process as a load balancer and an operator see it.
pub trait NodeStatus: Send + Sync + 'static {
    /// The current state.
    fn state(&self) -> NodeState;

    /// Whether it is shutting down. Asked for each reply.
    fn is_draining(&self) -> bool {
        self.state().is_draining
    }
}

/// State of a process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeState {
    /// Ready for clients: it has rules, and is not shutting down.
    pub is_ready: bool,
    /// It is shutting down.
    pub is_draining: bool,
    /// Why the current rule files are not in force; `None` when they are.
    pub last_error: Option<Arc<str>>,
    /// The store of the counters, and its state.
    pub store: StoreView,
    /// The control plane that sends rules, if there is one.
    pub control: Option<ControlView>,
}

/// The stream to a control plane at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlView {
    /// Whether it is open.
    pub connected: bool,
    /// Time at which it closed; `None` while it is open. The rules in force stay.
    pub away_since: Option<Timestamp>,
    /// Why the last attempt to connect failed.
    pub why: Option<Arc<str>>,
    /// Number of apps whose rules are in force.
    pub apps: usize,
}

/// The store at one moment. By default memory, which is always up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreView {
    /// Its name, never with a password.
    pub name: String,
    /// Whether it answers.
    pub status: StoreStatus,
}

/// Whether a store answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreStatus {
    /// It has not replied yet.
    Trying,
    Up {
        /// Why it is too slow; `None` if it is not.
        slow: Option<Arc<str>>,
    },
    /// It does not answer.
    Down {
        /// Time since it became unavailable.
        duration: Duration,
        /// The last error.
        why: Arc<str>,
    },
}

impl StoreStatus {
    /// As replies have it: `trying`, `up` or `down`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Trying => "trying",
            Self::Up { .. } => "up",
            Self::Down { .. } => "down",
        }
    }
}

impl Default for StoreView {
    fn default() -> Self {
        Self { name: "memory".to_owned(), status: StoreStatus::Up { slow: None } }
    }
}
