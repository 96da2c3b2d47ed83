//! Nodes, as the control plane knows them: which there are, what they hold, and what they are asked.
//!
//! `nodes` has what each reported last, `known_nodes` the list that survives a restart, `figures` and
//! `recent` what a report says besides counts. `levels` are nodes too old for a rule, `frozen`, `thaw` and
//! `takeover` apps of which nodes hold a newer version than the database, `attach_wait` and `startup` the
//! time after a start. `keys` asks nodes for counters, `overrides` blocks and allows without a rule. Not
//! here: the streams (`fleet-hub`), what nodes counted (`history`).

pub(crate) mod attach_wait;
pub(crate) mod epoch;
pub(crate) mod figures;
pub mod frozen;
pub mod keys;
pub(crate) mod known_nodes;
pub(crate) mod levels;
pub(crate) mod nodes;
pub mod overrides;
pub(crate) mod recent;
pub(crate) mod startup;
pub(crate) mod takeover;
pub mod thaw;
