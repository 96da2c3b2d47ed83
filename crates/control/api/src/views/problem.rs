//! Failures, as `application/problem+json`.

use serde::Serialize;
use utoipa::ToSchema;

use super::content::{Conflict, Fault};

/// Why nothing was changed (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
pub struct Problem {
    /// `/problems/` and one of the kinds that docs/control-api.md lists.
    pub r#type: String,
    /// The status in words.
    pub title: &'static str,
    pub status: u16,
    pub detail: String,
    /// Finds the request in the log.
    pub request_id: String,
    /// The members or the places at fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Fault>,
    /// The sides of each conflict.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
}
