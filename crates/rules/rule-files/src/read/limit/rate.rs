//! `rate: 100/s`, `rate: 5/minute burst 20`: the number, the period and the burst in one text.
//!
//! It means exactly what the keys `requests_per_unit`, `unit` (or `period`) and, with a burst,
//! `algorithm: token_bucket` and `burst` mean. Not here: what they mean.

use std::time::Duration;

use tollgate_core::Quota;
use tollgate_human_text::{NotARate, Per as Period, parse_rate, rate_meant_by};
use tollgate_policy::Unit;

use crate::read::path::Path;
use crate::read::reader::{Fields, Reader};
use crate::read::scalar::quoted;

const WANTED: &str = "expected something like 100/s, 5/minute burst 20 or 300/3h";

/// A rate in one text, such as `100/s burst 20`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) requests: u64,
    pub(super) per: Per,
    pub(super) burst: Option<u64>,
}

/// The period in one of its forms.
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
            Err(fault) => {
                let meant = rate_meant_by(&scalar.text).filter(|meant| parse(meant).is_ok());
                let hint = match (fault, meant) {
                    (NotARate::Number, _) => format!("the largest number is {}", Quota::LARGEST_LIMIT),
                    (NotARate::Burst, _) => format!("the largest burst is {}", Quota::LARGEST_LIMIT),
                    (NotARate::Form, Some(meant)) => format!("write {meant}"),
                    (NotARate::Form, None) => WANTED.to_owned(),
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

/// A rate with numbers that rule files take.
fn parse(text: &str) -> Result<Rate, NotARate> {
    let rate = parse_rate(text)?;
    if rate.burst.is_some_and(|burst| burst > Quota::LARGEST_LIMIT) {
        return Err(NotARate::Burst);
    }
    let named = |name: &str| Unit::ALL.into_iter().find(|unit| unit.name() == name).ok_or(NotARate::Form);
    let per = match rate.per {
        Period::Unit(unit) => Per::Unit(named(unit.name)?),
        Period::Span(span) => Per::Span(span),
    };
    if rate.permits > Quota::LARGEST_LIMIT {
        return Err(NotARate::Number);
    }
    Ok(Rate { requests: rate.permits, per, burst: rate.burst })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_of_a_rate_is_one_of_rule_files_and_as_long() {
        for unit in Unit::ALL {
            let rate = parse_rate(&format!("1/{}", unit.name())).expect("a rate");
            assert_eq!(rate.per.length(), Duration::from_secs(unit.seconds()), "{}", unit.name());
            let want = Ok(Rate { requests: 1, per: Per::Unit(unit), burst: None });
            assert_eq!(parse(&format!("1/{}s", unit.name())), want);
        }
    }

    #[test]
    fn a_rate_has_numbers_that_rule_files_take() {
        for (text, fault) in [
            ("9007199254740990/d", None),
            ("9007199254740991/d", Some(NotARate::Number)),
            ("5/minute burst 9007199254740990", None),
            ("5/minute burst 9007199254740991", Some(NotARate::Burst)),
        ] {
            assert_eq!(parse(text).err(), fault, "{text}");
        }
    }
}
