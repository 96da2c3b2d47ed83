//! Messages between nodes and the control plane: `tollgate.fleet.v1`.
//!
//! `rpc Attach(stream NodeSays) returns (stream ControlSays)`: the node dials and keeps one stream. Also what
//! both ends compute alike, digests and bounds, and what is [published] to nodes. Not here: the protocol's
//! two ends (`fleet-agent`, `fleet-hub`).

mod bounds;
mod digest;
mod messages;
pub mod published;
pub mod reach;

pub use bounds::{
    LANGUAGE, MAX_APPS, MAX_CONTROL_MESSAGE_BYTES, MAX_DOCUMENT_BYTES, MAX_DOCUMENTS, MAX_LABELS,
    MAX_NODE_MESSAGE_BYTES, MAX_OVERRIDE_BYTES, MAX_REPORT_ROWS, MAX_TEXT_BYTES,
};
pub use digest::{Sha256Bytes, app_digest, text_digest};
pub use messages::*;

/// Path of the one call.
pub const ATTACH: &str = "/tollgate.fleet.v1.Fleet/Attach";
/// Name of the service.
pub const SERVICE: &str = "tollgate.fleet.v1.Fleet";
