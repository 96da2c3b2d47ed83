//! How full everything is that has a cap, for metrics.

use crate::control::Control;

/// What waits and what is kept, now. Each has a cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Apps that are published.
    pub apps: usize,
    /// Blocks and allowances in force when they last changed.
    pub overrides: usize,
    /// Reports of nodes that wait to be stored.
    pub reports_waiting: usize,
    /// Transactions that wait to write.
    pub writes_waiting: usize,
    /// Transactions that wait to read.
    pub reads_waiting: usize,
    /// Windows of login attempts.
    pub attempts: usize,
    /// Counts of rules that were added to `(others)`, or had no row, since the start.
    pub history_left_out: u64,
    /// Free bytes of the disk with the data, as far as that is known.
    pub disk_free: Option<u64>,
}

impl Control {
    /// How full everything is.
    #[must_use]
    pub fn load(&self) -> Load {
        let (writes_waiting, reads_waiting) = self.db().waiting();
        let ingest = &self.live().ingest;
        Load {
            apps: self.published().borrow().apps.len(),
            overrides: self.overrides().borrow().overrides.len(),
            reports_waiting: ingest.waiting(),
            writes_waiting,
            reads_waiting,
            attempts: self.attempts.remembered(),
            history_left_out: ingest.left_out(),
            disk_free: self.live().surroundings().disk.map(|it| it.0),
        }
    }
}
