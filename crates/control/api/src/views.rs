//! Replies of operations. Each type becomes a schema of its name in the description.
//!
//! An `Option` with `#[schema(required)]` is null without a value; one that is skipped while it is empty is
//! not there at all. Times are in milliseconds UTC unless a member says otherwise.

mod access;
mod apps;
mod audit;
mod changes;
mod content;
mod files;
mod history;
mod keys;
mod nodes;
mod overrides;
mod problem;
mod rollouts;
mod rules;
mod tokens;
mod versions;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

pub use access::{Login, Logins, Me, Name, Right, RoleInWords, Roles, Settings, User, UserLink, Users};
pub use apps::{App, Apps, Plan};
pub use audit::{AuditChain, Entries, Entry};
pub use changes::{
    ChangeEvent, ChangeOp, ChangeSet, ChangeSets, Checked, Diff, DryRun, Imported, Trace, Traces, Unchanged,
};
pub use content::{Conflict, Content, Fault, FieldDiff, FileContent, RowContent, RuleDiff, Trial};
pub use files::{Explanation, File, Files};
pub use history::{
    Counts, DomainFault, History, NewestPoint, Numbers, Point, Problem as CurrentProblem, Problems,
    Suggestion, TopKey, TopKeys, TrialCompared, TrialCounts, Unlimited, UnlimitedRequest,
};
pub use keys::{Counter, Key, KeyNode, KeyOverride, ListedKey, ListedKeys, LiveKey, LiveKeys};
pub use nodes::{Frozen, Node, NodeApp, Nodes, Thawed};
pub use overrides::{Override, Overrides};
pub use problem::Problem;
pub use rollouts::{Decisions, Rollout, RolloutNode, Rollouts, Sides, StepEnd, Why};
pub use rules::{Rule, Rules};
pub use tokens::{NewToken, Token, Tokens};
pub use versions::{Document, PublishedVersion, Version, VersionDiff, VersionDocuments, Versions};

/// Done; there is nothing to say of it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Done {}

/// The description of the API, as OpenAPI 3.1 has it.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApiDescription {
    pub openapi: String,
    pub info: BTreeMap<String, Value>,
    pub servers: Vec<BTreeMap<String, Value>>,
    /// Operations by path and method.
    pub paths: BTreeMap<String, BTreeMap<String, Value>>,
    pub components: BTreeMap<String, BTreeMap<String, Value>>,
}
