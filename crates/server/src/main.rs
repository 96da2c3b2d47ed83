//! The command `tollgate`. What it does stands in the library beside it; see [`tollgate_server::cli`].

use std::io::{ErrorKind, Write, stderr, stdout};
use std::process::ExitCode;

use clap::Parser;
use tollgate_server::cli::{Cli, Ending};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match Cli::parse().run(&mut stdout(), &mut stderr()) {
        Ok(ending) => ending.into(),
        // Whoever read the answer has gone away; there is nobody left to tell.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ending::Yes.into(),
        Err(error) => {
            let _ = writeln!(stderr(), "tollgate: {error}"); // where this fails too, the exit code is all there is
            Ending::CouldNotTell.into()
        }
    }
}
