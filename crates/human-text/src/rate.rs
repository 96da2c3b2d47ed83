//! Rates as people write them: `100/s`, `5/minute burst 20`, `300/3h`.
//!
//! Not here: which algorithm counts them, and the largest numbers that it takes.

use std::time::Duration;

use crate::duration::parse_duration;

/// A rate: the number, the period, and the burst if the text names one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Permits per period.
    pub permits: u64,
    /// Over what period.
    pub per: Per,
    /// The most at once.
    pub burst: Option<u64>,
}

/// Over what period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// A unit, which has a calendar.
    Unit(PerUnit),
    /// Any other length.
    Span(Duration),
}

/// A unit of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerUnit {
    /// Its name in rule files: `second`, `minute`, `hour`, `day`, `week`, `month` or `year`.
    pub name: &'static str,
    /// How long it is: 30 days for a month, 365 days for a year.
    pub length: Duration,
}

impl Per {
    /// How long the period is.
    #[must_use]
    pub const fn length(self) -> Duration {
        match self {
            Self::Unit(unit) => unit.length,
            Self::Span(length) => length,
        }
    }
}

/// Each unit with its seconds, and its other names.
const UNITS: [(&str, u64, &[&str]); 7] = [
    ("second", 1, &["s", "sec", "secs"]),
    ("minute", 60, &["m", "min", "mins", "minutely"]),
    ("hour", 3_600, &["h", "hr", "hrs", "hourly"]),
    ("day", 86_400, &["d", "daily"]),
    ("week", 604_800, &["w", "wk", "weekly"]),
    ("month", 2_592_000, &["mo", "mon", "monthly"]),
    ("year", 31_536_000, &["y", "yr", "yearly", "annual"]),
];

