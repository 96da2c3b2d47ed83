//! The formats of lines: each puts the wanted fields of a line into a row, or says why it cannot.

mod common;
mod csv;
mod json;

pub(crate) use common::Common;
pub(crate) use csv::Columns;
pub(crate) use json::json;

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The common or the combined log format of web servers.
    Common,
    /// A JSON object per line; Envoy's access log is one with names of its own.
    Json,
    /// Columns separated by commas.
    Csv,
}

impl Format {
    pub(crate) const NAMES: [&'static str; 5] = ["common", "combined", "json", "envoy", "csv"];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "common" | "combined" => Self::Common,
            "json" | "envoy" => Self::Json,
            "csv" => Self::Csv,
            _ => return None,
        })
    }

    /// What the first line looks like.
    pub(crate) fn guess(line: &str) -> Self {
        let line = line.trim_start();
        if line.starts_with('{') {
            return Self::Json;
        }
        let is_common = line.contains(" [") && line.contains("] \"");
        if is_common { Self::Common } else { Self::Csv }
    }
}
