//! What the process says of itself, so that `/readyz` can tell.

use std::sync::Arc;

/// The process as a load balancer and an operator see it.
pub trait Node: Send + Sync + 'static {
    /// How it is now.
    fn state(&self) -> NodeState;
}

/// How a process is at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeState {
    /// Clients should be sent here: it has rules, and was not told to go.
    pub is_ready: bool,
    /// It was told to go.
    pub is_draining: bool,
    /// Why the rule files as they are now are not in force; `None` when they are.
    pub last_error: Option<Arc<str>>,
}
