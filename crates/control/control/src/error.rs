//! Why nothing was changed.

use serde_json::Value as Json;
use tollgate_db::DbError;

use crate::awaited::Awaited;
use crate::role::Role;

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
        /// Of the caller.
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
        /// Of what.
        what: &'static str,
        /// The cap.
        max: i64,
    },
    /// The rules of an app do not make a valid document: a fault of this program.
    #[error("the rules of {app} do not make a valid document: {reason}")]
    Document {
        /// The app.
        app: String,
        /// What the parser reports.
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
        /// The app.
        app: String,
        /// How many.
        approvals: i64,
    },
    /// Nodes that report read an earlier level of the rule language than these rules need.
    #[error(
        "these rules need level {level} of the rule language, which {} cannot read: upgrade them, or leave them \
         at the version that they have (`old_nodes=leave`)",
        .nodes.join(", ")
    )]
    OldNodes {
        /// The level.
        level: u32,
        /// Their names.
        nodes: Vec<String>,
    },
    /// Nodes hold a newer version than the database, which was restored from a copy.
    #[error(
        "{app} is frozen: nodes hold version {held}, and this database, restored from a copy, has {version}; an admin \
         takes over what a node holds, or forces what the database has"
    )]
    Frozen {
        /// The app.
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
        /// Its id.
        node: String,
        /// Why.
        reason: String,
    },
    /// A node that reports cannot be removed.
    #[error("node {node} reports: stop it first; a node that is running would come back at once")]
    NodeLive {
        /// Its name.
        node: String,
    },
    /// A change set is in another state than this needs.
    #[error("the change set is {state}; {needed}")]
    WrongState {
        /// Its state.
        state: String,
        /// What is possible instead.
        needed: &'static str,
    },
    /// A version of the app is being rolled out, and another one would overtake it.
    #[error("version {version} of {app} is being rolled out: wait for its end, or withdraw it first")]
    RolloutOpen {
        /// The app.
        app: String,
        /// The candidate.
        version: i64,
    },
    /// A rollout is in another state than this needs.
    #[error("the rollout is {state}; it cannot {asked}")]
    WrongRolloutState {
        /// Its state.
        state: &'static str,
        /// What was asked for.
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
    NotAuthor {
        /// The author.
        author: String,
    },
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

/// A rule that was changed both in a change set and since the base of that; its sides as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictSides {
    /// `car` or `file`.
    pub kind: &'static str,
    /// Its key.
    pub key: String,
    /// What the change set began with; `None`: the rule was not there.
    pub base: Option<Json>,
    /// What is there now.
    pub theirs: Option<Json>,
    /// What the change set makes of it; `None`: it deletes the rule.
    pub yours: Option<Json>,
}

/// A fault of a rule file or of YAML, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocFault {
    /// The domain of the file; empty for a text that is not a file yet.
    pub domain: String,
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
    /// The path of the key, such as `descriptors[2].rate_limit.unit`.
    pub path: String,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl DocFault {
    pub(crate) fn of(domain: &str, fault: &tollgate_rule_files::Fault) -> Self {
        Self {
            domain: domain.to_owned(),
            line: fault.place.line,
            column: fault.place.column,
            path: fault.path.clone(),
            message: fault.message.clone(),
        }
    }

    /// A fault of the domain itself.
    pub(crate) fn at_domain(domain: &str, text: &str, message: &str) -> Self {
        let line = text.lines().position(|line| line.trim_start().starts_with("domain"));
        Self {
            domain: domain.to_owned(),
            line: line.map_or(1, |index| u32::try_from(index + 1).unwrap_or(u32::MAX)),
            column: 1,
            path: "domain".to_owned(),
            message: message.to_owned(),
        }
    }
}

impl std::fmt::Display for DocFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { domain, line, column, path, message } = self;
        if !domain.is_empty() {
            write!(f, "{domain}:")?;
        }
        write!(f, "{line}:{column}: ")?;
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        f.write_str(message)
    }
}

