//! Puts rules in force through the limiter that follows them.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tollgate_core::Clock;
use tollgate_limiter::follow::{FollowSettings, FollowState, Follower, follow};
use tollgate_limiter::{Limiter, Observer};
use tollgate_policy::{Policy, RuleUpdate};
use tollgate_store::Store;

use crate::validate::Parsed;

/// Longest time to put rules in force.
const PATIENCE: Duration = Duration::from_secs(60);

/// Puts rules in force.
pub trait Apply: Send + Sync {
    /// Returns once the rules are in force. May block.
    ///
    /// # Errors
    /// Why the previous rules stay in force.
    fn apply(&self, revision: &str, parsed: Parsed) -> Result<(), String>;
}

/// Puts rules in force through [`follow`], like rules from files.
#[derive(Debug)]
pub struct FollowApply {
    sender: mpsc::Sender<RuleUpdate<Infallible>>,
    follower: Follower,
}

impl FollowApply {
    /// `limiter` follows from now on.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn new<S: Store, O: Observer>(
        limiter: Arc<Limiter<S, O>>,
        clock: Arc<dyn Clock>,
        settings: FollowSettings,
    ) -> io::Result<Self> {
        let (sender, source) = mpsc::channel();
        Ok(Self { sender, follower: follow(source, limiter, clock, settings)? })
    }

    /// Result of the updates so far.
    #[must_use]
    pub fn state(&self) -> FollowState {
        self.follower.state()
    }
}

impl Apply for FollowApply {
    fn apply(&self, revision: &str, parsed: Parsed) -> Result<(), String> {
        let before = self.follower.state().updates;
        // A node without any app yet does not know what is limited, and decides nothing.
        let is_known = parsed.holds_apps || !parsed.policy.domains().is_empty();
        let policy = if is_known { parsed.policy } else { Policy::empty() };
        let update = RuleUpdate::new(revision, Ok(policy)).warnings(parsed.warnings);
        self.sender.send(update).map_err(|_| "the limiter no longer follows".to_owned())?;
        match self.follower.wait(|state| state.updates > before, PATIENCE) {
            Ok(FollowState { error: None, .. }) => Ok(()),
            Ok(FollowState { error: Some(error), .. }) => Err(error.to_string()),
            Err(_) => Err(format!("not in force within {PATIENCE:?}")),
        }
    }
}
