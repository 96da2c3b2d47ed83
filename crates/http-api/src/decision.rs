//! A decision as JSON, written by hand into a buffer that is used again, and as what header fields need.
//!
//! [`crate::bodies::Decision`] is the same shape for the API's description, which tests hold answers to.

use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::HeaderValue;
use tollgate_core::RetryAfter;
use tollgate_headers::{DEGRADED, LimitState, most_restrictive};
use tollgate_limiter::{Answer, Degraded, DescriptorAnswer, Limit, Rule};

/// Until a full quota that never fills up by itself.
const NEVER: Duration = Duration::from_nanos(u64::MAX);

/// The limits that bind, one a descriptor that has one, in their order.
pub(crate) fn limits<'a>(answer: &'a Answer<'_>) -> Limits<'a> {
    let mut descriptors = answer.descriptors();
    match descriptors.len() {
        1 => Limits::One(descriptors.next().and_then(|only| state(&only, answer.is_admitted()))),
        _ => Limits::Many(answer.descriptors().filter_map(|it| state(&it, answer.is_admitted())).collect()),
    }
}

/// One limit needs no list.
pub(crate) enum Limits<'a> {
    One(Option<LimitState<'a>>),
    Many(Vec<LimitState<'a>>),
}

impl<'a> Limits<'a> {
    pub(crate) fn as_slice(&self) -> &[LimitState<'a>] {
        match self {
            Self::One(limit) => limit.as_slice(),
            Self::Many(limits) => limits,
        }
    }
}

/// What clients know a limit by: its own name, else its rule's, else the rule's path.
pub(crate) fn name<'a>(rule: &'a Rule, limit: &'a Limit) -> &'a str {
    [&limit.name, &rule.name].into_iter().find(|name| !name.is_empty()).unwrap_or(&rule.path)
}

/// What a client is told of the limit that binds `descriptor`. Where the request passes nothing is refused, also where a
/// rule in shadow mode, or a soft one, would have.
fn state<'a>(descriptor: &DescriptorAnswer<'a>, passes: bool) -> Option<LimitState<'a>> {
    let limit = descriptor.limit?;
    Some(LimitState {
        name: descriptor.rule.map_or(&limit.name, |rule| name(rule, limit)),
        limit: u64::from(limit.requests_per_unit),
        window: limit.period,
        remaining: descriptor.remaining(),
        reset_after: descriptor.reset_after(),
        retry_after: if passes || descriptor.is_admitted() {
            RetryAfter::Now
        } else {
            descriptor.retry_after()
        },
        is_unknown: descriptor.degraded == Some(Degraded::Denied),
    })
}

/// The place of the descriptor that the answer as a whole shows: of those that refuse the one with the longest wait, of
/// all others the one with the least left. `None` when no limit binds any.
pub(crate) fn shown(answer: &Answer<'_>) -> Option<usize> {
    if answer.descriptors().len() == 1 {
        return answer.descriptor(0).and_then(|only| only.limit).map(|_| 0);
    }
    let passes = answer.is_admitted();
    let states = answer.descriptors().enumerate().filter_map(|(at, it)| Some((at, state(&it, passes)?)));
    let (places, states): (Vec<_>, Vec<_>) = states.unzip();
    let chosen = most_restrictive(&states)?;
    places.get(states.iter().position(|state| std::ptr::eq(state, chosen))?).copied()
}

