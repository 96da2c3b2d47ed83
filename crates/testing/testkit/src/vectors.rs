//! The numbers of other libraries' own tests, run against the library by its public calls.
//!
//! A file holds vectors: an algorithm, its parameters, and steps with what must be answered. [`run`] plays
//! one vector and says whether we answer so. A vector that the library has no words for is skipped with the
//! reason, and so is every shape that is not known: a field that is not read, a value of another kind, steps
//! that compare nothing. Where a vector asks for what our laws forbid, the law is followed, and the
//! difference is listed with our answer ([`difference`]).

mod adaptive;
mod case;
mod composed;
mod differences;
mod parts;
mod quotas;
mod slots;
mod subject;

use std::collections::BTreeMap;
use std::io;

use serde_json::{Map, Value};

use self::adaptive::Learner;
use self::case::{Fields, StepAnswer, Stop, Vector, short, skip};
use self::composed::Composed;
pub use self::differences::{Difference, difference};
use self::parts::Parts;
use self::slots::Slots;
use self::subject::Subject;

/// A file of vectors.
#[derive(Debug)]
pub struct File {
    /// The vectors, in the order of the file.
    pub vectors: Vec<Value>,
}

/// A text that holds no vectors.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileError {
    /// It is not JSON.
    Json(serde_json::Error),
    /// It is something else.
    NoVectors,
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Json(error) => write!(f, "invalid JSON: {error}"),
            Self::NoVectors => {
                f.write_str("expected an object with the list `vectors`, or a list of vectors")
            }
        }
    }
}

impl std::error::Error for FileError {}

impl File {
    /// Reads a list of vectors, or an object that has one as `vectors`.
    ///
    /// # Errors
    /// [`FileError`]. A fault in a single vector is not an error: the vector is skipped with the reason.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        match serde_json::from_str(text).map_err(FileError::Json)? {
            Value::Array(vectors) => Ok(Self { vectors }),
            Value::Object(mut file) => match file.remove("vectors") {
                Some(Value::Array(vectors)) => Ok(Self { vectors }),
                _ => Err(FileError::NoVectors),
            },
            _ => Err(FileError::NoVectors),
        }
    }
}

/// Result of playing a vector.
#[derive(Debug, PartialEq, Eq)]
pub enum ExpectedVerdict {
    /// Every step is answered as the vector says.
    Passed,
    /// Our law says otherwise, for this reason.
    Differs(&'static str),
    /// A step is answered otherwise: the step, the expected answer, and the actual one.
    Failed(String),
    /// The library has no words for it, for this reason.
    Skipped(String),
}

/// Plays one vector.
#[must_use]
pub fn run(vector: &Value) -> ExpectedVerdict {
    match Vector::parse(vector).and_then(|vector| play(&vector)) {
        Ok(verdict) => verdict,
        Err(Stop::Skip(reason)) => ExpectedVerdict::Skipped(reason),
        Err(Stop::Broken(what)) => ExpectedVerdict::Failed(what),
    }
}

/// The part that plays a vector.
enum Player<'v> {
    Learner(Learner),
    Slots(Slots),
    Parts(Parts),
    Composed(Composed),
    Subject(Box<Subject<'v>>),
}

impl<'v> Player<'v> {
    fn of(vector: &'v Vector) -> Result<Self, Stop> {
        if let Some(learner) = Learner::of(vector) {
            return learner.map(Self::Learner);
        }
        if let Some(slots) = Slots::of(vector) {
            return slots.map(Self::Slots);
        }
        if let Some(parts) = Parts::of(vector) {
            return parts.map(Self::Parts);
        }
        if let Some(composed) = Composed::of(vector) {
            return composed.map(Self::Composed);
        }
        Ok(Self::Subject(Box::new(Subject::new(vector)?)))
    }

