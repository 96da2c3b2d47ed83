//! Holds the tests that pages name to the logs of a run: `claims LOG...`, from the root of the project. A log
//! that is called `browser.log` says that there was a browser. Exit code 0 when every named test passed or
//! could not run here, 1 when one did not pass, 2 when something cannot be read.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tollgate_testkit::claims::{Named, Ran};

fn main() -> ExitCode {
    let logs: Vec<PathBuf> = std::env::args_os().skip(1).map(Into::into).collect();
    match run(&logs) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "claims: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(logs: &[PathBuf]) -> io::Result<bool> {
    let mut named = Named::default();
    named.read_rows(&read(Path::new("docs/internal/acceptance.md"))?);
    for folder in ["docs", "docs/zh-CN"] {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                named.read_page(&path.display().to_string(), &read(&path)?);
            }
        }
    }
    let mut ran = Ran::default();
    for log in logs {
        ran.read(&read(log)?);
    }
    let mut source = String::new();
    read_rust(Path::new("crates"), &mut source)?;
    let is_law = |name: &str| source.contains(&format!("const LAW: &str = \"{name}\""));
    let has_browser = logs.iter().any(|log| log.file_name().is_some_and(|name| name == "browser.log"));
    named.report(&ran, &is_law, has_browser, &mut io::stdout().lock())
}

fn read(path: &Path) -> io::Result<String> {
    let bytes = fs::read(path).map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned()) // tests print what they like
}

fn read_rust(folder: &Path, into: &mut String) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_rust(&path, into)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&read(&path)?);
        }
    }
    Ok(())
}
