//! First guesses of people who know another rate limiter, and the names here.

use tollgate_human_text::unit_by_other_name;

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
    unit_by_other_name(text).map(|unit| format!("did you mean {}?", unit.name))
}

/// `did you mean token_bucket?` for another name of an algorithm.
pub(super) fn algorithm(text: &str) -> Option<String> {
    named(text, &ALGORITHMS)
}

/// Remedy for a key of a limit that other rate limiters have.
pub(super) fn limit_key(name: &str) -> Option<String> {
    if NUMBERS.contains(&name) {
        return Some("write rate: 100/s, or requests_per_unit and a unit".to_owned());
    }
    TIMES.contains(&name).then(|| "write unit: minute, or period: 10s".to_owned())
}

fn named(text: &str, names: &[(&str, &str)]) -> Option<String> {
    let (_, name) = names.iter().find(|(other, _)| other.eq_ignore_ascii_case(text))?;
    Some(format!("did you mean {name}?"))
}
