//! State of one descriptor while it is decided, and afterwards.
//!
//! The limiter fills it in, observers and answers read it. Not here: the decision itself (`limiter`).

use std::time::Duration;

use tollgate_core::{Decision, Outcome, RetryAfter};

/// `retry_after` of a denial that no counter made, since the store did not answer.
const RETRY_DEGRADED: Duration = Duration::from_secs(1);

/// Time until the cost of an `outcome` fits: as the counter decided, also if a shadow rule admits the
/// request; a second where it is denied because the store did not answer; never where no counter was asked
/// and it is denied all the same, since no rule matches.
#[must_use]
pub fn retry_after(decision: Option<&Decision>, outcome: Outcome, degraded: Option<Degraded>) -> RetryAfter {
    match (decision, outcome, degraded) {
        (Some(decision), ..) => decision.retry_after(),
        (None, Outcome::Admit, _) => RetryAfter::Now,
        (None, Outcome::Deny, Some(_)) => RetryAfter::After(RETRY_DEGRADED),
        (None, Outcome::Deny, None) => RetryAfter::Never,
    }
}

/// One descriptor of a request, and its result.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// Place of its rule in the domain.
    pub rule: Option<u32>,
    /// Kind of the limit, or the reason why there is none.
    pub kind: Kind,
    /// The limit that is shown.
    pub limit: Option<LimitRef>,
    /// Decision of the counter of that limit.
    pub decision: Option<Decision>,
    /// Permits left by that limit; 0 if it denies.
    pub remaining: u64,
    /// Permits asked for.
    pub hits: u64,
    /// Whether it may pass.
    pub outcome: Outcome,
    /// A soft limit: the request is denied only when all its soft limits deny.
    pub is_quota: bool,
    /// It is limited by a rule in shadow mode.
    pub is_shadow_rule: bool,
    /// It would have been denied, but its rule is in shadow mode.
    pub is_shadowed: bool,
    /// A limit in shadow would have denied it, whatever the limits in force said.
    pub is_denied_in_trial: bool,
    /// While a version is rolled out: the counters that only this version uses would have denied it.
    pub is_denied_alone: bool,
    /// Its hits were counted.
    pub is_charged: bool,
    /// It was admitted above a limit, within the excess of that limit.
    pub in_excess: bool,
    /// Permits that the limit shown admits beyond its number.
    pub excess: u64,
    /// The choice that decided without the store; `None` if the store answered.
    pub degraded: Option<Degraded>,
}

/// Kind of the limit of a descriptor, or the reason why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No rule limits it.
    Free,
    /// Its rule says `unlimited`.
    Unlimited,
    /// Another rule of the request replaces its rule.
    Replaced,
    /// The limits of its rule limit it.
    Limited,
    /// The limit that came with it limits it.
    Overridden,
    /// An operator has blocked it, whatever its rule says.
    Blocked,
    /// An operator has allowed it: it is admitted and not counted.
    Allowed,
}

/// Action of an operator on a key, a caller or a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intervened {
    /// Its requests are denied.
    Blocked,
    /// Its requests are admitted and not counted.
    Allowed,
}

impl Intervened {
    /// The name in metrics and replies.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocked => "block",
            Self::Allowed => "allow",
        }
    }
}

/// Kind of a decision without the store. Ordered: an answer reports the greatest of its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Degraded {
    /// Admitted, as the rule says for that case.
    Allowed,
    /// Counted in this node's memory.
    Local,
    /// Denied, as the rule says for that case.
    Denied,
}

impl Degraded {
    /// The name in metrics and replies.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Denied => "deny",
            Self::Allowed => "allow",
            Self::Local => "local",
        }
    }
}

/// A limit of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitRef {
    /// A limit of the descriptor's rule, by its place.
    Rule(u32),
    /// A limit that came with the request, by its place among these.
    Override(u32),
}

impl Status {
    /// Nothing limits it.
    #[must_use]
    pub const fn free(hits: u64) -> Self {
        Self {
            rule: None,
            kind: Kind::Free,
            limit: None,
            decision: None,
            remaining: 0,
            hits,
            outcome: Outcome::Admit,
            is_quota: false,
            is_shadow_rule: false,
            is_shadowed: false,
            is_denied_in_trial: false,
            is_denied_alone: false,
            is_charged: false,
            in_excess: false,
            excess: 0,
            degraded: None,
        }
    }
}
