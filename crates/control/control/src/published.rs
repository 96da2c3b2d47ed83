//! The documents that nodes should have: the seam to their streams.

pub use tollgate_fleet_proto::published::{AppDocuments, Candidate, Document, Published};
pub use tollgate_fleet_proto::reach::{Reach, Selector};

/// The result of a change, and the documents that it publishes once it is committed.
#[derive(Clone, Debug)]
pub struct Committed<T> {
    /// The result for the caller.
    pub value: T,
    /// The documents of the app for nodes, if they changed.
    pub documents: Option<AppDocuments>,
}
