//! Nodes that are too old for a publication: each key of the rule language has a level, and a node says in
//! its `Hello` which one it reads.

use tollgate_rule_files::{LANGUAGE, language_level};

use crate::error::ControlError;
use crate::nodes::Nodes;
use crate::published::AppDocuments;

/// What becomes of a publication that a live node cannot read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OldNodes {
    /// It is rejected with the names of those nodes.
    #[default]
    Reject,
    /// It is published. Those nodes are not sent it, and keep the version of the app that they have.
    Leave,
}

/// # Errors
/// [`ControlError::OldNodes`] when a node that reports cannot read these documents.
pub(crate) fn check(documents: &AppDocuments, nodes: &dyn Nodes, now_ms: i64) -> Result<(), ControlError> {
    let mut old = nodes.below(LANGUAGE, now_ms);
    if old.is_empty() {
        return Ok(()); // as a rule: the texts need not be looked at
    }
    let levels = documents.documents.iter().map(|it| language_level(it.yaml()));
    let level = levels.max().unwrap_or(1);
    old.retain(|(_, language)| *language < level);
    if old.is_empty() {
        return Ok(());
    }
    Err(ControlError::OldNodes { level, nodes: old.into_iter().map(|(name, _)| name).collect() })
}
