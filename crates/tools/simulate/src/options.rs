//! Parsers for values of options.

use std::time::Duration;

use tollgate_human_text::parse_duration;

/// A time above zero, up to a day.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Some(span) if (Duration::from_micros(1)..=Duration::from_secs(86_400)).contains(&span) => Ok(span),
        _ => Err("write a time up to 24h, such as 200us, 10ms, 1s or 1m".to_owned()),
    }
}
