//! The formats of lines: each puts the wanted fields of a line into a row, or says why it cannot.

mod common;
mod csv;
mod json;

pub(crate) use common::Common;
pub(crate) use csv::Columns;
pub(crate) use json::json;

/// Format of a log.
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

    /// Guesses the format from the first line.
    pub(crate) fn guess(line: &str) -> Self {
        let line = line.trim_start();
        if line.starts_with('{') {
            return Self::Json;
        }
        let is_common = line.contains(" [") && line.contains("] \"");
        if is_common { Self::Common } else { Self::Csv }
    }
}

/// Recognizes a first line of a format that cannot be read: the name of the format, and a remedy. `None` if
/// the line may be a heading.
pub(crate) fn unread(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    if line.starts_with("[{") || line == "[" {
        return Some("it begins a list of JSON: write one object per line, as `jq -c '.[]'` does");
    }
    if line.starts_with("#Version:") || line.starts_with("#Fields:") {
        return Some("it is a log in the W3C format: write JSON lines, CSV or the Common Log Format");
    }
    if line.starts_with('[') && line.contains("] \"") {
        return Some("it looks like Envoy's log as text: let Envoy write its access log as JSON");
    }
    if line.contains("haproxy[") {
        return Some("it looks like HAProxy's own format: use `option httplog clf`, or write JSON or CSV");
    }
    None
}
