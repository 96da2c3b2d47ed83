//! `tollgate check`: every fault of the rule files.

use std::io::Write;
use std::path::PathBuf;

use tollgate_rule_files::{LoadError, Options, RuleSet, load};

use super::{count, fault_count, summary};
use crate::cli::Ending;
use crate::settings::StoreSettings;

/// Report every fault of rule files.
///
/// One line a fault: `file:line:column: path.to.key: what is wrong; what to write instead`.
/// Exit 0: no fault. 1: faults. 2: a path could not be read.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tollgate check examples/rules\n  tollgate check shop.yaml messaging.yaml"
)]
pub struct Check {
    /// Files and folders of rules; together they are one set, as `serve` would load it.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Let several files hold rules of one domain.
    #[arg(long)]
    merge_domains: bool,
    /// Store that will count, as `serve` is told it: what it cannot count is a fault. Nothing connects to it.
    #[arg(long, value_name = "URL", default_value = "memory")]
    store: StoreSettings,
}

impl Check {
    /// Writes faults and warnings to `out`, the count of them to `talk`.
    ///
    /// # Errors
    /// When either cannot be written to.
    pub fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> std::io::Result<Ending> {
        let options = Options { merge_domains: self.merge_domains, countable: self.store.countable() };
        match load(&self.paths, &options) {
            Ok(RuleSet { policy, warnings, .. }) => {
                for warning in &warnings {
                    writeln!(out, "{warning}")?;
                }
                writeln!(out, "{}, no fault (version {})", summary(&policy), policy.version())?;
                Ok(Ending::Yes)
            }
            Err(error @ LoadError::Faulty(_)) => {
                writeln!(out, "{error}")?;
                writeln!(talk, "{}", count(fault_count(&error), "fault"))?;
                Ok(Ending::No)
            }
            Err(error) => {
                writeln!(talk, "{error}")?;
                Ok(Ending::CouldNotTell)
            }
        }
    }
}
