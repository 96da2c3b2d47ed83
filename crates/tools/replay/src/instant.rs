//! Times as logs write them, in nanoseconds since 1970, or since the trace began where it counts from there.

use std::str::FromStr;

/// Unit of a time that is a number.
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

    /// The unit of a number of today's size: seconds have ten digits, and each finer unit three more.
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
    if let Some(ns) = iso(bytes) {
        return Some(ns);
    }
    let instant = jiff::Timestamp::from_str(text).ok()?;
    u64::try_from(instant.as_nanosecond()).ok()
}

/// `2000-10-10T20:55:36.25Z`, or with a space in place of the T, or with an offset. Without either it is UTC.
/// Other forms of RFC 3339 and its relatives are read by jiff, which takes five times as long.
fn iso(text: &[u8]) -> Option<u64> {
    let two = |at: usize| digits(text.get(at..at + 2)?);
    let is_at = |at: usize, any: &[u8]| text.get(at).filter(|byte| any.contains(byte)).map(|_| ());
    is_at(4, b"-").and(is_at(7, b"-")).and(is_at(10, b"T t")).and(is_at(13, b":")).and(is_at(16, b":"))?;
    let year = digits(text.get(..4)?)?;
    let local = seconds(year, two(5)?, two(8)?, two(11)?, two(14)?, two(17)?)?;
    let mut rest = text.get(19..)?;
    let mut nanos = 0;
    if let Some((b'.' | b',', fraction)) = rest.split_first() {
        let count = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut place = 1_000_000_000;
        for digit in fraction.get(..count).filter(|digits| !digits.is_empty())? {
            place /= 10;
            nanos += u64::from(digit - b'0') * place;
        }
        rest = fraction.get(count..)?;
    }
    since_1970(local, offset(rest)?, nanos)
}

/// Seconds east of Greenwich: `Z`, `+02:00`, `-0700`, or nothing, which is UTC.
fn offset(zone: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match *zone {
        [] | [b'Z' | b'z'] => return Some(0),
        [sign, a, b, b':', c, d] | [sign, a, b, c, d] => (sign, digits(&[a, b])?, digits(&[c, d])?),
        _ => return None,
    };
    let east = hours * 3_600 + minutes * 60;
    match sign {
        _ if hours > 23 || minutes > 59 => None,
        b'+' => Some(east),
        b'-' => Some(-east),
        _ => None,
    }
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}

/// Seconds from 1970 to a civil time; a leap second is the one before it.
fn seconds(year: i64, month: i64, day: i64, hour: i64, minute: i64, second: i64) -> Option<i64> {
    let small = |number: i64| i8::try_from(number).ok();
    let date = jiff::civil::Date::new(i16::try_from(year).ok()?, small(month)?, small(day)?).ok()?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let days = i64::from(date.day_of_year()) - 1 + days_before(year);
    Some(((days * 24 + hour) * 60 + minute) * 60 + second.min(59))
}

/// Days from 1970 to the beginning of a year.
const fn days_before(year: i64) -> i64 {
    let years = year + 399; // so that no division is of a negative number
    years * 365 + years / 4 - years / 100 + years / 400 - 865_259
}

fn since_1970(local: i64, offset: i64, nanos: u64) -> Option<u64> {
    let seconds = u64::try_from(local.checked_sub(offset)?).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// A decimal number, exactly.
fn number(text: &str, unit: Option<Unit>) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = whole.parse().ok()?;
    let per_unit = unit.unwrap_or(Unit::of_size(whole)).nanos();
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut place = per_unit;
    let mut nanos = 0;
    for digit in fraction.bytes() {
        place /= 10;
        nanos += u64::from(digit - b'0') * place;
    }
    whole.checked_mul(per_unit)?.checked_add(nanos)
}

/// `10/Oct/2000:13:55:36 -0700`, also with a fraction of the second.
fn common(text: &str) -> Option<u64> {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let bytes = text.as_bytes();
    let (date, rest) = bytes.split_at_checked(20)?;
    let two = |at: usize| digits(date.get(at..at + 2)?);
    let is = |at: usize, byte: u8| date.get(at) == Some(&byte);
    if !(is(2, b'/') && is(6, b'/') && is(11, b':') && is(14, b':') && is(17, b':')) {
        return None;
    }
    let name = date.get(3..6)?;
    let month = MONTHS.chunks_exact(3).position(|month| month == name)? as i64 + 1;
    let year = digits(date.get(7..11)?)?;
    let local = seconds(year, month, two(0)?, two(12)?, two(15)?, two(18)?)?;
    let (fraction, zone) = match rest.split_first() {
        Some((b'.', rest)) => rest.split_at(rest.iter().take_while(|byte| byte.is_ascii_digit()).count()),
        _ => (&[][..], rest),
    };
    let mut nanos = 0;
    let mut place = 1_000_000_000;
    for digit in fraction {
        place /= 10;
        nanos += u64::from(digit - b'0') * place;
    }
    let zone = match zone {
        [] => zone,
        [b' ', zone @ ..] if !zone.is_empty() => zone,
        _ => return None,
    };
    since_1970(local, offset(zone)?, nanos)
}

