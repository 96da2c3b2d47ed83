//! Change sets, checks of operations, and imports.

use serde::Serialize;
use tollgate_control::change_set;
use tollgate_replay::Previewed;
use utoipa::ToSchema;

use super::content::{Conflict, Content, Fault, RuleDiff};
use super::versions::Document;
use crate::words;

/// Operations on rules of one app, which are published together or not at all.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangeSet {
    pub id: String,
    pub app: String,
    #[schema(schema_with = words::change_state)]
    pub state: &'static str,
    pub title: String,
    pub comment: String,
    pub author: String,
    /// The version of the app at which it began.
    pub base_version: i64,
    /// The version that it became; null before.
    #[schema(required)]
    pub published_version: Option<i64>,
    /// The digest of its operations; an approval is about it.
    pub content_sha256: String,
    pub created_at: i64,
    pub updated_at: i64,
    /// The number of rules that it changes.
    pub rules: i64,
    /// Approvals that its app needs.
    pub approvals_needed: i64,
    /// Users who approved its content; not there in lists.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<Vec<String>>,
    /// By kind and key; not there in lists.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops: Option<Vec<ChangeOp>>,
    /// The oldest first; not there in lists.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<ChangeEvent>>,
}

impl ChangeSet {
    /// An entry of a list: without operations and events.
    #[must_use]
    pub fn listed(change: change_set::ChangeSet) -> Self {
        Self {
            state: change.state.name(),
            approvals_needed: change.needed,
            id: change.id,
            app: change.app,
            title: change.title,
            comment: change.comment,
            author: change.author,
            base_version: change.base_version,
            published_version: change.published_version,
            content_sha256: change.content_sha256,
            created_at: change.created_at,
            updated_at: change.updated_at,
            rules: change.rules,
            approved_by: None,
            ops: None,
            events: None,
        }
    }
}

impl From<change_set::ChangeSet> for ChangeSet {
    fn from(mut change: change_set::ChangeSet) -> Self {
        let approved_by = change.approved_by().into_iter().map(str::to_owned).collect();
        let ops = std::mem::take(&mut change.ops).into_iter().map(ChangeOp::from).collect();
        let events = std::mem::take(&mut change.events).into_iter().map(ChangeEvent::from).collect();
        Self { approved_by: Some(approved_by), ops: Some(ops), events: Some(events), ..Self::listed(change) }
    }
}

/// A list of change sets.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangeSets {
    pub changes: Vec<ChangeSet>,
    /// The cursor of the next part; null after the last.
    #[schema(required)]
    pub next: Option<String>,
}

/// A change of one rule.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangeOp {
    #[schema(schema_with = words::put_or_delete)]
    pub op: &'static str,
    #[schema(schema_with = words::rule_kind)]
    pub kind: &'static str,
    pub key: String,
    /// The version of the app that wrote the content before; null where the rule must not exist yet.
    #[schema(required)]
    pub base: Option<i64>,
    #[schema(required)]
    pub before: Option<Content>,
    /// Null where the rule is deleted.
    #[schema(required)]
    pub after: Option<Content>,
}

impl From<change_set::ChangeOp> for ChangeOp {
    fn from(op: change_set::ChangeOp) -> Self {
        Self {
            op: if op.after.is_some() { "put" } else { "delete" },
            kind: op.kind.name(),
            key: op.key,
            base: op.base,
            before: op.before.map(Content::from),
            after: op.after.map(Content::from),
        }
    }
}

/// A step of a change set, and who made it.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangeEvent {
    pub user: String,
    #[schema(schema_with = words::change_event)]
    pub event: String,
    pub comment: String,
    pub at: i64,
}

impl From<change_set::Event> for ChangeEvent {
    fn from(event: change_set::Event) -> Self {
        Self { user: event.user, event: event.verdict, comment: event.comment, at: event.at }
    }
}

/// The differences that a change set makes.
#[derive(Debug, Serialize, ToSchema)]
pub struct Diff {
    pub diff: Vec<RuleDiff>,
}

/// Whether nodes would take rules.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Checked {
    /// There are neither errors nor conflicts.
    pub ok: bool,
    pub errors: Vec<Fault>,
    pub conflicts: Vec<Conflict>,
    /// The differences, where operations were sent that can be read.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<Vec<RuleDiff>>,
    /// The documents that nodes would get; only in a preview.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<Vec<Document>>,
    /// The effect on a trace; only in a preview that names one.
    #[schema(value_type = Option<Previewed>, nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Box<Previewed>>,
}

impl Checked {
    /// The outcome of a check with these faults and conflicts.
    #[must_use]
    pub fn new(errors: Vec<Fault>, conflicts: Vec<Conflict>) -> Self {
        Self { ok: errors.is_empty() && conflicts.is_empty(), errors, conflicts, ..Self::default() }
    }
}

/// The outcome of an import that was not made: only the faults of the text, or all that it would change.
#[derive(Debug, Serialize, ToSchema)]
pub struct DryRun {
    pub ok: bool,
    pub errors: Vec<Fault>,
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflicts: Option<Vec<Conflict>>,
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<Vec<RuleDiff>>,
}

/// The outcome of an import that changes nothing.
#[derive(Debug, Serialize, ToSchema)]
pub struct Unchanged {
    /// Always false.
    pub changed: bool,
}

/// The outcome of an import.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Imported {
    Published(Box<ChangeSet>),
    Unchanged(Unchanged),
    DryRun(DryRun),
}

/// A recorded trace.
#[derive(Debug, Serialize, ToSchema)]
pub struct Trace {
    pub name: String,
    pub bytes: u64,
}

/// The recorded traces that rules can be replayed on, by name.
#[derive(Debug, Serialize, ToSchema)]
pub struct Traces {
    pub traces: Vec<Trace>,
}
