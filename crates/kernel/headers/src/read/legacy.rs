//! Three fields, one number each: `X-RateLimit-…`, `X-Rate-Limit-…` as of Twitter, and the IETF drafts up to
//! 6.

use http::HeaderMap;
use tollgate_core::Timestamp;

use super::fields::{first, policies, window_of};
use super::moment::span_or_moment;
use super::reading::{Generation, Reading};
use crate::structured::{Bare, list};

/// Prefix of the field names of each family.
const FAMILIES: [(&str, Generation); 3] = [
    ("ratelimit-", Generation::Draft03),
    ("x-ratelimit-", Generation::Legacy),
    ("x-rate-limit-", Generation::Legacy),
];

/// The first family with a valid field.
pub(super) fn read(fields: &HeaderMap, now: Timestamp) -> Option<Reading> {
    FAMILIES.into_iter().find_map(|(begin, generation)| {
        let field = |end: &str| first(fields, &format!("{begin}{end}"));
        let remaining = field("remaining").and_then(|text| text.parse().ok());
        // Discord sends both; the span needs no clock.
        let exact = field("reset-after").and_then(|text| span_or_moment(text, now));
        let reset_after = exact.or_else(|| field("reset").and_then(|text| span_or_moment(text, now)));
        let (limit, window, name) = field("limit").and_then(limit).unwrap_or_default();
        if limit.is_none() && remaining.is_none() && reset_after.is_none() {
            return None;
        }
        let window = window.or_else(|| window_of(limit?, &policies(fields)));
        Some(Reading { name, limit, window, remaining, reset_after, ..Reading::nothing(generation) })
    })
}

type LegacyLimit = (Option<u64>, Option<std::time::Duration>, Option<String>);

/// `10`, or with policies `10, 10;w=1;name="short", 100;w=60`; the policy of the first number gives window
/// and name.
fn limit(text: &str) -> Option<LegacyLimit> {
    let members = list(text)?;
    let (first, policies) = members.split_first()?;
    let limit = first.value.integer()?;
    let name = policies.iter().filter(|policy| policy.value == first.value).find_map(|policy| {
        let (_, name) = policy.parameters.iter().find(|(key, _)| key == "name")?;
        if let Bare::Text(name) = name { Some(name.clone()) } else { None }
    });
    Some((Some(limit), window_of(limit, policies), name))
}
