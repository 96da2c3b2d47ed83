//! Why nothing was changed.

use tollgate_db::DbError;

use crate::role::Role;

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
    /// Taken already.
    #[error("exists already")]
    Duplicate,
    /// Not one of these.
    #[error("expected one of {expected}")]
    Choice {
        /// Which are.
        expected: &'static str,
    },
    /// The nodes cannot enforce it yet.
    #[error("nodes do not enforce costs above 1 yet; leave it at 1")]
    CostUnsupported,
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
