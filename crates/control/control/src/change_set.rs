//! Change sets as they are read: operations on rules of one app, each with the version that it began with.

use std::sync::Arc;

use serde_json::json;
use tollgate_db::{Select, Tx, columns, insert, query_int, row, select};

use crate::actor::{Actor, EVERY_APP, Who};
use crate::apps::{self, App};
use crate::content::{Content, Kind};
use crate::error::{ConflictSides, ControlError};
use crate::ids::sha256;
use crate::known::known;
use crate::role::Role;
use crate::stored::{self, ByName, Stored};

/// Where a change set is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its author works on it.
    Draft,
    /// It waits for approvals.
    Submitted,
    /// It has the approvals that its app needs.
    Approved,
    /// It is a version of its app.
    Published,
    /// An approver said no; its author may edit it.
    Rejected,
    /// Its author gave it up.
    Abandoned,
}

impl State {
    /// All states.
    pub const ALL: [Self; 6] =
        [Self::Draft, Self::Submitted, Self::Approved, Self::Published, Self::Rejected, Self::Abandoned];

    /// Its name in the database and in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Submitted => "submitted",
            Self::Approved => "approved",
            Self::Published => "published",
            Self::Rejected => "rejected",
            Self::Abandoned => "abandoned",
        }
    }

    /// Whether nothing happens to it any more.
    #[must_use]
    pub const fn is_closed(self) -> bool {
        matches!(self, Self::Published | Self::Abandoned)
    }

    fn read(name: &str) -> Self {
        Self::ALL.into_iter().find(|it| it.name() == name).unwrap_or(Self::Draft)
    }
}

/// A change of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeOp {
    /// The kind of the rule.
    pub kind: Kind,
    /// The key of the rule.
    pub key: String,
    /// The version of the app that wrote what the change begins with; `None`: the rule must not exist yet.
    pub base: Option<i64>,
    /// What it begins with.
    pub before: Option<Content>,
    /// What it makes of the rule; `None` deletes it.
    pub after: Option<Content>,
}

/// What somebody said of a change set, or did with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub(crate) user_id: String,
    /// Who.
    pub user: String,
    /// `submit`, `edit`, `comment`, `approve`, `reject`, `publish`, `abandon`.
    pub verdict: String,
    /// In their words.
    pub comment: String,
    /// The content that it was about.
    pub content_sha256: String,
    /// Milliseconds UTC.
    pub at: i64,
}

/// A rule that was changed both in a change set and since the base of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Its kind.
    pub kind: Kind,
    /// Its key.
    pub key: String,
    /// What the change set began with; `None`: the rule was not there.
    pub base: Option<Content>,
    /// What is there now.
    pub theirs: Option<Content>,
    /// What the change set makes of it; `None`: it deletes the rule.
    pub yours: Option<Content>,
}

impl From<Conflict> for ConflictSides {
    fn from(Conflict { kind, key, base, theirs, yours }: Conflict) -> Self {
        let json = |side: Option<Content>| side.map(|it| it.json());
        Self { kind: kind.name(), key, base: json(base), theirs: json(theirs), yours: json(yours) }
    }
}

/// Operations on rules of one app, which are published together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSet {
    /// Sorts by the time at which it was made.
    pub id: String,
    pub(crate) app_id: String,
    /// The app.
    pub app: String,
    /// Where it is on its way.
    pub state: State,
    /// What it is about.
    pub title: String,
    /// Why.
    pub comment: String,
    pub(crate) author_id: String,
    /// Who made it.
    pub author: String,
    /// The version of the app at which it began.
    pub base_version: i64,
    /// The version that it became.
    pub published_version: Option<i64>,
    /// Of its operations with their bases; an approval names it.
    pub content_sha256: String,
    /// Goes up with each change.
    pub etag: i64,
    /// Milliseconds UTC.
    pub created_at: i64,
    /// Milliseconds UTC.
    pub updated_at: i64,
    /// By kind and key; empty in lists.
    pub ops: Vec<ChangeOp>,
    /// What happened to it, the first first; empty in lists.
    pub events: Vec<Event>,
    /// How many rules it changes.
    pub rules: i64,
    /// Approvals that its app needs.
    pub needed: i64,
}

impl ChangeSet {
    /// The approvers of the last submission. A verdict is about one submission: an edit, a rejection and a
    /// new submission void all approvals, also of equal content.
    #[must_use]
    pub fn approved_by(&self) -> Vec<&str> {
        let mut users: Vec<(&str, &str)> = Vec::new();
        for event in &self.events {
            match &*event.verdict {
                "submit" | "edit" | "reject" => users.clear(),
                "approve"
                    if event.user_id != self.author_id && event.content_sha256 == self.content_sha256 =>
                {
                    users.retain(|(id, _)| *id != event.user_id);
                    users.push((&event.user_id, &event.user));
                }
                _ => {}
            }
        }
        users.into_iter().map(|(_, name)| name).collect()
    }

