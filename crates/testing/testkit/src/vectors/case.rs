//! A vector as its file holds it, and why one cannot be played.
//!
//! [`Fields`] notes which fields were read. A field that is not read may ask for something that we do not do,
//! so the vector is skipped: no vector passes because a part of it was ignored.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Index;
use std::time::Duration;

use serde_json::{Map, Value};

/// Longest wait of a caller that names no end.
pub(super) const PATIENCE: Duration = Duration::from_secs(1 << 32);
/// The most calls that one step may mean.
pub(super) const MOST_CALLS: u64 = 1_000_000;

/// One history with its answers.
#[derive(Debug)]
pub(super) struct Vector {
    pub(super) id: String,
    /// The algorithm, as the file calls it.
    pub(super) algorithm: String,
    /// The algorithm's parameters.
    pub(super) params: Fields,
    /// Remarks of the file on it.
    pub(super) notes: String,
    /// Operations, and the expected answers.
    pub(super) steps: Vec<Fields>,
}

/// Why a vector cannot be played.
#[derive(Debug)]
pub(super) enum Stop {
    /// The library has no words for it.
    Skip(String),
    /// The library gave an answer that it must never give.
    Broken(String),
}

/// The answer to a step, by the names of the file.
#[derive(Debug, Default)]
pub(super) struct StepAnswer(BTreeMap<String, Value>);

impl StepAnswer {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn insert(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

impl<const N: usize> From<[(&str, Value); N]> for StepAnswer {
    fn from(answers: [(&str, Value); N]) -> Self {
        Self(answers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

/// Null for answers that are missing.
impl Index<&str> for StepAnswer {
    type Output = Value;

    fn index(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or(&Value::Null)
    }
}

pub(super) fn skip<T>(reason: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Skip(reason.into()))
}

/// Fields of a vector, and which of them were looked at.
#[derive(Debug, Default)]
pub(super) struct Fields {
    map: Map<String, Value>,
    seen: RefCell<BTreeSet<String>>,
}

impl Fields {
    pub(super) fn of(value: Option<&Value>, what: &str) -> Result<Self, Stop> {
        match value {
            None | Some(Value::Null) => Ok(Self::default()),
            Some(Value::Object(map)) => Ok(Self { map: map.clone(), seen: RefCell::default() }),
            Some(other) => skip(format!("{what} that is not an object: {}", short(other))),
        }
    }

    /// The value of a field; `null` counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        let value = self.map.get(name)?;
        self.seen.borrow_mut().insert(name.to_owned());
        (!value.is_null()).then_some(value)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn maybe_number(&self, name: &str) -> Result<Option<u64>, Stop> {
        self.as_kind(name, "not a whole number from 0 to 2^64 - 1", Value::as_u64)
    }

    pub(super) fn number(&self, name: &str) -> Result<u64, Stop> {
        self.maybe_number(name)?.ok_or_else(|| lacks(name))
    }

    /// The number of calls in one step.
    pub(super) fn calls(&self, name: &str) -> Result<u64, Stop> {
        few(self.number(name)?, name)
    }

    pub(super) fn maybe_share(&self, name: &str) -> Result<Option<f64>, Stop> {
        self.as_kind(name, "not a number", Value::as_f64)
    }

    pub(super) fn share(&self, name: &str) -> Result<f64, Stop> {
        self.maybe_share(name)?.ok_or_else(|| lacks(name))
    }

    pub(super) fn list(&self, name: &str) -> Result<Option<&[Value]>, Stop> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let list = value.as_array().ok_or_else(|| is_strange(name, "not a list", value))?;
        Ok(Some(list))
    }

    /// A text; empty where there is none.
    pub(super) fn text(&self, name: &str) -> Result<&str, Stop> {
        let Some(value) = self.get(name) else { return Ok("") };
        value.as_str().ok_or_else(|| is_strange(name, "not a text", value))
    }

    /// The numbers of a list.
    pub(super) fn numbers(&self, name: &str) -> Result<Option<Vec<u64>>, Stop> {
        let Some(list) = self.list(name)? else { return Ok(None) };
        let number = |value: &Value| {
            value.as_u64().ok_or_else(|| is_strange(name, "a list of other than whole numbers", value))
        };
        list.iter().map(number).collect::<Result<_, _>>().map(Some)
    }

    /// Skips the vector where `name` has a value other than `only`, which is our behaviour in any case.
    pub(super) fn is(&self, name: &str, only: impl Into<Value>) -> Result<(), Stop> {
        match self.get(name) {
            Some(other) if *other != only.into() => skip(format!("`{name}` of {}", short(other))),
            _ => Ok(()),
        }
    }

    fn as_kind<T>(
        &self,
        name: &str,
        strange: &str,
        read: fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, Stop> {
        let Some(value) = self.get(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| is_strange(name, strange, value))
    }

    /// A field that was not looked at.
    pub(super) fn unseen(&self) -> Option<&str> {
        let seen = self.seen.borrow();
        self.map.keys().map(String::as_str).find(|name| !seen.contains(*name))
    }

    /// Skips the vector where a field was not looked at.
    pub(super) fn all_seen(&self, of: &str) -> Result<(), Stop> {
        match self.unseen() {
            Some(name) => skip(format!("`{name}` of {of}")),
            None => Ok(()),
        }
    }
}

impl Vector {
    pub(super) fn parse(value: &Value) -> Result<Self, Stop> {
        let vector = Fields::of(Some(value), "a vector")?;
        for name in ["source", "verified"] {
            let _ = vector.get(name); // where it is from
        }
        let steps = vector.list("steps")?.unwrap_or_default();
        let parsed = Self {
            id: vector.text("id")?.to_owned(),
            algorithm: vector.text("algorithm")?.to_owned(),
            params: Fields::of(vector.get("params"), "parameters")?,
            notes: vector.text("notes")?.to_owned(),
            steps: steps.iter().map(|step| Fields::of(Some(step), "a step")).collect::<Result<_, _>>()?,
        };
        vector.all_seen("a vector")?;
        if parsed.algorithm.is_empty() {
            return skip("`algorithm` is missing");
        }
        Ok(parsed)
    }
}

/// Skips the vector if a step has more calls than can be played in reasonable time.
pub(super) fn few(calls: u64, name: &str) -> Result<u64, Stop> {
    match calls {
        0..=MOST_CALLS => Ok(calls),
        _ => skip(format!("`{name}` is {calls}: more than a million calls in one step")),
    }
}

pub(super) fn lacks(name: &str) -> Stop {
    Stop::Skip(format!("`{name}` is missing"))
}

fn is_strange(name: &str, strange: &str, value: &Value) -> Stop {
    Stop::Skip(format!("`{name}` is {strange}: {}", short(value)))
}

/// A value in a message.
pub(super) fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
