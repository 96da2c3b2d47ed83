//! Apps.

use serde::Serialize;
use tollgate_control::{apps, rollout};
use utoipa::ToSchema;

use crate::words;

/// An app and its settings.
#[derive(Debug, Serialize, ToSchema)]
pub struct App {
    pub app: String,
    pub description: String,
    pub version: i64,
    #[schema(schema_with = words::active_or_disabled)]
    pub state: String,
    /// The number of its rules.
    pub rules: i64,
    /// Approvals that a change needs.
    pub approvals: i64,
    pub updated_at: i64,
    pub rollout: Plan,
}

impl From<apps::App> for App {
    fn from(app: apps::App) -> Self {
        Self {
            rollout: (&app.rollout).into(),
            app: app.name,
            description: app.description,
            version: app.version,
            state: app.state,
            rules: app.rules,
            approvals: app.approvals,
            updated_at: app.updated_at,
        }
    }
}

/// The apps that the caller may see.
#[derive(Debug, Serialize, ToSchema)]
pub struct Apps {
    pub apps: Vec<App>,
    pub total: usize,
}

/// The steps by which a version reaches the nodes. In a body, members that are left out have their defaults.
#[derive(Debug, Serialize, ToSchema)]
pub struct Plan {
    /// Such as `1 node`, `10 %` and `all`; without a step, all nodes get the version at once.
    #[schema(required = false)]
    pub steps: Vec<String>,
    /// Seconds for which each step is watched.
    #[schema(required = false)]
    pub soak_s: i64,
    /// A failed gate withdraws the version; otherwise the rollout halts and asks.
    #[schema(required = false)]
    pub auto_rollback: bool,
}

impl From<&rollout::Plan> for Plan {
    fn from(plan: &rollout::Plan) -> Self {
        Self {
            steps: plan.steps.iter().map(ToString::to_string).collect(),
            soak_s: plan.soak_s,
            auto_rollback: plan.auto_rollback,
        }
    }
}
