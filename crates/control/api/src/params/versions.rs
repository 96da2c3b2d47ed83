//! Bodies and queries of versions.

use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::query::{BadQuery, Query, Read};

/// A rollback to an old version.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackBody {
    pub reason: String,
    /// The keys of the rules that come back; all of them unless given.
    pub rules: Option<Vec<String>>,
}

/// The version with which another one is compared.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct VersionDiffQuery {
    /// The version to compare with; the one before unless given.
    pub against: Option<i64>,
}

impl VersionDiffQuery {
    pub fn read(query: &impl Query) -> Read<Self> {
        let bad = || BadQuery("invalid `against`: expected the number of a version".to_owned());
        let against = match query.parameter("against") {
            "" => None,
            text => Some(text.parse().map_err(|_| bad())?),
        };
        Ok(Self { against })
    }
}
