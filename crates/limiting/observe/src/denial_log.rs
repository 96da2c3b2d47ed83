//! The record of a denial: its key among the top limited ones, and for some denials a structured line in the
//! log.
//!
//! The number of lines per second is limited; the first line of the next second says how many were left out.
//! While the log is off, and above the limit, a denial takes no lock for it and allocates nothing.

use std::fmt;

use tollgate_core::{Outcome, Period, Quota, RetryAfter, Timestamp};
use tollgate_human_text::{bytes_as_text, show_duration};
use tollgate_policy::{Domain, Entry, ValueRoom};
use tracing::Level;

use crate::metrics::Metrics;
use crate::observer::Decided;
use crate::rule_meters::RuleMeters;
use crate::sharded_counters::ThreadSlot;
use crate::status::{Kind, LimitRef, Status, retry_after};
use crate::throttled::{THROTTLE, Throttle, Throttled};
use crate::top_keys::{LazyTopKeys, ShownKey};

/// Target of the lines.
pub const DENIED: &str = "tollgate::denied";

/// Bytes of a request's descriptor in a line; the rest is cut.
const LONGEST_DESCRIPTOR: usize = 256;

/// The most entries of a descriptor that are shown as its rule counts them; a longer one is shown as it came.
const MOST_SEEN: usize = 8;

/// Writes an event of a level that is known only now.
macro_rules! event_at {
    ($level:expr, $($what:tt)*) => {
        match $level {
            Level::ERROR => tracing::error!(target: "tollgate::denied", $($what)*),
            Level::WARN => tracing::warn!(target: "tollgate::denied", $($what)*),
            Level::INFO => tracing::info!(target: "tollgate::denied", $($what)*),
            Level::DEBUG => tracing::debug!(target: "tollgate::denied", $($what)*),
            _ => tracing::trace!(target: "tollgate::denied", $($what)*),
        }
    };
}

impl Metrics {
    /// Notes the denials among the descriptors of `decided`. In a flood, most denials are only looked at,
    /// inline.
    #[inline(always)]
    pub(crate) fn note_denials<'e>(
        &self,
        rules: &RuleMeters,
        decided: Decided<'_>,
        entries: &impl Fn(usize) -> &'e [Entry<'e>],
        thread: ThreadSlot,
    ) {
        let Decided { domain, statuses, now, .. } = decided;
        for (index, status) in statuses.iter().enumerate() {
            let is_denied = status.outcome == Outcome::Deny;
            if !is_denied && !status.is_shadowed {
                continue;
            }
            let top = status.rule.map(|place| &rules.rule(domain.index(), place).top);
            let weighed = top.and_then(|top| Some((top, self.shared.top_settings.weight(top, now)?)));
            let line = if is_denied { self.may_log(thread, now) } else { None };
            if weighed.is_some() || line.is_some() {
                self.note_denial(domain, entries(index), status, weighed, line, now);
            }
        }
    }

    #[inline(never)]
    fn note_denial(
        &self,
        domain: &Domain,
        entries: &[Entry<'_>],
        status: &Status,
        weighed: Option<(&LazyTopKeys, u64)>,
        line: Option<Line>,
        now: Timestamp,
    ) {
        let top = &self.shared.top_settings;
        // As its rule counts them; otherwise each port of a client would be a key of its own.
        let rule = status.rule.and_then(|place| domain.rules().get(place as usize));
        let (mut rooms, mut seen);
        let entries = match rule.filter(|rule| rule.takes_addresses()) {
            Some(rule) if entries.len() <= MOST_SEEN => {
                rooms = [ValueRoom::new(); MOST_SEEN];
                seen = [const { Entry { key: &[], value: &[] } }; MOST_SEEN];
                for (index, (entry, room)) in entries.iter().zip(&mut rooms).enumerate() {
                    seen[index] = rule.seen(index, *entry, room);
                }
                &seen[..entries.len()]
            }
            _ => entries,
        };
        if let Some((lazy, weight)) = weighed
            && let Some(sketch) = top.sketch(lazy)
        {
            let hash = top.hash(entries.iter().map(|entry| entry.value));
            sketch.count(hash, weight, now, || ShownKey::of(entries.iter().map(shown)));
        }
        if let Some(line) = line {
            write_denial(line, domain, entries, status);
        }
    }

    /// As [`Self::note_denials`], for a quota that came with the request.
    #[inline(always)]
    pub(crate) fn note_throttled(
        &self,
        ask: &Throttle<'_>,
        throttled: &Throttled,
        thread: ThreadSlot,
        now: Timestamp,
    ) {
        let weight = self.shared.top_settings.weight(&self.shared.throttle_top, now);
        let line = self.may_log(thread, now);
        if weight.is_some() || line.is_some() {
            self.note_throttled_one(ask, throttled, weight, line, now);
        }
    }

    #[inline(never)]
    fn note_throttled_one(
        &self,
        ask: &Throttle<'_>,
        throttled: &Throttled,
        weight: Option<u64>,
        line: Option<Line>,
        now: Timestamp,
    ) {
        let top = &self.shared.top_settings;
        if let Some(weight) = weight
            && let Some(sketch) = top.sketch(&self.shared.throttle_top)
        {
            let hash = top.hash(std::iter::once(ask.key));
            sketch.count(hash, weight, now, || ShownKey::of(std::iter::once(ask.key)));
        }
        if let Some(line) = line {
            write_throttled(line, ask, throttled);
        }
    }

    /// Whether a line may be written now.
    #[inline]
    fn may_log(&self, thread: ThreadSlot, now: Timestamp) -> Option<Line> {
        let level = self.denial_log?;
        // No subscriber wants this level, so nothing is left out either.
        if !tracing::level_filters::LevelFilter::current().ge(&level) {
            return None;
        }
        let left_out = self.denial_lines.next(thread, now)?;
        Some(Line { level, left_out })
    }
}

