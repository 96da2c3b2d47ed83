//! `tollgate man`: manual pages, from the same definitions as the help texts.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Command;
use clap_mangen::Man as Page;

use crate::ending::Ending;

/// Print a manual page, or write all of them into a folder.
///
/// The pages are tollgate(1) and one per command, such as tollgate-serve(1). Exit 2: there is no such
/// command, or the folder cannot be written to.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollgate man serve | man -l -
  tollgate man --dir /usr/share/man/man1")]
pub(crate) struct Man {
    /// Command whose page is printed; without one, that of tollgate itself.
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
    /// Existing folder to write all pages to.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

impl Man {
    /// Writes the page of `cli` or of one of its commands to `out`, errors to `talk`.
    ///
    /// # Errors
    /// When either cannot be written to.
    pub(crate) fn run(
        self,
        mut cli: Command,
        out: &mut dyn Write,
        talk: &mut dyn Write,
    ) -> io::Result<Ending> {
        if let Some(dir) = self.dir {
            if let Err(error) = clap_mangen::generate_to(cli, &dir) {
                writeln!(talk, "cannot write manual pages to {}: {error}", dir.display())?;
                return Ok(Ending::CouldNotTell);
            }
            return Ok(Ending::Yes);
        }
        cli.build(); // gives commands their full names
        let command = match &self.command {
            None => cli,
            Some(name) => match cli.find_subcommand(name) {
                Some(command) => command.clone(),
                None => {
                    writeln!(talk, "unknown command {name:?}; `tollgate help` lists them")?;
                    return Ok(Ending::CouldNotTell);
                }
            },
        };
        Page::new(command).render(&mut *out)?;
        Ok(Ending::Yes)
    }
}
