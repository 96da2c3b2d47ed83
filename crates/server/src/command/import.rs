//! `tollgate import`: a rule file from the limits of another rate limiter.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use tollgate_human_text::{counted, with_causes};
use tollgate_import::nginx::{self, Imported, Rules};

use crate::ending::Ending;

/// The most warnings that are written.
const MOST_WARNINGS: usize = 1_000;

/// Write a rule file from the limits of another rate limiter.
///
/// The rule file goes to stdout; its comments say how the proxy asks. What has another effect than there, or
/// needs more in the proxy than the configuration of docs/proxies.md, goes to stderr, one line each:
/// `warning: file:line: directive: why, and what to do instead`.
/// Files that it includes are read too. Exit 0: all limits were taken over with the same effect. 1: there
/// are warnings. 2: there are no rules, since the file cannot be read or has no limits.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollgate import nginx /etc/nginx/nginx.conf
  tollgate import nginx - --domain shop")]
pub(crate) struct Import {
    /// Program that the file configures: nginx, with limit_req_zone and limit_req.
    source: Source,
    /// File to read; `-` is standard input, for what `nginx -T` prints. That has all included files.
    file: PathBuf,
    /// Domain of the rules.
    #[arg(long, default_value = "nginx")]
    domain: String,
}

/// Another rate limiter.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Source {
    Nginx,
}

impl Import {
    /// Writes the rule file to `out`, and warnings about the rest to `talk`.
    ///
    /// # Errors
    /// When either cannot be written to.
    pub(crate) fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> io::Result<Ending> {
        let path = Some(self.file.as_path()).filter(|path| path.as_os_str() != "-");
        let text = match path {
            Some(path) => File::open(path).and_then(|file| nginx::text_of(file, nginx::MAX_BYTES)),
            None => nginx::text_of(io::stdin(), nginx::MAX_BYTES),
        };
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                writeln!(talk, "error: cannot read {}: {error}", self.file.display())?;
                return Ok(Ending::CouldNotTell);
            }
        };
        let Imported { rules, left_out } = match self.source {
            Source::Nginx => nginx::import(path, text, &self.domain),
        };
        for it in left_out.iter().take(MOST_WARNINGS) {
            writeln!(talk, "warning: {}: {}", it.place, it.why)?;
        }
        if let Some(more @ 1..) = left_out.len().checked_sub(MOST_WARNINGS) {
            writeln!(talk, "warning: {} not shown", counted(more, "more warning"))?;
        }
        let Rules { text, number } = match rules {
            Ok(rules) => rules,
            Err(error) => {
                writeln!(talk, "error: {}", with_causes(&error))?;
                return Ok(Ending::CouldNotTell);
            }
        };
        out.write_all(text.as_bytes())?;
        let missing = match left_out.len() {
            0 => String::new(),
            number => format!(", {}", counted(number, "warning")),
        };
        writeln!(talk, "{}{missing}", counted(number, "rule"))?;
        Ok(if left_out.is_empty() { Ending::Yes } else { Ending::No })
    }
}
