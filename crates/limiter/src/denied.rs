//! What is told of a denial: the sketch of top limited keys, and a structured line in the log for some of them.
//!
//! A line is written at most so many times a second; the first of the next second says how many were left out before it. Off, and
//! over the cap, a denial takes no lock for it and allocates nothing.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate_core::{Outcome, Period, Quota, RetryAfter, Timestamp};
use tollgate_human_text::show_duration;
use tollgate_policy::{Domain, Entry};
use tollgate_store::Store;
use tracing::Level;

use crate::limiter::Limiter;
use crate::observe::lanes::{Lanes, Seat};
use crate::observe::top::{Slot, Text};
use crate::request::Request;
use crate::rules::Rules;
use crate::status::LimitRef;
use crate::status::Status;
use crate::throttle::Throttle;
use crate::throttled::Throttled;

/// Target of the lines.
pub const DENIED: &str = "tollgate::denied";

/// Bytes of a request's descriptor in a line; the rest is cut.
const LONGEST_DESCRIPTOR: usize = 256;

/// How many lines were written in the second under way, and how many were not.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The second in its upper bits, its lines in the lower 24.
    second: AtomicU64,
    left_out: Lanes<1>,
    told: AtomicU64,
}

const LINE_BITS: u32 = 24;

impl Lines {
    /// Whether a line may be written now, of `most` a second; if so, how many were left out since the last second.
    #[inline]
    pub(crate) fn next(&self, seat: Seat, most: u32, now: Timestamp) -> Option<u64> {
        let (seen, second) = (self.second.load(Relaxed), now.unix_seconds());
        let most = u64::from(most).min((1 << LINE_BITS) - 1);
        let is_new = seen >> LINE_BITS != second;
        let lines = if is_new { 0 } else { seen & ((1 << LINE_BITS) - 1) };
        let next = second << LINE_BITS | (lines + 1);
        // Who loses the race writes nothing: there are others to be read.
        if lines >= most || self.second.compare_exchange(seen, next, Relaxed, Relaxed).is_err() {
            self.left_out.add(seat, 0, 1);
            return None;
        }
        if !is_new {
            return Some(0);
        }
        let left_out = self.left_out.sum(0);
        Some(left_out.wrapping_sub(self.told.swap(left_out, Relaxed)))
    }
}

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

impl<S: Store> Limiter<S> {
    /// Takes note of the denials among `statuses`. Most of a flood are only looked at, in line.
    #[inline(always)]
    pub(crate) fn note_denials(
        &self,
        rules: &Rules,
        domain: &Domain,
        request: &Request<'_>,
        statuses: &[Status],
        seat: Seat,
        now: Timestamp,
    ) {
        for (index, status) in statuses.iter().enumerate() {
            let is_denied = status.outcome == Outcome::Deny;
            if !is_denied && !status.is_shadowed {
                continue;
            }
            let slot = status.rule.map(|place| &rules.meters.rule(domain.index(), place).top);
            let weighed = slot.and_then(|slot| Some((slot, self.metrics.top_settings().weight(slot, now)?)));
            let line = if is_denied { self.may_log(seat, now) } else { None };
            if weighed.is_some() || line.is_some() {
                self.note_denial(domain, request.descriptors[index].entries, status, weighed, line, now);
            }
        }
    }

