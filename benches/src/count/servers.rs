//! Instructions of a request to a server: `tollgate serve` under callgrind, which counts while requests of
//! one connection are answered one after another, but neither the start nor the warm-up.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::Counted;
use crate::process::{Process, built_tollgate};
use crate::settings::Settings;

/// One kind of request.
pub(super) struct Surface {
    pub(super) name: &'static str,
    scheme: &'static str,
    more: &'static [&'static str],
}

pub(super) const SURFACES: [Surface; 4] = [
    Surface {
        name: "RESP: CL.THROTTLE",
        scheme: "resp",
        more: &["--command", "CL.THROTTLE key:{key} 10 1000000 60"],
    },
    Surface { name: "RESP: TOLLGATE.CHECK", scheme: "resp", more: &[] },
    Surface { name: "HTTP: check", scheme: "http", more: &[] },
    Surface { name: "gRPC: ShouldRateLimit", scheme: "grpc", more: &[] },
];

/// Requests before counting: buffers have grown, and every key is known.
const WARM_UP: u64 = 4_000;
const REQUESTS: u64 = 10_000;
const KEYS: u64 = 500;
/// Starting under valgrind takes seconds, and more on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Most counts of one kind of request.
const TRIES: usize = 3;

/// Counts each kind of request; one whose count is not `usual` again, and its least holds. On a busy machine
/// clients are slow, and a server that goes to sleep for each request takes instructions more.
pub(super) fn count(settings: &Settings, usual: impl Fn(&str, f64) -> bool) -> anyhow::Result<Vec<Counted>> {
    let binary = built_tollgate()?;
    let mut counted = Vec::new();
    for surface in SURFACES {
        settings.say(&format!("counting: {}", surface.name));
        let one = || surface.count(&binary).with_context(|| surface.name);
        let instructions = least_of_tries(one, |count| usual(surface.name, count))?;
        counted.push(Counted { name: surface.name.to_owned(), instructions });
    }
    Ok(counted)
}

/// Counts until a count is `usual`, or as often as it may; the least of the counts.
fn least_of_tries(
    mut count: impl FnMut() -> anyhow::Result<f64>,
    usual: impl Fn(f64) -> bool,
) -> anyhow::Result<f64> {
    let mut least = count()?;
    for _ in 1..TRIES {
        if usual(least) {
            break;
        }
        least = least.min(count()?);
    }
    Ok(least)
}

impl Surface {
    fn count(&self, binary: &Path) -> anyhow::Result<f64> {
        let folder = tempfile::tempdir()?;
        let rules = "domain: bench\ndescriptors:\n  - key: key\n    rate_limit: {unit: day, \
                     requests_per_unit: 4000000000}\n";
        std::fs::write(folder.path().join("bench.yaml"), rules)?;
        let counts = folder.path().join("counts");
        let server = Process::start_patiently(PATIENCE, |port| {
            let mut command = Command::new("valgrind");
            command.args(["--tool=callgrind", "--instr-atstart=no"]);
            command.arg(format!("--callgrind-out-file={}", counts.display())).arg(binary);
            command.args(["serve", "--workers", "1", "--log-level", "error", "--rules"]).arg(folder.path());
            for scheme in ["grpc", "http", "resp"] {
                let address =
                    if scheme == self.scheme { format!("127.0.0.1:{port}") } else { "off".to_owned() };
                command.arg(format!("--{scheme}")).arg(address);
            }
            Ok(command)
        })?;
        self.ask(binary, server.port, WARM_UP)?;
        control(&server, &["--instr=on"])?;
        self.ask(binary, server.port, REQUESTS)?;
        control(&server, &["--instr=off"])?;
        control(&server, &["--dump"])?;
        let collected = total(&counts)?;
        ensure!(collected > 0.0, "callgrind counted nothing");
        Ok(collected / REQUESTS as f64)
    }

    fn ask(&self, binary: &Path, port: u16, requests: u64) -> anyhow::Result<()> {
        let mut command = Command::new(binary);
        command.args(["bench", "--connections", "1", "--timeout", "60s", "--keys", &KEYS.to_string()]);
        command.arg("--target").arg(format!("{}://127.0.0.1:{port}", self.scheme));
        command.args(["--requests", &requests.to_string()]).args(self.more);
        let output = command.output()?;
        ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

fn control(server: &Process, arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("callgrind_control");
    let output = command.args(arguments).arg(server.id().to_string()).output();
    let output = output.context("callgrind_control is part of valgrind, and not there")?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The sum that callgrind wrote: the dump has a number of its own behind the file's name.
fn total(counts: &Path) -> anyhow::Result<f64> {
    let dump = PathBuf::from(format!("{}.1", counts.display()));
    let text = std::fs::read_to_string(&dump).with_context(|| dump.display().to_string())?;
    let line =
        text.lines().find_map(|line| line.strip_prefix("totals: ")).context("a dump without totals")?;
    Ok(line.trim().parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_is_too_high_once_is_counted_again_and_a_slowdown_stays_one() {
        for (counts, least, tries) in [
            (&[100.0][..], 100.0, 1),
            (&[113.0, 101.0], 101.0, 2),
            (&[104.0, 105.0, 104.0], 104.0, 3), // a slowdown
            (&[90.0, 91.0, 90.5], 90.0, 3),     // a gain
        ] {
            let mut taken = counts.iter();
            let count = || taken.next().copied().context("counted too often");
            let found = least_of_tries(count, |it| (97.0..=103.0).contains(&it)).expect("enough counts");
            assert_eq!((found, counts.len() - taken.len()), (least, tries), "{counts:?}");
        }
    }
}
