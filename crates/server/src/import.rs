//! Rules of other rate limiters, as a rule file. Not here: the command (`command/import`).

pub(crate) mod nginx;

/// A rule file that was made, and what it does not have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Imported {
    /// The rule file.
    pub(crate) rules: String,
    /// How many rules it has.
    pub(crate) number: usize,
    /// What was not taken over, in the order of the lines.
    pub(crate) left_out: Vec<LeftOut>,
}

/// Something that was not taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Its line, from 1.
    pub(crate) line: usize,
    /// What it is, why it is left out, and what to do instead.
    pub(crate) why: String,
}
