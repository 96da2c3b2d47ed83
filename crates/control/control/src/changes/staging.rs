//! Large changes. Their rows are written beside the current ones, in many short transactions between which
//! others write; the transaction that publishes then writes a few rows, however many rules there are.
//!
//! Rows of an app belong to an edition, and its row in `apps` names the one that is there. A version that has
//! a row in `staged` has not been published: nothing reads what was written for it, and other changes take
//! the numbers behind it. What is left of a change that failed, and the edition before one that was
//! published, are removed in short transactions too; after a crash, at the next start.
//! Not here: what a change writes (`import`, `publishing`), and who goes through the steps (`rehearsal`).

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tollgate_db::{Db, Tx, Value, insert, query_any, row, select};
use tollgate_model::change_set::ChangeOp;
use tollgate_model::{App, Role, RuleKind};

use crate::access::actor::{Actor, EVERY_APP};
use crate::changes::apps;
use crate::changes::change_set::write_op;
use crate::changes::known::Taken;
use crate::changes::stored::{self, Op};
use crate::error::ControlError;
use crate::ids::new_id;

/// The size from which a change is large, and the part of it that one transaction writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Changes of more rules are large.
    pub most_at_once: usize,
    /// Rules that a transaction of a large change writes.
    pub of_one: usize,
}

impl Default for Steps {
    fn default() -> Self {
        // A rule takes about 60 µs.
        Self { most_at_once: 500, of_one: 250 }
    }
}

/// Rows to be written ahead of a change.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// As it is now.
    pub(crate) app: App,
    /// It is made by the change.
    pub(crate) is_new: bool,
    /// The new content of its rules; none if the change publishes nothing.
    pub(crate) writes: Vec<Op>,
    /// Ids of the rules that stay as they are.
    pub(crate) unchanged: Vec<String>,
    /// The operations of a change set that is made.
    pub(crate) ops: Vec<ChangeOp>,
}

/// Rows that were written ahead. Unused ones are removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Staged {
    db: Db,
    runtime: Handle,
    /// The content of the rows.
    pub(crate) wanted: Arc<Wanted>,
    edition: String,
    version: i64,
    /// Id of the change set whose operations these are.
    pub(crate) change_id: String,
    /// Rows that one transaction removes.
    of_one: usize,
    /// Large changes are made one after the other.
    turn: Option<OwnedMutexGuard<()>>,
}

/// Takes the number of a version and the name of an edition; `None` if the app is not as it was.
pub(crate) fn begin_in(
    tx: &mut dyn Tx,
    actor: &Actor,
    wanted: &Wanted,
) -> Result<Option<Begun>, ControlError> {
    let Wanted { app, is_new, .. } = wanted;
    actor.must(Role::Editor, &app.name)?;
    let now = apps::find(tx, &app.name)?;
    let version = match &now {
        None => {
            actor.must(Role::Editor, EVERY_APP)?;
            1
        }
        Some(now) => now.next(),
    };
    if now.is_none() != *is_new || now.as_ref().is_some_and(|now| !is_same(now, app)) {
        return Ok(None);
    }
    let edition = new_id(tx.now_ms())?;
    let change_id = new_id(tx.now_ms())?;
    // Without rules it needs no number.
    let version = if wanted.writes.is_empty() { 0 } else { version };
    if version > 0 {
        tx.execute("UPDATE apps SET reserved = $1 WHERE id = $2", &[version.into(), (&app.id).into()])?;
    }
    insert!(tx, "staged" {
        app_id: &app.id,
        edition: &edition,
        version,
        change_id: &change_id,
        state: "open",
    })?;
    Ok(Some(Begun { edition, version, change_id }))
}

/// Whether what was worked out for the one holds for the other. Each change of an app's rules is a version.
pub(crate) fn is_same(now: &App, then: &App) -> bool {
    let named =
        |app: &App| (app.id.clone(), app.version, app.state.clone(), app.edition.clone(), app.approvals);
    named(now) == named(then)
}

pub(crate) fn is_open(tx: &mut dyn Tx, app_id: &str, edition: &str) -> Result<bool, ControlError> {
    Ok(query_any(
        tx,
        "SELECT 1 FROM staged WHERE app_id = $1 AND edition = $2 AND state = 'open'",
        &[app_id.into(), edition.into()],
    )?)
}

pub(crate) fn write_some(
    tx: &mut dyn Tx,
    actor: &Actor,
    app: &App,
    wanted: &Wanted,
    change_id: &str,
    (from, until): (usize, usize),
) -> Result<(), ControlError> {
    fn part<T>(all: &[T], from: usize, until: usize) -> &[T] {
        all.get(from..until.min(all.len())).unwrap_or_default()
    }
    for op in part(&wanted.writes, from, until).iter().filter(|op| op.kind() == RuleKind::TableRule) {
        stored::apply(tx, actor, app, app.next(), op)?;
    }
    for rule_id in part(&wanted.unchanged, from, until) {
        stored::copy(tx, rule_id, (&wanted.app.edition, &app.edition))?;
    }
    for (nth, op) in part(&wanted.ops, from, until).iter().enumerate() {
        write_op(tx, change_id, from + nth, op)?;
    }
    Ok(())
}

/// A large change that has been begun.
#[derive(Debug)]
pub(crate) struct Begun {
    /// The edition of its rows.
    edition: String,
    /// The number of its version; 0 if it publishes nothing.
    version: i64,
    /// Id of its change set.
    change_id: String,
}

impl Staged {
    /// The handle of a change that was begun; its rows are still to be written.
    pub(crate) fn begun(
        db: &Db,
        wanted: &Arc<Wanted>,
        begun: Begun,
        of_one: usize,
        turn: OwnedMutexGuard<()>,
    ) -> Self {
        let db = db.clone();
        let wanted = Arc::clone(wanted);
        let runtime = Handle::current();
        let Begun { edition, version, change_id } = begun;
        Self { db, runtime, wanted, edition, version, change_id, of_one, turn: Some(turn) }
    }

