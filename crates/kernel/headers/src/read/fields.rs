//! Fields as the readers of every generation need them: their lines, and the policies among them.

use std::borrow::Cow;
use std::time::Duration;

use http::{HeaderMap, HeaderName};

use crate::span::MAX_SECONDS;
use crate::structured::{Bare, Member, list};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The policies of `RateLimit-Policy`, none where it is malformed.
pub(super) fn policies(fields: &HeaderMap) -> Vec<Member> {
    joined(fields, &POLICY).and_then(|text| list(&text)).unwrap_or_default()
}

/// The window of the policy of this many permits.
pub(super) fn window_of(limit: u64, policies: &[Member]) -> Option<Duration> {
    let is_of =
        |policy: &&Member| policy.value == Bare::Integer(limit) || policy.parameter("burst") == Some(limit);
    policies.iter().filter(is_of).filter_map(window).max()
}

/// `w`, or `window` as in the first drafts.
pub(super) fn window(policy: &Member) -> Option<Duration> {
    policy.parameter("w").or_else(|| policy.parameter("window")).filter(|seconds| *seconds > 0).map(span)
}

pub(super) fn span(seconds: u64) -> Duration {
    Duration::from_secs(seconds.min(MAX_SECONDS))
}

/// The lines of a field as one.
pub(super) fn joined<'a>(fields: &'a HeaderMap, name: &HeaderName) -> Option<Cow<'a, str>> {
    let mut lines = fields.get_all(name).iter();
    let first = lines.next()?.to_str().ok()?;
    let mut all = Cow::Borrowed(first);
    for line in lines {
        let all = all.to_mut();
        all.push(',');
        all.push_str(line.to_str().ok()?);
    }
    Some(all)
}

/// The first line of a field, without the spaces around it.
pub(super) fn first<'a>(fields: &'a HeaderMap, name: &str) -> Option<&'a str> {
    Some(fields.get(name)?.to_str().ok()?.trim())
}
