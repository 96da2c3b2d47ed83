//! A decision as JSON, written by hand into a buffer that is used again: it comes with every reply.

use std::time::Duration;

use tollgate_core::{Outcome, RetryAfter};
use tollgate_limiter::{Answer, DescriptorAnswer, Intervened, Kind, Request};

use crate::limits::shown;

/// The reset of a quota that never fills up by itself.
const NEVER: Duration = Duration::from_nanos(u64::MAX);

/// Appends the decision on `request` to `out`, as a JSON object: the request as a whole, and each of its
/// descriptors.
pub fn write_json(answer: &Answer<'_>, request: &Request<'_>, out: &mut Vec<u8>) {
    out.push(b'{');
    if answer.descriptors().len() == 1
        && let Some(only) = answer.descriptor(0)
        && (only.is_admitted() == answer.is_admitted() || answer.is_shadowed())
    {
        // The usual request has one descriptor, and the same members as it.
        let begin = out.len();
        Members::of_descriptor(answer, &only).write(out);
        if is_free(&only) {
            write_unmatched(answer, request, 0, out);
        }
        let end = out.len();
        out.extend_from_slice(b",\"descriptors\":[{");
        out.extend_from_within(begin..end);
        return out.extend_from_slice(b"}]}");
    }
    let shown = shown(answer).and_then(|index| answer.descriptor(index));
    let delay = answer.descriptors().map(|it| it.delay()).max().unwrap_or_default();
    let is_shadowed = answer.is_shadowed() || answer.descriptors().any(|it| it.is_shadowed);
    let is_shadowed = is_shadowed && answer.is_admitted();
    let mut whole = Members::of(shown.as_ref(), answer.overall(), is_shadowed, delay, answer.waited());
    // Also where the store's failure admitted a descriptor, so that it shows no limit.
    whole.degraded = answer.degraded().map(|degraded| degraded.name());
    whole.in_excess = answer.is_in_excess();
    whole.write(out);
    if answer.descriptors().enumerate().all(|(at, it)| is_free(&it) && is_unmatched(answer, request, at)) {
        out.extend_from_slice(b",\"unmatched\":true");
    }
    out.extend_from_slice(b",\"descriptors\":[");
    for (index, descriptor) in answer.descriptors().enumerate() {
        out.extend_from_slice(if index == 0 { b"{" } else { b",{" });
        Members::of_descriptor(answer, &descriptor).write(out);
        if is_free(&descriptor) {
            write_unmatched(answer, request, index, out);
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
}

/// Whether it has neither a rule nor a limit of its own.
fn is_free(descriptor: &DescriptorAnswer<'_>) -> bool {
    descriptor.rule.is_none() && descriptor.kind == Kind::Free
}

/// Whether no rule matches the descriptor at `index`, of those that have none: an exception has none either.
#[cold]
fn is_unmatched(answer: &Answer<'_>, request: &Request<'_>, index: usize) -> bool {
    let entries = request.descriptors.get(index).map_or(&[][..], |descriptor| descriptor.entries);
    !answer.domain().is_some_and(|domain| domain.is_exception(entries))
}

/// Says that no rule matches the descriptor at `index`, and which one is nearest.
#[cold]
fn write_unmatched(answer: &Answer<'_>, request: &Request<'_>, index: usize, out: &mut Vec<u8>) {
    if !is_unmatched(answer, request, index) {
        return;
    }
    out.extend_from_slice(b",\"unmatched\":true");
    let entries = request.descriptors.get(index).map_or(&[][..], |descriptor| descriptor.entries);
    if let Some(rule) = answer.domain().and_then(|domain| domain.nearest(entries)) {
        out.extend_from_slice(b",\"nearest_rule\":");
        text(Some(&rule.path), out);
    }
}

/// The members that a decision and each of its descriptors have.
struct Members<'a> {
    outcome: Outcome,
    is_shadowed: bool,
    /// The most permits that can remain; `None`, as what remains, where no limit binds.
    limit: Option<u64>,
    /// Permits that each hit takes.
    cost: u64,
    remaining: Option<u64>,
    delay_ms: u64,
    /// The part of the delay that is over.
    waited_ms: u64,
    /// `None` if no wait helps.
    retry_ms: Option<u64>,
    reset_ms: Option<u64>,
    rule: Option<&'a str>,
    degraded: Option<&'static str>,
    in_excess: bool,
    /// Permits that were used beyond all that there were.
    owed: u64,
    /// `block` or `allow`, where an operator has decided.
    intervention: Option<&'static str>,
}

impl<'a> Members<'a> {
    /// Those of one descriptor. The server's shadow mode, which is about the request as a whole, admits each
    /// descriptor that would deny it.
    #[inline]
    fn of_descriptor(answer: &Answer<'_>, descriptor: &DescriptorAnswer<'a>) -> Self {
        let is_let_pass = answer.is_shadowed() && !descriptor.is_admitted();
        let outcome = if is_let_pass { Outcome::Admit } else { descriptor.outcome };
        let is_shadowed = descriptor.is_shadowed || is_let_pass;
        Self::of(Some(descriptor), outcome, is_shadowed, descriptor.delay(), descriptor.waited)
    }

    fn of(
        descriptor: Option<&DescriptorAnswer<'a>>,
        outcome: Outcome,
        is_shadowed: bool,
        delay: Duration,
        waited: Duration,
    ) -> Self {
        let retry =
            descriptor.filter(|_| outcome == Outcome::Deny).map_or(RetryAfter::Now, |it| it.retry_after());
        let limited = descriptor.filter(|it| it.limit.is_some());
        let reset = descriptor.map_or(Duration::ZERO, |it| it.reset_after());
        Self {
            outcome,
            is_shadowed,
            limit: limited.and_then(|it| it.limit).map(|limit| limit.burst()),
            cost: limited.and_then(|it| it.limit).map_or(1, |limit| limit.cost),
            remaining: limited.map(|it| it.remaining()),
            delay_ms: millis(delay),
            waited_ms: millis(waited),
            retry_ms: retry_millis(retry),
            reset_ms: reset_millis(reset),
            rule: descriptor.and_then(|it| it.rule).map(|rule| rule.path.as_str()),
            degraded: descriptor.and_then(|it| it.degraded).map(|degraded| degraded.name()),
            in_excess: descriptor.is_some_and(|it| it.in_excess),
            owed: descriptor.map_or(0, |it| it.owed()),
            intervention: match descriptor.map(|it| it.kind) {
                Some(Kind::Blocked) => Some(Intervened::Blocked.name()),
                Some(Kind::Allowed) => Some(Intervened::Allowed.name()),
                _ => None,
            },
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self.outcome {
            Outcome::Admit => b"\"outcome\":\"admit\",\"limit\":",
            Outcome::Deny => b"\"outcome\":\"deny\",\"limit\":",
        });
        number(self.limit, out);
        out.extend_from_slice(b",\"remaining\":");
        number(self.remaining, out);
        out.extend_from_slice(b",\"delay_ms\":");
        number(Some(self.delay_ms), out);
        if self.waited_ms > 0 {
            out.extend_from_slice(b",\"waited_ms\":");
            number(Some(self.waited_ms), out);
        }
        out.extend_from_slice(b",\"retry_after_ms\":");
        number(self.retry_ms, out);
        out.extend_from_slice(b",\"reset_after_ms\":");
        number(self.reset_ms, out);
        out.extend_from_slice(b",\"rule\":");
        text(self.rule, out);
        out.extend_from_slice(b",\"degraded\":");
        text(self.degraded, out);
        if self.is_shadowed {
            out.extend_from_slice(b",\"shadow\":true");
        }
        if self.cost > 1 {
            out.extend_from_slice(b",\"cost\":");
            number(Some(self.cost), out);
        }
        if self.in_excess {
            out.extend_from_slice(b",\"excess\":true");
        }
        if self.owed > 0 {
            out.extend_from_slice(b",\"owed\":");
            number(Some(self.owed), out);
        }
        if self.intervention.is_some() {
            out.extend_from_slice(b",\"intervention\":");
            text(self.intervention, out);
        }
    }
}

/// Milliseconds, rounded up.
#[must_use]
pub fn millis(span: Duration) -> u64 {
    span.as_secs().saturating_mul(1_000).saturating_add(u64::from(span.subsec_nanos().div_ceil(1_000_000)))
}

/// Milliseconds until a retry passes, rounded up: 0 when it was admitted, at least 1 when it was denied,
/// `None` for never.
#[must_use]
pub fn retry_millis(retry: RetryAfter) -> Option<u64> {
    match retry {
        RetryAfter::Now => Some(0),
        RetryAfter::After(span) => Some(millis(span).max(1)),
        RetryAfter::Never => None,
    }
}

/// Milliseconds until a quota is full, rounded up; `None` for never.
#[must_use]
pub fn reset_millis(span: Duration) -> Option<u64> {
    (span < NEVER).then(|| millis(span))
}

fn number(number: Option<u64>, out: &mut Vec<u8>) {
    match number {
        Some(digit @ ..10) => out.push(b'0' + digit as u8), // as most are
        Some(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        None => out.extend_from_slice(b"null"),
    }
}

fn text(text: Option<&str>, out: &mut Vec<u8>) {
    let Some(text) = text else { return out.extend_from_slice(b"null") };
    if text.bytes().any(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        // Rare: a rule with a quote or a control character in its path.
        return out.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
    }
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}
