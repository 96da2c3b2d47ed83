//! A decision in this process: nanoseconds each, the contenders taking turns within one run.
//!
//! Every repeat draws fresh keys and gives the same ones to all contenders, in an order that rotates. The
//! clock read is part of a decision.

use std::sync::Barrier;

use anyhow::ensure;

use crate::contender::{Allowance, Contender, ContenderKind, make};
use crate::report::{Spread as Runs, Table, figure};
use crate::requests::{Requests, Spread, write_key};
use crate::settings::Settings;
use crate::stopwatch::timed;

/// One column of a table.
struct Case {
    heading: &'static str,
    keys: u64,
    spread: Spread,
    allowance: Allowance,
    threads: usize,
    /// Every key was emptied before, so that every decision is a denial.
    spent: bool,
}

impl Case {
    /// With few keys in a smoke run.
    fn sized(&self, settings: &Settings) -> Self {
        Self { keys: self.keys.min(settings.size(u64::MAX, u64::MAX, 2_000)), ..*self }
    }

    fn shares_keys_with(&self, other: &Self) -> bool {
        (self.keys, self.allowance, self.spent) == (other.keys, other.allowance, other.spent)
    }
}

const fn case(heading: &'static str, keys: u64, spread: Spread) -> Case {
    Case { heading, keys, spread, allowance: Allowance::MANY, threads: 1, spent: false }
}

const KEYED: [Case; 5] = [
    case("1,000 keys", 1_000, Spread::Uniform),
    Case { allowance: Allowance::NONE, spent: true, ..case("1,000 keys, denied", 1_000, Spread::Uniform) },
    case("1 M uniform", 1_000_000, Spread::Uniform),
    case("10 M uniform", 10_000_000, Spread::Uniform),
    case("10 M zipf 0.99", 10_000_000, Spread::Zipf),
];

const SHARED: [Case; 3] = [
    Case { allowance: Allowance::ONE, ..case("one hot key, 1 thread", 1, Spread::Uniform) },
    Case { threads: 2, allowance: Allowance::ONE, ..case("one hot key, 2 threads", 1, Spread::Uniform) },
    Case { threads: 2, ..case("1 M uniform, 2 threads", 1_000_000, Spread::Uniform) },
];

const UNKEYED: [Case; 3] = [
    Case { allowance: Allowance::ONE, ..case("admitted", 1, Spread::Uniform) },
    Case { allowance: Allowance::NONE, spent: true, ..case("denied", 1, Spread::Uniform) },
    Case { threads: 2, allowance: Allowance::ONE, ..case("admitted, 2 threads", 1, Spread::Uniform) },
];

/// Measures every case for every contender; the first of `kinds` is the reference.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    use ContenderKind::{
        Floor, FloorBatch, Governor, GovernorUnkeyed, Limitador, Throttlecrab, ThrottlecrabLocked, Tollgate,
        TollgateBatch, TollgateFixedWindow, TollgateUnkeyed,
    };
    let keyed =
        [Governor, Throttlecrab, Limitador, Floor, FloorBatch, Tollgate, TollgateFixedWindow, TollgateBatch];
    let shared = [Governor, ThrottlecrabLocked, Limitador, Floor, Tollgate];
    let unkeyed = [GovernorUnkeyed, TollgateUnkeyed];
    Ok(vec![
        table("in-process", "A keyed decision, one thread", &KEYED, &keyed, settings)?,
        table("shared", "A keyed decision, two threads and one hot key", &SHARED, &shared, settings)?,
        table("unkeyed", "One limiter without keys", &UNKEYED, &unkeyed, settings)?,
    ])
}

fn table(
    name: &'static str,
    title: &str,
    cases: &[Case],
    kinds: &[ContenderKind],
    settings: &Settings,
) -> anyhow::Result<Table> {
    let mut columns = vec!["ns per decision".to_owned()];
    let mut rows: Vec<Vec<String>> = kinds.iter().map(|kind| vec![kind.name().to_owned()]).collect();
    let mut contenders = Vec::new();
    let mut last = None::<&Case>;
    let most = settings.size(u64::MAX, 1_000_000, u64::MAX);
    let cases: Vec<Case> =
        cases.iter().filter(|case| case.keys <= most).map(|case| case.sized(settings)).collect();
    for case in &cases {
        settings.say(&format!("{name}: {}", case.heading));
        // Filling ten million keys takes a while, so a case with the same keys uses them again.
        if last.is_none_or(|last| !last.shares_keys_with(case)) {
            contenders.clear();
            contenders = ready(case, kinds, settings);
        }
        last = Some(case);
        let results = measure(case, &contenders, settings)?;
        let runs_of = |kind: &ContenderKind| {
            results.iter().find(|(measured, _)| measured == kind).map(|(_, runs)| *runs)
        };
        let first = kinds.first().and_then(runs_of).map(|runs| runs.median);
        columns.push(case.heading.to_owned());
        for (at, (row, kind)) in rows.iter_mut().zip(kinds).enumerate() {
            row.push(cell(runs_of(kind), first.filter(|_| at > 0)));
        }
    }
    let first = kinds.first().map_or("", |kind| kind.name());
    let mut notes = vec![format!(
        "Nanoseconds per decision, median (least–most) of the repeats, then × {first} in the same run; 20-byte string keys, \
         clock read included. Two threads: the decisions of both over the time they took."
    )];
    notes.extend(settings.notes());
    let title = title.to_owned();
    let command = settings.command("in-process");
    Ok(Table { name, title, command, columns, rows, notes })
}

