//! Change sets in the database: reading them with their operations and events, and what is there now of the
//! rules that they name. Not here: what a change set is (`change_set` of `tollgate-model`).

use std::sync::Arc;

use tollgate_db::{Select, Tx, columns, insert, query_int, row, select};
use tollgate_model::{App, Content, Role, RuleKind};

use crate::access::actor::{Actor, EVERY_APP};
use crate::changes::apps;
use crate::changes::known::known;
use crate::changes::stored::{self, ByName, Stored};
use crate::error::ControlError;

pub use tollgate_model::change_set::{ChangeOp, ChangeSet, Conflict, Event, State};

/// Which change sets, the newest first.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Change sets of this app only, unless empty.
    pub app: String,
    /// In this state; `open` for those that are not closed; empty for all.
    pub state: String,
    /// Made before this one, unless empty.
    pub before: String,
    /// At most as many, 1 to 500.
    pub limit: i64,
}

/// A change set without its operations and events.
struct SetRow(ChangeSet);

/// An event of a change set.
struct EventRow(Event);

columns! {
    SetRow(ChangeSet) {
        id = "changes.id",
        app_id = "changes.app_id",
        app = "apps.name",
        state = "changes.state" => |state: String| State::read(&state),
        title,
        comment,
        author_id,
        author,
        base_version,
        published_version,
        content_sha256,
        etag = "changes.etag",
        created_at = "changes.created_at",
        updated_at = "changes.updated_at",
        rules = "(SELECT COUNT(*) FROM change_ops WHERE change_id = changes.id)",
        needed = "apps.approvals",
    } and {
        ops: Vec::new(),
        events: Vec::new(),
    }
}

row! {
    struct OpRow {
        kind: String,
        key: String,
        base: Option<i64> = "base_from_version",
        before: Option<String> = "base_body",
        after: Option<String> = "body",
    }
}

columns! { EventRow(Event) { user_id, user = "user_name", verdict, comment, content_sha256, at } }

const ONE: Select<SetRow> =
    select!(SetRow: "FROM changes JOIN apps ON apps.id = changes.app_id WHERE changes.id = $1");
const LIST: Select<SetRow> = select!(SetRow:
    "FROM changes JOIN apps ON apps.id = changes.app_id \
     WHERE ($1 = '' OR apps.name = $1) AND ($2 = '' OR changes.state = $2 OR \
     ($2 = 'open' AND changes.state IN ('draft', 'submitted', 'approved', 'rejected'))) \
     AND ($3 = '' OR changes.id < $3) \
     AND ($4 = 1 OR REPLACE($5, '/' || apps.name || '/', '') <> $5) ORDER BY changes.id DESC LIMIT $6");

/// Number of change sets that are neither published nor given up, of apps that the actor may see.
///
/// # Errors
/// [`ControlError::Db`].
pub fn open(tx: &mut dyn Tx, actor: &Actor) -> Result<i64, ControlError> {
    Ok(query_int(
        tx,
        "SELECT COUNT(*) FROM changes JOIN apps ON apps.id = changes.app_id \
         WHERE changes.state IN ('draft', 'submitted', 'approved', 'rejected') \
         AND ($1 = 1 OR REPLACE($2, '/' || apps.name || '/', '') <> $2)",
        &[actor.may_everywhere(Role::Viewer).into(), actor.apps().into()],
    )?)
}

/// Change sets of apps that the actor may see, without their operations.
///
/// # Errors
/// [`ControlError`].
pub fn list(tx: &mut dyn Tx, actor: &Actor, query: &Query) -> Result<Vec<ChangeSet>, ControlError> {
    if !query.app.is_empty() {
        actor.must(Role::Viewer, &query.app)?;
    }
    // Names of apps have no slashes.
    let visible: String = actor.roles.iter().map(|(app, _)| format!("/{app}/")).collect();
    let rows = LIST.all(
        tx,
        &[
            (&query.app).into(),
            (&query.state).into(),
            (&query.before).into(),
            actor.may(Role::Viewer, EVERY_APP).into(),
            visible.into(),
            query.limit.clamp(1, 500).into(),
        ],
    )?;
    Ok(rows.into_iter().map(|SetRow(change)| change).collect())
}

