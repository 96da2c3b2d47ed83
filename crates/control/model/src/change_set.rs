//! Change sets: operations on rules of one app, each with the version that it began with, and their states.
//!
//! Not here: the tables and who may do what (`changes` of `control`).

use serde_json::{Value as Json, json};

use crate::content::{Content, RuleKind};
use crate::hash::sha256;

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

    /// The state of this name; a draft for a name that is unknown.
    #[must_use]
    pub fn read(name: &str) -> Self {
        Self::ALL.into_iter().find(|it| it.name() == name).unwrap_or(Self::Draft)
    }
}

/// A change of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeOp {
    /// The kind of the rule.
    pub kind: RuleKind,
    /// The key of the rule.
    pub key: String,
    /// The version of the app that wrote what the change begins with; `None`: the rule must not exist yet.
    pub base: Option<i64>,
    /// The content that the change begins with.
    pub before: Option<Content>,
    /// The content that it gives the rule; `None` deletes it.
    pub after: Option<Content>,
}

/// A comment on a change set, or a step of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Id of the user.
    pub user_id: String,
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
    pub kind: RuleKind,
    pub key: String,
    /// The content that the change set began with; `None`: the rule did not exist.
    pub base: Option<Content>,
    /// The current content; `None`: the rule does not exist.
    pub theirs: Option<Content>,
    /// The content that the change set gives it; `None`: it deletes the rule.
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
    /// Id of the app.
    pub app_id: String,
    pub app: String,
    pub state: State,
    /// A title in one line.
    pub title: String,
    pub comment: String,
    /// Id of the author.
    pub author_id: String,
    /// Who made it.
    pub author: String,
    /// The version of the app at which it began.
    pub base_version: i64,
    /// The version that it became.
    pub published_version: Option<i64>,
    /// SHA-256 of its operations with their bases; an approval names it.
    pub content_sha256: String,
    /// Goes up with each change.
    pub etag: i64,
    /// Milliseconds UTC.
    pub created_at: i64,
    /// Milliseconds UTC.
    pub updated_at: i64,
    /// By kind and key; empty in lists.
    pub ops: Vec<ChangeOp>,
    /// Its events, the oldest first; empty in lists.
    pub events: Vec<Event>,
    /// Number of rules that it changes.
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

    /// Number of times it was submitted; verdicts are about the last submission.
    #[must_use]
    pub fn submission(&self) -> usize {
        self.events.iter().filter(|it| it.verdict == "submit").count()
    }

    /// Whether the user of this id is its author.
    #[must_use]
    pub fn is_by(&self, user_id: &str) -> bool {
        self.author_id == user_id
    }

    /// Its effect on its app, for the audit.
    #[must_use]
    pub fn shown(&self) -> serde_json::Value {
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

/// A rule that was changed both in a change set and since the base of that; its sides as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictSides {
    /// `car` or `file`.
    pub kind: &'static str,
    pub key: String,
    /// The content that the change set began with; `None`: the rule did not exist.
    pub base: Option<Json>,
    /// The current content; `None`: the rule does not exist.
    pub theirs: Option<Json>,
    /// The content that the change set gives it; `None`: it deletes the rule.
    pub yours: Option<Json>,
}

/// The hash of operations of an app, with their bases.
#[must_use]
pub fn content_hash(app_id: &str, ops: &[ChangeOp]) -> String {
    let mut parts: Vec<_> = ops
        .iter()
        .map(|op| {
            let after = op.after.as_ref().map(Content::body);
            (op.kind.name(), &op.key, op.base, after)
        })
        .collect();
    parts.sort();
    sha256(&json!([app_id, parts]).to_string())
}
