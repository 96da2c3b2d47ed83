//! Why input is rejected: faults of fields and of documents, each with its place.
//!
//! Not here: why a change is rejected for another reason than its input (`ControlError` of `control`).

/// Input that the model rejects. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Fields are invalid; each fault names its own.
    #[error("invalid input: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<FieldFault>),
    /// Rule files are faulty.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Faulty(Vec<DocFault>),
    /// The rules of an app do not make a valid document, or a stored document cannot be read: a fault of this
    /// program.
    #[error("the rules of {app} do not make a valid document: {reason}")]
    Document {
        app: String,
        /// The message of the parser.
        reason: String,
    },
}

/// A fault of a rule file or of YAML, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocFault {
    /// The domain of the file; empty for a text that is not a file yet.
    pub domain: String,
    /// Counted from 1.
    pub line: u32,
    /// Counted from 1.
    pub column: u32,
    /// The path of the key, such as `descriptors[2].rate_limit.unit`.
    pub path: String,
    /// The mistake, and what to write instead.
    pub message: String,
}

impl DocFault {
    /// A fault that the parser of rule files found.
    #[must_use]
    pub fn of(domain: &str, fault: &tollgate_rule_files::Fault) -> Self {
        Self {
            domain: domain.to_owned(),
            line: fault.place.line,
            column: fault.place.column,
            path: fault.path.clone(),
            message: fault.message.clone(),
        }
    }

    /// A fault of the domain itself.
    #[must_use]
    pub fn at_domain(domain: &str, text: &str, message: &str) -> Self {
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

/// One field and its fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {fault}")]
pub struct FieldFault {
    /// Its name in forms and in JSON.
    pub field: &'static str,
    pub fault: Fault,
}

/// A mistake in a field. Pages translate it; `Display` is English.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Nothing was entered.
    #[error("required")]
    Required,
    /// Too many characters.
    #[error("longer than {max} characters")]
    TooLong { max: usize },
    /// Too few characters.
    #[error("shorter than {min} characters")]
    TooShort { min: usize },
    /// Characters that are not allowed.
    #[error("only these characters are allowed: {allowed}")]
    Characters { allowed: &'static str },
    /// A `*`, which would be a pattern.
    #[error("`*` is not allowed: it would be a pattern")]
    Star,
    /// Not a whole number.
    #[error("expected a whole number from {min} to {max}")]
    Whole { min: i64, max: i64 },
    /// Not a number with at most six decimals.
    #[error("expected a number from 0 to 1000 with at most six decimals")]
    Decimal,
    /// More than the burst.
    #[error("more than max_permits, which is {max}")]
    AboveBurst {
        /// The burst of the rule.
        max: i64,
    },
    /// No entries, which would be the whole domain, without saying so.
    #[error("without entries it is the whole domain: say so by `whole_domain: true`")]
    WholeDomain,
    #[error("exists already")]
    Duplicate,
    /// Not one of these.
    #[error("expected one of {expected}")]
    Choice {
        /// The allowed values, as text.
        expected: &'static str,
    },
    /// Not the entries of a descriptor.
    #[error("expected at most {max} entries, each as key=value")]
    Entries { max: usize },
    /// Not a place in a listing, or one of a server that was replaced.
    #[error("expected `next` of the page before; if a server of the store was replaced, begin again")]
    Cursor,
    /// Rows that share a bucket differ in this field.
    #[error(
        "{key} shares the bucket {bucket} with {other}, which has {theirs:?}; rows of one bucket have the same \
         rate, max_permits, per and sharing: change them in one change set, or choose another bucket"
    )]
    BucketDiffers {
        /// Key of the row.
        key: String,
        bucket: String,
        /// Another row of the bucket.
        other: String,
        /// The value of the other row in this field.
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
    TrialTooSmall { min: i64 },
    /// A row that shares a bucket.
    #[error("a rule that shares a bucket cannot try numbers by itself: remove the trial, or the bucket")]
    TrialInBucket,
    /// Leased counters have no overdraft.
    #[error("leased counters cannot be overdrawn: set pre_permits to 0, or choose another sharing")]
    LeasedOverdraft,
    /// Not JSON, or too large, or too deep.
    #[error("expected a JSON object of at most 64 KiB")]
    Json,
    /// A box that must be ticked is not.
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
    TooMany { max: usize },
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
    /// [`ModelError::Invalid`] if there is a fault.
    pub fn check(self) -> Result<(), ModelError> {
        if self.0.is_empty() { Ok(()) } else { Err(ModelError::Invalid(self.0)) }
    }
}

/// One fault of one field.
#[must_use]
pub fn invalid(field: &'static str, fault: Fault) -> ModelError {
    ModelError::Invalid(vec![FieldFault { field, fault }])
}