/// A change set with its operations. Needs viewer of its app.
///
/// # Errors
/// [`ControlError`].
pub fn get(tx: &mut dyn Tx, actor: &Actor, id: &str) -> Result<ChangeSet, ControlError> {
    let unknown = || ControlError::NotFound { what: "change set", name: id.to_owned() };
    let SetRow(mut change) = ONE.first(tx, &[id.into()])?.ok_or_else(unknown)?;
    actor.must(Role::Viewer, &change.app)?;
    let count = usize::try_from(change.rules).unwrap_or_default();
    let name = || ops_name(id, &change.content_sha256);
    let ops = known(actor.known(), count, name, || {
        let rows = select!(OpRow: "FROM change_ops WHERE change_id = $1 ORDER BY kind, key");
        let rows = rows.all(tx, &[id.into()])?;
        rows.into_iter().map(|row| row.op(&change.app)).collect::<Result<Vec<_>, _>>()
    })?;
    change.ops = Arc::unwrap_or_clone(ops);
    change.events = events(tx, id)?;
    Ok(change)
}

/// Under what the operations of a change set are known: another content has another hash.
pub(crate) fn ops_name(id: &str, sha256: &str) -> String {
    format!("operations of {id} {sha256}")
}

/// The events of a change set, the oldest first.
pub(crate) fn events(tx: &mut dyn Tx, id: &str) -> Result<Vec<Event>, ControlError> {
    let rows = select!(EventRow: "FROM approvals WHERE change_id = $1 ORDER BY seq").all(tx, &[id.into()])?;
    Ok(rows.into_iter().map(|EventRow(event)| event).collect())
}

/// The rules that were changed since the base of `change`.
///
/// # Errors
/// [`ControlError`].
pub fn conflicts(tx: &mut dyn Tx, actor: &Actor, change: &ChangeSet) -> Result<Vec<Conflict>, ControlError> {
    let app = apps::get(tx, actor, Role::Viewer, &change.app)?;
    conflicts_of(tx, &app, &change.ops)
}

pub(crate) fn conflicts_of(
    tx: &mut dyn Tx,
    app: &App,
    ops: &[ChangeOp],
) -> Result<Vec<Conflict>, ControlError> {
    Ok(conflicts_with(&current_of(tx, app, ops)?, ops))
}

/// The rules that operations name, as they are now. One statement instead of one for each of many.
pub(crate) fn current_of(
    tx: &mut dyn Tx,
    app: &App,
    ops: &[ChangeOp],
) -> Result<ByName<Stored>, ControlError> {
    if ops.len() > 100 {
        return stored::current_all(tx, app);
    }
    let mut current = ByName::new();
    for op in ops {
        if let Some(now) = stored::current(tx, app, op.kind, &op.key)? {
            current.insert((op.kind, op.key.clone()), now);
        }
    }
    Ok(current)
}

/// As [`conflicts_of`], with the rules as they are now.
pub(crate) fn conflicts_with(current: &ByName<Stored>, ops: &[ChangeOp]) -> Vec<Conflict> {
    let conflict = |op: &ChangeOp| {
        let now = current.get(&(op.kind, op.key.clone()));
        (now.map(|it| it.from_version) != op.base).then(|| Conflict {
            kind: op.kind,
            key: op.key.clone(),
            base: op.before.clone(),
            theirs: now.map(|it| it.content.clone()),
            yours: op.after.clone(),
        })
    };
    ops.iter().filter_map(conflict).collect()
}

/// Writes an operation of a change set.
pub(crate) fn write_op(
    tx: &mut dyn Tx,
    change_id: &str,
    seq: usize,
    op: &ChangeOp,
) -> Result<(), ControlError> {
    insert!(tx, "change_ops" {
        change_id,
        seq: i64::try_from(seq).unwrap_or(i64::MAX),
        kind: op.kind.name(),
        key: &op.key,
        base_from_version: op.base,
        base_body: op.before.as_ref().map(Content::body),
        body: op.after.as_ref().map(Content::body),
    })?;
    Ok(())
}

impl OpRow {
    fn op(self, app: &str) -> Result<ChangeOp, ControlError> {
        let content = |text: Option<String>| text.map(|body| Content::read(app, &body)).transpose();
        Ok(ChangeOp {
            kind: self.kind.parse().unwrap_or(RuleKind::TableRule),
            key: self.key,
            base: self.base,
            before: content(self.before)?,
            after: content(self.after)?,
        })
    }
}
