//! The documents that nodes should have: the seam to their streams.

use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_db::{DbError, Tx};

use crate::access::actor::Actor;
use crate::error::ControlError;

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

/// Work of a transaction whose result is in a [`Kept`]; returns the documents that it publishes.
pub(crate) type CommitWork = Box<dyn Fn(&mut dyn Tx) -> Result<Option<AppDocuments>, ControlError> + Send>;

/// A [`CommitWork`] that asks for rights.
pub(crate) type CommitWorkAs =
    Box<dyn Fn(&mut dyn Tx, &Actor) -> Result<Option<AppDocuments>, ControlError> + Send>;

/// The last result of work that may run several times.
pub(crate) struct Kept<T>(Arc<Mutex<Option<T>>>);

impl<T> Kept<T> {
    /// Two handles: for the work, and for its caller.
    pub(crate) fn new() -> (Self, Self) {
        let value = Arc::new(Mutex::new(None));
        (Self(Arc::clone(&value)), Self(value))
    }

    /// Keeps the result; returns the documents.
    pub(crate) fn keep(&self, done: Committed<T>) -> Option<AppDocuments> {
        *self.0.lock() = Some(done.value);
        done.documents
    }

    /// The result of work that has been committed.
    pub(crate) fn take(&self) -> Result<T, ControlError> {
        self.0.lock().take().ok_or(ControlError::Db(DbError::Panicked))
    }
}
