//! Which process runs a job: a term that goes up with each new holder, checked by each of its transactions.
//!
//! With one process per folder, the latest one takes the job at once; with several over one database, a lease
//! would also have an end.

use tollgate_db::Tx;

use crate::error::ControlError;

/// Makes `holder` the one that runs `job`. Returns its term.
pub(crate) fn take(tx: &mut dyn Tx, job: &str, holder: &str) -> Result<i64, ControlError> {
    let row = tx.query_one(
        "INSERT INTO leases (name, holder, term) VALUES ($1, $2, 1) \
         ON CONFLICT (name) DO UPDATE SET holder = $2, term = leases.term + 1 RETURNING term",
        &[job.into(), holder.into()],
    )?;
    Ok(row.map_or(Ok(0), |row| row.int(0))?)
}

/// The term of `job`; 0 before its first holder.
pub(crate) fn term(tx: &mut dyn Tx, job: &str) -> Result<i64, ControlError> {
    let row = tx.query_one("SELECT term FROM leases WHERE name = $1", &[job.into()])?;
    Ok(row.map_or(Ok(0), |row| row.int(0))?)
}

/// # Errors
/// [`ControlError::OldTerm`] when another process has taken `job` since `mine`: this one must not write.
pub(crate) fn must_hold(tx: &mut dyn Tx, job: &str, mine: i64) -> Result<(), ControlError> {
    if term(tx, job)? == mine { Ok(()) } else { Err(ControlError::OldTerm) }
}
