//! The command `tollgate`. Its code is in the library of this crate; see [`tollgate_server::cli`].

use std::io::{ErrorKind, Write, stderr, stdout};
use std::process::ExitCode;

use clap::Parser;
use tollgate_server::cli::{Cli, Ending, arguments};

#[global_allocator]
static ALLOCATOR: tollgate_allocator::Mimalloc = tollgate_allocator::Mimalloc;

fn main() -> ExitCode {
    let has_compat = std::env::var_os("TOLLGATE_COMPAT").is_some_and(|text| !text.is_empty());
    match Cli::parse_from(arguments(std::env::args_os(), has_compat)).run(&mut stdout(), &mut stderr()) {
        Ok(ending) => ending.into(),
        // The reader of the output is gone.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ending::Yes.into(),
        Err(error) => {
            let _ = writeln!(stderr(), "tollgate: {error}"); // if this fails too, the exit code has to do
            Ending::CouldNotTell.into()
        }
    }
}