    fn step(&mut self, step: &Fields, op: &str) -> Result<StepAnswer, Stop> {
        match self {
            Self::Learner(learner) => learner.step(step, op),
            Self::Slots(slots) => slots.step(step, op),
            Self::Parts(parts) => parts.step(step, op),
            Self::Composed(composed) => composed.step(step, op),
            Self::Subject(subject) => subject.step(step, op),
        }
    }
}

/// There, each call cuts its wait to whole microseconds, and the calls after it are as much earlier.
const WHOLE_MICROSECONDS: f64 = 2.0;

/// To the end, or to the first step that is answered otherwise and not by law.
fn play(vector: &Vector) -> Result<ExpectedVerdict, Stop> {
    let mut player = Player::of(vector)?;
    let mut verdict = ExpectedVerdict::Passed;
    let mut compared = 0;
    let tolerance_ns = vector.params.maybe_share("tol_ns")?;
    for (number, step) in vector.steps.iter().enumerate() {
        let op = step.text("op")?;
        let t_ns = step.number("t_ns")?;
        let Some(expected) = step.get("expect") else { return skip(format!("`{op}` that expects nothing")) };
        let Some(expected) = expected.as_object() else {
            return skip(format!("`expect` is not an object: {}", short(expected)));
        };
        let tolerance = Tolerance::of(expected, tolerance_ns)?;
        let seen = player.step(step, op)?;
        if matches!(step.unseen(), Some("n")) {
            let n = step.maybe_share("n")?.unwrap_or_default();
            if n != 0.0 && n != 1.0 {
                return skip(format!("`n` of `{op}`"));
            }
        }
        step.all_seen(&format!("`{op}`"))?;
        for (name, expected) in expected.iter().filter(|(name, _)| !Tolerance::is_named(name)) {
            let Some(got) = seen.get(name) else {
                return skip(format!("`{name}` of `{op}` is not to be had"));
            };
            compared += 1;
            if is_near(got, expected, tolerance.of_value(name)) {
                continue;
            }
            let what = || {
                format!("step {number} ({op} at {t_ns} ns): {name}: expected {}, got {got}", short(expected))
            };
            let Some(known) = difference(&vector.id, number, name) else {
                return Ok(ExpectedVerdict::Failed(what()));
            };
            if *got != known.our_answer() {
                return Ok(ExpectedVerdict::Failed(format!("{}, and not {} as listed", what(), known.ours)));
            }
            verdict = ExpectedVerdict::Differs(known.why);
        }
    }
    vector.params.all_seen("the parameters")?;
    if compared == 0 {
        return skip("steps that compare nothing");
    }
    Ok(verdict)
}

/// Allowed distance of an answer from the expected one.
#[derive(Clone, Copy)]
struct Tolerance {
    /// For times, in nanoseconds.
    ns: f64,
    /// For all numbers.
    any: f64,
}

impl Tolerance {
    fn is_named(name: &str) -> bool {
        matches!(name, "tol" | "tol_ns")
    }

    fn of(expected: &Map<String, Value>, of_vector_ns: Option<f64>) -> Result<Self, Stop> {
        let stated = |name: &str| match expected.get(name) {
            None => Ok(None),
            Some(value) => match value.as_f64().filter(|tolerance| *tolerance >= 0.0) {
                Some(tolerance) => Ok(Some(tolerance)),
                None => skip(format!("`{name}` is not a tolerance: {}", short(value))),
            },
        };
        let ns = stated("tol_ns")?.or(of_vector_ns).unwrap_or(0.0);
        Ok(Self { ns, any: stated("tol")?.unwrap_or(0.0) })
    }

    fn of_value(self, name: &str) -> f64 {
        match name {
            "wait_s" => 0.005 + 1e-9, // stated in hundredths
            "wait_us_exact" => WHOLE_MICROSECONDS,
            _ if name.ends_with("_ns") => self.ns.max(self.any),
            _ => self.any,
        }
    }
}

fn is_near(got: &Value, expected: &Value, tolerance: f64) -> bool {
    let whole = |value: &Value| value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    if got == expected {
        return true;
    }
    if let (Some(got), Some(expected)) = (whole(got), whole(expected)) {
        return got.abs_diff(expected) as f64 <= tolerance;
    }
    match (got.as_f64(), expected.as_f64()) {
        (Some(got), Some(expected)) => (got - expected).abs() <= tolerance,
        _ => false,
    }
}

/// Counts of vectors by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answered as the vector says, or as our law says where that differs.
    pub passed: usize,
    /// Answered otherwise than expected.
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
    let mut skipped: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (number, vector) in file.vectors.iter().enumerate() {
        let named = |name: &str| vector.get(name).and_then(Value::as_str).unwrap_or_default();
        let id = match named("id") {
            "" => format!("(vector {number}, without a name)"),
            id => id.to_owned(),
        };
        match run(vector) {
            ExpectedVerdict::Passed => tally.passed += 1,
            ExpectedVerdict::Differs(reason) => {
                tally.passed += 1;
                writeln!(out, "differs by law: {id}: {reason}")?;
            }
            ExpectedVerdict::Failed(what) => {
                tally.failed += 1;
                writeln!(out, "FAILED {id} ({}): {what}", named("algorithm"))?;
            }
            ExpectedVerdict::Skipped(reason) => {
                tally.skipped += 1;
                skipped.entry(reason).or_default().push(id);
            }
        }
    }
    for (reason, ids) in skipped {
        writeln!(out, "skipped {}: {reason}: {}", ids.len(), ids.join(", "))?;
    }
    writeln!(out, "{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.skipped)?;
    Ok(tally)
}
