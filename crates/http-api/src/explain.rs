//! `/v1/explain`: which rule, why, what would be charged, and how a refusal would read.

use bytes::Bytes;
use hyper::{HeaderMap, StatusCode};
use tollgate_headers::{LimitState, RetryAfter, Style, Values};
use tollgate_limiter::explain::{Applied, Explanation, Known, Verdict, explain};
use tollgate_limiter::{Entry, Policy};
use tollgate_policy::{Charge, Matched};

use crate::answer::{Answer, json};
use crate::bodies::{ChargedLimit, DeniedPreview, Explained, ExplainedRule, OtherRule};
use crate::query::{One, Told};
use crate::{decision, denied};

/// Answers for one descriptor.
pub(crate) fn answer(policy: &Policy, one: &One<'_>, style: &Style) -> Answer {
    let entries: Vec<Entry<'_>> = one.entries.iter().map(|(key, value)| Entry { key, value }).collect();
    let told = explain(policy, &one.domain, &entries);
    let text = told.to_string();
    let denied = preview(policy, &one.domain, &entries, style);
    json(StatusCode::OK, &shape(told, text, denied))
}

fn shape(told: Explanation, text: String, denied: Option<DeniedPreview>) -> Explained {
    let (why_none, rule, known) = match told.verdict {
        Verdict::Rule(rule) => (None, Some(rule_of(*rule)), Known::default()),
        Verdict::UnknownDomain(known) => (Some("unknown_domain"), None, known),
        Verdict::NoRuleBegins(known) => (Some("no_rule_begins"), None, known),
        Verdict::Untaken => (Some("untaken"), None, Known::default()),
        _ => (Some("no_rule_ends"), None, Known::default()),
    };
    let steps = told.steps.iter().map(|step| match step {
        Matched::Exact => "exact",
        Matched::Network => "network",
        Matched::Pattern => "pattern",
        Matched::Default => "default",
    });
    let others = told.others.into_iter().map(|other| OtherRule {
        path: other.path,
        place: other.place.map_or_else(String::new, |place| place.to_string()),
        why: other.why,
    });
    Explained {
        domain: told.domain,
        asked: told.asked,
        steps: steps.collect(),
        why_none,
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
        shadow: rule.is_shadow,
        quota: rule.is_quota,
        replaces: rule.replaces,
        charge: match rule.charge {
            Charge::Each => "each",
            Charge::Together => "together",
        },
        sharing: rule.sharing.name(),
        on_store_failure: rule.on_store_failure.name(),
        limits: limits.collect(),
    }
}

/// The refusal that a client of `/v1/check?status=rule` would read just after the last permit was taken, as text: status, fields,
/// body. `None` where no rule would refuse.
#[must_use]
pub fn refusal_as_text(
    policy: &Policy,
    domain: &str,
    entries: &[Entry<'_>],
    style: &Style,
) -> Option<String> {
    let denied = preview(policy, domain, entries, style)?;
    let status = StatusCode::from_u16(denied.status).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    let fields: String = denied.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    Some(format!("{status}\n{fields}\n{}\n", denied.body))
}

/// How a refusal would read just after the last permit of the rule's first limit was taken.
fn preview(policy: &Policy, domain: &str, entries: &[Entry<'_>], style: &Style) -> Option<DeniedPreview> {
    let rules = policy.domain(domain)?;
    let rule = rules.find(entries).filter(|rule| !rule.shadow_mode)?;
    let limit = rule.limits.first()?;
    let state = LimitState {
        name: decision::name(rule, limit),
        limit: u64::from(limit.requests_per_unit),
        window: limit.period,
        remaining: 0,
        reset_after: limit.period,
        retry_after: RetryAfter::After(limit.period),
        is_unknown: false,
    };
    let mut fields = HeaderMap::new();
    tollgate_headers::write(&[state], false, style, &mut fields);
    let values = Values { domain, rule: &rule.path, limit: state };
    let response = rule.response.as_ref().or_else(|| rules.response());
    let (status, body) = denied::write(Told::AsTheRuleSays, response, Some(&values), &[state], &mut fields);
    let shown = |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = fields.iter().map(|(name, value)| (name.to_string(), shown(value))).collect();
    Some(DeniedPreview { status: status.as_u16(), headers, body })
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
                let unit = limit.unit.map_or_else(
                    || tollgate_human_text::show_duration(limit.period),
                    |unit| unit.name().to_ascii_uppercase(),
                );
                let requests = limit.requests_per_unit;
                let _ = writeln!(dump, "{name}.{path}: unit={unit} requests_per_unit={requests}, {modes}");
            }
            if rule.unlimited {
                let _ = writeln!(dump, "{name}.{path}: unlimited, {modes}");
            }
        }
    }
    dump.into()
}
