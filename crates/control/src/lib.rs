//! Services of the control plane over one transaction: apps, rules, versions, users, logins, audit.
//!
//! Every function takes an [`Actor`] and a [`Tx`](tollgate_db::Tx), and checks rights, input and etags before
//! it changes anything; each change writes its audit entry in the same transaction. So pages and API cannot
//! differ. [`Control`] holds the database, and publishes what a committed change means for nodes as
//! [`Published`]. [`car`] and [`compile`] are pure. Not here: HTTP, pages, the stream to nodes.

pub mod actor;
pub mod app_change;
pub mod apps;
mod attempts;
pub mod audit;
pub mod car;
pub mod compile;
mod control;
mod cost;
mod epoch;
mod error;
mod ids;
pub mod logins;
mod nodes;
mod passwords;
mod published;
mod role;
pub mod rules;
mod schema;
pub mod setup;
pub mod users;
pub mod versions;

pub use actor::Actor;
pub use control::Control;
pub use error::{ControlError, Fault, FieldFault, FieldFaults};
pub use ids::{hex, secret, sha256};
pub use nodes::{KnownNodes, NodeApp, NodeState, Nodes, Usage};
pub use published::{AppDocuments, Change, Document, Published};
pub use role::Role;
pub use schema::MIGRATIONS;
