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
    pub(crate) fn run(self, cli: Command, out: &mut dyn Write, talk: &mut dyn Write) -> io::Result<Ending> {
        let mut cli = cli.disable_help_subcommand(true);
        cli.build(); // gives commands their full names
        let all = with_usage(cli);
        if let Some(dir) = self.dir {
            for command in std::iter::once(&all).chain(all.get_subcommands()) {
                if let Err(error) = page(command).generate_to(&dir) {
                    writeln!(talk, "cannot write manual pages to {}: {error}", dir.display())?;
                    return Ok(Ending::CouldNotTell);
                }
            }
            return Ok(Ending::Yes);
        }
        let command = match &self.command {
            None => &all,
            Some(name) => match all.find_subcommand(name) {
                Some(command) => command,
                None => {
                    writeln!(talk, "unknown command {name:?}; `tollgate help` lists them")?;
                    return Ok(Ending::CouldNotTell);
                }
            },
        };
        page(command).render(&mut *out)?;
        Ok(Ending::Yes)
    }
}

fn page(command: &Command) -> Page {
    Page::new(command.clone()).source(concat!("tollgate ", env!("CARGO_PKG_VERSION"))).manual("Tollgate")
}

/// Usage as the help texts have it: of each command, and on the page of `cli` of all of them. Without it, a
/// page begins with the names of all options.
fn with_usage(mut cli: Command) -> Command {
    let mut all = String::new();
    let names: Vec<String> = cli.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for name in names {
        cli = cli.mut_subcommand(name, |mut command| {
            let usage = command.render_usage().to_string();
            let usage = usage.trim_start_matches("Usage:").trim().to_owned();
            all.push_str(&usage);
            all.push('\n');
            command.override_usage(usage)
        });
    }
    cli.override_usage(all)
}
