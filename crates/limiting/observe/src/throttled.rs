//! Quotas that come with the request: what is asked, and the answer.

use std::time::Duration;

use tollgate_core::{Cost, Decision, Outcome, Quota, RetryAfter};
use tollgate_policy::OnStoreFailure;
use tracing::Span;

use crate::status::{Degraded, retry_after};

/// What such requests are called together, as if they were one rule.
pub const THROTTLE: &str = "(throttle)";

/// One question with its own quota.
#[derive(Clone, Copy, Debug)]
pub struct Throttle<'a> {
    /// Whose counter, in the caller's own words; any bytes.
    pub key: &'a [u8],
    /// How often it may pass.
    pub quota: &'a Quota,
    /// Permits asked for; zero peeks.
    pub cost: Cost,
}

/// The answer to a [`Throttle`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Throttled {
    /// May it pass?
    pub outcome: Outcome,
    /// What its counter said; `None` when the store did not answer.
    pub decision: Option<Decision>,
    /// The store did not answer, and this is how it was decided then.
    pub degraded: Option<Degraded>,
    /// It would have been denied, but the server is in shadow mode.
    pub is_shadowed: bool,
}

impl Throttled {
    /// A counter decided: the store's, or where `degraded` says so this node's.
    #[inline(always)]
    #[must_use]
    pub const fn decided(decision: Decision, degraded: Option<Degraded>) -> Self {
        Self { outcome: decision.outcome(), decision: Some(decision), degraded, is_shadowed: false }
    }

    /// Nothing counted it: decided as the limiter's settings say for that case.
    #[must_use]
    pub const fn unanswered(way: OnStoreFailure) -> Self {
        let (outcome, degraded) = match way {
            OnStoreFailure::Deny => (Outcome::Deny, Degraded::Denied),
            _ => (Outcome::Admit, Degraded::Allowed),
        };
        Self { outcome, decision: None, degraded: Some(degraded), is_shadowed: false }
    }

    /// The same of a server in shadow mode, which admits what it would deny.
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

    /// How long until this cost passes; a second when it is denied because the store did not answer.
    #[must_use]
    pub fn retry_after(&self) -> RetryAfter {
        if self.is_shadowed {
            return RetryAfter::Now;
        }
        retry_after(self.decision.as_ref(), self.outcome, self.degraded)
    }

    /// How long until the full quota is there again; zero when the store did not answer.
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
