//! Lists by keyset: `limit`, `cursor`, and `next` of a reply.

use crate::web::{Failure, Visit};

/// `limit`, 100 unless given.
pub(crate) fn limit(visit: &Visit) -> Result<i64, Failure> {
    number(visit, "limit", 100, 1, 500)
}

/// A whole number of the query.
pub(crate) fn number(visit: &Visit, name: &str, default: i64, min: i64, max: i64) -> Result<i64, Failure> {
    let text = visit.parameter(name);
    if text.is_empty() {
        return Ok(default);
    }
    let bad = || {
        let most = if max == i64::MAX { String::new() } else { format!(" to {max}") };
        Failure::Bad(format!("invalid `{name}`: expected a whole number from {min}{most}"))
    };
    let is_digits = text.bytes().all(|it| it.is_ascii_digit());
    let number = is_digits.then(|| text.parse().ok()).flatten();
    number.filter(|it| (min..=max).contains(it)).ok_or_else(bad)
}

/// The cursor of the next part; `None` after the last.
pub(crate) fn next<T>(listed: &[T], limit: i64, cursor: impl Fn(&T) -> String) -> Option<String> {
    listed.last().filter(|_| listed.len() as i64 == limit).map(cursor)
}
