//! The messages that a decision leaves to be sent.

use std::sync::Arc;
use std::time::Duration;

use super::table::{LeasedKey, RequestId};
use crate::call::ScriptCall;

/// Most round trips of one key's central takes that overlap.
const MOST_CENTRAL_TASKS: usize = 8;

/// Messages to send once the shard's lock is free again: a task that cannot begin, since its runtime ends,
/// takes the lock to report that.
#[derive(Debug, Default)]
pub(super) struct PendingSends {
    pub(super) requests: Vec<OutgoingRequest>,
    /// Keys whose takes go to the ledger.
    pub(super) central: Vec<Arc<[u8]>>,
    /// Keys that may hold something from now on.
    pub(super) watched: Vec<Arc<[u8]>>,
}

/// A node's request for permits, on its way.
#[derive(Debug)]
pub(super) struct OutgoingRequest {
    pub(super) key: Arc<[u8]>,
    pub(super) id: RequestId,
    pub(super) call: ScriptCall,
    /// Its key has left the table: no caller waits for the reply.
    pub(super) is_orphan: bool,
}

impl PendingSends {
    /// Puts the key on the list of those that may hold something.
    pub(super) fn watch(&mut self, key: &mut LeasedKey) {
        if !std::mem::replace(&mut key.is_watched, true) {
            self.watched.push(key.key.clone());
        }
    }

    /// Has the central takes of the key sent, by one more task if another may overlap.
    pub(super) fn start_central(&mut self, key: &mut LeasedKey) {
        if key.central_tasks < most_central_tasks(key.node.round_trip()) {
            key.central_tasks += 1;
            self.central.push(key.key.clone());
        }
    }
}

/// The number of round trips of one key's central takes that may overlap. Where a round trip is short, one at
/// a time merges the most takes. Where it is long, a take is not to wait for an earlier call and then for its
/// own.
fn most_central_tasks(round_trip: Duration) -> usize {
    (2 * round_trip.as_millis() as usize).clamp(1, MOST_CENTRAL_TASKS)
}
