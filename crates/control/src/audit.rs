//! Every change, in the transaction of the change itself: append-only, and chained by hashes.

use serde_json::Value as Json;
use tollgate_db::{DbError, Row, Tx};

use crate::actor::Actor;
use crate::error::ControlError;
use crate::ids::sha256;
use crate::role::Role;

/// Most bytes of `before` and of `after`; more is replaced by its hash.
const MAX_BODY: usize = 64 * 1024;

/// Entries that one step of [`verify`] reads.
const STEP: i64 = 1_000;

/// What is recorded of a change. Contains no secret.
#[derive(Debug, Default)]
pub struct Note<'n> {
    /// `rule.create`, `user.disable`, …
    pub action: &'n str,
    /// What was changed.
    pub target: String,
    /// The app it belongs to.
    pub app: Option<&'n str>,
    /// The object before.
    pub before: Option<Json>,
    /// The object after.
    pub after: Option<Json>,
    /// As the actor gave it.
    pub reason: &'n str,
}

/// An entry, as people read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// 1, 2, 3 …
    pub seq: i64,
    /// Milliseconds UTC.
    pub at: i64,
    /// `user`, `system`.
    pub actor_kind: String,
    /// The name of the actor.
    pub actor: String,
    /// Where the request came from.
    pub ip: String,
    /// The request.
    pub request_id: String,
    /// `rule.create`, `user.disable`, …
    pub action: String,
    /// What was changed.
    pub target: String,
    /// The app it belongs to.
    pub app: Option<String>,
    /// The object before, as JSON.
    pub before: Option<String>,
    /// The object after, as JSON.
    pub after: Option<String>,
    /// As the actor gave it.
    pub reason: String,
    /// Of the entry before.
    pub prev_hash: String,
    /// Of this entry.
    pub hash: String,
}

/// Whether the chain is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// All of this many entries are as they were written.
    Whole(i64),
    /// This entry, or one before it, was altered or removed.
    BrokenAt(i64),
}

/// Adds an entry.
pub(crate) fn append(tx: &mut dyn Tx, actor: &Actor, note: Note<'_>) -> Result<(), ControlError> {
    let last = tx.query_one("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1", &[])?;
    let (seq, prev_hash) = match last {
        Some(row) => (row.int(0)? + 1, row.text(1)?),
        None => (1, String::new()),
    };
    let mut entry = Entry {
        seq,
        at: tx.now_ms(),
        actor_kind: actor.kind.to_owned(),
        actor: actor.name.clone(),
        ip: actor.ip.clone(),
        request_id: actor.request_id.clone(),
        action: note.action.to_owned(),
        target: note.target,
        app: note.app.map(str::to_owned),
        before: note.before.map(bounded),
        after: note.after.map(bounded),
        reason: note.reason.to_owned(),
        prev_hash,
        hash: String::new(),
    };
    entry.hash = entry.computed_hash();
    let statement = "INSERT INTO audit (seq, at, actor_kind, actor, ip, request_id, action, target, app, before, \
         after, reason, prev_hash, hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
    let values = [
        entry.seq.into(),
        entry.at.into(),
        entry.actor_kind.into(),
        entry.actor.into(),
        entry.ip.into(),
        entry.request_id.into(),
        entry.action.into(),
        entry.target.into(),
        entry.app.into(),
        entry.before.into(),
        entry.after.into(),
        entry.reason.into(),
        entry.prev_hash.into(),
        entry.hash.into(),
    ];
    tx.execute(statement, &values)?;
    tx.execute("UPDATE sequences SET value = $1 WHERE name = 'audit'", &[seq.into()])?;
    Ok(())
}

fn bounded(body: Json) -> String {
    let text = body.to_string();
    if text.len() <= MAX_BODY {
        return text;
    }
    serde_json::json!({"bytes": text.len(), "sha256": sha256(&text)}).to_string()
}

