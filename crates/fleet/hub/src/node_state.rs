//! The state of a node as pages and metrics show it. Not here: the hub's record, its source (`node`).

use std::sync::Arc;

use tollgate_core::Timestamp;
use tollgate_fleet_proto::{Fault, Label};

use crate::bindings::FailedClaim;

/// Whether a node has sent anything lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Liveness {
    /// Within 15 s.
    Live,
    /// Nothing for 15 s; it has probably lost its network, or is overloaded.
    Unresponsive,
    /// Nothing for 60 s.
    Lost,
}

/// A node, for pages and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeState {
    /// Its id, from its state folder.
    pub id: String,
    /// Number of its start.
    pub incarnation: u64,
    /// Name for people.
    pub name: String,
    pub labels: Vec<Label>,
    /// Address of its stream.
    pub address: String,
    /// Such as `tollgate 0.1.0`.
    pub software: String,
    /// Highest language level of rules that it reads.
    pub language: u32,
    /// Domains of its own rule files.
    pub local_domains: Vec<String>,
    /// Its stream is open.
    pub connected: bool,
    /// Whether it has sent anything lately.
    pub liveness: Liveness,
    /// When its last message came.
    pub last_seen: Timestamp,
    /// Its wall clock less the hub's at its last report, in ms.
    pub skew_ms: i64,
    /// Why it could not save its rules; empty if it could.
    pub state_error: String,
    /// The last attempt of another client to attach with its id.
    pub claim: Option<FailedClaim>,
    /// Its id is bound to a secret of its own.
    pub is_bound: bool,
    /// It has not yet shown that it takes the rules it is sent and reports, or it claims to hold versions
    /// that were never published since this process began. It counts for no majority.
    pub is_new: bool,
    /// Every app that is published, or that it holds.
    pub apps: Vec<AppState>,
}

/// An app on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppState {
    pub app: Arc<str>,
    /// The version that the node should hold; `None` if the app is removed.
    pub wanted: Option<u64>,
    /// The version in force on the node, as far as it has said.
    pub acked: Option<u64>,
    /// Why the wanted version is not in force.
    pub fault: Option<Fault>,
    /// The node holds what this database has never published: a newer version, or another one of the same
    /// number. The database was restored from an older copy.
    pub is_ahead: bool,
}

/// Whether a node lacks anything that it should have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shortfall {
    pub(crate) has_rejected: bool,
    pub(crate) is_behind: bool,
}
