//! The command line: which command, and how it ends.
//!
//! Answers go to stdout, talk goes to stderr. Exit 0 is yes, 1 is no, 2 is "could not tell".

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::command::{Check, Explain, Serve};

/// A distributed rate limiter: one set of rules, asked by Envoy, HTTP and people.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, about, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tollgate serve --rules examples/rules
  tollgate check examples/rules
  tollgate explain --rules examples/rules --domain messaging message_type=marketing";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Serve),
    Check(Check),
    Explain(Explain),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Yes, or done.
    Yes,
    /// No: faults were found, or nothing matched.
    No,
    /// It could not be told: a file could not be read, an argument made no sense.
    CouldNotTell,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        Self::from(match ending {
            Ending::Yes => 0,
            Ending::No => 1,
            Ending::CouldNotTell => 2,
        })
    }
}

impl Cli {
    /// Does what was asked, writing answers to `out` and talk to `talk`.
    ///
    /// # Errors
    /// When `out` or `talk` cannot be written to.
    pub fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> std::io::Result<Ending> {
        match self.command {
            Command::Serve(serve) => serve.run(out, talk),
            Command::Check(check) => check.run(out, talk),
            Command::Explain(explain) => explain.run(out, talk),
        }
    }
}