    /// The number that was taken.
    pub(crate) fn taken(&self) -> Taken {
        let App { name, id, .. } = self.wanted.app.clone();
        Taken { app: name, app_id: id, is_new: self.wanted.is_new, version: self.version }
    }

    /// The app as its next version sees it.
    pub(crate) fn app(&self, now: &App) -> App {
        App { edition: self.edition.clone(), reserved: self.version - 1, ..now.clone() }
    }

    /// Whether it may be used for the app as it is now.
    /// `approvals` are those that a new app needs.
    pub(crate) fn is_for(
        &self,
        tx: &mut dyn Tx,
        now: Option<&App>,
        approvals: i64,
    ) -> Result<bool, ControlError> {
        let is_same = match now {
            Some(now) => !self.wanted.is_new && is_same(now, &self.wanted.app),
            None => self.wanted.is_new && self.wanted.app.approvals == approvals,
        };
        Ok(is_same && is_open(tx, self.app_id(), &self.edition)?)
    }

    /// The id of its app.
    pub(crate) fn app_id(&self) -> &str {
        &self.wanted.app.id
    }

    /// Whether the change itself has made the app.
    pub(crate) fn is_made(&self, app: &App) -> bool {
        self.wanted.is_new && self.wanted.app.id == app.id && app.version == 0
    }

    /// Whether the next version of the app has the number that was taken.
    pub(crate) fn is_next(&self, app: &App) -> bool {
        app.next() == self.version
    }

    /// The operations belong to a change set from now on. They were written without rules.
    pub(crate) fn use_ops(&self, tx: &mut dyn Tx) -> Result<(), ControlError> {
        self.close(tx)
    }

    /// Puts the rows that were written in force.
    pub(crate) fn put_in_place(&self, tx: &mut dyn Tx) -> Result<(), ControlError> {
        let app = self.app_id();
        self.close(tx)?;
        if !self.wanted.is_new {
            insert!(tx, "staged" {
                app_id: app,
                edition: &self.wanted.app.edition,
                version: 0,
                change_id: "",
                state: "void",
            })?;
        }
        tx.execute("UPDATE apps SET edition = $1 WHERE id = $2", &[(&self.edition).into(), app.into()])?;
        Ok(())
    }

    fn close(&self, tx: &mut dyn Tx) -> Result<(), ControlError> {
        tx.execute(
            "DELETE FROM staged WHERE app_id = $1 AND edition = $2",
            &[self.app_id().into(), (&self.edition).into()],
        )?;
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let db = self.db.clone();
        let of_one = self.of_one;
        let turn = self.turn.take();
        self.runtime.spawn(async move {
            if let Err(error) = clear(&db, of_one).await {
                tracing::warn!(%error, "rows of a large change are left; the next one removes them");
            }
            drop(turn);
        });
    }
}

/// Removes what no change uses, in transactions of `of_one` rows of a table. No large change may be on its
/// way.
pub(crate) async fn clear(db: &Db, of_one: usize) -> Result<(), ControlError> {
    db.write(|tx| tx.execute("UPDATE staged SET state = 'void' WHERE state <> 'void'", &[]).map(drop))
        .await?;
    let most = i64::try_from(of_one).unwrap_or(i64::MAX);
    while db.write(move |tx| remove_some(tx, most)).await? {}
    Ok(())
}

row! {
    struct StagedRow { app_id: String, edition: String, version: i64, change_id: String }
}

/// Removes at most `most` rows of each table. Returns whether there may be more.
fn remove_some(tx: &mut dyn Tx, most: i64) -> Result<bool, ControlError> {
    let Some(staged) = select!(StagedRow: "FROM staged LIMIT 1").first(tx, &[])? else {
        return Ok(false);
    };
    let StagedRow { app_id, edition, version, change_id } = staged;
    let has_version = version > 0;
    let has_change = !change_id.is_empty();
    let [app, edition, version, change, most]: [Value; 5] =
        [app_id.into(), edition.into(), version.into(), change_id.into(), most.into()];
    let of_version = [app.clone(), version, most.clone()];
    let mut removed = tx.execute(
        "DELETE FROM car WHERE (rule_id, edition) IN (SELECT rule_id, edition FROM car \
         WHERE app_id = $1 AND edition = $2 LIMIT $3)",
        &[app.clone(), edition.clone(), most.clone()],
    )?;
    if has_version {
        removed += tx.execute(
            "DELETE FROM rule_versions WHERE (rule_id, from_version) IN (SELECT rule_id, from_version \
             FROM rule_versions WHERE app_id = $1 AND from_version = $2 LIMIT $3)",
            &of_version,
        )?;
        removed += tx.execute(
            "UPDATE rule_versions SET to_version = NULL WHERE (rule_id, from_version) IN \
             (SELECT rule_id, from_version FROM rule_versions WHERE app_id = $1 AND to_version = $2 LIMIT $3)",
            &of_version,
        )?;
    }
    if has_change {
        removed += tx.execute(
            "DELETE FROM change_ops WHERE (change_id, seq) IN (SELECT change_id, seq FROM change_ops \
             WHERE change_id = $1 LIMIT $2)",
            &[change, most],
        )?;
    }
    if removed == 0 {
        // The number is free again, unless others have taken those behind it.
        tx.execute(
            "UPDATE apps SET reserved = 0 WHERE id = $1 AND reserved = $2 AND version < $2",
            &of_version[..2],
        )?;
        tx.execute("DELETE FROM staged WHERE app_id = $1 AND edition = $2", &[app, edition])?;
    }
    Ok(true)
}
