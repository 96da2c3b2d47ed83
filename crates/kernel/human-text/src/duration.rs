//! Durations as people write them: `500ms`, `10s`, `1h30m`, `2w`.

use std::time::Duration;

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
    ("w", 604_800_000_000_000),
];

/// Reads whole numbers with a unit each, and adds them up. `None` for any other text and for durations above
/// 2^64 ns.
///
/// # Example
/// ```
/// # use std::time::Duration;
/// # use tollgate_human_text::parse_duration;
/// assert_eq!(parse_duration("1h30m"), Some(Duration::from_secs(5_400)));
/// assert_eq!(parse_duration("soon"), None);
/// ```
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (_, nanos) = UNITS.iter().find(|(unit, _)| *unit == &rest[..letters])?;
        total = total.checked_add(number.checked_mul(*nanos)?)?;
        rest = rest[letters..].trim_start();
    }
    Some(Duration::from_nanos(total))
}

/// The shortest text that means exactly `length`: one number and the largest unit that divides it.
///
/// # Example
/// ```
/// # use std::time::Duration;
/// # use tollgate_human_text::show_duration;
/// assert_eq!(show_duration(Duration::from_secs(5_400)), "90m");
/// ```
#[must_use]
pub fn show_duration(length: Duration) -> String {
    let nanos = length.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    let (unit, size) =
        UNITS.iter().rev().find(|(_, size)| nanos.is_multiple_of(u128::from(*size))).unwrap_or(&UNITS[0]);
    format!("{}{unit}", nanos / u128::from(*size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, want) in [
            ("500ms", Some(500_000_000)),
            ("10s", Some(10_000_000_000)),
            ("3h", Some(3 * 3_600_000_000_000)),
            ("1d", Some(86_400_000_000_000)),
            ("2w", Some(2 * 604_800_000_000_000)),
            ("1h30m", Some(5_400_000_000_000)),
            ("1 h 30 m", Some(5_400_000_000_000)),
            ("0s", Some(0)),
            ("", None),
            ("10", None),
            ("s", None),
            ("1.5s", None),
            ("-1s", None),
            ("10 minutes", None),
            ("99999999999999w", None),
        ] {
            assert_eq!(parse_duration(text), want.map(Duration::from_nanos), "{text:?}");
        }
    }

    #[test]
    fn a_duration_that_is_shown_reads_back_the_same() {
        for (nanos, want) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500_000_000, "1500ms"),
            (90_000_000_000, "90s"),
            (604_800_000_000_000, "1w"),
        ] {
            let length = Duration::from_nanos(nanos);
            assert_eq!(show_duration(length), want);
            assert_eq!(parse_duration(&show_duration(length)), Some(length));
        }
    }
}
