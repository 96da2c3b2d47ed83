//! Settings of a limiter, for every request whatever the rules say.

use std::time::Duration;

use tollgate_observe::ObserveSettings;
use tollgate_policy::{OnStoreFailure, Unmatched};

/// Settings for every request, whatever the rules say.
#[derive(Clone, Debug, PartialEq)]
pub struct LimiterSettings {
    /// Requests that would be denied pass; each descriptor still says that it is over.
    pub shadow_mode: bool,
    /// Every descriptor is a soft limit: a request is denied only when all its descriptors are over.
    pub quota_mode: bool,
    /// Treatment of a request for which no rule matches, where its domain does not say it, or has no rules.
    pub unmatched: Unmatched,
    /// Treatment of a quota that came with the request ([`Limiter::throttle`](crate::Limiter::throttle))
    /// while the store does not answer.
    pub throttle_on_store_failure: OnStoreFailure,
    /// Most reservations that may be open at a time. One domain and first entry may have at most half of
    /// them, one domain four fifths; less if others want some, too.
    pub max_reservations: usize,
    /// Longest time that a reservation may be held from its start on, and longest that one may wait for its
    /// start.
    pub longest_reservation: Duration,
    /// Most requests that wait for their turn at a time, of rules that queue; further ones are denied at
    /// once. One that waits for several counters counts as several.
    pub max_queued: usize,
    /// Reply of surfaces to a request that they cannot decide.
    pub undecided: Undecided,
    /// Settings of the usual observer.
    pub observe: ObserveSettings,
}

/// Reply of a surface to a request that it cannot decide by the rules, because the request is unreadable or
/// there is no room for it. Clients can cause both, through a proxy that passes on what they send, and
/// proxies take an error for an outage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Undecided {
    /// A denial, as by a limit.
    #[default]
    Deny,
    /// An admission, of which nothing is counted.
    Allow,
    /// The error of the protocol.
    Error,
}

impl Undecided {
    /// The name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Allow => "allow",
            Self::Error => "error",
        }
    }
}

impl Default for LimiterSettings {
    /// No mode; requests that no rule matches pass; quotas that came with the request pass while the store
    /// does not answer; 100,000 reservations of up to five minutes; 10,000 requests that wait;
    /// [`ObserveSettings::default`].
    fn default() -> Self {
        Self {
            shadow_mode: false,
            quota_mode: false,
            unmatched: Unmatched::default(),
            throttle_on_store_failure: OnStoreFailure::default(),
            max_reservations: 100_000,
            longest_reservation: Duration::from_secs(300),
            max_queued: 10_000,
            undecided: Undecided::default(),
            observe: ObserveSettings::default(),
        }
    }
}
