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
    /// The period in which the permits come back.
    pub per: Per,
    /// The most at once.
    pub burst: Option<u64>,
}

/// The period of a rate.
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
    /// Length of the unit: 30 days for a month, 365 days for a year.
    pub length: Duration,
}

impl Per {
    /// Length of the period.
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

/// Why a text is no rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotARate {
    /// It is not of the form of one.
    Form,
    /// Its number is too large.
    Number,
    /// Its burst is too large.
    Burst,
}

/// Reads `NUMBER/PERIOD`, and ` burst NUMBER` after it, in any letter case. The period is a unit or a
/// [duration](parse_duration).
///
/// # Errors
/// [`NotARate`]: which part is not as it must be.
///
/// # Example
/// ```
/// # use std::time::Duration;
/// # use tollgate_human_text::{NotARate, parse_rate};
/// let rate = parse_rate("5/minute burst 20").expect("a rate");
/// assert_eq!((rate.permits, rate.per.length(), rate.burst), (5, Duration::from_secs(60), Some(20)));
/// assert_eq!(parse_rate("fast"), Err(NotARate::Form));
/// ```
pub fn parse_rate(text: &str) -> Result<Rate, NotARate> {
    let at = text.to_ascii_lowercase().find(" burst ");
    let (rate, burst) = at.map_or((text, None), |at| (&text[..at], Some(&text[at + " burst ".len()..])));
    let (number, period) = rate.split_once('/').ok_or(NotARate::Form)?;
    let permits = number_of(number.trim(), NotARate::Number)?;
    let period = period.trim();
    let per = match unit_by_any_name(period) {
        Some(unit) => Per::Unit(unit),
        None => Per::Span(parse_duration(period).ok_or(NotARate::Form)?),
    };
    let burst = burst.map(|burst| number_of(burst.trim(), NotARate::Burst)).transpose()?;
    Ok(Rate { permits, per, burst })
}

/// A whole number; `too_large` where it is one beyond 64 bits.
fn number_of(text: &str, too_large: NotARate) -> Result<u64, NotARate> {
    let is_digits = !text.is_empty() && !text.starts_with('0') && text.bytes().all(|c| c.is_ascii_digit());
    whole_number(text).ok_or(if is_digits { too_large } else { NotARate::Form })
}

/// A rate as others write it, as [`parse_rate`] reads it: `10r/s`, `5 requests per minute`, `1k/s`,
/// `10/s, burst=20`.
///
/// # Example
/// ```
/// # use tollgate_human_text::rate_meant_by;
/// assert_eq!(rate_meant_by("10r/s").as_deref(), Some("10/s"));
/// assert_eq!(rate_meant_by("fast"), None);
/// ```
#[must_use]
pub fn rate_meant_by(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase().replace(" per ", "/").replace('=', " ");
    // A comma in front of three digits belongs to a number.
    let commas = lower.char_indices().filter(|&(at, c)| c == ',' && !is_thousands(&lower[at + 1..]));
    let mut words = lower.clone();
    commas.for_each(|(at, _)| words.replace_range(at..=at, " "));
    let mut words: Vec<&str> = words.split_whitespace().collect();
    let burst = match words.as_slice() {
        [.., name, burst] if *name == "burst" => Some(number_meant(burst)?),
        _ => None,
    };
    if burst.is_some() {
        words.truncate(words.len() - 2);
    }
    let rate = words.concat();
    let (number, period) = rate.split_once('/')?;
    let number = number_meant(number)?;
    let burst = burst.map_or_else(String::new, |burst| format!(" burst {burst}"));
    let meant = format!("{number}/{period}{burst}");
    parse_rate(&meant).is_ok().then_some(meant)
}

/// Whether three digits follow, and no fourth.
fn is_thousands(text: &str) -> bool {
    let digits = text.bytes().take(4).take_while(u8::is_ascii_digit).count();
    digits == 3
}

/// A number as others write it: `10r`, `10requests`, `1k`, `1.5k`, `2M`, `1,000`.
fn number_meant(text: &str) -> Option<u64> {
    let text = text.replace([',', '_'], "");
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let thousands = match unit {
        "k" | "kr" => 1,
        "m" | "mr" => 2,
        "g" | "b" => 3,
        "" | "r" | "x" | "req" | "reqs" | "request" | "requests" | "hit" | "hits" | "call" | "calls"
        | "time" | "times" | "permit" | "permits" | "token" | "tokens" => 0,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let zeros = (3 * thousands as usize).checked_sub(part.len())?;
    format!("{whole}{part}{}", "0".repeat(zeros)).parse().ok()
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
        let unit = |permits, name, burst| Ok((permits, Some(name), None, burst));
        let span = |permits, seconds| Ok((permits, None, Some(Duration::from_secs(seconds)), None));
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
            ("5/Minute BURST 20", unit(5, "minute", Some(20))),
            ("100", Err(NotARate::Form)),
            ("100/", Err(NotARate::Form)),
            ("/s", Err(NotARate::Form)),
            ("100/fortnight", Err(NotARate::Form)),
            ("1.5/s", Err(NotARate::Form)),
            ("-1/s", Err(NotARate::Form)),
            ("100r/s", Err(NotARate::Form)),
            ("99999999999999999999/s", Err(NotARate::Number)),
            ("5/minute burst", Err(NotARate::Form)),
            ("5/minute burst x", Err(NotARate::Form)),
            ("5/minute burst 99999999999999999999", Err(NotARate::Burst)),
            ("5/minute burst 1 burst 2", Err(NotARate::Form)),
            ("5/minute 20", Err(NotARate::Form)),
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
            ("1k/s", Some("1000/s")),
            ("1.5k/s burst 2K", Some("1500/s burst 2000")),
            ("2M/day", Some("2000000/day")),
            ("1,000/s, burst=2,000", Some("1000/s burst 2000")),
            ("1,000 requests per second", Some("1000/second")),
            ("10/s,burst 5", Some("10/s burst 5")),
            ("1.5/s", None),
            ("1.0005k/s", None),
            ("5G/s", Some("5000000000/s")),
            ("10q/s", None),
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
