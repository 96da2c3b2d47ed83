//! A rule: the limits of one descriptor, checked and ready for decisions.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Slots;
use tollgate_store::Sharing;

use crate::limit::Limit;
use crate::limit_text::slots_in_words;
use crate::place::Place;
use crate::reading::Reading;
use crate::response::Response;

/// The limits of one node of the descriptor tree, for requests whose last entry ends there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rule {
    /// Index among all rules of a policy, from 0. Metrics use it.
    pub index: usize,
    /// The path for people, such as `api_key → plan=gold`.
    pub path: String,
    /// The rule's `name`; empty if it has none. Other rules can name it in [`replaces`](Rule::replaces).
    pub name: String,
    /// The limits, all of them charged. Empty if [`unlimited`](Rule::unlimited) or [`denies`](Rule::denies),
    /// and of a rule with [`slots`](Rule::slots).
    pub limits: Vec<Limit>,
    /// A limit on concurrency, instead of on permits.
    pub slots: Option<Slots>,
    /// Counts nothing and admits everything.
    pub unlimited: bool,
    /// Counts nothing and denies everything.
    pub denies: bool,
    /// Counts, but never denies.
    pub shadow_mode: bool,
    /// A soft limit: a request is denied only if all its quota rules deny.
    pub quota_mode: bool,
    /// Names of rules that this one replaces if both apply to one request.
    pub replaces: Vec<String>,
    /// Free data that is returned with an admitted request; a map, or `None`.
    pub metadata: Option<serde_json::Value>,
    /// Treatment of requests while the store is unavailable.
    pub on_store_failure: OnStoreFailure,
    /// Where the counters are kept if several nodes run.
    pub sharing: Sharing,
    /// Longest wait of a request that is over a limit for its turn; `None`: it is denied at once.
    pub max_wait: Option<Duration>,
    /// Reply of HTTP surfaces to a denied request; if `None`, the domain's response applies.
    pub response: Option<Response>,
    /// Where the rule was written; `None` for a rule that was built without a text.
    pub place: Option<Place>,
    /// All levels count by the value of the request, as most rules do, and no limit has a bucket that it
    /// shares.
    pub(crate) counts_values: bool,
    /// One for each entry of a matching request.
    pub(crate) levels: Vec<Arc<Level>>,
    /// Statistics show the values of the request on all levels.
    pub(crate) detailed_metric: bool,
    /// Digest of the full path; see `identity`.
    pub(crate) identity: u64,
}

impl Rule {
    /// Identifies the rule within its domain: the first 64 bits of a SHA-256 of its full path.
    ///
    /// The same path has the same identity in every process, on every machine and in every release, so it may
    /// be stored.
    #[must_use]
    pub const fn identity(&self) -> u64 {
        self.identity
    }

    /// Its limits in words, such as `5 per minute, fixed_window` or `5 slots, concurrency, ttl 30s`.
    #[must_use]
    pub fn limits_in_words(&self) -> Vec<String> {
        let slots = self.slots.iter().map(slots_in_words);
        self.limits.iter().map(ToString::to_string).chain(slots).collect()
    }
}

/// Treatment of one entry of a request by a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// Which part of the value goes into the counter key.
    pub(crate) counted: Counted,
    /// The reading of the value, before it is counted.
    pub(crate) reading: Reading,
    /// The value of the request is part of the key of a bucket too: the rule does not name a value, nor a
    /// pattern that shares a counter.
    pub(crate) is_open: bool,
    /// Key and value of the rule, for statistics paths.
    pub(crate) stat: String,
    /// Statistics paths show the value of the request instead.
    pub(crate) stat_shows_value: bool,
}

/// Which part of an entry's value goes into the counter key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// All of it.
    Value,
    /// The rule's pattern instead; `mark` is the kind of pattern.
    Shared { mark: u8, pattern: String },
    /// The address in its canonical spelling; of an IPv6 address only this number of bits.
    Address(Option<u8>),
}

/// Treatment of a request while the store is unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStoreFailure {
    /// Deny the request.
    Deny,
    /// Admit the request.
    #[default]
    Allow,
    /// Count the request in this node's memory.
    Local,
}

impl OnStoreFailure {
    /// The name in rule files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Allow => "allow",
            Self::Local => "local",
        }
    }
}
