//! Totals of a limiter in the form of reports.

use tollgate_core::Timestamp;
use tollgate_fleet_proto::{RejectedRequests, Store as StoreHealth, TopKey};
use tollgate_limiter::Limiter;
use tollgate_store::Store;

use crate::outbox::{Counts, RuleTotals, Sample};

/// Most keys of one rule in a sample.
const MOST_TOP_KEYS: usize = 5;
/// The name of all rules above the observer's cap together.
const OTHERS: &str = "(others)";
/// The name of requests that no rule matched.
const UNMATCHED: &str = "(unmatched)";
/// The name of requests for domains without rules.
const UNKNOWN_DOMAIN: &str = "(unknown domain)";

/// Totals of `limiter` since it was made.
#[must_use]
pub fn sample<S: Store>(limiter: &Limiter<S>, now: Timestamp) -> Sample {
    let report = limiter.report(now);
    let rejected = report.rejections.into_iter().map(|it| RejectedRequests {
        surface: it.surface.to_owned(),
        status: it.status,
        reason: it.reason.to_owned(),
        count: it.count,
    });
    let mut sample = Sample {
        rejected: rejected.collect(),
        store: Some(StoreHealth {
            name: limiter.store().name().to_string(),
            available: !limiter.is_store_failing(),
        }),
        wall_ms: now.as_nanos() / 1_000_000,
        rules_error: report.last_error.map(|error| shorten(&error)).unwrap_or_default(),
        unknown_domains: report.unknown_domains,
        ..Sample::default()
    };
    let unmatched = |domain: &str, rule: &str, (admitted, denied)| {
        let counts = Counts { admitted, denied, ..Counts::default() };
        let is_any = counts != Counts::default();
        is_any.then(|| RuleTotals { domain: domain.to_owned(), rule: rule.to_owned(), counts })
    };
    sample.rules.extend(unmatched("", UNKNOWN_DOMAIN, report.unknown_requests));
    let mut has_others = false;
    for domain in report.domains {
        sample.rules.extend(unmatched(&domain.name, UNMATCHED, domain.unmatched));
        for rule in domain.rules {
            // Rules above the cap share their totals, and have top keys of their own.
            let is_counted = !rule.is_shared || !std::mem::replace(&mut has_others, true);
            let totals = rule.totals;
            let counts = Counts {
                admitted: totals.admitted,
                denied: totals.denied,
                shadow_denied: totals.shadow_denied,
                degraded: totals.degraded,
                near: totals.near,
                both_denied: totals.both_denied,
                forgotten: totals.forgotten,
                alone_denied: totals.alone_denied,
            };
            let (domain, name) = match rule.is_shared {
                true => (String::new(), OTHERS.to_owned()),
                false => (domain.name.clone(), rule.rule),
            };
            for key in rule.top_limited.into_iter().take(MOST_TOP_KEYS) {
                let domain = domain.clone();
                let rule = name.clone();
                sample.top.push(TopKey { domain, rule, key: key.key, denied: key.denied });
            }
            if is_counted {
                sample.rules.push(RuleTotals { domain, rule: name, counts });
            }
        }
    }
    sample
}

/// The beginning of a text, of at most 4 KiB.
fn shorten(text: &str) -> String {
    text[..text.floor_char_boundary(4 << 10)].to_owned()
}
