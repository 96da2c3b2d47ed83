//! Whether a server is fit to keep counters: looked at when the program starts, and told in words that say what to do.

/// What becomes of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Counters may be lost where the operator may not expect it; told once.
    Warn,
    /// The store must not be used so.
    Refuse,
    /// It could not be looked at: the store is down, or nobody may log in. It may be later.
    Unknown,
}

/// Something about the store that the operator must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was found, why it matters and what to do; names the server, never a password.
    pub message: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}
