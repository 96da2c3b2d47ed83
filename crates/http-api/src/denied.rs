//! How a refusal reads where a status was asked for: the rule's `response`, else its domain's, else problem+json.

use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use tollgate_headers::{Content, LimitState, Values, fill, fill_header, most_restrictive, problem};
use tollgate_limiter::Answer as Decided;
use tollgate_policy::Response;

use crate::answer::{PROBLEM, TEXT};
use crate::decision;
use crate::query::Told;

/// Status and body of a decided request that may not pass; the fields go into `fields`.
pub(crate) fn refuse(
    told: Told,
    decided: &Decided<'_>,
    limits: &[LimitState<'_>],
    domain: &str,
    fields: &mut HeaderMap,
) -> (StatusCode, String) {
    let rule = decision::shown(decided).and_then(|index| decided.descriptor(index)?.rule);
    let response = rule.and_then(|rule| rule.response.as_ref());
    let response = response.or_else(|| decided.domain().and_then(|domain| domain.response()));
    let rule = rule.map_or("", |rule| rule.path.as_str());
    let values = most_restrictive(limits).map(|limit| Values { domain, rule, limit: *limit });
    write(told, response, values.as_ref(), limits, fields)
}

/// Status and body of a refusal by `limits`, the one of `values` most of all.
pub(crate) fn write(
    told: Told,
    response: Option<&Response>,
    values: Option<&Values<'_>>,
    limits: &[LimitState<'_>],
    fields: &mut HeaderMap,
) -> (StatusCode, String) {
    let status = match told {
        Told::Status(status) => Some(status),
        Told::AsTheRuleSays => response.and_then(|response| response.status),
    };
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    let status = status.unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    let mut body = None;
    if let (Some(response), Some(values)) = (response, values) {
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
        problem(limits, status.as_u16())
    });
    (status, body)
}
