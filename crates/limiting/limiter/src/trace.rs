//! Spans of sampled requests, as transports ask for them.

use tollgate_core::Outcome;
use tollgate_observe::Observer;
use tollgate_store::Store;
use tracing::Span;

use crate::answer::Answer;
use crate::limiter::Limiter;
use crate::slots::SlotAnswer;

impl<S: Store, O: Observer> Limiter<S, O> {
    /// Whether any request is sampled. Transports ask this before they look for a `traceparent`. One load.
    #[inline]
    #[must_use]
    pub fn is_sampling(&self) -> bool {
        self.observer.is_sampling()
    }

    /// A span for a request over `surface` (`grpc`, `http`, `resp`), if it is sampled: as its caller says in
    /// `traceparent` (W3C trace context), else by chance. Its fields are surface, domain and traceparent, and
    /// outcome and rule after [`Answer::record`] or [`Throttled::record`](crate::Throttled::record).
    ///
    /// `None` while nothing is sampled, after one load.
    #[inline]
    #[must_use]
    pub fn call_span(&self, surface: &'static str, domain: &str, traceparent: Option<&str>) -> Option<Span> {
        self.observer.call_span(surface, domain, traceparent)
    }
}

impl SlotAnswer {
    /// Writes the outcome and the rule into the `span` of the request.
    pub fn record(&self, span: &Span) {
        span.record("outcome", if self.is_admitted() { "admit" } else { "deny" });
        if let Some(rule) = &self.rule {
            span.record("rule", rule.as_str());
        }
    }
}

impl<O: Observer> Answer<'_, O> {
    /// Writes the result of the request into its `span`: the outcome, and the rule that denied it, or the
    /// first one that applies.
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
