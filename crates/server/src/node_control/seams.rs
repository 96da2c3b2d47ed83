//! What the control plane can have this node do: commands, and overrides of decisions.

use std::sync::Arc;

use tollgate_core::Clock;
use tollgate_fleet_proto::{Command, Overrides, Reply};

use crate::any_store::NodeLimiter;

/// Puts blocks and allowances in force, instead of the previous ones.
pub(super) fn overrides(limiter: &Arc<NodeLimiter>) -> Box<dyn FnMut(Overrides) + Send> {
    let _ = limiter;
    Box::new(|overrides| {
        if !overrides.overrides.is_empty() {
            tracing::warn!("this release enforces no blocks and allowances of the control plane");
        }
    })
}

/// Carries out commands; may block.
pub(super) fn commands(
    limiter: &Arc<NodeLimiter>,
    clock: &Arc<dyn Clock>,
) -> Arc<dyn Fn(Command) -> Reply + Send + Sync> {
    let _ = (limiter, clock);
    Arc::new(|Command { command, kind, .. }| {
        let error = format!("unknown command {kind:?}");
        Reply { command, error, body: String::new() }
    })
}
