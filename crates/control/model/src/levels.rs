//! Levels of the rule language: each key has one, and a node says in its `Hello` which one it reads.
//!
//! Not here: what becomes of nodes that are too old (`fleet` of `control`).

use tollgate_fleet_proto::published::Document;
use tollgate_rule_files::language_level;

/// The level that a node must read for these documents; 1 without any.
#[must_use]
pub fn level_of<'a>(documents: impl IntoIterator<Item = &'a Document>) -> u32 {
    documents.into_iter().map(|it| language_level(it.yaml())).max().unwrap_or(1)
}
