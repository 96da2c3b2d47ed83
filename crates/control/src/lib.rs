//! Services of the control plane over one transaction: apps, rules, versions, users, logins, audit.
//!
//! Every function takes an [`Actor`] and a [`Tx`](tollgate_db::Tx), and checks rights, input and etags before
//! it changes anything; each change writes its audit entry in the same transaction. So pages and API cannot
//! differ. A request carries a [`Claim`], which becomes an actor in each transaction anew: rights are those
//! of the change, not those of the request's beginning. [`Control`] holds the database, and publishes what a
//! committed change means for nodes as [`Published`]. [`car`] and [`compile`] are pure. Not here: HTTP,
//! pages, the stream to nodes.

pub mod actor;
pub mod app_change;
pub mod apps;
mod attempts;
pub mod audit;
mod audit_chain;
mod audit_entry;
mod auditing;
mod bindings;
pub mod buckets;
pub mod car;
pub mod car_yaml;
pub mod change_set;
pub mod changes;
pub mod checks;
mod claim;
pub mod compile;
mod content;
mod control;
mod counting;
pub mod diff;
mod entered;
mod epoch;
mod error;
pub mod events;
mod figures;
pub mod file_rules;
pub mod frozen;
pub mod history;
mod identities;
mod ids;
mod keeping;
pub mod keys;
mod leases;
mod levels;
pub mod links;
mod live;
mod load;
pub mod logins;
pub mod me;
mod node_tokens;
mod nodes;
pub mod overrides;
mod passwords;
mod preferences;
pub mod problems;
mod published;
pub mod publishing;
mod recent;
mod rejections;
pub mod reviews;
mod role;
mod rolling;
pub mod rollout;
mod rollout_rows;
pub mod rollouts;
pub mod rules;
mod schema;
pub mod settings;
pub mod setup;
mod sign_in;
mod stored;
mod taking_over;
pub mod thawing;
mod token_text;
pub mod tokens;
pub mod transfer;
pub mod trials;
pub mod users;
pub mod versions;
mod watching;

pub use actor::{Actor, Who};
pub use auditing::Rejected;
pub use claim::Claim;
pub use content::{Content, FileRule, Kind};
pub use control::Control;
pub use counting::Watching;
pub use entered::Origin;
pub use error::{ConflictSides, ControlError, DocFault, Fault, FieldFault, FieldFaults};
pub use figures::{Figures, Surroundings};
pub use ids::{hex, secret, sha256};
pub use levels::OldNodes;
pub use links::Held;
pub use live::Live;
pub use load::Load;
pub use node_tokens::NodeTokens;
pub use nodes::{Health, KnownNodes, NodeApp, NodeState, Nodes, Usage};
pub use preferences::Preferences;
pub use published::{AppDocuments, Candidate, Change, Document, Published, Reach, Selector};
pub use role::Role;
pub use rolling::{Roller, seen};
pub use schema::MIGRATIONS;
pub use settings::Settings;
