//! Input and output of the hub.

use std::sync::Arc;

use tollgate_fleet_proto::{FromNode, Overrides, Reply, Report, Sha256Bytes};

use crate::bundle::Outgoing;
use crate::peer::Peer;
use crate::published::Prepared;
use crate::session::SessionId;

/// Input of the hub.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "events are handled one by one and not kept")]
pub enum Event {
    /// A stream was opened from there, and its token is good.
    Opened(SessionId, Peer),
    /// A stream is closed.
    Closed(SessionId),
    /// The token of a stream admits only nodes that are known, from now on.
    JoiningEnded(SessionId),
    /// A message came.
    Said(SessionId, FromNode),
    /// A report is in the database.
    Stored(SessionId, u64),
    /// A report could not be stored.
    NotStored(SessionId),
    /// New or changed rules were published.
    Published(Arc<Prepared>),
    /// Blocks and allowances have changed.
    Overridden(Arc<Overrides>),
    /// Nothing but time; due every second.
    Tick,
}

/// Output of the hub, to be carried out in order.
#[derive(Debug)]
pub enum Action {
    Send(SessionId, Outgoing),
    /// Close the stream after everything was sent.
    Close(SessionId, String),
    /// Store a report, unless a report of this number or a higher one of this incarnation is stored.
    Store {
        /// The stream to confirm on.
        session: SessionId,
        /// Id of the node.
        node: String,
        /// Number of the node's start.
        incarnation: u64,
        report: Box<Report>,
    },
    /// A node has answered a command.
    Replied {
        /// The stream that it came on.
        session: SessionId,
        /// Id of the node that answers; a command may have been sent to another one.
        node: String,
        reply: Reply,
    },
    /// A node has a secret of its own from now on: keep its digest.
    Bind {
        /// Id of the node.
        node: String,
        /// Digest of its secret.
        sha256: Sha256Bytes,
    },
    /// A client has tried to attach with the id of a node and another secret.
    Claimed {
        /// Id of the node.
        node: String,
        /// Address and port of the attempt.
        address: String,
    },
}
