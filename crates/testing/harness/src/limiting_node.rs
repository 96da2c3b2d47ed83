//! A node's limiter with the rules that a control plane publishes, on a clock that the test reads out.

use std::time::Duration;

use tollgate_control::Document;
use tollgate_core::{RetryAfter, Timestamp};
use tollgate_limiter::{Descriptor, Entry, Limiter, LimiterSettings, Policy, Request, Scratch};
use tollgate_store::{ModelStore, block_on};

/// An answer of a [`LimitingNode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    pub is_admitted: bool,
    pub remaining: u64,
    /// Milliseconds that a denied caller waits; `u64::MAX` for ever.
    pub wait_ms: u64,
}

/// Decides by the document of one domain. Its time begins at [`LimitingNode::BEGIN`].
pub struct LimitingNode {
    pub limiter: Limiter<ModelStore>,
}

impl LimitingNode {
    pub const BEGIN: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);

    #[must_use]
    pub fn new(document: &Document) -> Self {
        let limiter = Limiter::new(policy(document), ModelStore::default(), LimiterSettings::default());
        Self { limiter }
    }

    /// Puts another version of the document in force; counts stay.
    pub fn update(&self, document: &Document) {
        self.limiter.replace(policy(document), Self::BEGIN);
    }

    /// A request of `hits` permits, `ms` after the beginning.
    #[must_use]
    pub fn decide(&self, domain: &str, entries: &[(&str, &str)], hits: u64, ms: u64) -> Decided {
        let entries: Vec<_> = entries.iter().map(|(key, value)| Entry::new(key, value)).collect();
        let request = Request { domain, descriptors: &[Descriptor::new(&entries)], hits };
        let now = Self::BEGIN + Duration::from_millis(ms);
        let mut scratch = Scratch::new();
        let answer = block_on(self.limiter.decide(&request, now, &mut scratch)).expect("a decision");
        let wait_ms = match answer.retry_after() {
            RetryAfter::After(span) => u64::try_from(span.as_millis()).expect("a short wait"),
            RetryAfter::Now => 0,
            RetryAfter::Never => u64::MAX,
        };
        let remaining = answer.descriptor(0).expect("one descriptor").remaining();
        Decided { is_admitted: answer.is_admitted(), remaining, wait_ms }
    }
}

fn policy(document: &Document) -> Policy {
    tollgate_rule_files::parse_text(document.domain(), document.yaml()).expect("valid rules")
}
