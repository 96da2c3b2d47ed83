//! `tollgate completions`: a script with which a shell completes commands and flags.

use std::io::{self, Write};

use clap::Command;
use clap_complete::Shell;

use crate::ending::Ending;

/// Print the script with which a shell completes commands and flags.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollgate completions bash > /usr/share/bash-completion/completions/tollgate
  tollgate completions zsh > /usr/share/zsh/site-functions/_tollgate
  tollgate completions fish > ~/.config/fish/completions/tollgate.fish")]
pub(crate) struct Completions {
    /// The shell.
    shell: Shell,
}

impl Completions {
    /// Writes the script for `command` to `out`.
    ///
    /// # Errors
    /// When `out` cannot be written to.
    pub(crate) fn run(self, mut command: Command, out: &mut dyn Write) -> io::Result<Ending> {
        let name = command.get_name().to_owned();
        // Into memory, since the generator panics where it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        out.write_all(&script)?;
        Ok(Ending::Yes)
    }
}
