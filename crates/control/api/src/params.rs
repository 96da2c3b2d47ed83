//! Parameters of operations: bodies as JSON, and the parameters of queries.
//!
//! Bodies become schemas of their names in the description; unknown and duplicate members are rejected. A
//! query is read by its `read`, which says what was expected instead of a parameter that makes no sense;
//! unknown parameters are ignored.

mod access;
mod apps;
mod changes;
mod files;
mod history;
mod keys;
mod lists;
mod overrides;
mod rollouts;
mod rules;
mod versions;

pub use access::{
    AuditExportQuery, AuditQuery, LinkBody, LoginBody, MeBody, PasswordBody, RightBody, RoleBody, SetupBody,
    StateBody, TokenBody, UserBody,
};
pub use apps::{AppBody, ForceBody, TakeOverBody};
pub use changes::{ChangeBody, ChangesQuery, ChoiceBody, CommentBody, OpBody, PreviewBody, ResolveBody};
pub use files::{ExplainQuery, ExportQuery, FileBody, ImportQuery};
pub use history::{EventsQuery, HistoryQuery, ScopeQuery, TopKeysQuery, UnlimitedQuery};
pub use keys::{KeyQuery, LiveKeysQuery, ScanQuery};
pub use lists::PageQuery;
pub use overrides::{OverrideBody, OverridesQuery};
pub use rollouts::{PublishBody, RolloutsQuery, WithdrawBody};
pub use rules::{DraftQuery, OldNodes, OldNodesQuery, RuleBody, RuleSort, RuleState, RulesQuery};
pub use versions::{RollbackBody, VersionDiffQuery};
