//! Nodes that are too old for a publication: each key of the rule language has a level, and a node says in
//! its `Hello` which one it reads.

use tollgate_model::levels::level_of;
use tollgate_rule_files::LANGUAGE;

use crate::error::ControlError;
use crate::fleet::nodes::{NodeState, Nodes};
use crate::published::AppDocuments;

/// The fate of a publication that a live node cannot read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OldNodes {
    /// It is rejected with the names of those nodes.
    #[default]
    Reject,
    /// It is published. Those nodes are not sent it, and keep the version of the app that they have.
    Leave,
}

/// The level that a node reads. Nodes older than levels read level 1.
pub(crate) fn reads(node: &NodeState) -> u32 {
    node.language.max(1)
}

/// # Errors
/// [`ControlError::OldNodes`] when a node that reports cannot read these documents.
pub(crate) fn check(documents: &AppDocuments, nodes: &dyn Nodes, now_ms: i64) -> Result<(), ControlError> {
    let mut old = nodes.below(LANGUAGE, now_ms);
    if old.is_empty() {
        return Ok(()); // as a rule: the texts need not be looked at
    }
    let candidate = documents.candidate.iter().flat_map(|it| &it.documents);
    let level = level_of(documents.documents.iter().chain(candidate));
    old.retain(|(_, language)| *language < level);
    if old.is_empty() {
        return Ok(());
    }
    Err(ControlError::OldNodes { level, nodes: old.into_iter().map(|(name, _)| name).collect() })
}
