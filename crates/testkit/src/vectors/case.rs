//! A vector as its file holds it, and why one cannot be played.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

/// One history with its answers.
#[derive(Debug, Deserialize)]
pub struct Vector {
    /// Its name.
    pub id: String,
    /// The algorithm, as the file calls it.
    pub algorithm: String,
    /// The algorithm's parameters.
    pub params: Map<String, Value>,
    /// What to know of it.
    #[serde(default)]
    pub notes: Option<String>,
    /// What is done, and what must be answered.
    pub steps: Vec<Map<String, Value>>,
}

/// Why a vector cannot be played.
#[derive(Debug)]
pub(super) enum Stop {
    /// Our core has no such thing.
    Skip(String),
    /// The vector is not well formed.
    Broken(String),
}

/// What a step answered, by the names of the file.
pub(super) type Seen = BTreeMap<&'static str, Value>;

/// A text of a step; empty where there is none.
pub(super) fn text<'a>(step: &'a Map<String, Value>, name: &str) -> &'a str {
    step.get(name).and_then(Value::as_str).unwrap_or("")
}
