//! The control plane's end of the nodes' streams: published rules go down, acknowledgements and reports come
//! up.
//!
//! [`Hub`] is the protocol without I/O and without a clock: which node holds what, and what to send it.
//! [`Fleet`] carries out its actions and is the gRPC service. Not here: where publications come from and
//! where reports go (`control`), the node's end (`fleet-agent`).

mod bindings;
mod bundle;
mod counts;
mod fleet;
mod hub;
mod kept;
mod mistake;
mod node;
mod past;
mod peer;
mod published;
mod service;
mod session;
mod storm;
mod tokens;

pub use bindings::{FailedClaim, MAX_BINDINGS};
pub use bundle::{Bundle, Outgoing};
pub use counts::NodeCounts;
pub use fleet::{CommandError, Fleet, Identities, IdentitiesInMemory, Reports, ReportsError, Seams};
pub use hub::{Action, Event, Hub, HubSettings, KnownNode};
pub use mistake::Mistake;
pub use node::{AppState, Liveness, MissingApps, NodeState};
pub use past::Past;
pub use peer::Peer;
pub use published::Prepared;
pub use service::{FleetService, PeerAddress};
pub use session::SessionId;
pub use tokens::{AnyToken, TokenDigests, Tokens};