/// One field and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {fault}")]
pub struct FieldFault {
    /// Its name in forms and in JSON.
    pub field: &'static str,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a field. Pages translate it; `Display` is English.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Nothing was entered.
    #[error("required")]
    Required,
    /// Too many characters.
    #[error("longer than {max} characters")]
    TooLong {
        /// The cap.
        max: usize,
    },
    /// Too few characters.
    #[error("shorter than {min} characters")]
    TooShort {
        /// The least.
        min: usize,
    },
    /// Characters that are not allowed.
    #[error("only these characters are allowed: {allowed}")]
    Characters {
        /// Which are.
        allowed: &'static str,
    },
    /// A `*`, which would be a pattern.
    #[error("`*` is not allowed: it would be a pattern")]
    Star,
    /// Not a whole number.
    #[error("expected a whole number from {min} to {max}")]
    Whole {
        /// The least.
        min: i64,
        /// The most.
        max: i64,
    },
    /// Not a number with at most six decimals.
    #[error("expected a number from 0 to 1000 with at most six decimals")]
    Decimal,
    /// More than the burst.
    #[error("more than max_permits, which is {max}")]
    AboveBurst {
        /// The burst.
        max: i64,
    },
    /// No entries, which would be the whole domain, without saying so.
    #[error("without entries it is the whole domain: say so by `whole_domain: true`")]
    WholeDomain,
    /// Taken already.
    #[error("exists already")]
    Duplicate,
    /// Not one of these.
    #[error("expected one of {expected}")]
    Choice {
        /// Which are.
        expected: &'static str,
    },
    /// Not the entries of a descriptor.
    #[error("expected at most {max} entries, each as key=value")]
    Entries {
        /// The most.
        max: usize,
    },
    /// Not a place in a listing, or one of a server that was replaced.
    #[error("expected `next` of the page before; if a server of the store was replaced, begin again")]
    Cursor,
    /// Rows that share a bucket differ in this field.
    #[error(
        "{key} shares the bucket {bucket} with {other}, which has {theirs:?}; rows of one bucket have the same \
         rate, max_permits, per and sharing: change them in one change set, or choose another bucket"
    )]
    BucketDiffers {
        /// The row.
        key: String,
        /// The bucket.
        bucket: String,
        /// Another row of the bucket.
        other: String,
        /// What it has in this field.
        theirs: String,
    },
    /// A bucket and its overdraft that take decades to fill.
    #[error(
        "at this rate the bucket and the overdraft take more than 36 years to fill: make one of them smaller"
    )]
    SlowBucket,
    /// One number of a trial without the other.
    #[error("a trial has a rate and a burst: give both trial_rate and trial_max_permits, or neither")]
    TrialHalf,
    /// A trial whose burst is too small for what the row keeps.
    #[error(
        "expected at least {min}: a trial keeps need_permits and pre_permits, which must fit into its burst"
    )]
    TrialTooSmall {
        /// The least.
        min: i64,
    },
    /// A row that shares a bucket.
    #[error("a rule that shares a bucket cannot try numbers by itself: remove the trial, or the bucket")]
    TrialInBucket,
    /// Leased counters have no overdraft.
    #[error("leased counters cannot be overdrawn: set pre_permits to 0, or choose another sharing")]
    LeasedOverdraft,
    /// Not JSON, or too large, or too deep.
    #[error("expected a JSON object of at most 64 KiB")]
    Json,
    /// Not ticked.
    #[error("must be accepted")]
    NotAccepted,
    /// A password that is too easy.
    #[error("too easy to guess: it contains the name, or is a common password")]
    Guessable,
    /// The two passwords differ.
    #[error("the passwords differ")]
    Differs,
    /// Too many of them.
    #[error("more than {max}")]
    TooMany {
        /// The cap.
        max: usize,
    },
    /// A token of nodes with rights.
    #[error("tokens of nodes have no rights: they may only attach")]
    NodeRights,
    /// The password of now is wrong.
    #[error("wrong password")]
    WrongPassword,
    /// The name of a time zone that is unknown.
    #[error("unknown time zone; expected a name such as Asia/Shanghai")]
    Zone,
    /// The last admin must stay.
    #[error("the last admin over all apps must stay active")]
    LastAdmin,
    /// A line that is not a step of a rollout.
    #[error("expected one step per line, such as 1 node, 10 %, zone in (a, b) or all")]
    Steps,
    /// A plan that leaves nodes out.
    #[error("the last step, and only the last one, must be all")]
    LastStep,
    /// A share that does not grow.
    #[error("each step must reach more nodes than the one before")]
    Growing,
}

/// The faults of several fields.
#[derive(Debug, Default)]
pub struct FieldFaults(Vec<FieldFault>);

impl FieldFaults {
    /// Adds a fault.
    pub fn add(&mut self, field: &'static str, fault: Fault) {
        self.0.push(FieldFault { field, fault });
    }

    /// The value, or the fault is added and `instead` returned.
    pub fn take<T>(&mut self, field: &'static str, read: Result<T, Fault>, instead: T) -> T {
        read.unwrap_or_else(|fault| {
            self.add(field, fault);
            instead
        })
    }

    /// # Errors
    /// [`ControlError::Invalid`] if there is a fault.
    pub fn check(self) -> Result<(), ControlError> {
        if self.0.is_empty() { Ok(()) } else { Err(ControlError::Invalid(self.0)) }
    }
}

/// One fault of one field.
pub(crate) fn invalid(field: &'static str, fault: Fault) -> ControlError {
    ControlError::Invalid(vec![FieldFault { field, fault }])
}
