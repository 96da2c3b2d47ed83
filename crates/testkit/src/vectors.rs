//! The numbers of other libraries' own tests, run against the library by its public calls.
//!
//! A file holds vectors: an algorithm, its parameters, and steps with what must be answered. [`run`] plays
//! one vector and says whether we answer so. What the library has no words for is skipped with the reason;
//! where a vector asks for what our laws forbid, the law is followed and the difference listed
//! ([`difference`]).

mod adaptive;
mod case;
mod quotas;
mod slots;
mod subject;

use std::collections::BTreeMap;
use std::io;

use serde::Deserialize;
use serde_json::{Map, Value};

use self::adaptive::Learner;
pub use self::case::Vector;
use self::case::{Seen, Stop, text};
use self::slots::Slots;
use self::subject::Subject;

/// A file of vectors.
#[derive(Debug, Deserialize)]
pub struct File {
    /// The vectors, in the order of the file.
    pub vectors: Vec<Vector>,
}

/// What became of a vector.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every step is answered as the vector says.
    Passed,
    /// Our law says otherwise, for this reason.
    Differs(&'static str),
    /// A step is answered otherwise: which, what was expected, what came.
    Failed(String),
    /// The library has no words for it, for this reason.
    Skipped(String),
}

/// Steps of vectors that ask for what our laws forbid, and why.
const DIFFERENCES: &[(&str, &[usize], &str)] = &[
    ("b4j-block-over-capacity", &[0], "a reservation above the burst is never granted (acceptance row 25)"),
    (
        "xtime-cancel-multi",
        &[6],
        "a reservation that has not begun is given back in full, also when others came later",
    ),
    ("towerres-total-timeout", &[1], "a wait that cannot end in time fails at once, not at its end"),
    ("xtime-set-burst", &[3], "a larger burst takes effect at once: what was used stays used (I12)"),
    (
        "governor-expiration",
        &[4, 5],
        "a key goes as soon as it is like one never seen; there it stays a period longer",
    ),
    (
        "leaky-idle-3",
        &[6],
        "a key that is full again is like one never seen: its next take begins a new count of periods",
    ),
    ("guava-infinite-warmup", &[8], "without a limit nothing is owed, also not from before"),
    (
        "leaky-drop-giant",
        &[0],
        "a cost above the burst never fits, so it waits for nothing (acceptance row 25)",
    ),
    ("redis-rate-at-most", &[6], "a cost above the burst never fits; there it is promised for later (I7)"),
];

/// Why we differ from this step of the vector of this name, if we do.
#[must_use]
pub fn difference(id: &str, step: usize) -> Option<&'static str> {
    let of_vector = DIFFERENCES.iter().find(|(name, ..)| *name == id);
    of_vector.filter(|(_, steps, _)| steps.contains(&step)).map(|&(.., reason)| reason)
}

/// Plays one vector.
#[must_use]
pub fn run(vector: &Vector) -> Verdict {
    let played = match (Learner::of(vector), Slots::of(vector)) {
        (Some(learner), _) => learner.and_then(|mut learner| play(|step| learner.step(step), vector)),
        (None, Some(slots)) => slots.and_then(|mut slots| play(|step| slots.step(step), vector)),
        (None, None) => Subject::new(vector).and_then(|mut subject| play(|step| subject.step(step), vector)),
    };
    match played {
        Ok(verdict) => verdict,
        Err(Stop::Skip(reason)) => Verdict::Skipped(reason),
        Err(Stop::Broken(what)) => Verdict::Failed(what),
    }
}

/// There, each call cuts its wait to whole microseconds, and the calls after it are as much earlier.
const WHOLE_MICROSECONDS: f64 = 2.0;

/// To the end, or to the first step that is answered otherwise and not by law.
fn play(
    mut answer: impl FnMut(&Map<String, Value>) -> Result<Seen, Stop>,
    vector: &Vector,
) -> Result<Verdict, Stop> {
    let mut verdict = Verdict::Passed;
    for (number, step) in vector.steps.iter().enumerate() {
        let seen = answer(step)?;
        let Some(expected) = step.get("expect").and_then(Value::as_object) else {
            return Err(Stop::Broken(format!("step {number} expects nothing")));
        };
        for (name, expected) in expected.iter().filter(|(name, _)| !name.starts_with("tol")) {
            let Some(got) = seen.get(name.as_str()) else {
                return Err(Stop::Skip(format!("`{name}` of `{}` is not to be had", text(step, "op"))));
            };
            if is_near(got, expected, tolerance(vector, step, name)) {
                continue;
            }
            let Some(reason) = difference(&vector.id, number) else {
                let (op, at) = (text(step, "op"), &step["t_ns"]);
                let what = format!("step {number} ({op} at {at} ns): {name}: expected {expected}, got {got}");
                return Ok(Verdict::Failed(what));
            };
            verdict = Verdict::Differs(reason);
        }
    }
    Ok(verdict)
}

fn tolerance(vector: &Vector, step: &Map<String, Value>, name: &str) -> f64 {
    match name {
        "wait_s" => return 0.005 + 1e-9, // stated in hundredths
        "wait_us_exact" => return WHOLE_MICROSECONDS,
        _ => {}
    }
    let of_step = step.get("expect").and_then(|expect| expect.get("tol_ns").or_else(|| expect.get("tol")));
    of_step.or_else(|| vector.params.get("tol_ns")).and_then(Value::as_f64).unwrap_or(0.0)
}

fn is_near(got: &Value, expected: &Value, tolerance: f64) -> bool {
    if got == expected {
        return true;
    }
    match (got.as_f64(), expected.as_f64()) {
        (Some(got), Some(expected)) => (got - expected).abs() <= tolerance,
        _ => false,
    }
}

/// How many vectors went how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answered as the vector says, or as our law says where that differs.
    pub passed: usize,
    /// Answered otherwise.
    pub failed: usize,
    /// Not to be expressed.
    pub skipped: usize,
}

/// Plays every vector of `file` and writes what happened to `out`; the last line is `N passed, M failed, K
/// skipped`.
///
/// # Errors
/// When `out` cannot be written to.
pub fn report(file: &File, out: &mut impl io::Write) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let mut skipped: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for vector in &file.vectors {
        match run(vector) {
            Verdict::Passed => tally.passed += 1,
            Verdict::Differs(reason) => {
                tally.passed += 1;
                writeln!(out, "differs by law: {}: {reason}", vector.id)?;
            }
            Verdict::Failed(what) => {
                tally.failed += 1;
                writeln!(out, "FAILED {} ({}): {what}", vector.id, vector.algorithm)?;
            }
            Verdict::Skipped(reason) => {
                tally.skipped += 1;
                skipped.entry(reason).or_default().push(&vector.id);
            }
        }
    }
    for (reason, ids) in skipped {
        writeln!(out, "skipped {}: {reason}: {}", ids.len(), ids.join(", "))?;
    }
    writeln!(out, "{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.skipped)?;
    Ok(tally)
}