/// The unit that has `text` for a name or for another name, in any letter case.
fn unit(text: &str, names: impl Fn(&(&'static str, u64, &[&str]), &str) -> bool) -> Option<PerUnit> {
    let text = text.to_ascii_lowercase();
    let (name, seconds, _) = UNITS.iter().find(|unit| names(unit, &text))?;
    Some(PerUnit { name, length: Duration::from_secs(*seconds) })
}

/// The unit that others call `text`, and rule files do not: `min`, `hourly`.
///
/// # Example
/// ```
/// # use tollgate_human_text::unit_by_other_name;
/// assert_eq!(unit_by_other_name("Min").map(|unit| unit.name), Some("minute"));
/// assert_eq!(unit_by_other_name("minute"), None);
/// ```
#[must_use]
pub fn unit_by_other_name(text: &str) -> Option<PerUnit> {
    unit(text, |(_, _, others), text| others.contains(&text))
}

/// A unit by its name or another one, in the singular or the plural.
fn unit_by_any_name(text: &str) -> Option<PerUnit> {
    unit_by_other_name(text)
        .or_else(|| unit(text, |(name, ..), text| *name == text.strip_suffix('s').unwrap_or(text)))
}

/// Reads `NUMBER/PERIOD`, and ` burst NUMBER` after it. The period is a unit or a
/// [duration](parse_duration).
///
/// # Example
/// ```
/// # use std::time::Duration;
/// # use tollgate_human_text::parse_rate;
/// let rate = parse_rate("5/minute burst 20").expect("a rate");
/// assert_eq!((rate.permits, rate.per.length(), rate.burst), (5, Duration::from_secs(60), Some(20)));
/// assert_eq!(parse_rate("fast"), None);
/// ```
#[must_use]
pub fn parse_rate(text: &str) -> Option<Rate> {
    let (rate, burst) = match text.split_once(" burst ") {
        Some((rate, burst)) => (rate, Some(whole_number(burst.trim())?)),
        None => (text, None),
    };
    let (number, period) = rate.split_once('/')?;
    let permits = whole_number(number.trim())?;
    let period = period.trim();
    let per = match unit_by_any_name(period) {
        Some(unit) => Per::Unit(unit),
        None => Per::Span(parse_duration(period)?),
    };
    Some(Rate { permits, per, burst })
}

/// A rate as others write it, as [`parse_rate`] reads it: `10r/s`, `5 requests per minute`, `10/s, burst=20`.
///
/// # Example
/// ```
/// # use tollgate_human_text::rate_meant_by;
/// assert_eq!(rate_meant_by("10r/s").as_deref(), Some("10/s"));
/// assert_eq!(rate_meant_by("fast"), None);
/// ```
#[must_use]
pub fn rate_meant_by(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase().replace(" per ", "/").replace([',', '='], " ");
    let mut words: Vec<&str> = lower.split_whitespace().collect();
    let burst = match words.as_slice() {
        [.., name, burst] if *name == "burst" => Some((*burst).to_owned()),
        _ => None,
    };
    if burst.is_some() {
        words.truncate(words.len() - 2);
    }
    let rate = words.concat();
    let (number, period) = rate.split_once('/')?;
    let number = number.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let burst = burst.map_or_else(String::new, |burst| format!(" burst {burst}"));
    let meant = format!("{number}/{period}{burst}");
    parse_rate(&meant).map(|_| meant)
}

/// Decimal with `_` between digits, or `0x`, `0o`, `0b`. No leading zero, which some readers take as octal.
///
/// # Example
/// ```
/// # use tollgate_human_text::whole_number;
/// assert_eq!((whole_number("1_000"), whole_number("0x10")), (Some(1_000), Some(16)));
/// assert_eq!(whole_number("010"), None);
/// ```
#[must_use]
pub fn whole_number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.get(..2) {
        Some("0x") => (&text[2..], 16),
        Some("0o") => (&text[2..], 8),
        Some("0b") => (&text[2..], 2),
        _ => (text, 10),
    };
    let starts_with_digit = digits.starts_with(|c: char| c.is_digit(radix));
    let digits = digits.replace('_', "");
    if !starts_with_digit || (radix == 10 && digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    u64::from_str_radix(&digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_a_period_and_perhaps_a_burst() {
        let unit = |permits, name, burst| Some((permits, Some(name), None, burst));
        let span = |permits, seconds| Some((permits, None, Some(Duration::from_secs(seconds)), None));
        for (text, want) in [
            ("100/s", unit(100, "second", None)),
            ("100 / second", unit(100, "second", None)),
            ("5/minute burst 20", unit(5, "minute", Some(20))),
            ("1_000/h", unit(1_000, "hour", None)),
            ("7/Days", unit(7, "day", None)),
            ("2/w", unit(2, "week", None)),
            ("2/month", unit(2, "month", None)),
            ("2/y", unit(2, "year", None)),
            ("0/s", unit(0, "second", None)),
            ("300/3h", span(300, 10_800)),
            ("1/1m30s", span(1, 90)),
            ("4294967296/s", unit(4_294_967_296, "second", None)),
            ("100", None),
            ("100/", None),
            ("/s", None),
            ("100/fortnight", None),
            ("1.5/s", None),
            ("-1/s", None),
            ("100r/s", None),
            ("99999999999999999999/s", None),
            ("5/minute burst", None),
            ("5/minute burst x", None),
            ("5/minute burst 99999999999999999999", None),
            ("5/minute burst 1 burst 2", None),
            ("5/minute 20", None),
        ] {
            let read = parse_rate(text).map(|rate| match rate.per {
                Per::Unit(unit) => (rate.permits, Some(unit.name), None, rate.burst),
                Per::Span(span) => (rate.permits, None, Some(span), rate.burst),
            });
            assert_eq!(read, want, "{text}");
        }
    }

    #[test]
    fn a_rate_of_another_rate_limiter_is_written_as_one_of_this() {
        for (text, want) in [
            ("10r/s", Some("10/s")),
            ("30 requests per minute", Some("30/minute")),
            ("10/s, burst=20", Some("10/s burst 20")),
            ("10r/s burst=5", Some("10/s burst 5")),
            ("5 PER MINUTE", Some("5/minute")),
            ("fast", None),
            ("r/s", None),
        ] {
            assert_eq!(rate_meant_by(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn whole_numbers_have_no_second_meaning() {
        for (text, want) in [
            ("0", Some(0)),
            ("4294967295", Some(4_294_967_295)),
            ("1_000", Some(1_000)),
            ("0x10", Some(16)),
            ("0o17", Some(15)),
            ("0b11", Some(3)),
            ("010", None),
            ("-1", None),
            ("+1", None),
            ("_1", None),
            ("0x", None),
            ("1.0", None),
            ("ten", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(whole_number(text), want, "{text:?}");
        }
    }
}
