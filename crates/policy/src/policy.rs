//! All rules in force, read from texts or files.

use std::path::PathBuf;

use tollgate_core::Timestamp;

use crate::domain::Domain;
use crate::fault::{Fault, Faults};
use crate::rule::Rule;

/// The text of one rule file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// How faults name it.
    pub name: PathBuf,
    /// What it says.
    pub text: String,
}

/// How to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Files of one domain add up instead of being a fault.
    pub merge_domains: bool,
}

/// Why no policy could be had from paths. The policy before stays in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A path cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The files are read, and say something that cannot be.
    #[error(transparent)]
    Faulty(#[from] Faults),
}

/// All rules in force.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    domains: Vec<Domain>,
    version: String,
    warnings: Vec<Fault>,
}

impl Policy {
    /// A policy without a rule.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Reads the texts of rule files, all of them, and reports every fault.
    ///
    /// # Errors
    /// [`Faults`]: everything that is wrong, in file and line order.
    pub fn parse(_sources: &[Source], _options: &Options) -> Result<Self, Faults> {
        Ok(Self::default())
    }

    /// Reads files, and folders with everything below them.
    ///
    /// # Errors
    /// [`LoadError`]: a path cannot be read, or files are faulty.
    pub fn load(_paths: &[PathBuf], _options: &Options) -> Result<Self, LoadError> {
        Ok(Self::default())
    }

    /// Short hash of what the files say.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The domain of that name.
    #[must_use]
    pub fn domain(&self, name: &str) -> Option<&Domain> {
        self.domains.iter().find(|domain| domain.name() == name)
    }

    /// The domains, in index order.
    #[must_use]
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// All rules of all domains, in index order.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.domains.iter().flat_map(Domain::rules)
    }

    /// What the files say that has no effect, or not the one it seems to have. Nothing is refused for it.
    #[must_use]
    pub fn warnings(&self) -> &[Fault] {
        &self.warnings
    }

    /// This policy as the successor of `old` from `at` on: counters of rules that are in both keep their counts.
    #[must_use]
    pub fn succeeding(self, _old: &Self, _at: Timestamp) -> Self {
        self
    }
}
