//! The model of the control plane, without I/O: rules as people enter them and as nodes get them, change
//! sets, and the state machine of rollouts.
//!
//! [`table_rule`] is a row of the table of committed rates and [`Content`] a rule of either kind; [`compile`]
//! makes the documents that nodes load. [`change_set`] has operations on rules, [`rollout`] the way of a
//! version to the nodes. Time is an argument, and nothing waits. Not here: tables, rights, services and loops
//! (`control`), and the language of rule files (`rule-files`).

mod app;
pub mod audit_sides;
pub mod buckets;
pub mod change_set;
pub mod compile;
mod compiled;
mod content;
pub mod diff;
mod faults;
pub mod fields;
pub mod hash;
pub mod levels;
mod role;
pub mod rollout;
pub mod table_rule;
pub mod table_rule_yaml;

pub use app::App;
pub use compiled::Compiled;
pub use content::{Content, FileRule, RuleKind};
pub use faults::{DocFault, Fault, FieldFault, FieldFaults, ModelError, invalid};
pub use role::Role;
