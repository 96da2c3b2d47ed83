//! The machine, the programs and their versions: a figure without them does not count.

use std::process::Command;

use crate::report::Table;

const LOCK: &str = include_str!("../../Cargo.lock");

/// The machine and every version that matters.
pub(crate) fn table() -> Table {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let commit =
        first_line_of("git", &["rev-parse", "--short", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    let mut rows = vec![
        vec!["CPU".to_owned(), format!("{}, {cores} cores", model.unwrap_or("unknown").trim())],
        vec!["kernel".to_owned(), format!("Linux {}", kernel.trim())],
        vec!["tollgate".to_owned(), format!("{} at {commit}", env!("CARGO_PKG_VERSION"))],
    ];
    for name in ["governor", "throttlecrab", "limitador", "tonic", "hyper"] {
        rows.extend(locked_version(name).map(|version| vec![format!("{name} crate"), version.to_owned()]));
    }
    for program in ["rustc", "valgrind", "h2load", "redis-server", "throttlecrab-server", "limitador-server"]
    {
        let version = first_line_of(program, &["--version"]).unwrap_or_else(|| "not installed".to_owned());
        rows.push(vec![program.to_owned(), version]);
    }
    Table {
        name: "machine",
        title: "Machine and versions".to_owned(),
        command: "cargo run --profile dist -p tollgate-bench -- machine".to_owned(),
        columns: ["what", "which"].map(str::to_owned).to_vec(),
        rows,
        notes: Vec::new(),
    }
}

/// The one-minute load average when the run began: figures of a busy machine are to be read as such.
pub(crate) fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or("?").to_owned()
}

/// First line that a command prints; `None` when it is not there.
pub(crate) fn first_line_of(command: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(command).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(|line| line.trim().to_owned())
}

/// The version that this build was locked to.
fn locked_version(package: &str) -> Option<&'static str> {
    let entry = LOCK.split_once(&format!("name = \"{package}\"\nversion = \""))?.1;
    entry.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        assert!(locked_version("clap").is_some_and(|version| version.starts_with("4.")));
        assert_eq!(locked_version("no-such-crate"), None);
    }
}
