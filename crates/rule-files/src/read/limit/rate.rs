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
        let rate = match parse(&scalar.text) {
            Ok(rate) => rate,
            Err(bad) => {
                let hint = match (bad, meant(&scalar.text)) {
                    (Bad::Number, _) => format!("the largest number is {}", u32::MAX),
                    (Bad::Burst, _) => format!("the largest burst is {}", Quota::LARGEST_LIMIT),
                    (Bad::Form, Some(meant)) => format!("write {meant}"),
                    (Bad::Form, None) => WANTED.to_owned(),
                };
                self.notes.fault(node.pos, here, format!("invalid rate {}: {hint}", quoted(scalar)));
                return Err(());
            }
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

/// What is wrong with a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bad {
    Form,
    /// The number is too large.
    Number,
    /// The burst is too large.
    Burst,
}

/// `NUMBER/PERIOD`, and ` burst NUMBER` after it, in any letter case.
fn parse(text: &str) -> Result<Rate, Bad> {
    let at = text.to_ascii_lowercase().find(" burst ");
    let (rate, burst) = at.map_or((text, None), |at| (&text[..at], Some(&text[at + " burst ".len()..])));
    let (number, period) = rate.split_once('/').ok_or(Bad::Form)?;
    let number = whole(number.trim())?.ok_or(Bad::Number)?;
    let period = period.trim();
    let per = match guesses::named_unit(period) {
        Some(unit) => Per::Unit(unit),
        None => Per::Span(parse_duration(period).ok_or(Bad::Form)?),
    };
    let burst = burst.map(|burst| {
        let burst = whole(burst.trim())?.ok_or(Bad::Burst)?;
        if burst > Quota::LARGEST_LIMIT { Err(Bad::Burst) } else { Ok(burst) }
    });
    let requests = u32::try_from(number).map_err(|_| Bad::Number)?;
    Ok(Rate { requests, per, burst: burst.transpose()? })
}

/// A whole number; `None` if it is larger than any that is counted with.
fn whole(text: &str) -> Result<Option<u64>, Bad> {
    let is_digits = !text.is_empty() && !text.starts_with('0') && text.bytes().all(|c| c.is_ascii_digit());
    match whole_number(text) {
        None if is_digits => Ok(None),
        number => number.map(Some).ok_or(Bad::Form),
    }
}

/// A rate as others write it, as it is written here: `10r/s`, `5 requests per minute`, `1k/s`,
/// `10/s, burst=20`.
fn meant(text: &str) -> Option<String> {
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
    parse(&meant).is_ok().then_some(meant)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_a_period_and_perhaps_a_burst() {
        let unit = |requests, unit, burst| Ok(Rate { requests, per: Per::Unit(unit), burst });
        let span = |requests, seconds| {
            Ok(Rate { requests, per: Per::Span(Duration::from_secs(seconds)), burst: None })
        };
        for (text, want) in [
            ("100/s", unit(100, Unit::Second, None)),
            ("100 / second", unit(100, Unit::Second, None)),
            ("5/minute burst 20", unit(5, Unit::Minute, Some(20))),
            ("5/Minute BURST 20", unit(5, Unit::Minute, Some(20))),
            ("1_000/h", unit(1_000, Unit::Hour, None)),
            ("7/Days", unit(7, Unit::Day, None)),
            ("2/w", unit(2, Unit::Week, None)),
            ("2/month", unit(2, Unit::Month, None)),
            ("2/y", unit(2, Unit::Year, None)),
            ("0/s", unit(0, Unit::Second, None)),
            ("300/3h", span(300, 10_800)),
            ("1/1m30s", span(1, 90)),
            ("100", Err(Bad::Form)),
            ("100/", Err(Bad::Form)),
            ("/s", Err(Bad::Form)),
            ("100/fortnight", Err(Bad::Form)),
            ("1.5/s", Err(Bad::Form)),
            ("-1/s", Err(Bad::Form)),
            ("100r/s", Err(Bad::Form)),
            ("4294967295/s", unit(u32::MAX, Unit::Second, None)),
            ("4294967296/s", Err(Bad::Number)),
            ("99999999999999999999999/s", Err(Bad::Number)),
            ("5/minute burst", Err(Bad::Form)),
            ("5/minute burst x", Err(Bad::Form)),
            ("5/minute burst 17179869182", unit(5, Unit::Minute, Some(Quota::LARGEST_LIMIT))),
            ("5/minute burst 17179869183", Err(Bad::Burst)),
            ("5/minute burst 99999999999999999999999", Err(Bad::Burst)),
            ("5/minute burst 1 burst 2", Err(Bad::Form)),
            ("5/minute 20", Err(Bad::Form)),
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
            ("1k/s", Some("1000/s")),
            ("1.5k/s burst 2K", Some("1500/s burst 2000")),
            ("2M/day", Some("2000000/day")),
            ("1,000/s, burst=2,000", Some("1000/s burst 2000")),
            ("1,000 requests per second", Some("1000/second")),
            ("10/s,burst 5", Some("10/s burst 5")),
            ("1.5/s", None),
            ("1.0005k/s", None),
            ("5G/s", None),
            ("10q/s", None),
            ("fast", None),
            ("r/s", None),
        ] {
            assert_eq!(meant(text).as_deref(), want, "{text}");
        }
    }
}