/// Appends the decision to `out`.
pub(crate) fn write(answer: &Answer<'_>, out: &mut Vec<u8>) {
    out.push(b'{');
    if answer.descriptors().len() == 1
        && let Some(only) = answer.descriptor(0)
        && only.is_admitted() == answer.is_admitted()
        && only.is_shadowed == answer.is_shadowed()
    {
        // The usual one says the same as a whole and of its part.
        let begin = out.len();
        Line::new(Some(&only), only.is_admitted(), only.is_shadowed, only.delay()).write(out);
        let end = out.len();
        out.extend_from_slice(b",\"descriptors\":[{");
        out.extend_from_within(begin..end);
        return out.extend_from_slice(b"}]}");
    }
    let shown = shown(answer).and_then(|index| answer.descriptor(index));
    let delay = answer.descriptors().map(|it| it.delay()).max().unwrap_or_default();
    let mut whole = Line::new(shown.as_ref(), answer.is_admitted(), answer.is_shadowed(), delay);
    // Also where a descriptor was let pass, so that no limit of it is shown.
    whole.degraded = answer.degraded().map(|degraded| degraded.name());
    whole.write(out);
    out.extend_from_slice(b",\"descriptors\":[");
    for (index, descriptor) in answer.descriptors().enumerate() {
        out.extend_from_slice(if index == 0 { b"{" } else { b",{" });
        let line = Line::new(
            Some(&descriptor),
            descriptor.is_admitted(),
            descriptor.is_shadowed,
            descriptor.delay(),
        );
        line.write(out);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
}

/// Marks an answer whose decision was made while the store gave none.
pub(crate) fn mark(degraded: Option<Degraded>, fields: &mut HeaderMap) {
    if let Some(degraded) = degraded {
        fields.insert(DEGRADED, HeaderValue::from_static(degraded.name()));
    }
}

/// The members that a decision and each of its descriptors have.
struct Line<'a> {
    is_admitted: bool,
    is_shadowed: bool,
    /// The limit, and what is left of it.
    limit: Option<(u64, u64)>,
    delay_ms: u64,
    /// `None`: never.
    retry_ms: Option<u64>,
    reset_ms: Option<u64>,
    rule: Option<&'a str>,
    degraded: Option<&'static str>,
}

impl<'a> Line<'a> {
    fn new(
        descriptor: Option<&DescriptorAnswer<'a>>,
        is_admitted: bool,
        is_shadowed: bool,
        delay: Duration,
    ) -> Self {
        let retry = descriptor.filter(|_| !is_admitted).map_or(RetryAfter::Now, |it| it.retry_after());
        let reset = descriptor.map_or(Duration::ZERO, |it| it.reset_after());
        Line {
            is_admitted,
            is_shadowed,
            limit: descriptor.and_then(|it| Some((u64::from(it.limit?.requests_per_unit), it.remaining()))),
            delay_ms: millis(delay),
            retry_ms: match retry {
                RetryAfter::Now => Some(0),
                RetryAfter::After(span) => Some(millis(span).max(1)),
                RetryAfter::Never => None,
            },
            reset_ms: reset_millis(reset),
            rule: descriptor.and_then(|it| it.rule).map(|rule| rule.path.as_str()),
            degraded: descriptor.and_then(|it| it.degraded).map(|degraded| degraded.name()),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.is_admitted {
            b"\"outcome\":\"admit\",\"limit\":"
        } else {
            b"\"outcome\":\"deny\",\"limit\":"
        });
        number(self.limit.map(|(limit, _)| limit), out);
        out.extend_from_slice(b",\"remaining\":");
        number(self.limit.map(|(_, remaining)| remaining), out);
        out.extend_from_slice(b",\"delay_ms\":");
        number(Some(self.delay_ms), out);
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
    }
}

/// Milliseconds, rounded up.
pub(crate) fn millis(span: Duration) -> u64 {
    span.as_secs().saturating_mul(1_000).saturating_add(u64::from(span.subsec_nanos().div_ceil(1_000_000)))
}

/// Milliseconds until a quota is full, rounded up; `None` for never.
pub(crate) fn reset_millis(span: Duration) -> Option<u64> {
    (span < NEVER).then(|| millis(span))
}

fn number(number: Option<u64>, out: &mut Vec<u8>) {
    let Some(mut rest) = number else { return out.extend_from_slice(b"null") };
    if rest < 10 {
        return out.push(b'0' + rest as u8);
    }
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return out.extend_from_slice(&digits[at..]);
        }
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
