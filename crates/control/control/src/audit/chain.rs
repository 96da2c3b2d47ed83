//! Whether the audit is as it was written: a walk along the hashes, in steps, so that no transaction is long.

use tollgate_db::{DbError, Tx, query_any, query_int, select};
use tollgate_model::Role;

use crate::access::actor::{Actor, EVERY_APP};
use crate::audit::entry::AuditEntry;
use crate::error::ControlError;

/// Entries that one step reads.
const STEP: i64 = 2_000;

/// Whether the chain is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// All of this many entries are as they were written.
    Whole(i64),
    /// This entry, or one before it, was altered or removed.
    BrokenAt(i64),
    /// Entries up to the second number were acknowledged, and those after the first are not in the database.
    Cut(i64, i64),
}

/// The position of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    next: i64,
    prev_hash: String,
}

impl Default for Walk {
    fn default() -> Self {
        Self { next: 1, prev_hash: String::new() }
    }
}

impl Walk {
    /// Entries that are as they were written so far.
    #[must_use]
    pub const fn checked(&self) -> i64 {
        self.next - 1
    }

    /// Walks some entries further. Returns the result at the end, which may be walked beyond once there are
    /// more entries.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub fn step(&mut self, tx: &mut dyn Tx) -> Result<Option<Chain>, ControlError> {
        // No entry has a number below 1, nor anything else in place of a number.
        let strange = "SELECT 1 FROM audit WHERE seq < 1 OR seq > 9223372036854775807 OR seq IS NULL LIMIT 1";
        if query_any(tx, strange, &[])? {
            return Ok(Some(Chain::BrokenAt(0)));
        }
        match self.read(tx, STEP) {
            // A value of another type is an alteration too: one entry at a time until it is there.
            Err(ControlError::Db(DbError::Shape { .. })) => loop {
                match self.read(tx, 1) {
                    Ok(None) => {}
                    Err(ControlError::Db(DbError::Shape { .. })) => {
                        return Ok(Some(Chain::BrokenAt(self.next)));
                    }
                    ended => return ended,
                }
            },
            read => read,
        }
    }

    fn read(&mut self, tx: &mut dyn Tx, limit: i64) -> Result<Option<Chain>, ControlError> {
        let entries = select!(AuditEntry: "FROM audit WHERE seq >= $1 ORDER BY seq LIMIT $2");
        let entries = entries.all(tx, &[self.next.into(), limit.into()])?;
        let is_full = entries.len() as i64 == limit;
        for entry in entries {
            let is_next = entry.seq == self.next
                && entry.prev_hash == self.prev_hash
                && entry.hash == entry.computed_hash();
            if !is_next {
                return Ok(Some(Chain::BrokenAt(self.next)));
            }
            self.prev_hash = entry.hash;
            self.next += 1;
        }
        if is_full {
            return Ok(None);
        }
        // The last entries could be missing.
        let all = written(tx)?;
        let is_whole = self.checked() == all;
        Ok(Some(if is_whole { Chain::Whole(all) } else { Chain::BrokenAt(self.next) }))
    }
}

/// Number of entries ever written.
pub(crate) fn written(tx: &mut dyn Tx) -> Result<i64, ControlError> {
    Ok(query_int(tx, "SELECT value FROM sequences WHERE name = 'audit'", &[])?)
}

/// Walks the whole chain in one transaction; see also
/// [`Control::verify_audit`](crate::Control::verify_audit).
///
/// # Errors
/// [`ControlError::NoRight`] except for admins of every app, [`ControlError::Db`].
pub fn verify(tx: &mut dyn Tx, actor: &Actor) -> Result<Chain, ControlError> {
    actor.must(Role::Admin, EVERY_APP)?;
    let mut walk = Walk::default();
    loop {
        if let Some(chain) = walk.step(tx)? {
            return Ok(chain);
        }
    }
}
