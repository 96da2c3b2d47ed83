//! The audit: every change, in the transaction of the change itself, append-only and chained by hashes.
//!
//! This file adds and finds entries. `entry` is one of them, `chain` the walk along the hashes, `head` and
//! `head_start` the copy of the last entry in a file, which shows what a restored database lacks;
//! `edited_rows` and `seals` find rows that another program has edited; `verification` and `rejections` are
//! what the service does besides adding. Not here: who may do what (`access`), and how an edit is found
//! (`db`).

pub(crate) mod chain;
pub(crate) mod edited_rows;
pub(crate) mod entry;
pub(crate) mod head;
pub(crate) mod head_start;
pub(crate) mod rejections;
pub(crate) mod seals;
pub(crate) mod verification;

use serde_json::Value as Json;
use tollgate_db::{Tx, insert, row, select};
use tollgate_model::Role;
use tollgate_model::hash::sha256;

use crate::access::actor::{Actor, EVERY_APP};
use crate::audit::chain::written;
use crate::error::ControlError;

pub use chain::{Chain, Walk, verify};
pub use entry::AuditEntry;

/// Most bytes of `before` and of `after`; more is replaced by its hash.
const MAX_BODY: usize = 64 * 1024;

/// Most entries of one part of an export.
pub const MAX_EXPORT: i64 = 5_000;

/// The record of a change. Contains no secret.
#[derive(Debug, Default)]
pub struct Note<'n> {
    /// `rule.create`, `user.disable`, …
    pub action: &'n str,
    /// The object that was changed.
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

row! {
    #[derive(Default)]
    struct LastRow { seq: i64, hash: String }
}

/// Adds an entry.
pub(crate) fn append(tx: &mut dyn Tx, actor: &Actor, note: Note<'_>) -> Result<(), ControlError> {
    let last = select!(LastRow: "FROM audit ORDER BY seq DESC LIMIT 1").first(tx, &[])?;
    let LastRow { seq: last_seq, hash: prev_hash } = last.unwrap_or_default();
    // The numbers of removed last entries are never used again, so that the gap stays.
    let seq = last_seq.max(written(tx)?) + 1;
    let mut entry = AuditEntry {
        seq,
        at: tx.now_ms(),
        actor_kind: actor.kind.to_owned(),
        actor: actor.name.clone(),
        via: actor.via.clone(),
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
    insert!(tx, "audit" {
        seq: entry.seq,
        at: entry.at,
        actor_kind: entry.actor_kind,
        actor: entry.actor,
        via: entry.via,
        ip: entry.ip,
        request_id: entry.request_id,
        action: entry.action,
        target: entry.target,
        app: entry.app,
        before: entry.before,
        after: entry.after,
        reason: entry.reason,
        prev_hash: entry.prev_hash,
        hash: entry.hash,
    })?;
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

/// Which entries; empty texts and zeros select all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Entries of this app only.
    pub app: String,
    /// By this actor.
    pub actor: String,
    /// Whose target contains this text, or that of a rule which it changed among others.
    pub target: String,
    /// Whose action begins with this text.
    pub action: String,
    /// From this time on, in milliseconds UTC.
    pub from: i64,
    /// Before this time, in milliseconds UTC.
    pub until: i64,
}

/// Entries before `before_seq` (0 for the newest), the newest first; at most `limit`, which is at most 500.
/// Who may see all apps sees every entry; others those of one app.
///
/// # Errors
/// [`ControlError::NoRight`], [`ControlError::Db`].
pub fn find(
    tx: &mut dyn Tx,
    actor: &Actor,
    filter: &Filter,
    before_seq: i64,
    limit: i64,
) -> Result<Vec<AuditEntry>, ControlError> {
    // Entries without an app are about people.
    let (need, app) =
        if filter.app.is_empty() { (Role::Admin, EVERY_APP) } else { (Role::Viewer, &*filter.app) };
    actor.must(need, app)?;
    let or_last = |at: i64| if at > 0 { at } else { i64::MAX };
    let found = select!(AuditEntry:
        "FROM audit WHERE seq < $1 AND ($2 = '' OR app = $2) AND ($3 = '' OR actor = $3) \
         AND ($4 = '' OR REPLACE(target, $4, '') <> target OR (action IN ('change.publish', 'app.rollback') \
         AND REPLACE(COALESCE(after, ''), $4, '') <> COALESCE(after, ''))) AND SUBSTR(action, 1, LENGTH($5)) = $5 \
         AND at >= $6 AND at < $7 ORDER BY seq DESC LIMIT $8");
    Ok(found.all(
        tx,
        &[
            or_last(before_seq).into(),
            (&filter.app).into(),
            (&filter.actor).into(),
            (&filter.target).into(),
            (&filter.action).into(),
            filter.from.into(),
            or_last(filter.until).into(),
            limit.clamp(1, 500).into(),
        ],
    )?)
}

/// [`find`] by app and actor.
///
/// # Errors
/// As [`find`].
pub fn list(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &str,
    by: &str,
    before_seq: i64,
    limit: i64,
) -> Result<Vec<AuditEntry>, ControlError> {
    let filter = Filter { app: app.to_owned(), actor: by.to_owned(), ..Filter::default() };
    find(tx, actor, &filter, before_seq, limit)
}

/// Entries after `after_seq`, the oldest first, at most [`MAX_EXPORT`]: the part of an export. Needs admin of
/// every app.
///
/// # Errors
/// [`ControlError::NoRight`], [`ControlError::Db`].
pub fn export(
    tx: &mut dyn Tx,
    actor: &Actor,
    after_seq: i64,
    limit: i64,
) -> Result<Vec<AuditEntry>, ControlError> {
    actor.must(Role::Admin, EVERY_APP)?;
    let entries = select!(AuditEntry: "FROM audit WHERE seq > $1 ORDER BY seq LIMIT $2");
    Ok(entries.all(tx, &[after_seq.into(), limit.clamp(1, MAX_EXPORT).into()])?)
}
