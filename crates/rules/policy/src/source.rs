//! Where rules come from while a process runs: files, a control plane, a test.

use std::error::Error;
use std::sync::mpsc::Receiver;

use crate::policy::Policy;

/// Supplies sets of rules, one after the other. `tollgate_limiter::follow` puts them in force.
///
/// The receiver of a channel is a source: the holder of the sender supplies the rules.
///
/// # Example
/// ```
/// # use std::convert::Infallible;
/// # use tollgate_policy::*;
/// let (sender, mut source) = std::sync::mpsc::channel::<RuleUpdate<Infallible>>();
/// sender.send(RuleUpdate::new("7", Ok(Policy::empty())))?;
/// drop(sender);
/// assert_eq!(source.next().map(|update| update.revision).as_deref(), Some("7"));
/// assert!(source.next().is_none(), "the source has ended");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait RuleSource: Send {
    /// Why the source could not supply rules.
    type Error: Error + Send + Sync;

    /// Waits for the next set of rules, or for news of why there are no rules. `None` once the source has
    /// ended.
    fn next(&mut self) -> Option<RuleUpdate<Self::Error>>;
}

/// One set of rules from a [`RuleSource`], or why there are no rules.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RuleUpdate<E> {
    /// The source's own name for the update, such as a digest of files or a version of a control plane.
    pub revision: String,
    /// The rules. While there is an error, the previous rules stay in force.
    pub policy: Result<Policy, E>,
    /// Warnings for the author of the rules, one line each. The rules are in force all the same.
    pub warnings: Vec<String>,
}

impl<E> RuleUpdate<E> {
    /// An update without warnings.
    #[must_use]
    pub fn new(revision: impl Into<String>, policy: Result<Policy, E>) -> Self {
        Self { revision: revision.into(), policy, warnings: Vec::new() }
    }

    /// With these warnings.
    #[must_use]
    pub fn warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }
}

impl<E: Error + Send + Sync> RuleSource for Receiver<RuleUpdate<E>> {
    type Error = E;

    fn next(&mut self) -> Option<RuleUpdate<E>> {
        self.recv().ok()
    }
}
