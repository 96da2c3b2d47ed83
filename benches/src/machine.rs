//! What was run, on what, with which versions: a figure without them does not count.

use std::process::Command;

const LOCK: &str = include_str!("../../Cargo.lock");

/// One line on the machine and the toolchain, one on versions.
pub(crate) fn describe() -> Vec<String> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let machine = format!(
        "Machine: {}, {cores} cores, Linux {}, {}.",
        model.unwrap_or("unknown CPU").trim(),
        kernel.trim(),
        first_line_of("rustc", &["--version"]).unwrap_or_else(|| "rustc unknown".to_owned()),
    );
    let commit = first_line_of("git", &["rev-parse", "--short", "HEAD"]).unwrap_or_else(|| "?".to_owned());
    let mut versions = format!("Versions: tollgate {} at {commit}", env!("CARGO_PKG_VERSION"));
    for name in ["governor", "throttlecrab", "limitador", "tonic"] {
        if let Some(version) = locked_version(name) {
            versions.push_str(&format!(", {name} {version}"));
        }
    }
    versions.push('.');
    vec![machine, versions]
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
