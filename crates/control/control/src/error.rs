//! Why nothing was changed.

use tollgate_db::DbError;
use tollgate_model::change_set::ConflictSides;
use tollgate_model::{ModelError, Role};

pub use tollgate_model::{DocFault, Fault, FieldFault, FieldFaults};

/// Most faults of a document in one reply. A faulty document may have several on each line.
pub(crate) const MAX_FAULTS: usize = 100;

/// Why a function changed nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// Fields are invalid; each fault names its own.
    #[error("invalid input: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<FieldFault>),
    /// The actor has not the role that it takes.
    #[error("this needs the role {} for {app}; an admin can grant it", .need.name())]
    NoRight {
        /// The least role.
        need: Role,
        /// The app, or `*`.
        app: String,
    },
    /// A token was used for what only a login may do.
    #[error("this needs a login; a token cannot do it")]
    LoginOnly,
    /// The database holds nothing, although it had changes.
    #[error(
        "control.db holds no entry of the audit, and {acknowledged} were acknowledged: its log was damaged, or it is \
         another file. Put a copy of control.db there, or, to begin anew without it, move control.db, control.db-wal, \
         audit-head and audit-lost away"
    )]
    Emptied {
        /// Entries that there were.
        acknowledged: i64,
    },
    /// There is no such thing.
    #[error("unknown {what} {name:?}")]
    NotFound {
        /// `app`, `rule`, `user`, `version`.
        what: &'static str,
        /// As it was named.
        name: String,
    },
    /// The object was changed since it was read.
    #[error(
        "changed meanwhile: expected etag {expected}, and it is {now}; read it again and repeat the change"
    )]
    Stale {
        /// The caller's etag.
        expected: i64,
        /// In the database.
        now: i64,
    },
    /// The login has ended, or its user is disabled.
    #[error("the login has ended; log in again")]
    NoLogin,
    /// The token is unknown, expired or revoked, or its owner is disabled.
    #[error("the token is unknown, expired or revoked, or its owner is disabled; make a new one")]
    NoToken,
    /// The name and the password do not belong together, or the user is disabled.
    #[error("wrong name or password")]
    WrongLogin,
    /// Too many attempts.
    #[error("too many attempts; try again in {seconds} s")]
    TooMany {
        /// Until the next.
        seconds: u64,
    },
    /// The link is unknown, was used, or is too old.
    #[error("the link is wrong, was used, or has expired; an admin can make a new one")]
    WrongLink,
    /// The first admin exists already, or the setup code is wrong or too old.
    #[error("the setup code is wrong, was used, or is older than 24 hours; restart the server for a new one")]
    WrongCode,
    /// A cap is reached.
    #[error("the cap of {max} {what} is reached")]
    Cap {
        /// The things that are counted.
        what: &'static str,
        max: i64,
    },
    /// The rules of an app do not make a valid document: a fault of this program.
    #[error("the rules of {app} do not make a valid document: {reason}")]
    Document {
        app: String,
        /// The message of the parser.
        reason: String,
    },
    /// Rule files are faulty.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Faulty(Vec<DocFault>),
    /// Rules of a change set were changed since their base.
    #[error("rules were changed meanwhile: {}", .0.iter().map(|it| &*it.key).collect::<Vec<_>>().join(", "))]
    Conflict(Vec<ConflictSides>),
    /// The app takes approved change sets only.
    #[error("{app} needs {approvals} approvals for a change: submit a change set")]
    NeedsApproval {
        app: String,
        /// Number of approvals.
        approvals: i64,
    },
    /// Nodes that report read an earlier level of the rule language than these rules need.
    #[error(
        "these rules need level {level} of the rule language, which {} cannot read: upgrade them, or leave them \
         at the version that they have (`old_nodes=leave`)",
        .nodes.join(", ")
    )]
    OldNodes {
        level: u32,
        /// Names of the nodes.
        nodes: Vec<String>,
    },
    /// Nodes hold a newer version than the database, which was restored from a copy.
    #[error(
        "{app} is frozen: nodes hold version {held}, and this database, restored from a copy, has {version}; an admin \
         takes over what a node holds, or forces what the database has"
    )]
    Frozen {
        app: String,
        /// The highest version on nodes.
        held: i64,
        /// In the database.
        version: i64,
    },
    /// Nodes that were there before the start have not attached yet. A change waits for them, so that nobody
    /// is shown this.
    #[error(
        "{} of {} nodes that were there before have not attached yet; changes wait for them for {} s at most",
        .0.missing, .0.of, (.0.left_ms + 999) / 1_000
    )]
    Awaiting(Awaited),
    /// A change of many rules, which is worked out and written before its transaction. Nobody is shown this.
    #[error("the change is large, and is worked out before its transaction")]
    Large,
    /// A node does not say what is needed of it.
    #[error("node {node} does not answer: {reason}")]
    Unanswered {
        /// Id of the node.
        node: String,
        reason: String,
    },
    /// A node that reports cannot be removed.
    #[error("node {node} reports: stop it first; a node that is running would come back at once")]
    NodeLive {
        /// Name of the node.
        node: String,
    },
    /// A change set is in another state than this needs.
    #[error("the change set is {state}; {needed}")]
    WrongState {
        state: String,
        /// The states or steps that are possible instead.
        needed: &'static str,
    },
    /// A version of the app is being rolled out, and another one would overtake it.
    #[error("version {version} of {app} is being rolled out: wait for its end, or withdraw it first")]
    RolloutOpen {
        app: String,
        /// The candidate version.
        version: i64,
    },
    /// A rollout is in another state than this needs.
    #[error("the rollout is {state}; it cannot {asked}")]
    WrongRolloutState {
        state: &'static str,
        /// The operation that was requested.
        asked: &'static str,
    },
    /// Another process drives the rollouts, and this one does not know it yet.
    #[error("another process has taken over the rollouts")]
    OldTerm,
    /// The author of a change set would approve it.
    #[error("nobody approves a change set of their own; another approver has to")]
    OwnChange,
    /// Somebody else would edit a change set.
    #[error("only its author, {author}, edits this change set")]
    NotAuthor { author: String },
    /// The operating system has no random numbers.
    #[error("the operating system returned no random numbers")]
    NoRandomness,
    /// A password could not be hashed.
    #[error("the password could not be hashed")]
    Hash,
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl ControlError {
    /// Whether this program or its data is at fault, so that trying again does not help.
    #[must_use]
    pub const fn is_internal(&self) -> bool {
        use DbError::{Changed, Constraint, Newer, Panicked, Shape, TooManyRows};
        let Self::Db(error) = self else {
            return matches!(self, Self::NoRandomness | Self::Hash | Self::Document { .. });
        };
        matches!(
            error,
            Constraint(_) | TooManyRows { .. } | Shape { .. } | Newer { .. } | Changed { .. } | Panicked
        )
    }
}

impl From<ModelError> for ControlError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Invalid(faults) => Self::Invalid(faults),
            ModelError::Faulty(faults) => Self::Faulty(faults),
            ModelError::Document { app, reason } => Self::Document { app, reason },
        }
    }
}

/// Nodes that changes wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// Number of nodes that have not attached.
    pub missing: usize,
    /// Number of nodes that were there before.
    pub of: usize,
    /// For how long changes wait at most.
    pub left_ms: i64,
}

/// One fault of one field.
pub(crate) fn invalid(field: &'static str, fault: Fault) -> ControlError {
    ControlError::Invalid(vec![FieldFault { field, fault }])
}

/// # Errors
/// [`ControlError::Stale`] when the etags differ.
pub(crate) const fn must_match(expected: i64, now: i64) -> Result<(), ControlError> {
    if expected == now { Ok(()) } else { Err(ControlError::Stale { expected, now }) }
}
