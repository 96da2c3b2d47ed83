//! Settings of every comparison: repeats, contenders, output files.

use std::io::Write as _;
use std::path::PathBuf;

use crate::contender::ContenderKind;
use crate::machine;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Settings {
    /// Smaller and shorter: a first look at the figures.
    #[arg(long, global = true)]
    pub(crate) quick: bool,
    /// Everything once, as small as it can be, to see that it works; the figures say nothing.
    #[arg(long, global = true, conflicts_with_all = ["quick", "repeats", "markdown"])]
    pub(crate) smoke: bool,
    /// Measured runs of each contender, after one to warm up.
    #[arg(long, global = true, default_value_t = 5, value_name = "N")]
    pub(crate) repeats: usize,
    /// Only these contenders; all where not given.
    #[arg(long, global = true, value_enum, value_delimiter = ',', value_name = "WHO")]
    pub(crate) only: Vec<ContenderKind>,
    /// Page to put the tables into, each between its marks; made where it is not there.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// File that each table is added to as one JSON object a line.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Folder that each table's first column of figures is drawn into, as an SVG file.
    #[arg(long, global = true, value_name = "FOLDER")]
    pub(crate) svg: Option<PathBuf>,
}

impl Settings {
    /// With what `--smoke` fixes.
    pub(crate) fn fixed(mut self) -> Self {
        if self.smoke {
            self.repeats = 1;
        }
        self
    }

    /// Picks the amount of work for a full, quick or smoke run.
    pub(crate) fn size<T>(&self, full: T, quick: T, smoke: T) -> T {
        match (self.smoke, self.quick) {
            (true, _) => smoke,
            (_, true) => quick,
            _ => full,
        }
    }

    /// Whether a program is there; where it is not, says so in a line that `./test` counts.
    pub(crate) fn has(&self, program: &str) -> bool {
        let has = machine::first_line_of(program, &["--version"]).is_some();
        if !has {
            self.lacks(program, "it is not installed");
        }
        has
    }

    /// Reports a part of the comparison that is left out, in a line that `./test` counts.
    pub(crate) fn lacks(&self, what: &str, why: &str) {
        let _ = writeln!(std::io::stderr(), "SKIPPED {what} in benches: {why}");
    }

    pub(crate) fn wants(&self, kind: ContenderKind) -> bool {
        self.only.is_empty() || self.only.contains(&kind)
    }

    /// The command that makes a table again.
    pub(crate) fn command(&self, what: &str) -> String {
        let mut command = format!("cargo run --profile dist -p tollgate-bench -- {what}");
        if self.smoke {
            command.push_str(" --smoke");
        } else if self.quick {
            command.push_str(" --quick");
        }
        if !self.smoke && self.repeats != 5 {
            command.push_str(&format!(" --repeats {}", self.repeats));
        }
        if !self.only.is_empty() {
            let words: Vec<String> = self.only.iter().map(|kind| kind.word()).collect();
            command.push_str(&format!(" --only {}", words.join(",")));
        }
        command
    }

    /// Caveats that a reader of the table needs.
    pub(crate) fn notes(&self) -> Vec<String> {
        vec![format!("{} repeats; load average {} at the end.", self.repeats, machine::load())]
    }

    /// Prints progress for a waiting user; errors in printing it are ignored.
    pub(crate) fn say(&self, what: &str) {
        let _ = writeln!(std::io::stderr(), "{what} …");
    }
}
