//! The documents of a version, and how they are kept.

use serde_json::json;
use tollgate_fleet_proto::published::Document;

use crate::hash::sha256;

/// The documents of a version, and how they are kept.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// One for each domain.
    pub documents: Vec<Document>,
    /// The documents as JSON, as the table of versions keeps them.
    pub kept: String,
    /// SHA-256 of `kept`.
    pub sha256: String,
}

impl Compiled {
    /// These documents, with the text that is kept of them.
    #[must_use]
    pub fn of(documents: Vec<Document>) -> Self {
        let kept: Vec<_> =
            documents.iter().map(|it| json!({"domain": it.domain(), "yaml": it.yaml()})).collect();
        let kept = serde_json::Value::from(kept).to_string();
        Self { documents, sha256: sha256(&kept), kept }
    }
}
