//! Memory of a key, and the slowest single decision while a table grows from nothing.
//!
//! Each contender grows in a process of its own: the growth of the process is the cost of its keys, including
//! the allocator's.

use std::io::Write;
use std::process::Command;

use anyhow::{Context as _, ensure};
use rustix::time::{ClockId, clock_gettime};

use crate::contender::{Allowance, ContenderKind, make};
use crate::in_process::populate;
use crate::report::{Spread, Table, figure};
use crate::requests::write_key;
use crate::settings::Settings;

const KINDS: [ContenderKind; 5] = [
    ContenderKind::Governor,
    ContenderKind::Throttlecrab,
    ContenderKind::Limitador,
    ContenderKind::Floor,
    ContenderKind::Tollgate,
];

/// One contender, filled up to this number of keys.
#[derive(clap::Args)]
pub(crate) struct Grow {
    /// The implementation to measure.
    kind: ContenderKind,
    /// Number of keys.
    keys: u64,
    /// Time every single decision too.
    #[arg(long)]
    slowest: bool,
}

impl Grow {
    /// Writes `resident bytes gained, slowest decision by the wall clock in ns, slowest by the CPU clock in
    /// ns`.
    pub(crate) fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let before = resident_bytes()?;
        let contender = make(self.kind, Allowance::MANY, self.keys).context("not in this build")?;
        let mut slowest_wall = 0;
        let mut slowest_cpu = 0;
        if self.slowest {
            let mut key = vec![String::new()];
            for id in 0..self.keys {
                write_key(&mut key[0], id);
                let cpu = nanos(ClockId::ThreadCPUTime);
                let wall = nanos(ClockId::Monotonic);
                contender.pass(&key);
                slowest_wall = slowest_wall.max(nanos(ClockId::Monotonic) - wall);
                slowest_cpu = slowest_cpu.max(nanos(ClockId::ThreadCPUTime) - cpu);
            }
        } else {
            populate(contender.as_ref(), self.keys);
        }
        let gained = resident_bytes()?.saturating_sub(before);
        drop(contender);
        writeln!(out, "{gained} {slowest_wall} {slowest_cpu}")?;
        Ok(())
    }

    fn in_a_process_of_its_own(&self) -> anyhow::Result<[f64; 3]> {
        let mut child = Command::new(std::env::current_exe()?);
        child.arg("grow").arg(self.kind.word()).arg(self.keys.to_string());
        if self.slowest {
            child.arg("--slowest");
        }
        let output = child.output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout)?;
        let numbers: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        numbers.try_into().ok().context("three numbers")
    }
}

fn millions(keys: u64) -> f64 {
    keys as f64 / 1e6
}

fn resident_bytes() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1_024)
}

fn nanos(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Measures all contenders at 1 M and 10 M keys.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<Table> {
    let sizes: &[u64] = settings.size(&[1_000_000, 10_000_000], &[1_000_000], &[10_000]);
    let largest = sizes.last().copied().unwrap_or(0);
    let mut rows = Vec::new();
    for kind in KINDS.into_iter().filter(|kind| settings.wants(*kind)) {
        let mut row = vec![kind.name().to_owned()];
        let fits = |keys| kind != ContenderKind::Limitador || keys <= 1_000_000; // 10 GB
        for &keys in sizes {
            settings.say(&format!("memory: {} at {keys} keys", kind.word()));
            row.push(if fits(keys) {
                let [gained, ..] = Grow { kind, keys, slowest: false }.in_a_process_of_its_own()?;
                figure(gained / keys as f64)
            } else {
                "–".to_owned()
            });
        }
        let mut wall = Vec::new();
        let mut cpu = Vec::new();
        for _ in 0..if fits(largest) { settings.repeats } else { 0 } {
            settings.say(&format!("memory: {} growing to {largest} keys", kind.word()));
            let [_, by_wall, by_cpu] =
                Grow { kind, keys: largest, slowest: true }.in_a_process_of_its_own()?;
            wall.push(by_wall / 1e3);
            cpu.push(by_cpu / 1e3);
        }
        row.push(if cpu.is_empty() { "–".to_owned() } else { Spread::of(cpu).cell() });
        row.push(if wall.is_empty() { "–".to_owned() } else { Spread::of(wall).cell() });
        rows.push(row);
    }
    let mut columns = vec!["bytes per live key".to_owned()];
    columns.extend(sizes.iter().map(|keys| format!("{} M keys", millions(*keys))));
    columns.push("slowest decision while growing, µs of CPU".to_owned());
    columns.push("the same by the wall clock".to_owned());
    let mut notes = vec![format!(
        "Growth of the resident memory of a fresh process, divided by the keys (20-byte strings, all live). Slowest single \
         decision from nothing to {} M keys: on the thread's CPU clock, page faults included, which other programs do not \
         disturb; and on the wall clock, which they do.",
        millions(largest)
    )];
    notes.extend(settings.notes());
    let title = "Memory and growth".to_owned();
    Ok(Table { name: "memory", title, command: settings.command("memory"), columns, rows, notes })
}
