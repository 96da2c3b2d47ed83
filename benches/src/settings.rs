//! What every comparison is told: how often to repeat, who takes part, where to write.

use std::io::Write as _;
use std::path::PathBuf;

use crate::contender::Kind;
use crate::machine;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Settings {
    /// Smaller and shorter, to see that it works: not for figures that are quoted.
    #[arg(long, global = true)]
    pub(crate) quick: bool,
    /// Measured runs of each contender, after one to warm up.
    #[arg(long, global = true, default_value_t = 5, value_name = "N")]
    pub(crate) repeats: usize,
    /// Only these contenders; all where not given.
    #[arg(long, global = true, value_enum, value_delimiter = ',', value_name = "WHO")]
    pub(crate) only: Vec<Kind>,
    /// Page to put the tables into, each between its marks; made where it is not there.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
}

impl Settings {
    pub(crate) fn wants(&self, kind: Kind) -> bool {
        self.only.is_empty() || self.only.contains(&kind)
    }

    /// The command that makes a table again.
    pub(crate) fn command(&self, what: &str) -> String {
        let mut command = format!("cargo run --release -p tollgate-bench -- {what}");
        if self.quick {
            command.push_str(" --quick");
        }
        if self.repeats != 5 {
            command.push_str(&format!(" --repeats {}", self.repeats));
        }
        if !self.only.is_empty() {
            let words: Vec<String> = self.only.iter().map(|kind| kind.word()).collect();
            command.push_str(&format!(" --only {}", words.join(",")));
        }
        command
    }

    /// What a reader must know of the run.
    pub(crate) fn notes(&self) -> Vec<String> {
        vec![format!("{} repeats; load average {} at the end.", self.repeats, machine::load())]
    }

    /// Tells whoever waits what is going on; what cannot be told is not worth stopping for.
    pub(crate) fn say(&self, what: &str) {
        let _ = writeln!(std::io::stderr(), "{what} …");
    }
}
