//! Counter keys: bytes that no two counters share, whatever values a client chooses.

use std::borrow::Cow;
use std::time::Duration;

use tollgate_core::{Quota, QuotaError};

use crate::domain::Entry;
use crate::rule::{Limit, Override, Rule, Unit};

impl Rule {
    /// Appends the key of the counter of `limits[limit]` for a request's `entries` in `domain`.
    ///
    /// `entries` are those that [`Domain::find`](crate::Domain::find) found this rule by.
    pub fn write_key(&self, _limit: usize, _domain: &str, _entries: &[Entry<'_>], _key: &mut Vec<u8>) {}

    /// Appends the statistics path of this rule, without the domain: levels joined by dots.
    pub fn write_stat(&self, _entries: &[Entry<'_>], _stat: &mut String) {}
}

impl Override {
    /// A limit of `requests_per_unit` hits a calendar window of `unit`; zero refuses everything.
    ///
    /// # Errors
    /// None today: every number of requests and every unit makes a quota.
    pub fn new(requests_per_unit: u32, unit: Unit) -> Result<Self, QuotaError> {
        let period = Duration::from_secs(unit.seconds());
        Ok(Self {
            limit: Limit {
                name: String::new(),
                quota: Quota::fixed_window(u64::from(requests_per_unit), period)?,
                requests_per_unit,
                unit: Some(unit),
                period,
                key_tail: Cow::Borrowed(unit.name()),
            },
        })
    }

    /// Appends the key of this override's counter; `rule` is the configured rule of these entries, if there is one.
    pub fn write_key(&self, _rule: Option<&Rule>, _domain: &str, _entries: &[Entry<'_>], _key: &mut Vec<u8>) {
    }
}
