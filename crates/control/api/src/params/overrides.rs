//! Bodies and queries of blocks and allowances.

use serde::Deserialize;
use serde_json::Value;
use tollgate_control::overrides::MAX_LISTED;
use utoipa::{IntoParams, ToSchema};

use crate::query::{BadQuery, Query, Read, text};
use crate::words;

/// A block or an allowance. Without entries it is about the whole domain, which `whole_domain` must say.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OverrideBody {
    #[schema(required)]
    #[serde(default)]
    pub domain: String,
    /// Each as key=value.
    #[serde(default)]
    pub entries: Vec<String>,
    #[schema(schema_with = words::block_or_allow, required)]
    #[serde(default)]
    pub action: String,
    /// Minutes until it ends.
    #[schema(schema_with = words::whole_or_null)]
    #[serde(default)]
    pub minutes: Value,
    #[schema(required)]
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub whole_domain: bool,
}

/// Overrides that are listed.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct OverridesQuery {
    /// Part of domain, entries or reason.
    #[param(required = false)]
    pub search: String,
    /// Entries of the reply, 1 to 500; 100 unless given.
    #[param(required = false, example = 10)]
    pub limit: i64,
}

impl OverridesQuery {
    pub fn read(query: &impl Query) -> Read<Self> {
        let limit = query.parameter("limit").parse().unwrap_or(100);
        if !(1..=MAX_LISTED).contains(&limit) {
            return Err(BadQuery("invalid `limit`: expected a whole number from 1 to 500".to_owned()));
        }
        Ok(Self { search: text(query, "search"), limit })
    }
}
