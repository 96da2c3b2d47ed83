//! The documents of a version, and how they are kept.

use serde_json::json;

use crate::ids::sha256;
use crate::published::Document;

/// The documents of a version, and how they are kept.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) documents: Vec<Document>,
    pub(crate) kept: String,
    pub(crate) sha256: String,
}

impl Compiled {
    pub(crate) fn of(documents: Vec<Document>) -> Self {
        let kept: Vec<_> =
            documents.iter().map(|it| json!({"domain": it.domain(), "yaml": it.yaml()})).collect();
        let kept = serde_json::Value::from(kept).to_string();
        Self { documents, sha256: sha256(&kept), kept }
    }
}