    /// How often it was submitted: the number of the submission that verdicts are about.
    #[must_use]
    pub fn submission(&self) -> usize {
        self.events.iter().filter(|it| it.verdict == "submit").count()
    }

    /// Whether they are its author.
    #[must_use]
    pub fn is_by(&self, who: &Who) -> bool {
        self.author_id == who.user_id
    }

    /// What it makes of its app, for the audit.
    pub(crate) fn shown(&self) -> serde_json::Value {
        let sign = |op: &ChangeOp| match (&op.base, &op.after) {
            (None, _) => '+',
            (_, None) => '-',
            _ => '~',
        };
        let rules: Vec<String> =
            self.ops.iter().take(100).map(|op| format!("{}{}", sign(op), op.key)).collect();
        json!({
            "change": self.id, "title": self.title, "state": self.state.name(), "rules": rules,
            "content_sha256": self.content_sha256,
        })
    }
}

/// Which change sets, the newest first.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Of this app only, unless empty.
    pub app: String,
    /// In this state; `open` for those that are not closed; empty for all.
    pub state: String,
    /// Made before this one, unless empty.
    pub before: String,
    /// At most as many, 1 to 500.
    pub limit: i64,
}

columns! {
    ChangeSet {
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

columns! { Event { user_id, user = "user_name", verdict, comment, content_sha256, at } }

const ONE: Select<ChangeSet> =
    select!(ChangeSet: "FROM changes JOIN apps ON apps.id = changes.app_id WHERE changes.id = $1");
const LIST: Select<ChangeSet> = select!(ChangeSet:
    "FROM changes JOIN apps ON apps.id = changes.app_id \
     WHERE ($1 = '' OR apps.name = $1) AND ($2 = '' OR changes.state = $2 OR \
     ($2 = 'open' AND changes.state IN ('draft', 'submitted', 'approved', 'rejected'))) \
     AND ($3 = '' OR changes.id < $3) \
     AND ($4 = 1 OR REPLACE($5, '/' || apps.name || '/', '') <> $5) ORDER BY changes.id DESC LIMIT $6");

/// How many change sets are neither published nor given up, of apps that the actor may see.
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
    Ok(LIST.all(
        tx,
        &[
            (&query.app).into(),
            (&query.state).into(),
            (&query.before).into(),
            actor.may(Role::Viewer, EVERY_APP).into(),
            visible.into(),
            query.limit.clamp(1, 500).into(),
        ],
    )?)
}

/// A change set with its operations. Needs viewer of its app.
///
/// # Errors
/// [`ControlError`].
pub fn get(tx: &mut dyn Tx, actor: &Actor, id: &str) -> Result<ChangeSet, ControlError> {
    let unknown = || ControlError::NotFound { what: "change set", name: id.to_owned() };
    let mut change = ONE.first(tx, &[id.into()])?.ok_or_else(unknown)?;
    actor.must(Role::Viewer, &change.app)?;
    let (count, name) =
        (usize::try_from(change.rules).unwrap_or_default(), || ops_name(id, &change.content_sha256));
    let ops = known(actor.known(), count, name, || {
        let rows = select!(OpRow: "FROM change_ops WHERE change_id = $1 ORDER BY kind, key");
        let rows = rows.all(tx, &[id.into()])?;
        rows.into_iter().map(|row| ChangeOp::read(&change.app, row)).collect::<Result<Vec<_>, _>>()
    })?;
    change.ops = Arc::unwrap_or_clone(ops);
    change.events = events(tx, id)?;
    Ok(change)
}

/// Under what the operations of a change set are known: another content has another hash.
pub(crate) fn ops_name(id: &str, sha256: &str) -> String {
    format!("operations of {id} {sha256}")
}

/// What happened to a change set.
pub(crate) fn events(tx: &mut dyn Tx, id: &str) -> Result<Vec<Event>, ControlError> {
    Ok(select!(Event: "FROM approvals WHERE change_id = $1 ORDER BY seq").all(tx, &[id.into()])?)
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

/// The hash of operations with their bases.
pub(crate) fn content_hash(app: &App, ops: &[ChangeOp]) -> String {
    let mut parts: Vec<_> = ops
        .iter()
        .map(|op| {
            let after = op.after.as_ref().map(Content::body);
            (op.kind.name(), &op.key, op.base, after)
        })
        .collect();
    parts.sort();
    sha256(&json!([app.id, parts]).to_string())
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

impl ChangeOp {
    fn read(app: &str, row: OpRow) -> Result<Self, ControlError> {
        let content = |text: Option<String>| text.map(|body| Content::read(app, &body)).transpose();
        Ok(Self {
            kind: row.kind.parse().unwrap_or(Kind::Car),
            key: row.key,
            base: row.base,
            before: content(row.before)?,
            after: content(row.after)?,
        })
    }
}
