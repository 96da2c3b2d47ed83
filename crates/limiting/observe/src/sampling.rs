//! Spans of requests, for exporters: one for each sampled request.
//!
//! A transport asks for a span with the `traceparent` of its caller; the exporter of the process (a `tracing`
//! layer that watches the target [`CALL`]) does the rest. While nothing is sampled, a call costs one load.
//! Not here: any exporter (the server), the log (`denial_log`).

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tracing::Span;
use tracing::field::Empty;

/// Target of the spans.
pub const CALL: &str = "tollgate::call";

/// Longest name of a domain in a span.
const LONGEST_DOMAIN: usize = 128;

/// Share of sampled requests, in parts of 2^32.
#[derive(Debug, Default)]
pub(crate) struct Sampling(AtomicU32);

impl Sampling {
    pub(crate) fn new(ratio: f64) -> Self {
        let sampling = Self::default();
        sampling.set(ratio);
        sampling
    }

    /// Samples this share of the requests from now on.
    pub(crate) fn set(&self, ratio: f64) {
        // Saturates: NaN and negative ratios become 0.
        self.0.store((ratio * f64::from(u32::MAX)) as u32, Relaxed);
    }

    /// Whether any request is sampled. One load.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    /// A span for a request, if it is sampled. One load while none is.
    #[inline]
    pub(crate) fn span(
        &self,
        surface: &'static str,
        domain: &str,
        traceparent: Option<&str>,
    ) -> Option<Span> {
        match self.0.load(Relaxed) {
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
    let is_sampled = parent.map_or_else(|| fastrand::u32(..) <= threshold, is_sampled);
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

/// `00-` 32 digits `-` 16 digits `-` 2 digits; a later version may have more after another `-`.
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

/// The caller has sampled it, and the text is a valid `traceparent`.
fn is_sampled(traceparent: &str) -> bool {
    traceparent.get(53..55).and_then(|flags| u8::from_str_radix(flags, 16).ok()).is_some_and(|it| it & 1 == 1)
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
}
