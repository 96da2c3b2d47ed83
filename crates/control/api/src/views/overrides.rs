//! Blocks and allowances.

use serde::Serialize;
use tollgate_control::overrides;
use utoipa::ToSchema;

use crate::words;

/// A block or an allowance of a key, a caller or a domain for a time.
#[derive(Debug, Serialize, ToSchema)]
pub struct Override {
    pub id: String,
    pub domain: String,
    /// Each as key=value.
    pub entries: Vec<String>,
    #[schema(schema_with = words::block_or_allow)]
    pub action: &'static str,
    pub until: i64,
    pub reason: String,
    pub author: String,
    pub created_at: i64,
    /// The first rules that it goes before; only of a new one.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<String>>,
    /// The number of rules that it goes before; only of a new one.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules_met: Option<usize>,
}

impl From<overrides::Override> for Override {
    fn from(it: overrides::Override) -> Self {
        Self {
            id: it.id,
            domain: it.domain,
            entries: it.entries.iter().map(|(key, value)| format!("{key}={value}")).collect(),
            action: it.action.name(),
            until: it.until,
            reason: it.reason,
            author: it.author,
            created_at: it.created_at,
            rules: None,
            rules_met: None,
        }
    }
}

/// The overrides in force.
#[derive(Debug, Serialize, ToSchema)]
pub struct Overrides {
    pub overrides: Vec<Override>,
    pub total: i64,
}
