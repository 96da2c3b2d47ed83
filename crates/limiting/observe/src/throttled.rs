//! Quotas that come with the request: what is asked, and the answer.

use std::time::Duration;

use tollgate_core::{Cost, Decision, Outcome, Quota, RetryAfter};
use tollgate_policy::OnStoreFailure;
use tracing::Span;

use crate::status::{Degraded, retry_after};

/// Common name of such requests, as if they were one rule.
pub const THROTTLE: &str = "(throttle)";

/// One question with its own quota.
#[derive(Clone, Copy, Debug)]
pub struct Throttle<'a> {
    /// Name of the counter, chosen by the caller; any bytes.
    pub key: &'a [u8],
    /// The quota that came with the request.
    pub quota: &'a Quota,
    /// Permits asked for; zero peeks.
    pub cost: Cost,
}

/// The answer to a [`Throttle`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Throttled {
    /// Whether it may pass.
    pub outcome: Outcome,
    /// Decision of its counter; `None` when the store did not answer.
    pub decision: Option<Decision>,
    /// Kind of the decision if the store did not answer.
    pub degraded: Option<Degraded>,
    /// It would have been denied, but the server is in shadow mode.
    pub is_shadowed: bool,
}

impl Throttled {
    /// The answer of a counter: the store's or, if `degraded` says so, this node's.
    #[inline(always)]
    #[must_use]
    pub const fn decided(decision: Decision, degraded: Option<Degraded>) -> Self {
        Self { outcome: decision.outcome(), decision: Some(decision), degraded, is_shadowed: false }
    }

    /// The answer without a counter, by the limiter's settings for that case.
    #[must_use]
    pub const fn unanswered(way: OnStoreFailure) -> Self {
        let (outcome, degraded) = match way {
            OnStoreFailure::Deny => (Outcome::Deny, Degraded::Denied),
            _ => (Outcome::Admit, Degraded::Allowed),
        };
        Self { outcome, decision: None, degraded: Some(degraded), is_shadowed: false }
    }

    /// The same answer in shadow mode, which admits requests that would be denied.
    #[must_use]
    pub const fn in_shadow_mode(self) -> Self {
        match self.outcome {
            Outcome::Admit => self,
            Outcome::Deny => Self { outcome: Outcome::Admit, is_shadowed: true, ..self },
        }
    }

    /// True when it may pass.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        matches!(self.outcome, Outcome::Admit)
    }

    /// Permits left; 0 when the store did not answer.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.decision.map_or(0, |decision| decision.remaining())
    }

    /// Time until this cost passes; a second when it is denied because the store did not answer.
    #[must_use]
    pub fn retry_after(&self) -> RetryAfter {
        if self.is_shadowed {
            return RetryAfter::Now;
        }
        retry_after(self.decision.as_ref(), self.outcome, self.degraded)
    }

    /// Time until the full quota is restored; zero when the store did not answer.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.decision.map_or(Duration::ZERO, |decision| decision.reset_after())
    }

    /// Writes the outcome into `span`.
    pub fn record(&self, span: &Span) {
        span.record("outcome", if self.is_admitted() { "admit" } else { "deny" });
        span.record("rule", THROTTLE);
    }
}
