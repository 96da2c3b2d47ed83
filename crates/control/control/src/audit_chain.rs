//! Whether the audit is as it was written: a walk along the hashes, in steps, so that no transaction is long.

use tollgate_db::{DbError, Tx};

use crate::actor::{Actor, EVERY_APP};
use crate::audit_entry::Entry;
use crate::error::ControlError;
use crate::role::Role;

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

/// How far a walk has come.
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
        if tx.query_one(strange, &[])?.is_some() {
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
        let rows = tx.query(
            "SELECT seq, at, actor_kind, actor, via, ip, request_id, action, target, app, before, after, reason, \
             prev_hash, hash FROM audit WHERE seq >= $1 ORDER BY seq LIMIT $2",
            &[self.next.into(), limit.into()],
        )?;
        for row in &rows {
            let entry = Entry::read(row).ok().filter(|entry| {
                entry.seq == self.next
                    && entry.prev_hash == self.prev_hash
                    && entry.hash == entry.computed_hash()
            });
            let Some(entry) = entry else { return Ok(Some(Chain::BrokenAt(self.next))) };
            self.prev_hash = entry.hash;
            self.next += 1;
        }
        if rows.len() as i64 == limit {
            return Ok(None);
        }
        // The last entries could be missing.
        let written = written(tx)?;
        let is_whole = self.checked() == written;
        Ok(Some(if is_whole { Chain::Whole(written) } else { Chain::BrokenAt(self.next) }))
    }
}

/// How many entries were ever written.
pub(crate) fn written(tx: &mut dyn Tx) -> Result<i64, ControlError> {
    let row = tx.query_one("SELECT value FROM sequences WHERE name = 'audit'", &[])?;
    Ok(row.map_or(Ok(0), |row| row.int(0))?)
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
