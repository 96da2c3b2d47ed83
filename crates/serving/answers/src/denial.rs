//! The reply to a denied client where a status was asked for: the rule's `response`, else its domain's, else
//! problem+json.

use std::fmt;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use tollgate_core::{Algorithm, Cost, State, Timestamp};
use tollgate_headers::{
    Content, LimitState, PROBLEM_JSON, RetryAfter, Style, Values, fill, fill_header, most_restrictive,
    problem, problem_without_limit,
};
use tollgate_limiter::{Answer, Domain, Entry, Kind, Limit, Policy, Rule, Unmatched};
use tollgate_policy::Response;

use crate::limits::{name, shown};

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const PROBLEM: HeaderValue = HeaderValue::from_static(PROBLEM_JSON);

/// Source of the status of a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenialStatus {
    Fixed(StatusCode),
    /// The status in the rule's `response`, or 429.
    OfRule,
}

/// Status, fields and body of the reply to a denied client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub status: StatusCode,
    /// The body; its type is among the fields.
    pub body: String,
}

/// The reply to the client of a denied request in `domain`; `limits` are those of
/// [`limits`](crate::limits()).
#[must_use]
pub fn denial(
    status: DenialStatus,
    answer: &Answer<'_>,
    limits: &[LimitState<'_>],
    domain: &str,
    fields: &mut HeaderMap,
) -> Denial {
    let shown = shown(answer).and_then(|index| answer.descriptor(index));
    let rule = shown.and_then(|it| it.rule);
    let response = rule.and_then(|rule| rule.response.as_ref());
    let response = response.or_else(|| answer.domain().and_then(|domain| domain.response()));
    let rule = rule.map_or("", |rule| rule.path.as_str());
    // A limit listed beside a denial without a limit is not one that the client exceeded.
    let limit = shown.filter(|it| it.limit.is_some() || it.kind == Kind::Blocked);
    let limit = limit.and_then(|_| most_restrictive(limits)).copied();
    write(status, response, &Values { domain, rule, limit }, limits, fields)
}

fn write(
    status: DenialStatus,
    response: Option<&Response>,
    values: &Values<'_>,
    limits: &[LimitState<'_>],
    fields: &mut HeaderMap,
) -> Denial {
    let status = match status {
        DenialStatus::Fixed(status) => Some(status),
        DenialStatus::OfRule => {
            response.and_then(|response| response.status).and_then(|status| StatusCode::from_u16(status).ok())
        }
    };
    let status = status.unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    let mut body = None;
    if let Some(response) = response {
        for (name, template) in &response.headers {
            if let Ok(name) = HeaderName::try_from(name.as_str()) {
                fields.insert(name, fill_header(template, values));
            }
        }
        if let Some(template) = &response.body {
            let content_type = response.content_type.as_deref();
            let content = content_type.map_or(Content::Plain, Content::of);
            let content_type = content_type.and_then(|it| HeaderValue::try_from(it).ok()).unwrap_or(TEXT);
            fields.insert(CONTENT_TYPE, content_type);
            body = Some(fill(template, content, values));
        }
    }
    let body = body.unwrap_or_else(|| {
        fields.insert(CONTENT_TYPE, PROBLEM);
        match values.limit {
            Some(_) => problem(limits, status.as_u16()),
            None => problem_without_limit(values.rule, status.as_u16()),
        }
    });
    Denial { status, body }
}

/// A denial as a client would read it. Shown as text: status, fields, an empty line, body.
#[derive(Clone, Debug)]
pub struct Preview {
    pub status: StatusCode,
    pub fields: HeaderMap,
    pub body: String,
}

/// The denial that a client would read, with the status of the rule: for a rule with limits just after the
/// hit that used up one of them. `None` where a request with these entries is always admitted. `unmatched` is
/// the setting for requests that no rule matches.
#[must_use]
pub fn preview(
    policy: &Policy,
    domain: &str,
    entries: &[Entry<'_>],
    unmatched: Unmatched,
    style: &Style,
) -> Option<Preview> {
    let rules = policy.domain(domain);
    let rule = rules.and_then(|rules| rules.find(entries));
    let limits = || rule.iter().flat_map(|rule| rule.limits.iter().map(|limit| (*rule, limit)));
    let in_force = || limits().filter(|(_, limit)| !limit.shadow);
    let hits = in_force().map(|(_, limit)| limit.quota.burst() / limit.cost.max(1)).min();
    let denies = match rule {
        Some(rule) => !rule.shadow_mode && (rule.denies || hits.is_some()),
        None if rules.is_some_and(|rules| rules.is_exception(entries)) => false,
        None => rules.and_then(Domain::unmatched).unwrap_or(unmatched) == Unmatched::Deny,
    };
    if !denies {
        return None;
    }
    let states: Vec<_> =
        in_force().map(|(rule, limit)| after(rule, limit, hits.unwrap_or_default())).collect();
    let mut fields = HeaderMap::new();
    tollgate_headers::write(&states, false, style, &mut fields);
    let path = rule.map_or("", |rule| rule.path.as_str());
    let values = Values { domain, rule: path, limit: most_restrictive(&states).copied() };
    let response = rule.and_then(|rule| rule.response.as_ref());
    let response = response.or_else(|| rules.and_then(Domain::response));
    let Denial { status, body } = write(DenialStatus::OfRule, response, &values, &states, &mut fields);
    Some(Preview { status, fields, body })
}

/// An arbitrary instant before any request.
const BEGINNING: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);

/// A full state.
fn full(limit: &Limit) -> State {
    let quota = &limit.quota;
    let mut state = quota.fresh();
    if quota.starts_partial() {
        let _ = quota.give_back(&mut state, Cost(quota.burst()), BEGINNING);
    }
    state
}

/// The state of a limit just after `hits`; if they use up the limit, just after its last permit.
fn after<'a>(rule: &'a Rule, limit: &'a Limit, hits: u64) -> LimitState<'a> {
    let quota = &limit.quota;
    let mut state = full(limit);
    let _ = quota.charge(&mut state, Cost(hits.saturating_mul(limit.cost)), BEGINNING);
    let left = quota.take(&mut state, Cost::PEEK, BEGINNING);
    let is_used_up = left.remaining() < limit.cost.max(1);
    let (retry_after, reset_after) = match is_used_up {
        true => waits(limit),
        false if is_window(limit) => (RetryAfter::Now, limit.period),
        false => (RetryAfter::Now, left.reset_after()),
    };
    LimitState {
        name: name(rule, limit),
        limit: limit.requests_per_unit,
        burst: limit.burst(),
        window: limit.period,
        remaining: if is_used_up { 0 } else { left.remaining() },
        reset_after,
        retry_after,
        is_unknown: false,
    }
}

/// Wait for the next permit, and for all permits, just after the last one was taken. For a window the longest
/// wait is used: the whole window.
fn waits(limit: &Limit) -> (RetryAfter, Duration) {
    let quota = &limit.quota;
    let mut state = full(limit);
    let cost = limit.cost.max(1);
    let all = match quota.algorithm() {
        Algorithm::TokenBucket { overdraft: overdraft @ 1.., .. } => quota.burst().saturating_add(*overdraft),
        Algorithm::WarmUp { .. } => 1, // one by one
        Algorithm::SmoothBursty { .. } => quota.burst().saturating_add(1), // the next pays for one
        _ => quota.burst() - quota.burst() % cost,
    };
    let _ = quota.charge(&mut state, Cost(all), BEGINNING);
    let denied = quota.take(&mut state, Cost(cost), BEGINNING);
    match denied.retry_after() {
        retry_after if !is_window(limit) => (retry_after, denied.reset_after()),
        RetryAfter::Never => (RetryAfter::Never, limit.period),
        _ => (RetryAfter::After(limit.period), limit.period),
    }
}

fn is_window(limit: &Limit) -> bool {
    !matches!(
        limit.quota.algorithm(),
        Algorithm::TokenBucket { .. }
            | Algorithm::LeakyBucket { .. }
            | Algorithm::PriorityBuckets { .. }
            | Algorithm::Total
            | Algorithm::WarmUp { .. }
            | Algorithm::SmoothBursty { .. }
    )
}

impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.status)?;
        for (name, value) in &self.fields {
            writeln!(f, "{name}: {}", String::from_utf8_lossy(value.as_bytes()))?;
        }
        write!(f, "\n{}\n", self.body)
    }
}