/// A line that may be written: at which level, and how many were left out before it.
#[derive(Clone, Copy)]
struct Line {
    level: Level,
    left_out: u64,
}

/// Writes the line about a denial.
#[cold]
fn write_denial(Line { level, left_out }: Line, domain: &Domain, entries: &[Entry<'_>], status: &Status) {
    let rule = status.rule.map(|place| &domain.rules()[place as usize]);
    let limit = match (rule, status.limit) {
        (Some(rule), Some(LimitRef::Rule(index))) => rule.limits.get(index as usize),
        _ => None,
    };
    let is_override = matches!(status.limit, Some(LimitRef::Override(_)));
    let wait = retry_after(status.decision.as_ref(), status.outcome, status.degraded);
    let is_unmatched = rule.is_none() && status.kind == Kind::Free;
    event_at!(
        level,
        domain = domain.name(),
        rule = rule.map(|rule| rule.path.as_str()),
        limit = limit.map(tracing::field::display),
        is_override = is_override.then_some(true),
        descriptor = cut(entries).as_str(),
        hits = status.hits,
        unmatched = is_unmatched.then_some(true),
        blocked = (status.kind == Kind::Blocked).then_some(true),
        retry_after_ms = wait_ms(wait),
        never_fits = (wait == RetryAfter::Never).then_some(true),
        degraded = status.degraded.map(crate::status::Degraded::name),
        left_out = (left_out > 0).then_some(left_out),
        "denied"
    );
}

/// As [`write_denial`], for a quota that came with the request.
#[cold]
fn write_throttled(Line { level, left_out }: Line, ask: &Throttle<'_>, throttled: &Throttled) {
    event_at!(
        level,
        rule = THROTTLE,
        limit = %ShownQuota(ask.quota),
        descriptor = cut(&[Entry::new("key", ask.key)]).as_str(),
        hits = ask.cost.permits(),
        retry_after_ms = wait_ms(throttled.retry_after()),
        never_fits = (throttled.retry_after() == RetryAfter::Never).then_some(true),
        degraded = throttled.degraded.map(crate::status::Degraded::name),
        left_out = (left_out > 0).then_some(left_out),
        "denied"
    );
}

/// A quota that came with the request, shown like the limits of rules.
struct ShownQuota<'a>(&'a Quota);

impl fmt::Display for ShownQuota<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.limit())?;
        if let Period::Span(span) = self.0.period() {
            write!(f, " per {}", show_duration(*span))?;
        }
        write!(f, ", {}", self.0.algorithm().name())
    }
}

/// The text of an entry among the top keys: its value, or its key if the value is empty.
fn shown<'a>(entry: &Entry<'a>) -> &'a [u8] {
    if entry.value.is_empty() { entry.key } else { entry.value }
}

/// Milliseconds, rounded up; none if no wait helps.
fn wait_ms(retry_after: RetryAfter) -> Option<u64> {
    match retry_after {
        RetryAfter::Now => Some(0),
        RetryAfter::After(wait) => {
            Some(u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
        }
        RetryAfter::Never => None,
    }
}

/// Entries as `key=value, key=value`, in the spelling of [`bytes_as_text`], cut.
fn cut(entries: &[Entry<'_>]) -> String {
    let mut text = String::with_capacity(LONGEST_DESCRIPTOR + '…'.len_utf8());
    for (index, entry) in entries.iter().enumerate() {
        for part in [if index > 0 { b", " } else { &b""[..] }, entry.key, b"=", entry.value] {
            // Every byte is shown as at least one, so no more of them can be seen.
            let part = bytes_as_text(&part[..part.len().min(LONGEST_DESCRIPTOR + 4)]);
            let end = part.floor_char_boundary(LONGEST_DESCRIPTOR - text.len());
            text.push_str(&part[..end]);
            if end < part.len() {
                text.push('…');
                return text;
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_cut_between_characters() {
        // Before the value are ten bytes; its last character has two.
        for (length, is_whole) in [(243, true), (246, true), (247, false), (300, false)] {
            let value = format!("{}é", "x".repeat(length - 2));
            let text = cut(&[Entry::new("user", "a"), Entry::new("k", &value)]);
            assert_eq!(text.ends_with('é'), is_whole, "{length}: {text}");
            assert_eq!(text.ends_with("x…"), !is_whole, "{length}: {text}");
            assert!(text.starts_with("user=a, k=xxx") && text.len() < 260, "{text}");
        }
    }

    #[test]
    fn a_descriptor_is_shown_as_its_text_and_what_is_no_text_as_escapes() {
        // Control characters are escaped by the format of the log, once.
        for (value, shown) in [
            (&b"a\nb\x1b"[..], "k=a\nb\u{1b}"),
            (br"^\d+$", r"k=^\d+$"),
            (b"caf\xe9", r"k=caf\xE9"),
            (br"caf\xE9", r"k=caf\\xE9"),
        ] {
            assert_eq!(cut(&[Entry::new("k", value)]), shown);
        }
    }

    #[test]
    fn a_wait_is_whole_milliseconds_and_never_early() {
        for (nanos, ms) in [(1, 1), (1_000_000, 1), (1_000_001, 2)] {
            assert_eq!(wait_ms(RetryAfter::After(std::time::Duration::from_nanos(nanos))), Some(ms));
        }
        assert_eq!([wait_ms(RetryAfter::Now), wait_ms(RetryAfter::Never)], [Some(0), None]);
    }
}