/// A time for people: of today in UTC, of a trace that counts from its beginning in seconds.
pub(crate) fn show(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let nanos = ns % 1_000_000_000;
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
    use proptest::prelude::*;

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
            // HAProxy has milliseconds; its log and some others have no zone, which is UTC.
            ("06/Feb/2009:12:14:14.655", None, Some(1_233_922_454_655_000_000)),
            ("06/Feb/2009:12:14:14.655 +0100", None, Some(1_233_918_854_655_000_000)),
            ("2023-11-16 18:15:46.6805900", None, Some(1_700_158_546_680_590_000)),
            ("2000-10-10T20:55:36+02:00", None, Some(971_204_136_000_000_000)),
            ("2000-10-10T20:55:36,5-0230", None, Some(971_220_336_500_000_000)),
            ("2000-10-10t20:55:36z", None, Some(971_211_336_000_000_000)),
            ("2000-10-10T20:55:36.25[UTC]", None, None),
            ("2000-10-10T20:55:36.25+00", None, Some(971_211_336_250_000_000)), // by jiff
            // The hour that clocks repeat in autumn is two hours, by their offsets.
            ("29/Oct/2000:02:30:00 +0200", None, Some(972_779_400_000_000_000)),
            ("29/Oct/2000:02:30:00 +0100", None, Some(972_783_000_000_000_000)),
            ("31/Dec/2016:23:59:60 +0000", None, Some(1_483_228_799_000_000_000)),
            ("2016-12-31T23:59:60Z", None, Some(1_483_228_799_000_000_000)),
            ("2016-12-31T23:59:61Z", None, None),
            ("2016-02-29T00:00:00Z", None, Some(1_456_704_000_000_000_000)),
            ("2100-02-29T00:00:00Z", None, None),
            ("0000-01-01T00:00:00Z", None, None),
            ("9999-12-31T23:59:59Z", None, None),
            ("2554-07-21T23:34:33Z", None, Some(18_446_744_073_000_000_000)),
            ("2554-07-21T23:34:34Z", None, None),
            ("01/Jan/0000:00:00:00 +0000", None, None),
            ("31/Dec/9999:23:59:59 +0000", None, None),
            ("1970-01-01T00:00:00+00:01", None, None),
            ("2000-10-10T24:00:00Z", None, None),
            ("2000-10-10T20:55:36+99:00", None, None),
            ("10/Oct/2000:13:55:36 -07é0", None, None),
            ("2000-10-1é", None, None),
        ] {
            assert_eq!(Instants::default().read(text, unit), want, "{text}");
        }
        assert_eq!(Unit::of_field("t_us"), Some(Unit::Micros));
        assert_eq!(Unit::of_field("start_time"), None);
    }

    proptest! {
        #[test]
        fn a_time_that_is_read_by_its_digits_is_the_one_of_the_calendar(
            at in 0_i64..18_446_744_073,
            nanos in 0_i32..1_000_000_000,
            east in -86_399_i32..86_400,
        ) {
            let east = east / 60 * 60;
            let want = u64::try_from(at).expect("positive") * 1_000_000_000
                + u64::try_from(nanos).expect("positive");
            let zone = jiff::tz::Offset::from_seconds(east).expect("an offset").to_time_zone();
            let zoned = jiff::Timestamp::new(at, nanos).expect("a time").to_zoned(zone);
            for form in ["%Y-%m-%dT%H:%M:%S.%9f%:z", "%Y-%m-%d %H:%M:%S.%9f%z", "%d/%b/%Y:%H:%M:%S.%9f %z"] {
                let text = zoned.strftime(form).to_string();
                prop_assert_eq!(Instants::default().read(&text, None), Some(want), "{}", text);
            }
        }
    }

    #[test]
    fn times_are_shown_as_they_are() {
        assert_eq!(show(971_211_336_250_000_000), "2000-10-10T20:55:36.25Z");
        assert_eq!(show(61_500_000_000), "61.5 s");
        assert_eq!(show(0), "0 s");
    }
}
