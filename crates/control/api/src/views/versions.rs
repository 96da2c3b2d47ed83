//! Versions of an app.

use serde::Serialize;
use tollgate_control::{hex, versions};
use utoipa::ToSchema;

use super::content::RuleDiff;

/// A version of an app.
#[derive(Debug, Serialize, ToSchema)]
pub struct Version {
    pub version: i64,
    /// `publish` or `rollback`.
    pub kind: String,
    pub sha256: String,
    pub author: String,
    pub comment: String,
    pub created_at: i64,
    /// The change set that it was; null without one.
    #[schema(required)]
    pub change: Option<String>,
}

impl From<versions::Version> for Version {
    fn from(it: versions::Version) -> Self {
        Self {
            version: it.version,
            kind: it.kind,
            sha256: it.sha256,
            author: it.author,
            comment: it.comment,
            created_at: it.created_at,
            change: it.change_id,
        }
    }
}

/// The versions of an app, the newest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct Versions {
    /// 0 before the first.
    pub current: i64,
    pub versions: Vec<Version>,
}

/// A document that nodes get.
#[derive(Debug, Serialize, ToSchema)]
pub struct Document {
    pub domain: String,
    pub yaml: String,
    pub sha256: String,
}

impl From<&tollgate_control::Document> for Document {
    fn from(it: &tollgate_control::Document) -> Self {
        Self { domain: it.domain().to_owned(), yaml: it.yaml().to_owned(), sha256: hex(it.sha256()) }
    }
}

/// The documents of a version.
#[derive(Debug, Serialize, ToSchema)]
pub struct VersionDocuments {
    pub version: i64,
    pub documents: Vec<Document>,
}

/// The differences of a version from another one.
#[derive(Debug, Serialize, ToSchema)]
pub struct VersionDiff {
    pub version: i64,
    pub against: i64,
    pub diff: Vec<RuleDiff>,
}

impl From<versions::RuleDiff> for RuleDiff {
    fn from(it: versions::RuleDiff) -> Self {
        Self::new(it.kind, &it.key, it.before.as_ref(), it.after.as_ref())
    }
}

/// The version of the app that a change made, or the current one where its etag was old.
#[derive(Debug, Serialize, ToSchema)]
pub struct PublishedVersion {
    pub version: i64,
}
