//! An invalid setting: its place, and the error.

use tollgate_human_text::did_you_mean;

/// One invalid setting. Nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Fault {
    /// `command line: --grpc`, `environment: TOLLGATE_GRPC` or `tollgate.yaml:3:7: grpc`.
    pub place: String,
    /// The error, and what was expected.
    pub what: String,
}

impl Fault {
    pub(crate) fn new(place: impl ToString, what: impl Into<String>) -> Self {
        Self { place: place.to_string(), what: what.into() }
    }

    /// About the environment variable `name`, or several, separated by commas.
    pub(crate) fn env(name: impl std::fmt::Display, what: impl Into<String>) -> Self {
        Self::new(format!("environment: {name}"), what)
    }

    /// About several settings together.
    pub(crate) fn of_settings(what: impl Into<String>) -> Self {
        Self::new("settings", what)
    }

    /// `name` is not among the `known` settings.
    pub(crate) fn unknown(place: impl ToString, name: &str, known: impl Iterator<Item = String>) -> Self {
        let known: Vec<String> = known.collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let hint = did_you_mean(name, &known).map_or_else(String::new, |hint| format!("; {hint}"));
        Self::new(place, format!("unknown setting{hint}"))
    }
}
