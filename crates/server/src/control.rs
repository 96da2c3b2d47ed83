//! The control plane as this program runs it: console, API, metrics and node streams on one port.
//!
//! It has a runtime of its own, also beside a node in one process. Not here: what rules, users and audit are
//! (`control`), pages (`console`), the protocol of the streams (`fleet-hub`).

mod api;
mod banner;
pub(crate) mod command;
mod damage;
mod fleet_nodes;
mod identities;
mod metrics;
mod node_token;
mod plane;
mod port;
mod reports;
mod rewound;
mod running;
mod surroundings;
mod users;

pub(crate) use node_token::FILE as NODE_TOKEN;
pub(crate) use running::{RunningControl, start};
