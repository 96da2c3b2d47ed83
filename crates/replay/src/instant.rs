//! Times as logs write them, in nanoseconds since 1970, or since the trace began where it counts from there.

use std::str::FromStr;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Millis,
    Micros,
    Nanos,
}

impl Unit {
    pub(crate) const NAMES: [&'static str; 4] = ["s", "ms", "us", "ns"];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "s" => Self::Seconds,
            "ms" => Self::Millis,
            "us" => Self::Micros,
            "ns" => Self::Nanos,
            _ => return None,
        })
    }

    /// The unit that a field's name ends in, as in `t_us`.
    pub(crate) fn of_field(field: &str) -> Option<Self> {
        field.rsplit_once('_').and_then(|(_, unit)| Self::named(unit))
    }

    /// Of a number of today's size: seconds have ten digits, and each finer unit three more.
    const fn of_size(whole: u64) -> Self {
        match whole {
            ..100_000_000_000 => Self::Seconds,
            100_000_000_000..100_000_000_000_000 => Self::Millis,
            100_000_000_000_000..100_000_000_000_000_000 => Self::Micros,
            _ => Self::Nanos,
        }
    }

    const fn nanos(self) -> u64 {
        match self {
            Self::Seconds => 1_000_000_000,
            Self::Millis => 1_000_000,
            Self::Micros => 1_000,
            Self::Nanos => 1,
        }
    }
}

/// Reads times, and remembers the last: a log has many in a row that are equal.
#[derive(Debug, Default)]
pub(crate) struct Instants {
    last: Option<(String, u64)>,
}

impl Instants {
    /// The time that `text` names: a number in `unit`, an RFC 3339 time, or that of the common log format.
    pub(crate) fn read(&mut self, text: &str, unit: Option<Unit>) -> Option<u64> {
        if let Some((last, ns)) = &self.last
            && last == text
        {
            return Some(*ns);
        }
        let ns = read(text, unit)?;
        match &mut self.last {
            Some((last, at)) => {
                last.clear();
                last.push_str(text);
                *at = ns;
            }
            None => self.last = Some((text.to_owned(), ns)),
        }
        Some(ns)
    }
}

fn read(text: &str, unit: Option<Unit>) -> Option<u64> {
    if !text.starts_with('+')
        && let Ok(whole) = text.parse::<u64>()
    {
        return whole.checked_mul(unit.unwrap_or(Unit::of_size(whole)).nanos());
    }
    let text = text.trim().trim_start_matches('[').trim_end_matches(']');
    let bytes = text.as_bytes();
    if bytes.get(2) == Some(&b'/') {
        return common(text);
    }
    if bytes.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') {
        return number(text, unit);
    }
    let instant = jiff::Timestamp::from_str(text).ok()?;
    u64::try_from(instant.as_nanosecond()).ok()
}

/// A decimal number, exactly.
fn number(text: &str, unit: Option<Unit>) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = whole.parse().ok()?;
    let per_unit = unit.unwrap_or(Unit::of_size(whole)).nanos();
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (mut place, mut nanos) = (per_unit, 0);
    for digit in fraction.bytes() {
        place /= 10;
        nanos += u64::from(digit - b'0') * place;
    }
    whole.checked_mul(per_unit)?.checked_add(nanos)
}

/// `10/Oct/2000:13:55:36 -0700`
fn common(text: &str) -> Option<u64> {
    let (date, zone) = text.split_once(' ').unwrap_or((text, "+0000"));
    let mut parts = date.split(['/', ':']);
    let mut next = || parts.next();
    let day: i8 = next()?.parse().ok()?;
    let month = match next()? {
        "Jan" => 1,
        "Feb" => 2,
        "Mar" => 3,
        "Apr" => 4,
        "May" => 5,
        "Jun" => 6,
        "Jul" => 7,
        "Aug" => 8,
        "Sep" => 9,
        "Oct" => 10,
        "Nov" => 11,
        "Dec" => 12,
        _ => return None,
    };
    let year: i16 = next()?.parse().ok()?;
    let (hour, minute, second) = (next()?.parse().ok()?, next()?.parse().ok()?, next()?.parse::<i8>().ok()?);
    if next().is_some() {
        return None;
    }
    let civil = jiff::civil::DateTime::new(year, month, day, hour, minute, second.min(59), 0).ok()?;
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = digits.split_at_checked(2)?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let local = civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second();
    let seconds = local.checked_sub(sign * (hours * 3_600 + minutes * 60))?;
    u64::try_from(seconds).ok()?.checked_mul(1_000_000_000)
}

/// A time for people: of today in UTC, of a trace that counts from its beginning in seconds.
pub(crate) fn show(ns: u64) -> String {
    let (seconds, nanos) = (ns / 1_000_000_000, ns % 1_000_000_000);
    if seconds >= 100_000_000
        && let Ok(instant) = jiff::Timestamp::from_nanosecond(i128::from(ns))
    {
        return instant.to_string();
    }
    let fraction = format!("{nanos:09}");
    match fraction.trim_end_matches('0') {
        "" => format!("{seconds} s"),
        fraction => format!("{seconds}.{fraction} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_to_the_nanosecond() {
        for (text, unit, want) in [
            ("10/Oct/2000:13:55:36 -0700", None, Some(971_211_336_000_000_000)),
            ("[10/Oct/2000:13:55:36 -0700]", None, Some(971_211_336_000_000_000)),
            ("2000-10-10T20:55:36.000000001Z", None, Some(971_211_336_000_000_001)),
            ("971211336", None, Some(971_211_336_000_000_000)),
            ("971211336.25", None, Some(971_211_336_250_000_000)),
            ("971211336250", None, Some(971_211_336_250_000_000)),
            ("971211336250000", None, Some(971_211_336_250_000_000)),
            ("1.5", Some(Unit::Micros), Some(1_500)),
            ("1.0000000001", Some(Unit::Seconds), Some(1_000_000_000)),
            ("99999999999999999999", None, None),
            ("18446744073710", Some(Unit::Seconds), None),
            ("1.2.3", None, None),
            ("", None, None),
            ("-5", None, None),
            ("31/Feb/2000:13:55:36 +0000", None, None),
            ("10/Oct/2000:13:55:36 0700", None, None),
            ("10/Oct/2000", None, None),
            ("1960-01-01T00:00:00Z", None, None),
        ] {
            assert_eq!(Instants::default().read(text, unit), want, "{text}");
        }
        assert_eq!(Unit::of_field("t_us"), Some(Unit::Micros));
        assert_eq!(Unit::of_field("start_time"), None);
    }

    #[test]
    fn times_are_shown_as_they_are() {
        assert_eq!(show(971_211_336_250_000_000), "2000-10-10T20:55:36.25Z");
        assert_eq!(show(61_500_000_000), "61.5 s");
        assert_eq!(show(0), "0 s");
    }
}
