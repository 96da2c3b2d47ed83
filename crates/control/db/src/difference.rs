//! Rows that another program has edited.

/// A row that is not as a transaction of this program has left it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    pub table: String,
    /// Its primary key, as SQL.
    pub key: String,
    pub what: Edit,
    /// Digest of the row as it was sealed last; empty if there was none.
    pub sealed: String,
    /// Digest of the row as it was found; empty if there was none.
    pub found: String,
}

/// Kind of edit that another program made to a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edit {
    /// A column has another value.
    #[default]
    Changed,
    /// No transaction has made it.
    Added,
    /// No transaction has removed it.
    Removed,
}

impl Edit {
    /// Name for people and programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Added => "added",
            Self::Removed => "removed",
        }
    }
}
