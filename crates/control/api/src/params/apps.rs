//! Bodies of apps, also of frozen ones.

use serde::Deserialize;
use serde::de::IgnoredAny;
use tollgate_control::rollout::Plan;
use utoipa::ToSchema;

use crate::{views, words};

/// An app. A reply can be sent back: the members that a reply has besides are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppBody {
    #[serde(default)]
    pub app: String,
    #[serde(default)]
    pub description: String,
    /// `active` or `disabled`.
    #[serde(default)]
    pub state: String,
    #[serde(default)]
    pub approvals: Option<u32>,
    #[schema(value_type = views::Plan)]
    #[serde(default)]
    pub rollout: Option<Plan>,
    #[schema(schema_with = words::ignored_number)]
    #[serde(default, rename = "version")]
    pub _version: IgnoredAny,
    #[schema(schema_with = words::ignored_number)]
    #[serde(default, rename = "rules")]
    pub _rules: IgnoredAny,
    #[schema(schema_with = words::ignored_number)]
    #[serde(default, rename = "updated_at")]
    pub _updated_at: IgnoredAny,
}

/// Why nodes get the rules of the database.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForceBody {
    pub reason: String,
}

/// The node whose rules are taken over, and why.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TakeOverBody {
    /// The id of the node.
    pub node: String,
    pub reason: String,
}
