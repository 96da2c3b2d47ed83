//! Limits in words, for people.

use std::fmt;
use std::time::Duration;

use tollgate_core::{Algorithm, Align, LeakyForm, Period, Refill};

use crate::rule::Limit;

/// What stands between the levels of a rule's path, such as `api_key → plan=gold`.
pub const LEVEL: &str = " → ";

/// `5 per minute, fixed_window`, after its name and before the parameters that are not the default.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            write!(f, "{}: ", self.name)?;
        }
        write!(f, "{} ", self.requests_per_unit)?;
        let algorithm = self.quota.algorithm();
        match self.unit {
            _ if matches!(algorithm, Algorithm::Total) => write!(f, "in all")?,
            Some(unit) => write!(f, "per {}", unit.name())?,
            None => write!(f, "per {}", span(self.period))?,
        }
        write!(f, ", {}", algorithm.name())?;
        for parameter in parameters(algorithm) {
            write!(f, ", {parameter}")?;
        }
        if let Period::Civil { time_zone, .. } = self.quota.period()
            && let Some(name) = time_zone.iana_name()
        {
            write!(f, ", time_zone {name}")?;
        }
        Ok(())
    }
}

/// `10s`, `90m` or whatever unit is whole.
#[must_use]
pub fn span(period: Duration) -> String {
    let nanos = period.as_nanos();
    for (unit, length) in [("d", 86_400_000_000_000), ("h", 3_600_000_000_000), ("m", 60_000_000_000)] {
        if nanos > 0 && nanos.is_multiple_of(length) {
            return format!("{}{unit}", nanos / length);
        }
    }
    format!("{period:?}")
}

fn parameters(algorithm: &Algorithm) -> Vec<String> {
    let mut said = Vec::new();
    match algorithm {
        Algorithm::FixedWindow { align: Align::FirstHit } => said.push("align first_hit".to_owned()),
        Algorithm::SlidingWindow { cells } => said.push(format!("cells {cells}")),
        Algorithm::SlidingWindowLog { log_denied: true } => said.push("log_denied".to_owned()),
        Algorithm::TokenBucket { burst, initial, overdraft, refill } => {
            said.extend(burst.map(|burst| format!("burst {burst}")));
            said.extend(initial.map(|initial| format!("initial {initial}")));
            said.extend((*overdraft > 0).then(|| format!("overdraft {overdraft}")));
            said.extend((*refill == Refill::Interval).then(|| "refill interval".to_owned()));
        }
        Algorithm::LeakyBucket { capacity, form } => {
            said.extend(capacity.map(|capacity| format!("capacity {capacity}")));
            if let LeakyForm::Queue { delay_after } = form {
                said.push("form queue".to_owned());
                said.extend((*delay_after > 0).then(|| format!("delay_after {delay_after}")));
            }
        }
        _ => {}
    }
    said
}
