//! Rules in words, for people: what a limit says, and a descriptor that would fall under a rule.

use std::time::Duration;

use tollgate_core::{Algorithm, Align, LeakyForm, Period, Refill};
use tollgate_policy::{Domain, Entry, Limit, Policy, Rule};

/// What stands between the levels of a rule's path.
pub const LEVEL: &str = " → ";

/// `5 per minute, fixed_window`, with the parameters that are not the default.
#[must_use]
pub fn limit(limit: &Limit) -> String {
    let mut text = if limit.name.is_empty() { String::new() } else { format!("{}: ", limit.name) };
    match limit.unit {
        _ if matches!(limit.quota.algorithm(), Algorithm::Total) => {
            text += &format!("{} in all", limit.requests_per_unit);
        }
        Some(unit) => text += &format!("{} per {}", limit.requests_per_unit, unit.name()),
        None => text += &format!("{} per {}", limit.requests_per_unit, span(limit.period)),
    }
    text += ", ";
    text += limit.quota.algorithm().name();
    for parameter in parameters(limit.quota.algorithm()) {
        text += ", ";
        text += &parameter;
    }
    if let Period::Civil { time_zone, .. } = limit.quota.period()
        && let Some(name) = time_zone.iana_name()
    {
        text += &format!(", time_zone {name}");
    }
    text
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

/// The first rule of `policy` that counts, and a descriptor that falls under it; `None` where there is no such rule.
#[must_use]
pub fn example(policy: &Policy) -> Option<(&Domain, Vec<(String, String)>)> {
    policy.domains().iter().find_map(|domain| {
        let counting = domain.rules().iter().filter(|rule| !rule.limits.is_empty());
        let descriptor = counting.filter_map(|rule| descriptor_of(domain, rule)).next()?;
        Some((domain, descriptor))
    })
}

/// A descriptor that falls under `rule`; made of its path, and believed only if the matcher agrees.
fn descriptor_of(domain: &Domain, rule: &Rule) -> Option<Vec<(String, String)>> {
    let descriptor: Vec<(String, String)> = rule
        .path
        .split(LEVEL)
        .map(|level| match level.split_once('=') {
            Some((key, value)) => (key.replace('*', "x"), value.replace('*', "x")),
            None if level.contains(" in ") => {
                let (key, network) = level.split_once(" in ").unwrap_or((level, ""));
                (key.to_owned(), network.split('/').next().unwrap_or("").to_owned())
            }
            None if level.contains("address") => (level.to_owned(), "192.0.2.1".to_owned()),
            None => (level.replace('*', "x"), "alice".to_owned()),
        })
        .collect();
    let entries: Vec<Entry<'_>> = descriptor.iter().map(|(key, value)| Entry { key, value }).collect();
    let found = domain.find(&entries)?.index == rule.index;
    found.then_some(descriptor)
}
