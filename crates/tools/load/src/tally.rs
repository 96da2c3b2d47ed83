//! Replies and latencies: one tally per thread, added up at the end.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use tollgate_core::Timestamp;

/// Kinds of errors that are counted apart; the rest is counted together.
const KINDS: usize = 16;

/// Kind of reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Admitted,
    /// Admitted, and no rule matched.
    Unmatched,
    Denied,
    /// No decision, but this.
    Error(String),
}

/// An in-flight request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// When it should have been sent.
    pub(crate) intended: Timestamp,
    /// Whether it is part of the measurement.
    pub(crate) is_counted: bool,
}

/// Counts and times.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) admitted: u64,
    /// Those of `admitted` that no rule matched.
    pub(crate) unmatched: u64,
    pub(crate) denied: u64,
    /// Errors by kind.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Nanoseconds from the intended sending to the reply, of requests with a decision.
    pub(crate) latency: Histogram<u64>,
    /// Nanoseconds from the intended to the actual sending.
    pub(crate) late: Histogram<u64>,
    /// Replies of any kind, including the warm-up.
    pub(crate) replies: u64,
    /// When the last one was received.
    pub(crate) last: Timestamp,
}

impl Tally {
    pub(crate) fn new() -> Self {
        // An hour at most, to three digits. These bounds are valid, so there is always a histogram.
        let histogram = || Histogram::new_with_bounds(1, 3_600_000_000_000, 3).or_else(|_| Histogram::new(3));
        #[expect(clippy::expect_used, reason = "the bounds are constants that the histogram allows")]
        let histogram = || histogram().expect("valid bounds");
        Self {
            admitted: 0,
            unmatched: 0,
            denied: 0,
            errors: BTreeMap::new(),
            latency: histogram(),
            late: histogram(),
            replies: 0,
            last: Timestamp::ZERO,
        }
    }

    /// A request leaves at `now`.
    pub(crate) fn sent(&mut self, sent: Sent, now: Timestamp) {
        if sent.is_counted {
            self.late.saturating_record(nanos(sent.intended, now));
        }
    }

    /// Its reply was received at `now`.
    pub(crate) fn answered(&mut self, sent: Sent, now: Timestamp, verdict: Verdict) {
        self.replies += 1;
        if !sent.is_counted {
            return;
        }
        self.last = self.last.max(now);
        match verdict {
            Verdict::Admitted => self.admitted += 1,
            Verdict::Unmatched => {
                self.admitted += 1;
                self.unmatched += 1;
            }
            Verdict::Denied => self.denied += 1,
            Verdict::Error(what) => return self.failed(&what, 1),
        }
        self.latency.saturating_record(nanos(sent.intended, now));
    }

    /// `count` requests of the measurement got no decision.
    pub(crate) fn failed(&mut self, what: &str, count: u64) {
        if count == 0 {
            return;
        }
        let what =
            if self.errors.len() < KINDS || self.errors.contains_key(what) { what } else { "other errors" };
        *self.errors.entry(what.to_owned()).or_default() += count;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.admitted += other.admitted;
        self.unmatched += other.unmatched;
        self.denied += other.denied;
        self.replies += other.replies;
        self.last = self.last.max(other.last);
        for (what, count) in &other.errors {
            self.failed(what, *count);
        }
        // Both have the same bounds, so nothing is left out.
        let _ = self.latency.add(&other.latency);
        let _ = self.late.add(&other.late);
    }

    /// Requests of the measurement that ended, with or without a decision.
    pub(crate) fn requests(&self) -> u64 {
        self.admitted + self.denied + self.errors.values().sum::<u64>()
    }
}

fn nanos(from: Timestamp, to: Timestamp) -> u64 {
    to.as_nanos().saturating_sub(from.as_nanos())
}
