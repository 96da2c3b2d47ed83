//! Services of the control plane over one transaction: apps, rules, versions, users, logins, audit.
//!
//! Every function takes an [`Actor`] and a [`Tx`](tollgate_db::Tx), and checks rights, input and etags before
//! it changes anything; each change writes its audit entry in the same transaction. So pages and API cannot
//! differ. A request carries a [`Claim`], which becomes an actor in each transaction anew: rights are those
//! of the change, not those of the request's beginning. [`Control`] holds the database, and publishes what a
//! committed change means for nodes as [`Published`].
//!
//! The rooms: `access` (who may do what), `audit` (who did what), `changes` (rules and versions), `rollouts`
//! (versions on their way), `fleet` (nodes), `history` (what nodes counted), `tasks` (what happens by
//! itself). Callers name their modules from here. Not here: rules, change sets and rollouts without a
//! database (`tollgate-model`), HTTP, pages, the stream to nodes.

mod access;
pub mod audit;
pub mod changes;
mod control;
mod error;
mod fleet;
pub mod history;
mod ids;
mod published;
pub mod rollouts;
mod schema;
mod tasks;

pub use tollgate_model::change_set::ConflictSides;
pub use tollgate_model::hash::{hex, sha256};
pub use tollgate_model::{
    Content, FileRule, ModelError, Role, RuleKind, buckets, compile, diff, fields, rollout, table_rule,
    table_rule_yaml,
};

pub use access::actor::{Actor, Who};
pub use access::claim::Claim;
pub use access::entered::Origin;
pub use access::node_tokens::NodeTokens;
pub use access::preferences::Preferences;
pub use access::settings::Settings;
pub use access::{actor, links, logins, me, settings, setup, tokens, users};
pub use audit::edited_rows::{EditedRows, Recorded};
pub use audit::head::Lost;
pub use audit::verification::Rejected;
pub use changes::past::PastVersions;
pub use changes::staging::Steps;
pub use changes::{
    app_settings, apps, change_set, checks, file_rules, publishing, reviews, rules, transfer, versions,
};
pub use control::Control;
pub use error::{Awaited, ControlError, DocFault, Fault, FieldFault, FieldFaults};
pub use fleet::figures::{Figures, ForgottenRule, Surroundings};
pub use fleet::levels::OldNodes;
pub use fleet::nodes::{Health, InForce, KnownNodes, NodeApp, NodeState, Nodes, Usage};
pub use fleet::{frozen, keys, overrides, thaw};
pub use history::trials;
pub use ids::secret;
pub use links::Held;
pub use published::{AppDocuments, Candidate, Committed, Document, Published, Reach, Selector};
pub use schema::{MIGRATIONS, UNSEALED};
pub use tasks::live::Live;
pub use tasks::load::Load;
pub use tasks::rollout_counts::Observed;
pub use tasks::rollout_task::{Roller, seen};
pub use tasks::{events, problems};
