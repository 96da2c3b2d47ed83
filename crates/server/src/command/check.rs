//! `tollgate check`: every error in rule files.

use std::io::Write;
use std::path::PathBuf;

use tollgate_human_text::{counted, with_causes};
use tollgate_rule_files::{LoadError, Options, RuleSet};

use crate::counted::summary;
use crate::ending::Ending;
use crate::settings::{Settings, StoreKind};
use crate::start::{self, RulesError};

/// Report every error in rule files.
///
/// One line per error: `error: file:line:column: path.to.key: what is wrong; what to write instead`. Warnings
/// begin with `warning: `; they are about rules that are valid, but probably not what is meant.
/// Exit 0: no errors, so that `serve` would load the rules. 1: errors, or warnings with --strict. 2: a path
/// cannot be read.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollgate check examples/rules
  tollgate check --strict shop.yaml messaging.yaml")]
pub(crate) struct Check {
    /// Files and folders of rules; together they are one set, as `serve` would load it.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Allow several files to contain rules of one domain [env: TOLLGATE_MERGE_DOMAINS, MERGE_DOMAIN_CONFIG]
    #[arg(long)]
    merge_domains: bool,
    /// Store that will count, as for `serve`: rules that it cannot count are errors. Nothing connects to it.
    #[arg(long, value_name = "URL", default_value = "memory")]
    store: StoreKind,
    /// Warnings count as errors.
    #[arg(long)]
    strict: bool,
}

impl Check {
    /// Writes errors and warnings to `out`, their number to `talk`.
    ///
    /// # Errors
    /// When either cannot be written to.
    pub(crate) fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> std::io::Result<Ending> {
        let options = match Settings::rule_options(self.merge_domains, std::env::vars_os()) {
            Ok(options) => options,
            Err(faults) => {
                lines("error", &faults, talk)?;
                return Ok(Ending::CouldNotTell);
            }
        };
        match start::load(&self.paths, &Options { countable: self.store.countable(), ..options }) {
            Ok(RuleSet { policy, warnings, warned, .. }) => {
                lines("warning", &warnings, out)?;
                let and_warned = match warned {
                    0 => String::new(),
                    number => format!(", {}", counted(number, "warning")),
                };
                writeln!(out, "{}, no errors{and_warned} (version {})", summary(&policy), policy.version())?;
                if self.strict && warned > 0 {
                    writeln!(talk, "{}; --strict accepts none", counted(warned, "warning"))?;
                    return Ok(Ending::No);
                }
                Ok(Ending::Yes)
            }
            Err(RulesError::Load(error @ LoadError::Unreadable { .. })) => {
                writeln!(talk, "error: {}", with_causes(&error))?;
                Ok(Ending::CouldNotTell)
            }
            Err(error) => {
                for line in with_causes(&error).to_string().lines() {
                    writeln!(out, "error: {line}")?;
                }
                writeln!(talk, "{}", counted(error.count(), "error"))?;
                Ok(Ending::No)
            }
        }
    }
}

/// One line per item, each beginning with its severity.
fn lines(severity: &str, items: &[impl std::fmt::Display], to: &mut dyn Write) -> std::io::Result<()> {
    items.iter().try_for_each(|item| writeln!(to, "{severity}: {item}"))
}
