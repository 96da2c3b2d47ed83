//! Series by values of requests, for rules that ask for them (`detailed_metric`, `value_to_metric`), up to a
//! cap.
//!
//! Such a rule pays a lookup under a shared lock for each decision; other rules pay nothing. Beyond the cap,
//! values of clients make no further series: they are counted under `(others)` of their domain.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use tollgate_policy::Entry;

use crate::observer::Decided;
use crate::rule_meters::{self, OTHERS, RuleCounters};
use crate::sharded_counters::ThreadSlot;
use crate::status::Kind;

/// Longer paths, in bytes, are counted under `(others)`.
const LONGEST_STAT: usize = 256;

/// Counters by domain and statistics path.
#[derive(Debug)]
pub(crate) struct ValueSeries {
    domains: RwLock<Domains>,
    most: usize,
}

#[derive(Debug, Default)]
struct Domains {
    series: HashMap<String, HashMap<String, Arc<RuleCounters>>>,
    /// Number of series in all domains.
    number: usize,
}

impl ValueSeries {
    /// At most `most` series, and one more for each domain.
    pub(crate) fn new(most: usize) -> Self {
        Self { domains: RwLock::default(), most }
    }

    /// Counts the descriptors whose rules are shown by values of requests.
    #[cold]
    pub(crate) fn count<'e>(
        &self,
        thread: ThreadSlot,
        decided: Decided<'_>,
        entries: &impl Fn(usize) -> &'e [Entry<'e>],
        near_ratio: f32,
    ) {
        let domain = decided.domain;
        for (index, status) in decided.statuses.iter().enumerate() {
            let rule = status.rule.map(|place| &domain.rules()[place as usize]);
            let Some(rule) = rule.filter(|rule| status.kind != Kind::Replaced && rule.stat_varies()) else {
                continue;
            };
            let mut stat = String::new();
            rule.write_stat(entries(index), &mut stat);
            rule_meters::count(&self.counters(domain.name(), &stat), thread, status, near_ratio);
        }
    }

    /// The counters of `stat` in `domain`.
    pub(crate) fn counters(&self, domain: &str, stat: &str) -> Arc<RuleCounters> {
        let find = |domains: &Domains| domains.series.get(domain).and_then(|of| of.get(stat)).map(Arc::clone);
        if let Some(counters) = find(&self.domains.read()) {
            return counters;
        }
        let mut domains = self.domains.write();
        let stat = if domains.number < self.most && stat.len() <= LONGEST_STAT { stat } else { OTHERS };
        domains.number += usize::from(stat != OTHERS);
        let of_domain = domains.series.entry(domain.to_owned()).or_default();
        Arc::clone(of_domain.entry(stat.to_owned()).or_default())
    }

    /// Every series: domain, statistics path, counters.
    pub(crate) fn all(&self) -> Vec<(String, String, Arc<RuleCounters>)> {
        let domains = self.domains.read();
        let of_domain = |(domain, of): (&String, &HashMap<String, Arc<RuleCounters>>)| {
            let one = |(stat, counters): (&String, &Arc<RuleCounters>)| {
                (domain.clone(), stat.clone(), Arc::clone(counters))
            };
            of.iter().map(one).collect::<Vec<_>>()
        };
        domains.series.iter().flat_map(of_domain).collect()
    }
}
