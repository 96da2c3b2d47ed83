//! `tollgate check`: every error in rule files.

use std::io::Write;
use std::path::PathBuf;

use tollgate_rule_files::{LoadError, Options, RuleSet, load};

use super::fault_count;
use crate::counted::{count, summary};
use crate::ending::Ending;
use crate::settings::StoreKind;

/// Report every error in rule files.
///
/// One line per error: `file:line:column: path.to.key: what is wrong; what to write instead`.
/// Exit 0: no errors. 1: errors. 2: a path cannot be read.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tollgate check examples/rules\n  tollgate check shop.yaml messaging.yaml"
)]
pub(crate) struct Check {
    /// Files and folders of rules; together they are one set, as `serve` would load it.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Allow several files to contain rules of one domain.
    #[arg(long)]
    merge_domains: bool,
    /// Store that will count, as for `serve`: rules that it cannot count are errors. Nothing connects to it.
    #[arg(long, value_name = "URL", default_value = "memory")]
    store: StoreKind,
}

impl Check {
    /// Writes errors and warnings to `out`, the number of errors to `talk`.
    ///
    /// # Errors
    /// When either cannot be written to.
    pub(crate) fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> std::io::Result<Ending> {
        let options = Options { merge_domains: self.merge_domains, countable: self.store.countable() };
        match load(&self.paths, &options) {
            Ok(RuleSet { policy, warnings, .. }) => {
                for warning in &warnings {
                    writeln!(out, "{warning}")?;
                }
                writeln!(out, "{}, no errors (version {})", summary(&policy), policy.version())?;
                Ok(Ending::Yes)
            }
            Err(error @ LoadError::Faulty(_)) => {
                writeln!(out, "{error}")?;
                writeln!(talk, "{}", count(fault_count(&error), "error"))?;
                Ok(Ending::No)
            }
            Err(error) => {
                writeln!(talk, "{error}")?;
                Ok(Ending::CouldNotTell)
            }
        }
    }
}