fn cell(runs: Option<Runs>, first: Option<f64>) -> String {
    match (runs, first) {
        (None, _) => "–".to_owned(),
        (Some(runs), None) => runs.cell(),
        (Some(runs), Some(first)) => format!("{} ×{}", runs.cell(), figure(runs.median / first)),
    }
}

/// Whether a contender can take part within a reasonable time and memory.
fn takes_part(kind: ContenderKind, case: &Case) -> bool {
    kind != ContenderKind::Limitador || case.keys <= 1_000_000
}

/// A pass of `kind` in a case of `keys` keys is this many decisions.
fn pass_length(kind: ContenderKind, keys: u64, settings: &Settings) -> usize {
    let whole: usize = settings.size(1 << 20, 1 << 18, 1 << 12);
    match (kind, keys) {
        (ContenderKind::Limitador, _) => whole / 64,
        // Small enough to stay in the cache beside the table, as a caller's own key would.
        (_, ..=1_000) => 4_096,
        _ => whole,
    }
}

/// All contenders that take part, with all keys known.
fn ready(
    case: &Case,
    kinds: &[ContenderKind],
    settings: &Settings,
) -> Vec<(ContenderKind, Box<dyn Contender>)> {
    let kinds = kinds.iter().copied().filter(|kind| settings.wants(*kind) && takes_part(*kind, case));
    let contenders: Vec<(ContenderKind, Box<dyn Contender>)> =
        kinds.filter_map(|kind| Some((kind, make(kind, case.allowance, case.keys)?))).collect();
    for (_, contender) in &contenders {
        prepare(contender.as_ref(), case.keys, case.allowance);
    }
    contenders
}

fn measure(
    case: &Case,
    contenders: &[(ContenderKind, Box<dyn Contender>)],
    settings: &Settings,
) -> anyhow::Result<Vec<(ContenderKind, Runs)>> {
    let longest =
        contenders.iter().map(|(kind, _)| pass_length(*kind, case.keys, settings)).max().unwrap_or(0);
    let mut requests: Vec<Requests> = (0..case.threads as u64)
        .map(|thread| Requests::new(longest, case.keys, case.spread, thread * 7_919 + 1))
        .collect();
    let mut runs = vec![Vec::new(); contenders.len()];
    for repeat in 0..=settings.repeats {
        requests.iter_mut().for_each(Requests::draw);
        for turn in 0..contenders.len() {
            let who = (turn + repeat) % contenders.len();
            let (kind, contender) = &contenders[who];
            let length = pass_length(*kind, case.keys, settings);
            let (admitted, ns) = decide(contender.as_ref(), &requests, length, settings);
            let wrong = if case.spent { admitted > 0 } else { admitted == 0 };
            ensure!(
                !wrong,
                "{} admitted {admitted} in {}: not what was to be measured",
                kind.name(),
                case.heading
            );
            // The first repeat is the warm-up.
            if repeat > 0 {
                runs[who].push(ns);
            }
        }
    }
    Ok(contenders.iter().map(|(kind, _)| *kind).zip(runs.into_iter().map(Runs::of)).collect())
}

/// Asks once for every key, or as often as it takes to spend a small allowance.
pub(crate) fn prepare(contender: &dyn Contender, keys: u64, allowance: Allowance) {
    for _ in 0..if allowance.burst <= 2 { 1 + allowance.burst } else { 1 } {
        populate(contender, keys);
    }
}

/// Asks once for every key.
pub(crate) fn populate(contender: &dyn Contender, keys: u64) {
    let mut chunk = vec![String::new(); 4_096.min(keys as usize)];
    let mut id = 0;
    while id < keys {
        let rest = (keys - id).min(chunk.len() as u64) as usize;
        for text in &mut chunk[..rest] {
            write_key(text, id);
            id += 1;
        }
        contender.pass(&chunk[..rest]);
    }
}

/// Decisions for `length` keys of each thread's list: how many were admitted, and the nanoseconds each took.
fn decide(contender: &dyn Contender, lists: &[Requests], length: usize, settings: &Settings) -> (u64, f64) {
    // Short lists are asked for again, so that a run is long enough to time.
    let rounds = (settings.size(1 << 20_usize, 1 << 16, 1 << 12) / length).max(1);
    let work = |list: &Requests| -> u64 { (0..rounds).map(|_| contender.pass(&list.keys()[..length])).sum() };
    let (admitted, took) = match lists {
        [only] => timed(|| work(only)),
        _ => {
            let ready = Barrier::new(lists.len());
            let ready_to_work = |list| {
                ready.wait();
                timed(|| work(list))
            };
            std::thread::scope(|scope| {
                let threads: Vec<_> = lists.iter().map(|list| scope.spawn(|| ready_to_work(list))).collect();
                let results = threads.into_iter().filter_map(|thread| thread.join().ok());
                results.fold((0, std::time::Duration::ZERO), |(sum, longest), (admitted, took)| {
                    (sum + admitted, longest.max(took))
                })
            })
        }
    };
    (admitted, took.as_nanos() as f64 / (rounds * length * lists.len()) as f64)
}
