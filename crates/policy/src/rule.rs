//! A rule: what one descriptor of a rule file says, ready to be used.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Quota, Sharing};
use tollgate_headers::Template;

use crate::fault::Place;

/// What one node of a descriptor tree says about the requests that end there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rule {
    /// Dense number among all rules of a policy, from 0: an index for metrics.
    pub index: usize,
    /// The path for people, such as `api_key → plan=gold`.
    pub path: String,
    /// The rule's `name`; empty where the file gives none. Target of other rules' [`replaces`](Rule::replaces).
    pub name: String,
    /// The limits, each charged. Empty when [`unlimited`](Rule::unlimited).
    pub limits: Vec<Limit>,
    /// Nothing is counted and everything passes.
    pub unlimited: bool,
    /// Counts, but never denies.
    pub shadow_mode: bool,
    /// A soft limit: the overall answer denies only when all quota rules do.
    pub quota_mode: bool,
    /// Names of rules that this one takes the place of when both apply to one request.
    pub replaces: Vec<String>,
    /// Free data that goes back with a request that passes; a map, or `None`.
    pub metadata: Option<serde_json::Value>,
    /// What to do when the store does not answer.
    pub on_store_failure: OnStoreFailure,
    /// Where the counters live when several nodes run.
    pub sharing: Sharing,
    /// How an HTTP surface answers a denied request; the domain's where the rule gives none.
    pub response: Option<Response>,
    /// Where the rule stands in its file.
    pub place: Place,
    /// All levels count by the value of the request, as most rules do.
    pub(crate) counts_values: bool,
    /// One for each entry of the requests that end here.
    pub(crate) levels: Vec<Arc<Level>>,
    /// Statistics show the values of the request on all levels.
    pub(crate) detailed_metric: bool,
    /// Hash of the path in full; the same in every process.
    pub(crate) identity: u64,
}

impl Rule {
    /// Tells the rules of a domain apart: a hash of the path in full, the same in every process and after a reload.
    #[must_use]
    pub const fn identity(&self) -> u64 {
        self.identity
    }
}

impl Limit {
    /// What the keys of its counters end in, after the last `|`: how it is counted, and its name where it is one of several.
    #[must_use]
    pub fn key_tail(&self) -> &str {
        &self.key_tail
    }
}

/// What a rule does with one entry of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// What of the entry tells counters apart.
    pub(crate) counted: Counted,
    /// As the file has it, for statistics.
    pub(crate) stat: String,
    /// Statistics show the value of the request instead.
    pub(crate) stat_shows_value: bool,
}

/// What of an entry's value goes into the counter's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// All of it.
    Value,
    /// The rule's pattern instead; `mark` tells kinds of patterns apart.
    Shared { mark: u8, pattern: String },
    /// The address that it is, in the one spelling that addresses have; of an IPv6 address only these bits.
    Address(Option<u8>),
}

/// One limit of a rule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limit {
    /// `name` in the file; empty where it gives none. Goes back in replies.
    pub name: String,
    /// What is counted, ready for a store.
    pub quota: Quota,
    /// The number in the file.
    pub requests_per_unit: u32,
    /// The unit that the period is exactly one of; `None` for any other period, such as ten seconds.
    pub unit: Option<Unit>,
    /// The length of the period (of the unit, where a time zone makes it vary).
    pub period: Duration,
    /// Last part of the counter's key.
    pub(crate) key_tail: Arc<str>,
}

/// Units of a rule file. Months have 30 days and years 365 unless a `time_zone` says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// 1 s.
    Second,
    /// 60 s.
    Minute,
    /// 3,600 s.
    Hour,
    /// 86,400 s.
    Day,
    /// 7 days, beginning on a Thursday, as 1 January 1970 was one.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

impl Unit {
    /// Seconds in one unit.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Week => 604_800,
            Self::Month => 2_592_000,
            Self::Year => 31_536_000,
        }
    }

    /// The name in rule files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }
}

/// What to do with a request when the store does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStoreFailure {
    /// Refuse it.
    Deny,
    /// Let it pass.
    #[default]
    Allow,
    /// Count it in this node's memory.
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

/// How an HTTP surface answers a denied request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Response {
    /// Status code, 400 to 599; `None` for the surface's own (429).
    pub status: Option<u16>,
    /// `Content-Type` of the body, a valid header value; `None` means `text/plain; charset=utf-8`.
    pub content_type: Option<String>,
    /// Body, with `{{retry_after}}` and the like to be filled in.
    pub body: Option<Template>,
    /// Further header fields; the names are valid, the values may hold the same placeholders.
    pub headers: Vec<(String, Template)>,
}

/// A limit that came with the request instead of from a file: `requests_per_unit` hits a calendar window of `unit`.
///
/// It counts under the same key as a configured fixed window of the same unit for the same entries would, so that the
/// two share a count.
#[derive(Clone, Debug)]
pub struct Override {
    /// What is counted, and how it is answered.
    pub limit: Limit,
    pub(crate) unit: Unit,
}
