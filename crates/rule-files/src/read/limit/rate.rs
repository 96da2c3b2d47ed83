//! `rate: 100/s`, `rate: 5/minute burst 20`: the number, the period and the burst in one text.
//!
//! It means exactly what the keys `requests_per_unit`, `unit` (or `period`) and, with a burst,
//! `algorithm: token_bucket` and `burst` mean. Not here: what they mean.

use std::time::Duration;

use tollgate_core::Quota;
use tollgate_human_text::parse_duration;
use tollgate_policy::Unit;

use crate::read::guesses;
use crate::read::path::Path;
use crate::read::reader::{Fields, Reader};
use crate::read::scalar::{quoted, whole_number};

const WANTED: &str = "expected something like 100/s, 5/minute burst 20 or 300/3h";

/// What a rate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) requests: u32,
    pub(super) per: Per,
    pub(super) burst: Option<u64>,
}

/// Over what period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Per {
    Unit(Unit),
    Span(Duration),
}

impl Reader<'_> {
    /// The rate; `Ok(None)` if there is none, `Err` if it is faulty, which is noted.
    pub(super) fn rate(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> Result<Option<Rate>, ()> {
        let Some(node) = fields.get("rate") else { return Ok(None) };
        let here = path.key("rate");
        let scalar = self.scalar(node, &here, "a rate such as 100/s").ok_or(())?;
        let Some(rate) = parse(&scalar.text) else {
            let hint =
                meant(&scalar.text).map_or_else(|| WANTED.to_owned(), |meant| format!("write {meant}"));
            self.notes.fault(node.pos, here, format!("invalid rate {}: {hint}", quoted(scalar)));
            return Err(());
        };
        let mut said = vec!["requests_per_unit", "limit", "unit", "unit_multiplier", "period"];
        if rate.burst.is_some() {
            said.push("burst");
        }
        for name in said {
            if fields.get(name).is_some() {
                let message = "is in rate already; keep one of the two";
                self.notes.fault(fields.pos_of(name), path.key(name), message);
            }
        }
        Ok(Some(rate))
    }
}

/// `NUMBER/PERIOD`, and ` burst NUMBER` after it.
fn parse(text: &str) -> Option<Rate> {
    let (rate, burst) = match text.split_once(" burst ") {
        Some((rate, burst)) => {
            (rate, Some(whole_number(burst.trim()).filter(|it| *it <= Quota::LARGEST_LIMIT)?))
        }
        None => (text, None),
    };
    let (number, period) = rate.split_once('/')?;
    let requests = u32::try_from(whole_number(number.trim())?).ok()?;
    let period = period.trim();
    let per = match guesses::named_unit(period) {
        Some(unit) => Per::Unit(unit),
        None => Per::Span(parse_duration(period)?),
    };
    Some(Rate { requests, per, burst })
}

/// A rate as others write it, as it is written here: `10r/s`, `5 requests per minute`, `10/s, burst=20`.
fn meant(text: &str) -> Option<String> {
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
    parse(&meant).map(|_| meant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_a_period_and_perhaps_a_burst() {
        let unit = |requests, unit, burst| Some(Rate { requests, per: Per::Unit(unit), burst });
        let span = |requests, seconds| {
            Some(Rate { requests, per: Per::Span(Duration::from_secs(seconds)), burst: None })
        };
        for (text, want) in [
            ("100/s", unit(100, Unit::Second, None)),
            ("100 / second", unit(100, Unit::Second, None)),
            ("5/minute burst 20", unit(5, Unit::Minute, Some(20))),
            ("1_000/h", unit(1_000, Unit::Hour, None)),
            ("7/Days", unit(7, Unit::Day, None)),
            ("2/w", unit(2, Unit::Week, None)),
            ("2/month", unit(2, Unit::Month, None)),
            ("2/y", unit(2, Unit::Year, None)),
            ("0/s", unit(0, Unit::Second, None)),
            ("300/3h", span(300, 10_800)),
            ("1/1m30s", span(1, 90)),
            ("100", None),
            ("100/", None),
            ("/s", None),
            ("100/fortnight", None),
            ("1.5/s", None),
            ("-1/s", None),
            ("100r/s", None),
            ("4294967296/s", None),
            ("5/minute burst", None),
            ("5/minute burst x", None),
            ("5/minute burst 9999999999999999999", None),
            ("5/minute burst 1 burst 2", None),
            ("5/minute 20", None),
        ] {
            assert_eq!(parse(text), want, "{text}");
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
            assert_eq!(meant(text).as_deref(), want, "{text}");
        }
    }
}
