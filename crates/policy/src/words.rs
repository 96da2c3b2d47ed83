//! Limits in words, for people.

use std::fmt;

use tollgate_core::{Algorithm, Align, LeakyForm, Period, Refill};

use crate::read::duration::show as show_span;
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
            None => write!(f, "per {}", show_span(self.period))?,
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
