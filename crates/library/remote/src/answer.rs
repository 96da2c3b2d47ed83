//! Answers of the service.

use std::time::Duration;

use serde::Deserialize;

/// Decision about a question, with the numbers of the limit that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// Whether the permits were taken.
    pub is_admitted: bool,
    /// The most permits that can be available at once; `None` where no limit applies.
    pub limit: Option<u64>,
    /// Permits that are left.
    pub remaining: Option<u64>,
    /// Permits used beyond those available, for hits that are reported after they were used.
    pub owed: u64,
    /// Delay after which to act: zero, except for rules that pace.
    pub delay: Duration,
    /// Time until a retry passes: zero if admitted, and `None` where no wait helps.
    pub retry_after: Option<Duration>,
    /// The path of the rule that decided.
    pub rule: Option<String>,
    /// The party that decided.
    pub decided_by: DecidedBy,
}

/// The party that made a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecidedBy {
    /// The service, by its counters.
    Service,
    /// The service, while its store was unavailable, as the rule says.
    ServiceWithoutStore,
    /// This program, by permits leased from the service. Such an answer shows no numbers and no rule.
    Lease,
    /// This program, because the service did not answer.
    OnFailure,
}

/// As `/v1/check` writes it.
#[derive(Debug, Deserialize)]
pub(crate) struct Decision {
    outcome: String,
    limit: Option<u64>,
    remaining: Option<u64>,
    delay_ms: u64,
    /// Part of the delay that the request has waited at the service already.
    #[serde(default)]
    waited_ms: u64,
    retry_after_ms: Option<u64>,
    rule: Option<String>,
    degraded: Option<String>,
    #[serde(default)]
    owed: u64,
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Self {
        let ms = Duration::from_millis;
        Self {
            is_admitted: decision.outcome == "admit",
            limit: decision.limit,
            remaining: decision.remaining,
            owed: decision.owed,
            delay: ms(decision.delay_ms.saturating_sub(decision.waited_ms)),
            retry_after: decision.retry_after_ms.map(ms),
            rule: decision.rule,
            decided_by: match decision.degraded {
                Some(_) => DecidedBy::ServiceWithoutStore,
                None => DecidedBy::Service,
            },
        }
    }
}
