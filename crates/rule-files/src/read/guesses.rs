//! What people who know another rate limiter write first, and what it is called here.

use tollgate_policy::Unit;

use crate::yaml_tree::{Kind, Node};

/// Other names of units.
const UNITS: [(&str, &str); 23] = [
    ("s", "second"),
    ("sec", "second"),
    ("secs", "second"),
    ("m", "minute"),
    ("min", "minute"),
    ("mins", "minute"),
    ("minutely", "minute"),
    ("h", "hour"),
    ("hr", "hour"),
    ("hrs", "hour"),
    ("hourly", "hour"),
    ("d", "day"),
    ("daily", "day"),
    ("w", "week"),
    ("wk", "week"),
    ("weekly", "week"),
    ("mo", "month"),
    ("mon", "month"),
    ("monthly", "month"),
    ("y", "year"),
    ("yr", "year"),
    ("yearly", "year"),
    ("annual", "year"),
];

/// Other names of algorithms.
const ALGORITHMS: [(&str, &str); 10] = [
    ("gcra", "token_bucket"),
    ("token", "token_bucket"),
    ("bucket", "token_bucket"),
    ("leaky", "leaky_bucket"),
    ("fixed", "fixed_window"),
    ("window", "fixed_window"),
    ("sliding", "sliding_window"),
    ("rolling", "sliding_window"),
    ("rolling_window", "sliding_window"),
    ("moving_window", "sliding_window"),
];

/// Keys of other rate limiters for the number, and for the time.
const NUMBERS: [&str; 6] = ["requests", "count", "max", "max_requests", "rps", "rpm"];
const TIMES: [&str; 6] = ["window", "interval", "per", "duration", "seconds", "period_seconds"];

/// `did you mean minute?` for another name of a unit.
pub(super) fn unit(text: &str) -> Option<String> {
    named(text, &UNITS)
}

/// `did you mean token_bucket?` for another name of an algorithm.
pub(super) fn algorithm(text: &str) -> Option<String> {
    named(text, &ALGORITHMS)
}

/// What to write in place of a key of a limit that other rate limiters have.
pub(super) fn limit_key(name: &str, value: &Node) -> Option<String> {
    if name == "rate" {
        return Some(rate(value).map_or_else(
            || "write requests_per_unit: 10 and unit: second for ten per second".to_owned(),
            |(number, unit)| format!("write requests_per_unit: {number} and unit: {}", unit.name()),
        ));
    }
    if NUMBERS.contains(&name) {
        return Some("write requests_per_unit and a unit".to_owned());
    }
    TIMES.contains(&name).then(|| "write unit: minute, or period: 10s".to_owned())
}

/// What to write in place of a key of a descriptor that other rate limiters have.
pub(super) fn descriptor_key(name: &str, value: &Node) -> Option<String> {
    let (number, unit) =
        if name == "rate" { rate(value).unwrap_or((10, Unit::Second)) } else { return None };
    Some(format!("write rate_limit: {{requests_per_unit: {number}, unit: {}}}", unit.name()))
}

fn named(text: &str, names: &[(&str, &str)]) -> Option<String> {
    let (_, name) = names.iter().find(|(other, _)| other.eq_ignore_ascii_case(text))?;
    Some(format!("did you mean {name}?"))
}

/// `10r/s`, `100/minute`: as nginx and others write a rate.
fn rate(value: &Node) -> Option<(u64, Unit)> {
    let Kind::Scalar(scalar) = &value.kind else { return None };
    let (number, period) = scalar.text.split_once('/')?;
    let number = number.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let period = period.trim().to_ascii_lowercase();
    let other = UNITS.iter().find(|(other, _)| *other == period).map(|(_, name)| *name);
    let name = other.unwrap_or(period.strip_suffix('s').unwrap_or(&period));
    Some((number.parse().ok()?, Unit::ALL.into_iter().find(|unit| unit.name() == name)?))
}
