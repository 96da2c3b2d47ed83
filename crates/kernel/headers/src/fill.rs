//! Templates filled in, so that no value can break out of its place.

use std::borrow::Cow;
use std::time::Duration;

use http::HeaderValue;
use tollgate_core::RetryAfter;

use crate::problem::detail_without_limit;
use crate::span::{millis, seconds, wait};
use crate::template::{Content, Part, Placeholder, Template};
use crate::{LimitState, detail};

/// The values for a template's placeholders.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// The domain of the request.
    pub domain: &'a str,
    /// The path of the rule that denied; empty if none did, because no rule matched.
    pub rule: &'a str,
    /// Its limit that denied, the most restrictive one; `None` for a denial without a limit, which no wait
    /// ends.
    pub limit: Option<LimitState<'a>>,
}

/// The numbers of a denial without a limit.
const NO_LIMIT: LimitState<'static> = LimitState {
    name: "",
    limit: 0,
    burst: 0,
    window: Duration::ZERO,
    remaining: 0,
    reset_after: Duration::from_nanos(u64::MAX),
    retry_after: RetryAfter::Never,
    is_unknown: false,
};

/// The text of a body of this kind.
///
/// # Example
/// ```
/// # use tollgate_headers::*;
/// # use std::time::Duration;
/// # let limit = LimitState { name: "daily", limit: 5, burst: 5, remaining: 0,
/// #     window: Duration::from_secs(86_400),
/// #     reset_after: Duration::from_secs(90), retry_after: RetryAfter::After(Duration::from_millis(1_001)),
/// #     is_unknown: false };
/// let values = Values { domain: "shop", rule: "say \"hi\"", limit: Some(limit) };
/// let template: Template = r#"{"rule": "{{rule}}", "wait": {{retry_after}}}"#.parse()?;
/// assert_eq!(fill(&template, Content::Json, &values), r#"{"rule": "say \"hi\"", "wait": 2}"#);
/// # Ok::<(), TemplateError>(())
/// ```
#[must_use]
pub fn fill(template: &Template, content: Content, values: &Values<'_>) -> String {
    let mut out = String::new();
    for part in template.parts() {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Hole(hole) => match value(*hole, values) {
                Value::Number(number) => out.push_str(&number.to_string()),
                Value::Never => out.push_str(if content == Content::Json { "null" } else { "never" }),
                Value::Text(text) => escape(&text, content, &mut out),
            },
        }
    }
    out
}

/// The value of a header field: control characters are removed, everything else is sent as UTF-8.
#[must_use]
pub fn fill_header(template: &Template, values: &Values<'_>) -> HeaderValue {
    let mut text = fill(template, Content::Plain, values);
    text.retain(|c| !c.is_control());
    // Without control characters every text is a field value; an empty value replaces an impossible one.
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

enum Value<'a> {
    Number(u64),
    Never,
    Text(Cow<'a, str>),
}

fn value<'a>(hole: Placeholder, values: &Values<'a>) -> Value<'a> {
    let limit = values.limit.unwrap_or(NO_LIMIT);
    let retry = |whole: fn(Duration) -> u64| match (limit.retry_after, wait(limit.retry_after)) {
        (_, Some(span)) => Value::Number(whole(span)),
        (RetryAfter::Never, None) => Value::Never,
        (_, None) => Value::Number(0),
    };
    match hole {
        Placeholder::RetryAfter => retry(seconds),
        Placeholder::RetryAfterMs => retry(millis),
        Placeholder::Limit => Value::Number(limit.limit),
        Placeholder::Remaining => Value::Number(limit.remaining),
        Placeholder::ResetAfter => Value::Number(seconds(limit.reset_after)),
        Placeholder::ResetAfterMs => Value::Number(millis(limit.reset_after)),
        Placeholder::Window => Value::Number(seconds(limit.window)),
        Placeholder::Policy => Value::Text(limit.name.into()),
        Placeholder::Rule => Value::Text(values.rule.into()),
        Placeholder::Domain => Value::Text(values.domain.into()),
        Placeholder::Detail => {
            let sentence = match &values.limit {
                Some(limit) => detail(limit),
                None => detail_without_limit(values.rule),
            };
            Value::Text(sentence.into())
        }
    }
}

fn escape(text: &str, content: Content, out: &mut String) {
    match content {
        Content::Plain => out.push_str(text),
        Content::Json => {
            let quoted = serde_json::Value::from(text).to_string();
            out.push_str(&quoted[1..quoted.len() - 1]);
        }
        Content::Markup => {
            for c in text.chars() {
                match c {
                    '<' => out.push_str("&lt;"),
                    '>' => out.push_str("&gt;"),
                    '&' => out.push_str("&amp;"),
                    '"' => out.push_str("&quot;"),
                    '\'' => out.push_str("&#39;"),
                    c => out.push(c),
                }
            }
        }
    }
}