    #[inline(never)]
    fn note_denial(
        &self,
        domain: &Domain,
        entries: &[Entry<'_>],
        status: &Status,
        weighed: Option<(&Slot, u64)>,
        line: Option<Line>,
        now: Timestamp,
    ) {
        let top = self.metrics.top_settings();
        if let Some((slot, weight)) = weighed
            && let Some(sketch) = top.sketch(slot)
        {
            let hash = top.hash(entries.iter().map(|entry| entry.value.as_bytes()));
            sketch.count(hash, weight, now, || Text::of(entries.iter().map(shown)));
        }
        if let Some(line) = line {
            write_denial(line, domain, entries, status);
        }
    }

    /// As [`Self::note_denials`], for a quota that came with the question.
    #[inline(always)]
    pub(crate) fn note_throttled(
        &self,
        ask: &Throttle<'_>,
        throttled: &Throttled,
        seat: Seat,
        now: Timestamp,
    ) {
        let weight = self.metrics.top_settings().weight(self.metrics.throttle_top(), now);
        let line = self.may_log(seat, now);
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
        let top = self.metrics.top_settings();
        if let Some(weight) = weight
            && let Some(sketch) = top.sketch(self.metrics.throttle_top())
        {
            let hash = top.hash(std::iter::once(ask.key));
            sketch.count(hash, weight, now, || Text::of_bytes(ask.key));
        }
        if let Some(line) = line {
            write_throttled(line, ask, throttled);
        }
    }

    /// Whether a line may be written now.
    #[inline]
    fn may_log(&self, seat: Seat, now: Timestamp) -> Option<Line> {
        let level = self.settings.denial_log?;
        // Nobody listens: nothing is left out either.
        if !tracing::level_filters::LevelFilter::current().ge(&level) {
            return None;
        }
        let left_out = self.lines.next(seat, self.settings.denial_log_lines, now)?;
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
    let retry_after = status.decision.map(|decision| Wait(decision.retry_after()));
    event_at!(
        level,
        domain = domain.name(),
        rule = rule.map(|rule| rule.path.as_str()),
        limit = limit.map(tracing::field::display),
        is_override = is_override.then_some(true),
        descriptor = %Cut(entries),
        hits = status.hits,
        retry_after = retry_after.map(tracing::field::display),
        degraded = status.degraded.map(crate::Degraded::name),
        left_out = (left_out > 0).then_some(left_out),
        "denied"
    );
}

/// As [`write_denial`], for a quota that came with the question.
#[cold]
fn write_throttled(Line { level, left_out }: Line, ask: &Throttle<'_>, throttled: &Throttled) {
    event_at!(
        level,
        rule = crate::observe::meters::THROTTLE,
        limit = %Rate(ask.quota),
        descriptor = %Cut(&[Entry { key: "key", value: &String::from_utf8_lossy(ask.key) }]),
        hits = ask.cost.permits(),
        retry_after = %Wait(throttled.retry_after()),
        degraded = throttled.degraded.map(crate::Degraded::name),
        left_out = (left_out > 0).then_some(left_out),
        "denied"
    );
}

/// A quota that came with the question, as those of rules are shown.
struct Rate<'a>(&'a Quota);

impl fmt::Display for Rate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.limit())?;
        if let Period::Span(span) = self.0.period() {
            write!(f, " per {}", show_duration(*span))?;
        }
        write!(f, ", {}", self.0.algorithm().name())
    }
}

/// What of an entry is shown in the sketch: its value, or its key where it has none.
fn shown<'a>(entry: &Entry<'a>) -> &'a str {
    if entry.value.is_empty() { entry.key } else { entry.value }
}

/// Seconds, or `never`.
struct Wait(RetryAfter);

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            RetryAfter::Now => f.write_str("0"),
            RetryAfter::After(wait) => write!(f, "{}", wait.as_secs_f64()),
            RetryAfter::Never => f.write_str("never"),
        }
    }
}

/// Entries as `key=value, key=value`, escaped and cut.
struct Cut<'a>(&'a [Entry<'a>]);

impl fmt::Display for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = LONGEST_DESCRIPTOR;
        for (index, entry) in self.0.iter().enumerate() {
            let marks = [if index > 0 { ", " } else { "" }, entry.key, "=", entry.value];
            for char in marks.iter().flat_map(|part| part.chars()) {
                let Some(less) = left.checked_sub(char.len_utf8()) else { return f.write_char('…') };
                left = less;
                match char.is_control() {
                    true => write!(f, "{}", char.escape_debug())?,
                    false => f.write_char(char)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_lines_a_second_and_the_next_second_tells_how_many_were_left_out() {
        let (lines, seat) = (Lines::default(), Seat::here());
        for (at_ms, want) in [
            (1_000, Some(0)),
            (1_100, Some(0)),
            (1_200, None),
            (1_999, None),
            (2_000, Some(2)),
            (2_001, Some(0)),
            (2_002, None),
            (1_500, Some(1)), // the clock stepped back
            (9_000, Some(0)),
        ] {
            let now = Timestamp::from_nanos(at_ms * 1_000_000);
            assert_eq!(lines.next(seat, 2, now), want, "at {at_ms} ms");
        }
    }

    #[test]
    fn a_descriptor_is_escaped_and_cut() {
        let long = "x".repeat(300);
        let text = Cut(&[Entry { key: "user", value: "a\nb\u{1b}" }, Entry { key: "path", value: &long }])
            .to_string();
        assert!(text.starts_with("user=a\\nb\\u{1b}, path=xxx") && text.ends_with("x…"), "{text}");
        assert!(text.len() < 300);
    }
}
