//! Plays a file of test vectors against our core: `vectors FILE`. Exit code 0 when none fails, 1 when one
//! does, 2 when the file cannot be read.

use std::io::{self, Write};
use std::process::ExitCode;

use tollgate_testkit::vectors::{File, report};

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "vectors: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> io::Result<bool> {
    let path = std::env::args().nth(1).ok_or_else(|| io::Error::other("give the file of vectors to play"))?;
    let file = File::parse(&std::fs::read_to_string(path)?).map_err(io::Error::other)?;
    Ok(report(&file, &mut io::stdout().lock())?.failed == 0)
}
