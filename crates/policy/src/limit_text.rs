//! Limits as text for people.

use std::fmt;

use tollgate_core::{Algorithm, Align, LeakyForm, Period, Refill, Slots};
use tollgate_human_text::show_duration;

use crate::limit::Limit;

/// Separates the levels of a rule's path, such as `api_key → plan=gold`.
pub const PATH_SEPARATOR: &str = " → ";

/// `5 per minute, fixed_window`, after the name and before the parameters that differ from their default.
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
            None => write!(f, "per {}", show_duration(self.period))?,
        }
        write!(f, ", {}", algorithm.name())?;
        for parameter in parameters(algorithm) {
            write!(f, ", {parameter}")?;
        }
        if self.excess > 0 {
            write!(f, ", excess {}", self.excess)?;
        }
        if self.cost > 1 {
            write!(f, ", cost {}", self.cost)?;
        }
        if self.shadow {
            write!(f, ", shadow")?;
        }
        if let Period::Civil { time_zone, .. } = self.quota.period()
            && let Some(name) = time_zone.iana_name()
        {
            write!(f, ", time_zone {name}")?;
        }
        Ok(())
    }
}

/// `5 slots, concurrency, ttl 30s`.
pub(crate) fn slots_in_words(slots: &Slots) -> String {
    let plural = if slots.limit() == 1 { "slot" } else { "slots" };
    format!("{} {plural}, concurrency, ttl {}", slots.limit(), show_duration(slots.ttl()))
}

fn parameters(algorithm: &Algorithm) -> Vec<String> {
    let mut shown = Vec::new();
    match algorithm {
        Algorithm::FixedWindow { align: Align::FirstHit } => shown.push("align first_hit".to_owned()),
        Algorithm::SlidingWindow { cells } => shown.push(format!("cells {cells}")),
        Algorithm::SlidingWindowLog { log_denied: true } => shown.push("log_denied".to_owned()),
        Algorithm::TokenBucket { burst, initial, overdraft, refill } => {
            shown.extend(burst.map(|burst| format!("burst {burst}")));
            shown.extend(initial.map(|initial| format!("initial {initial}")));
            shown.extend((*overdraft > 0).then(|| format!("overdraft {overdraft}")));
            shown.extend((*refill == Refill::Interval).then(|| "refill interval".to_owned()));
        }
        Algorithm::PriorityBuckets { burst, weights, class } => {
            shown.extend(burst.map(|burst| format!("burst {burst}")));
            let (own, all) = (weights.get(*class).unwrap_or(&0), weights.iter().sum::<u32>());
            shown.push(format!("weight {own} of {all}"));
        }
        Algorithm::LeakyBucket { capacity, form } => {
            shown.extend(capacity.map(|capacity| format!("capacity {capacity}")));
            if let LeakyForm::Queue { delay_after } = form {
                shown.push("form queue".to_owned());
                shown.extend((*delay_after > 0).then(|| format!("delay_after {delay_after}")));
            }
        }
        Algorithm::WarmUp { warm_up, cold_factor } => {
            shown.push(format!("warm_up {}", show_duration(*warm_up)));
            shown.extend((*cold_factor != 3).then(|| format!("cold_factor {cold_factor}")));
        }
        Algorithm::SmoothBursty { burst } => shown.extend(burst.map(|burst| format!("burst {burst}"))),
        _ => {}
    }
    shown
}
