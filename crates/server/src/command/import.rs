//! `tollgate import`: a rule file from the limits of another rate limiter.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use crate::counted::count;
use crate::ending::Ending;
use crate::import::{Imported, nginx};

/// The most bytes of a configuration.
const MAX_BYTES: u64 = 16 << 20;

/// Write a rule file from the limits of another rate limiter.
///
/// The rule file goes to stdout. What it could not take over goes to stderr, one line each:
/// `warning: file:line: directive: why, and what to do instead`.
/// Exit 0: all limits were taken over. 1: some were not. 2: the file cannot be read.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollgate import nginx /etc/nginx/nginx.conf
  tollgate import nginx - --domain shop")]
pub(crate) struct Import {
    /// What the file is of: nginx, with limit_req_zone and limit_req.
    source: Source,
    /// File to read; `-` is standard input. What `nginx -T` prints has all included files.
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
    /// Writes the rule file to `out`, what it does not have to `talk`.
    ///
    /// # Errors
    /// When either cannot be written to.
    pub(crate) fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> io::Result<Ending> {
        let name = self.file.display();
        let text = match read(&self.file) {
            Ok(text) => text,
            Err(error) => {
                writeln!(talk, "error: cannot read {name}: {error}")?;
                return Ok(Ending::CouldNotTell);
            }
        };
        let imported = match self.source {
            Source::Nginx => nginx::import(&name.to_string(), &text, &self.domain),
        };
        let Imported { rules, number, left_out } = match imported {
            Ok(imported) => imported,
            Err(error) => {
                writeln!(talk, "error: {name}: {error}")?;
                return Ok(Ending::CouldNotTell);
            }
        };
        out.write_all(rules.as_bytes())?;
        for it in &left_out {
            writeln!(talk, "warning: {name}:{}: {}", it.line, it.why)?;
        }
        let missing = match left_out.len() {
            0 => String::new(),
            number => format!(", {} not taken over", count(number, "directive")),
        };
        writeln!(talk, "{}{missing}", count(number, "rule"))?;
        Ok(if left_out.is_empty() { Ending::Yes } else { Ending::No })
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut limited: Box<dyn io::Read> = match path.to_str() {
        Some("-") => Box::new(io::stdin().take(MAX_BYTES + 1)),
        _ => Box::new(File::open(path)?.take(MAX_BYTES + 1)),
    };
    limited.read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {MAX_BYTES} bytes")));
    }
    Ok(text)
}
