//! Answers to the request at the head of a line.

use tollgate_core::{Outcome, Timestamp};
use tollgate_observe::Status;

use super::grant::Grant;
use crate::scratch::Settled;

/// The answer to a request, or the reason why the stores were not asked.
pub(super) enum Asked {
    /// Others come before it; it would have its turn at this instant.
    Behind(Timestamp),
    /// It has its permits, from an instant on.
    Granted(Grant),
    /// It would have them at these instants, one for each claim; its statuses deny it.
    Until(Vec<Timestamp>),
    /// Its turn has not come, and what it will be answered then is not known.
    Unknown,
    /// Its statuses say why. Of a denial: whether it would have its turn too late.
    Decided { overall: Outcome, is_late: bool },
}

/// The answer to a charge for permits that were used already.
pub(super) struct Paid {
    pub(super) statuses: Vec<Status>,
    pub(super) settled: Vec<Settled>,
}
