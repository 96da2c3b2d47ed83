//! After a start, changes wait until the nodes that were there before had the time to attach: only they know
//! whether this database is older than what they hold.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::Mutex;

use crate::error::Awaited;
use crate::fleet::nodes::Nodes;

/// The nodes that were there before the start.
#[derive(Debug, Default)]
pub(crate) struct AttachWait(Mutex<Option<Pending>>);

#[derive(Debug)]
struct Pending {
    nodes: BTreeSet<String>,
    from_ms: i64,
    until_ms: i64,
}

impl AttachWait {
    /// The nodes that changes wait for at `now_ms`; `None` for good once all are there or the time is over.
    pub(crate) fn awaited(&self, nodes: &dyn Nodes, now_ms: i64) -> Option<Awaited> {
        let mut pending = self.0.lock();
        let Pending { nodes: known, from_ms, until_ms } = pending.as_ref()?;
        let missing = nodes.missing(known);
        // A clock that is set back must not make the wait longer.
        if missing == 0 || !(*from_ms..*until_ms).contains(&now_ms) {
            *pending = None;
            return None;
        }
        Some(Awaited { missing, of: known.len(), left_ms: until_ms - now_ms })
    }

    /// Changes wait for `nodes` from now on, for `wait` at most.
    pub(crate) fn begin(&self, nodes: BTreeSet<String>, from_ms: i64, wait: Duration) {
        let until_ms = from_ms.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        *self.0.lock() = (!nodes.is_empty()).then_some(Pending { nodes, from_ms, until_ms });
    }
}
