//! `/v1/explain`: which rule, why, what would be charged, and the reply to a denied client.

use bytes::Bytes;
use hyper::StatusCode;
use tollgate_answers::{Preview, preview};
use tollgate_core::Timestamp;
use tollgate_headers::Style;
use tollgate_http_kit::Reply;
use tollgate_http_kit::reply::json;
use tollgate_limiter::explain::{Applied, Explanation, Known, Verdict};
use tollgate_limiter::{Entry, Limiter, Policy};
use tollgate_policy::{Matched, Unmatched};
use tollgate_store::Store;

use crate::bodies::{
    ChargedLimit, DeniedPreview, Explained, ExplainedIntervention, ExplainedRule, OtherRule,
};
use crate::query::Target;

/// Answers for one descriptor.
pub(crate) fn answer<S: Store>(
    limiter: &Limiter<S>,
    target: &Target<'_>,
    now: Timestamp,
    style: &Style,
) -> Reply {
    let Target { domain, entries } = target;
    let entries: Vec<Entry<'_>> = entries.iter().map(|(key, value)| Entry::new(key, value)).collect();
    let explanation = limiter.explain(domain, &entries, now);
    let rules = limiter.rules();
    let settings = limiter.settings();
    let denied = match settings.shadow_mode {
        true => None,
        false => {
            preview(rules.policy(), domain, &entries, settings.unmatched, style).map(DeniedPreview::from)
        }
    };
    json(StatusCode::OK, &shape(explanation, denied))
}

impl From<Preview> for DeniedPreview {
    fn from(preview: Preview) -> Self {
        let Preview { status, fields, body } = preview;
        let text =
            |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = fields.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        Self { status: status.as_u16(), headers, body }
    }
}

fn shape(explanation: Explanation, denied: Option<DeniedPreview>) -> Explained {
    let text = explanation.to_string();
    let (why_none, rule, known) = match explanation.verdict {
        Verdict::Rule(rule) => (None, Some(rule_of(*rule)), Known::default()),
        Verdict::UnknownDomain(known) => (Some("unknown_domain"), None, known),
        Verdict::NoRuleBegins(known) => (Some("no_rule_begins"), None, known),
        Verdict::Untaken => (Some("untaken"), None, Known::default()),
        Verdict::Exception => (Some("exception"), None, Known::default()),
        _ => (Some("no_rule_ends"), None, Known::default()),
    };
    let steps = explanation.steps.iter().map(|step| match step {
        Matched::Exact => "exact",
        Matched::Network => "network",
        Matched::Pattern => "pattern",
        Matched::Default => "default",
    });
    let others = explanation.others.into_iter().map(|other| OtherRule {
        path: other.path,
        place: other.place.map_or_else(String::new, |place| place.to_string()),
        why: other.why,
    });
    Explained {
        domain: explanation.domain,
        asked: explanation.asked,
        steps: steps.collect(),
        intervention: explanation.intervention.map(|found| ExplainedIntervention {
            action: found.action.name(),
            entries: found.entries,
            left_ms: found.left.as_nanos().div_ceil(1_000_000) as u64,
        }),
        why_none,
        unmatched: explanation.unmatched.map(Unmatched::name),
        rule,
        known: known.names,
        others: others.collect(),
        denied,
        text,
    }
}

fn rule_of(rule: Applied) -> ExplainedRule {
    let limits = rule.limits.into_iter().map(|it| ChargedLimit { limit: it.limit, key: it.key });
    ExplainedRule {
        path: rule.path,
        name: rule.name,
        place: rule.place.map_or_else(String::new, |place| place.to_string()),
        unlimited: rule.is_unlimited,
        denies: rule.denies,
        shadow: rule.is_shadow,
        quota: rule.is_quota,
        replaces: rule.replaces,
        charge: rule.charge.name(),
        sharing: rule.sharing.name(),
        on_store_failure: rule.on_store_failure.name(),
        max_wait_ms: rule.max_wait.map(|wait| wait.as_millis() as u64),
        limits: limits.collect(),
    }
}

/// The rules in force, one limit a line, in the form and the order of envoyproxy/ratelimit.
pub(crate) fn rlconfig(policy: &Policy) -> Bytes {
    use std::fmt::Write as _;
    let mut dump = String::new();
    for domain in policy.domains() {
        let name = domain.name();
        for rule in domain.rules() {
            let path = rule.path.replace(tollgate_policy::PATH_SEPARATOR, ".").replace('=', "_");
            let modes = format!("shadow_mode: {}, quota_mode: {}", rule.shadow_mode, rule.quota_mode);
            // Writing to a string cannot fail.
            for limit in &rule.limits {
                let unit = match limit.unit {
                    Some(unit) => unit.name().to_ascii_uppercase(),
                    None if limit.period.is_zero() => "UNKNOWN".to_owned(), // of a total
                    None => tollgate_human_text::show_duration(limit.period),
                };
                let requests = limit.requests_per_unit;
                let _ = writeln!(dump, "{name}.{path}: unit={unit} requests_per_unit={requests}, {modes}");
            }
            if rule.slots.is_some() {
                let slots = rule.limits_in_words().concat();
                let _ = writeln!(dump, "{name}.{path}: {slots}, {modes}");
            }
            if rule.unlimited {
                let _ = writeln!(dump, "{name}.{path}: unlimited, {modes}");
            }
            if rule.denies {
                let _ = writeln!(dump, "{name}.{path}: denied, {modes}");
            }
        }
    }
    dump.into()
}
