//! Limits as text for people.

use std::fmt;

use tollgate_core::{Algorithm, Align, LeakyForm, LeavingCell, Period, Refill, Slots};
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
        write!(f, "{}, {}", hits_in_words(self), algorithm_in_words(self.quota.algorithm()))?;
        if self.excess > 0 {
            write!(f, ", excess {}", self.excess)?;
        }
        if self.cost > 1 {
            write!(f, ", cost {}", self.cost)?;
        }
        if let Some(bucket) = &self.bucket {
            write!(f, ", bucket {bucket}")?;
        }
        if self.post_paid {
            write!(f, ", post_paid")?;
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

/// `5 per minute`, or `5 in all`.
fn hits_in_words(limit: &Limit) -> String {
    let hits = limit.requests_per_unit;
    match limit.unit {
        _ if matches!(limit.quota.algorithm(), Algorithm::Total) => format!("{hits} in all"),
        Some(unit) => format!("{hits} per {}", unit.name()),
        None => format!("{hits} per {}", show_duration(limit.period)),
    }
}

/// `5 per minute`, with the time zone if it has one.
pub(crate) fn rate_in_words(limit: &Limit) -> String {
    let zone = match limit.quota.period() {
        Period::Civil { time_zone, .. } => time_zone.iana_name(),
        _ => None,
    };
    zone.map_or_else(|| hits_in_words(limit), |zone| format!("{} in {zone}", hits_in_words(limit)))
}

/// `token_bucket, burst 20`: the name, and the parameters that differ from their default.
pub(crate) fn algorithm_in_words(algorithm: &Algorithm) -> String {
    [vec![algorithm.name().to_owned()], parameters(algorithm)].concat().join(", ")
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
        Algorithm::SlidingWindow { cells, leaving } => {
            shown.push(format!("cells {cells}"));
            shown.extend((*leaving == LeavingCell::Drops).then(|| "leaving_cell drop".to_owned()));
        }
        Algorithm::SlidingWindowLog { log_denied: true } => shown.push("log_denied".to_owned()),
        Algorithm::TokenBucket { burst, initial, overdraft, refill } => {
            shown.extend(burst.map(|burst| format!("burst {burst}")));
            shown.extend(initial.map(|initial| format!("initial {initial}")));
            shown.extend((*overdraft > 0).then(|| format!("overdraft {overdraft}")));
            shown.extend((*refill == Refill::Interval).then(|| "refill interval".to_owned()));
        }
        Algorithm::PriorityBuckets { burst, weights, class } => {
            shown.extend(burst.map(|burst| format!("burst {burst}")));
            let own = weights.get(*class).unwrap_or(&0);
            let all = weights.iter().sum::<u32>();
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
