//! Errors in a rule file: the place, the fault and the remedy.

use std::fmt;

use tollgate_policy::Place;

/// One thing that is wrong: `file:line:column: path.to.key: what is wrong; what to write instead`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// File, line and column of the fault.
    pub place: Place,
    /// Path of the key, such as `descriptors[2].rate_limit.unit`; empty for the file as a whole.
    pub path: String,
    /// The fault and the remedy, for people.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Every fault of every file, in file and line order; never empty. Displays one fault per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// `None` if there is no fault.
    pub(crate) fn new(faults: Vec<Fault>) -> Option<Self> {
        if faults.is_empty() { None } else { Some(Self(faults)) }
    }

    /// The faults, at least one.
    #[must_use]
    pub fn as_slice(&self) -> &[Fault] {
        &self.0
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
