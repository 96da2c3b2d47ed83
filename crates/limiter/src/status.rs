//! What is known of one descriptor while it is decided, and afterwards.

use std::time::Duration;

use tollgate_core::{Decision, Outcome};

/// How long a caller is told to wait when a rule denies because its store is silent.
pub(crate) const RETRY_DEGRADED: Duration = Duration::from_secs(1);

/// What is remembered of one descriptor while it is decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    /// Place of its rule in the domain.
    pub(crate) rule: Option<u32>,
    pub(crate) kind: Kind,
    /// The limit that is shown, and what its counter said.
    pub(crate) limit: Option<LimitRef>,
    pub(crate) decision: Option<Decision>,
    pub(crate) remaining: u64,
    pub(crate) hits: u64,
    pub(crate) outcome: Outcome,
    pub(crate) is_quota: bool,
    /// It is limited by a rule in shadow mode.
    pub(crate) is_shadow_rule: bool,
    pub(crate) is_shadowed: bool,
    pub(crate) is_charged: bool,
    pub(crate) degraded: Option<Degraded>,
}

/// By what a descriptor is limited, or why by nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing limits it.
    Free,
    /// Its rule says so.
    Unlimited,
    /// Another rule of the request took its rule's place.
    Replaced,
    /// By its rule's limits.
    Limited,
    /// By the limit that came with it.
    Overridden,
}

/// How a decision was made while the store gave none. The greater says more of an answer in which there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Degraded {
    /// Let pass, as the rule says for that case.
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

/// Which limit an item or a status is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitRef {
    /// Of the descriptor's rule.
    Rule(u32),
    /// Of the request's overrides.
    Override(u32),
}

impl Status {
    /// Nothing limits it.
    pub(crate) const fn free(hits: u64) -> Self {
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
            is_charged: false,
            degraded: None,
        }
    }
}
