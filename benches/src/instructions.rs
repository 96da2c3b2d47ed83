//! Instructions per decision, counted by valgrind: the same on a busy machine as on a quiet one.
//!
//! The program runs itself under callgrind, which counts within [`counted`] alone: the preparation, such as
//! measuring the speed of the clock's counter, varies from run to run.

use std::io::Write;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::contender::{Allowance, Contender, ContenderKind, make};
use crate::in_process::prepare;
use crate::report::{Table, figure};
use crate::requests::{Requests, Spread};
use crate::settings::Settings;

const KINDS: [ContenderKind; 10] = [
    ContenderKind::Governor,
    ContenderKind::Throttlecrab,
    ContenderKind::Limitador,
    ContenderKind::Floor,
    ContenderKind::FloorBatch,
    ContenderKind::Tollgate,
    ContenderKind::TollgateFixedWindow,
    ContenderKind::TollgateBatch,
    ContenderKind::GovernorUnkeyed,
    ContenderKind::TollgateUnkeyed,
];

/// One contender: a number of passes over the same requests for a number of keys.
#[derive(clap::Args)]
pub(crate) struct Decide {
    /// The implementation to measure.
    pub(crate) kind: ContenderKind,
    /// Number of passes.
    pub(crate) passes: u64,
    #[arg(long, default_value_t = 1_000)]
    pub(crate) keys: u64,
    /// Number of contenders, each with these keys: the places of keys are random, and the result is the mean.
    #[arg(long, default_value_t = 1)]
    pub(crate) of_it: usize,
    /// With nothing left to admit.
    #[arg(long)]
    pub(crate) denied: bool,
}

impl Decide {
    const PASS: usize = 1_024;

    /// Writes how many were admitted.
    pub(crate) fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let allowance = if self.denied { Allowance::NONE } else { Allowance::MANY };
        let one = |_| {
            let contender = make(self.kind, allowance, self.keys).context("not in this build")?;
            prepare(contender.as_ref(), self.keys, allowance);
            Ok(contender)
        };
        let contenders = (0..self.of_it).map(one).collect::<anyhow::Result<Vec<_>>>()?;
        let requests = Requests::new(Self::PASS, self.keys, Spread::Uniform, 1);
        let admitted = counted(&contenders, requests.keys(), self.passes);
        ensure!(
            (admitted == 0) == self.denied,
            "{} admitted {admitted}: not what was to be counted",
            self.kind.name()
        );
        writeln!(out, "{admitted}")?;
        Ok(())
    }

    /// Instructions of one decision.
    pub(crate) fn count(&self) -> anyhow::Result<f64> {
        let mut child = Command::new("valgrind");
        child.args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            "--toggle-collect=*instructions::counted*",
        ]);
        child.arg(std::env::current_exe()?).arg("decide").arg(self.kind.word()).arg(self.passes.to_string());
        child.args(["--keys", &self.keys.to_string(), "--of-it", &self.of_it.to_string()]);
        if self.denied {
            child.arg("--denied");
        }
        let output = child.output().context("valgrind is not installed")?;
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{talk}");
        let line = talk
            .lines()
            .find_map(|line| line.split_once("Collected : "))
            .context("no count from valgrind")?;
        let collected: f64 = line.1.trim().parse()?;
        ensure!(collected > 0.0, "valgrind did not see the loop");
        Ok(collected / (self.passes * (self.of_it * Self::PASS) as u64) as f64)
    }
}

/// The loop that callgrind counts; it goes by this name.
#[inline(never)]
fn counted(contenders: &[Box<dyn Contender>], keys: &[String], passes: u64) -> u64 {
    contenders.iter().map(|contender| (0..passes).map(|_| contender.pass(keys)).sum::<u64>()).sum()
}

/// Counts all contenders, admitting and denying.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    if !settings.has("valgrind") {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for kind in KINDS.into_iter().filter(|kind| settings.wants(*kind)) {
        let mut row = vec![kind.name().to_owned()];
        for denied in [false, true] {
            settings.say(&format!("instructions: {}{}", kind.word(), if denied { ", denied" } else { "" }));
            let keys = settings.size(1_000, 1_000, 20);
            let most = settings.size(50, 50, 1);
            let passes = if kind == ContenderKind::Limitador { most.min(2) } else { most };
            row.push(figure(Decide { kind, passes, keys, of_it: 1, denied }.count()?));
        }
        rows.push(row);
    }
    let mut notes =
        vec!["Instructions per decision, 1,000 keys of 20 bytes, clock read included.".to_owned()];
    notes.extend(settings.notes());
    Ok(vec![Table {
        name: "instructions",
        title: "Instructions per decision".to_owned(),
        command: settings.command("instructions"),
        columns: ["instructions per decision", "admitted", "denied"].map(str::to_owned).to_vec(),
        rows,
        notes,
    }])
}
