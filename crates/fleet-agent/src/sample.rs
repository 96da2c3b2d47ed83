//! What a limiter has counted, as the reports have it.

use tollgate_core::Timestamp;
use tollgate_fleet_proto::{Store as StoreHealth, TopKey};
use tollgate_limiter::Limiter;
use tollgate_store::Store;

use crate::outbox::{Counts, RuleTotals, Sample};

/// Most keys of one rule in a report.
const MOST_TOP_KEYS: usize = 5;
/// The name of all rules above the observer's cap together.
const OTHERS: &str = "(others)";

/// Totals of `limiter` since it was made.
#[must_use]
pub fn sample<S: Store>(limiter: &Limiter<S>, now: Timestamp) -> Sample {
    let mut sample = Sample {
        store: Some(StoreHealth {
            name: limiter.store().name().to_string(),
            available: !limiter.is_store_failing(),
        }),
        wall_ms: now.as_nanos() / 1_000_000,
        ..Sample::default()
    };
    let mut has_others = false;
    for domain in limiter.report(now).domains {
        for rule in domain.rules {
            if rule.is_shared && std::mem::replace(&mut has_others, true) {
                continue;
            }
            let totals = rule.totals;
            let counts = Counts {
                admitted: totals.admitted,
                denied: totals.denied,
                shadow_denied: totals.shadow_denied,
                degraded: totals.degraded,
                near: 0,
            };
            let (domain, name) = match rule.is_shared {
                true => (String::new(), OTHERS.to_owned()),
                false => (domain.name.clone(), rule.rule),
            };
            for key in rule.top_limited.into_iter().take(MOST_TOP_KEYS) {
                let (domain, rule) = (domain.clone(), name.clone());
                sample.top.push(TopKey { domain, rule, key: key.key, denied: key.denied });
            }
            sample.rules.push(RuleTotals { domain, rule: name, counts });
        }
    }
    sample
}