/// Entries before `before_seq` (0 for the newest), the newest first; at most `limit`, which is at most 500.
/// `app` and `actor` narrow them unless empty. Who may see all apps sees every entry; others those of one
/// app.
///
/// # Errors
/// [`ControlError::NoRight`], [`ControlError::Db`].
pub fn list(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    by: &str,
    before_seq: i64,
    limit: i64,
) -> Result<Vec<Entry>, ControlError> {
    // Entries without an app are about people.
    let need = if app.is_empty() { Role::Admin } else { Role::Viewer };
    actor.must(need, if app.is_empty() { crate::actor::EVERY_APP } else { app })?;
    let before = if before_seq > 0 { before_seq } else { i64::MAX };
    let rows = tx.query(
        "SELECT seq, at, actor_kind, actor, ip, request_id, action, target, app, before, after, reason, \
         prev_hash, hash FROM audit WHERE seq < $1 AND ($2 = '' OR app = $2) AND ($3 = '' OR actor = $3) \
         ORDER BY seq DESC LIMIT $4",
        &[before.into(), app.into(), by.into(), limit.clamp(1, 500).into()],
    )?;
    rows.iter().map(Entry::read).collect::<Result<_, DbError>>().map_err(Into::into)
}

/// Walks at most `STEP` entries from `from` on, and returns the number after the last, or where the chain is
/// broken. `prev_hash` is that of the entry before `from`.
fn verify_step(
    tx: &mut dyn Tx,
    from: i64,
    prev_hash: &mut String,
) -> Result<Result<i64, Chain>, ControlError> {
    let rows = tx.query(
        "SELECT seq, at, actor_kind, actor, ip, request_id, action, target, app, before, after, reason, \
         prev_hash, hash FROM audit WHERE seq >= $1 ORDER BY seq LIMIT $2",
        &[from.into(), STEP.into()],
    )?;
    let mut next = from;
    for row in &rows {
        // A value of another type is an alteration too.
        let Ok(entry) = Entry::read(row) else { return Ok(Err(Chain::BrokenAt(next))) };
        if entry.seq != next || entry.prev_hash != *prev_hash || entry.hash != entry.computed_hash() {
            return Ok(Err(Chain::BrokenAt(next)));
        }
        *prev_hash = entry.hash;
        next += 1;
    }
    Ok(Ok(next))
}

/// Walks the whole chain.
///
/// # Errors
/// [`ControlError::NoRight`] except for admins of every app, [`ControlError::Db`].
pub fn verify(tx: &mut dyn Tx, actor: &Actor) -> Result<Chain, ControlError> {
    actor.must(Role::Admin, crate::actor::EVERY_APP)?;
    let written = tx.query_one("SELECT value FROM sequences WHERE name = 'audit'", &[])?;
    let written = written.map_or(Ok(0), |row| row.int(0))?;
    let (mut next, mut prev_hash) = (1, String::new());
    loop {
        match verify_step(tx, next, &mut prev_hash)? {
            Err(broken) => return Ok(broken),
            Ok(reached) if reached == next => break,
            Ok(reached) => next = reached,
        }
    }
    // The last entries could be missing.
    Ok(if next == written + 1 { Chain::Whole(written) } else { Chain::BrokenAt(next) })
}

impl Entry {
    fn read(row: &Row) -> Result<Self, DbError> {
        Ok(Self {
            seq: row.int(0)?,
            at: row.int(1)?,
            actor_kind: row.text(2)?,
            actor: row.text(3)?,
            ip: row.text(4)?,
            request_id: row.text(5)?,
            action: row.text(6)?,
            target: row.text(7)?,
            app: row.opt_text(8)?,
            before: row.opt_text(9)?,
            after: row.opt_text(10)?,
            reason: row.text(11)?,
            prev_hash: row.text(12)?,
            hash: row.text(13)?,
        })
    }

    /// SHA-256 of the hash before and of all fields as one JSON array, so that no field can run into the
    /// next.
    fn computed_hash(&self) -> String {
        let fields = serde_json::json!([
            self.prev_hash,
            self.seq,
            self.at,
            self.actor_kind,
            self.actor,
            self.ip,
            self.request_id,
            self.action,
            self.target,
            self.app,
            self.before,
            self.after,
            self.reason,
        ]);
        sha256(&fields.to_string())
    }
}
