//! Which process runs a job: a term that goes up with each new holder, checked by each of its transactions.
//!
//! With one process per folder, the latest one takes the job at once; with several over one database, a lease
//! would also have an end.

use tollgate_db::{Tx, query_int};

use crate::error::ControlError;

/// Makes `holder` the one that runs `job`. Returns its term.
pub(crate) fn take(tx: &mut dyn Tx, job: &str, holder: &str) -> Result<i64, ControlError> {
    Ok(query_int(
        tx,
        "INSERT INTO leases (name, holder, term) VALUES ($1, $2, 1) \
         ON CONFLICT (name) DO UPDATE SET holder = $2, term = leases.term + 1 RETURNING term",
        &[job.into(), holder.into()],
    )?)
}

/// The term of `job`; 0 before its first holder.
pub(crate) fn term(tx: &mut dyn Tx, job: &str) -> Result<i64, ControlError> {
    Ok(query_int(tx, "SELECT term FROM leases WHERE name = $1", &[job.into()])?)
}

/// # Errors
/// [`ControlError::OldTerm`] when another process has taken `job` since `mine`: this one must not write.
pub(crate) fn must_hold(tx: &mut dyn Tx, job: &str, mine: i64) -> Result<(), ControlError> {
    if term(tx, job)? == mine { Ok(()) } else { Err(ControlError::OldTerm) }
}
