//! Bodies and queries of rollouts.

use serde::Deserialize;
use tollgate_control::rollout::Plan;
use utoipa::{IntoParams, ToSchema};

use crate::query::{Query, Read, limit, text};
use crate::views;

/// The publication of a change set.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishBody {
    /// Instead of the app's plan.
    #[schema(value_type = views::Plan)]
    #[serde(default)]
    pub rollout: Option<Plan>,
}

/// Why a rollout is withdrawn.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WithdrawBody {
    pub reason: String,
}

/// Rollouts that are listed.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RolloutsQuery {
    /// Rollouts of this app only.
    #[param(required = false)]
    pub app: String,
    /// Entries of the reply, 1 to 500; 100 unless given.
    #[param(required = false, example = 10)]
    pub limit: i64,
}

impl RolloutsQuery {
    pub fn read(query: &impl Query) -> Read<Self> {
        Ok(Self { limit: limit(query)?, app: text(query, "app") })
    }
}
