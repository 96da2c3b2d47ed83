//! Parameters of queries: how they are read, and the faults of those that make no sense.

/// The decoded query of a request.
pub trait Query {
    /// The first value of this parameter; empty without one.
    fn parameter(&self, name: &str) -> &str;

    /// Every value of this parameter.
    fn parameters(&self, name: &str) -> Vec<String>;
}

/// A parameter that makes no sense; says what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadQuery(pub String);

/// A value, or why it cannot be one.
pub(crate) type Read<T> = Result<T, BadQuery>;

/// The text of a parameter; empty without one.
pub(crate) fn text(query: &impl Query, name: &str) -> String {
    query.parameter(name).to_owned()
}

/// Digits only: a number from `min` to `max`, or `default` without the parameter.
pub(crate) fn digits(query: &impl Query, name: &str, default: i64, min: i64, max: i64) -> Read<i64> {
    let text = query.parameter(name);
    if text.is_empty() {
        return Ok(default);
    }
    let bad = || {
        let most = if max == i64::MAX { String::new() } else { format!(" to {max}") };
        BadQuery(format!("invalid `{name}`: expected a whole number from {min}{most}"))
    };
    let is_digits = text.bytes().all(|it| it.is_ascii_digit());
    let number = is_digits.then(|| text.parse().ok()).flatten();
    number.filter(|it| (min..=max).contains(it)).ok_or_else(bad)
}

/// A number from 1 to `max`, or `default` without the parameter.
pub(crate) fn number(query: &impl Query, name: &str, default: i64, max: i64) -> Read<i64> {
    match query.parameter(name) {
        "" => Ok(default),
        text => text
            .parse()
            .ok()
            .filter(|it| (1..=max).contains(it))
            .ok_or_else(|| BadQuery(format!("invalid `{name}`: expected a whole number from 1 to {max}"))),
    }
}

/// Milliseconds, or `default` without the parameter.
pub(crate) fn millis(query: &impl Query, name: &str, default: i64) -> Read<i64> {
    match query.parameter(name) {
        "" => Ok(default),
        text => text
            .parse()
            .ok()
            .filter(|it| *it >= 0)
            .ok_or_else(|| BadQuery(format!("invalid `{name}`: expected a whole number of milliseconds"))),
    }
}

/// `true`, `false`, or nothing, which is false.
pub(crate) fn flag(query: &impl Query, name: &str) -> Read<bool> {
    match query.parameter(name) {
        "" | "false" => Ok(false),
        "true" => Ok(true),
        _ => Err(BadQuery(format!("invalid `{name}`: expected true or false"))),
    }
}

/// `limit` of a list by cursor: 100 unless given.
pub(crate) fn limit(query: &impl Query) -> Read<i64> {
    digits(query, "limit", 100, 1, 500)
}

/// The cursor of the next part of a list; `None` after the last.
pub fn next<T>(listed: &[T], limit: i64, cursor: impl Fn(&T) -> String) -> Option<String> {
    listed.last().filter(|_| listed.len() as i64 == limit).map(cursor)
}
