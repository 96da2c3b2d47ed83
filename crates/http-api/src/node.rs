//! The state of the process, as `/readyz` reports it.

use std::sync::Arc;
use std::time::Duration;

/// The process as a load balancer and an operator see it.
pub trait Node: Send + Sync + 'static {
    /// How it is now.
    fn state(&self) -> NodeState;
}

/// How a process is at one moment.
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
}

/// The state of the store at one moment. By default memory, which is always up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreView {
    /// Its name, never with a password.
    pub name: String,
    /// `up`, `down`, or `trying` while nothing has been heard of it.
    pub state: &'static str,
    /// How long it has given no answer; `None` where it does.
    pub down_for: Option<Duration>,
    /// What was the matter when it was last tried, or what makes it too slow while it is up.
    pub why: Option<Arc<str>>,
}

impl Default for StoreView {
    fn default() -> Self {
        Self { name: "memory".to_owned(), state: "up", down_for: None, why: None }
    }
}
