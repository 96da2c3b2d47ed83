//! The control plane's end of the nodes' streams: published rules go down, acknowledgements and reports come
//! up.
//!
//! [`Hub`] is the protocol without I/O and without a clock: which node holds what, and what to send it.
//! [`Fleet`] carries out its actions and is the gRPC service. Not here: where publications come from and
//! where reports go (`control`), the node's end (`fleet-agent`).

mod bindings;
mod bundle;
mod commands;
mod counts;
mod fleet;
mod hub;
mod kept;
mod missing_apps;
mod mistake;
mod node;
mod node_state;
mod past;
mod peer;
mod published;
mod seams;
mod service;
mod session;
mod storm;
mod tokens;

pub use bindings::{FailedClaim, MAX_BINDINGS};
pub use bundle::{Bundle, Outgoing};
pub use commands::CommandError;
pub use counts::NodeCounts;
pub use fleet::Fleet;
pub use hub::{Action, Event, Hub, HubSettings, KnownNode};
pub use missing_apps::MissingApps;
pub use mistake::Mistake;
pub use node_state::{AppState, Liveness, NodeState};
pub use past::Past;
pub use peer::Peer;
pub use published::Prepared;
pub use seams::{Identities, IdentitiesInMemory, Reports, ReportsError, Seams};
pub use service::{FleetService, PeerAddress};
pub use session::SessionId;
pub use tokens::{AnyToken, TokenDigests, Tokens};
