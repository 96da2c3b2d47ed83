//! Spans of requests, for exporters: one for each request that is sampled, nothing for the others.
//!
//! A transport asks for a span with what its caller sent as `traceparent`; the exporter of the process (a `tracing` layer that
//! watches the target [`CALL`]) does the rest. While nobody samples, asking costs one load.
//! Not here: any exporter (the server), the log (`denied`).

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tollgate_core::Outcome;
use tollgate_store::Store;
use tracing::Span;
use tracing::field::Empty;

use crate::answer::Answer;
use crate::limiter::Limiter;
use crate::observe::meters::THROTTLE;
use crate::throttled::Throttled;

/// Target of the spans.
pub const CALL: &str = "tollgate::call";

/// Longest name of a domain in a span.
const LONGEST_DOMAIN: usize = 128;

/// Of all requests, how many are sampled: this share of 2^32.
#[derive(Debug, Default)]
pub(crate) struct Sampling(AtomicU32);

impl Sampling {
    pub(crate) fn new(ratio: f64) -> Self {
        let sampling = Self::default();
        sampling.set(ratio);
        sampling
    }

    fn set(&self, ratio: f64) {
        // Saturates: what is no number, and below 0, is none.
        self.0.store((ratio * f64::from(u32::MAX)) as u32, Relaxed);
    }
}

impl<S: Store> Limiter<S> {
    /// Samples this share of the requests from now on, from 0 (none; then `traceparent` counts for nothing either) to 1.
    pub fn set_trace_ratio(&self, ratio: f64) {
        self.sampling.set(ratio);
    }

    /// Whether any request is sampled: what a transport asks before it looks for a `traceparent`. One load.
    #[inline]
    #[must_use]
    pub fn is_sampling(&self) -> bool {
        self.sampling.0.load(Relaxed) != 0
    }

    /// A span for a request that came over `surface` (`grpc`, `http`, `resp`), if it is sampled: as its caller says in
    /// `traceparent` (W3C trace context), else by chance. Its fields are surface, domain and traceparent, and outcome and rule once
    /// [`Answer::record`] (or [`Throttled::record`]) has been told.
    ///
    /// `None` while nobody samples, after one load.
    #[inline]
    #[must_use]
    pub fn call_span(&self, surface: &'static str, domain: &str, traceparent: Option<&str>) -> Option<Span> {
        match self.sampling.0.load(Relaxed) {
            0 => None,
            threshold => sampled_span(threshold, surface, domain, traceparent),
        }
    }
}

#[cold]
fn sampled_span(
    threshold: u32,
    surface: &'static str,
    domain: &str,
    traceparent: Option<&str>,
) -> Option<Span> {
    let parent = traceparent.filter(|text| is_traceparent(text));
    let is_sampled = parent.map_or_else(|| chance() <= threshold, is_sampled);
    if !is_sampled {
        return None;
    }
    let domain = &domain[..domain.floor_char_boundary(LONGEST_DOMAIN)];
    let span = tracing::info_span!(
        target: "tollgate::call",
        "decide",
        surface,
        domain,
        outcome = Empty,
        rule = Empty,
        traceparent = parent,
    );
    (!span.is_disabled()).then_some(span)
}

/// `00-` 32 digits `-` 16 digits `-` 2 digits; a later version may go on after another `-`.
fn is_traceparent(text: &str) -> bool {
    let digits = |from: usize, to: usize| {
        text.as_bytes()
            .get(from..to)
            .is_some_and(|part| part.iter().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte)))
    };
    let dash = |at: usize| text.as_bytes().get(at) == Some(&b'-');
    let not_zero = |from: usize, to: usize| text.as_bytes()[from..to].iter().any(|&byte| byte != b'0');
    let ends = match text.get(..2) {
        Some("00") => text.len() == 55,
        Some("ff") | None => false,
        Some(_) => text.len() == 55 || (text.len() < 512 && dash(55)),
    };
    ends && digits(0, 2)
        && dash(2)
        && digits(3, 35)
        && dash(35)
        && digits(36, 52)
        && dash(52)
        && digits(53, 55)
        && not_zero(3, 35)
        && not_zero(36, 52)
        && text.is_ascii()
}

/// The caller has sampled it. The text is a traceparent.
fn is_sampled(traceparent: &str) -> bool {
    traceparent.get(53..55).and_then(|flags| u8::from_str_radix(flags, 16).ok()).is_some_and(|it| it & 1 == 1)
}

/// A number by chance, evenly over all of them; good enough to sample by.
fn chance() -> u32 {
    thread_local! {
        static STATE: Cell<u64> = {
            use std::hash::BuildHasher as _;
            Cell::new(std::hash::RandomState::new().hash_one(0_u64))
        };
    }
    STATE
        .try_with(|state| {
            // splitmix64
            let next = state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
            state.set(next);
            let mixed = (next ^ next >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            (mixed >> 32) as u32
        })
        .unwrap_or(u32::MAX)
}

impl Answer<'_> {
    /// Writes what came of the request into its `span`: the outcome, and the rule that denied it, or the first one that applies.
    pub fn record(&self, span: &Span) {
        let outcome = if self.is_admitted() { "admit" } else { "deny" };
        span.record("outcome", outcome);
        let denied = self.descriptors().find(|it| it.outcome == Outcome::Deny && it.rule.is_some());
        let rule = denied.or_else(|| self.descriptors().find(|it| it.rule.is_some())).and_then(|it| it.rule);
        if let Some(rule) = rule {
            span.record("rule", rule.path.as_str());
        }
    }
}

impl Throttled {
    /// As [`Answer::record`], for a quota that came with the question.
    pub fn record(&self, span: &Span) {
        span.record("outcome", if self.is_admitted() { "admit" } else { "deny" });
        span.record("rule", THROTTLE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_traceparent_and_what_it_says() {
        const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
        const SPAN: &str = "b7ad6b7169203331";
        for (text, want) in [
            (format!("00-{TRACE}-{SPAN}-01"), Some(true)),
            (format!("00-{TRACE}-{SPAN}-03"), Some(true)),
            (format!("00-{TRACE}-{SPAN}-00"), Some(false)),
            (format!("00-{TRACE}-{SPAN}-01-more"), None), // this version has no more
            (format!("01-{TRACE}-{SPAN}-01-more"), Some(true)),
            (format!("ff-{TRACE}-{SPAN}-01"), None),
            (format!("00-{}-{SPAN}-01", "0".repeat(32)), None),
            (format!("00-{TRACE}-{}-01", "0".repeat(16)), None),
            (format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), None),
            (format!("00-{TRACE}-{SPAN}-0"), None),
            (format!("0é-{TRACE}-{SPAN}-0"), None),
            (String::new(), None),
            ("00".into(), None),
        ] {
            assert_eq!(is_traceparent(&text).then(|| is_sampled(&text)), want, "{text}");
        }
    }

    #[test]
    fn chance_is_even() {
        let below_half = (0..10_000).filter(|_| chance() < u32::MAX / 2).count();
        assert!((4_700..5_300).contains(&below_half), "{below_half} of 10,000"); // six standard deviations
    }
}
