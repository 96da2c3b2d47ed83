//! What nodes should have: the seam to their streams.

pub use tollgate_fleet_proto::published::{AppDocuments, Candidate, Document, Published};
pub use tollgate_fleet_proto::reach::{Reach, Selector};

/// What a change returns, and what it publishes once it is committed.
#[derive(Clone, Debug)]
pub struct Change<T> {
    /// The result for the caller.
    pub value: T,
    /// What nodes should have of the app, if that changed.
    pub documents: Option<AppDocuments>,
}
