//! Claims: the permits that a request wants of counters whose rules queue.

use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_observe::{LimitRef, Status};
use tollgate_policy::Domain;

use super::pace::Pace;
use crate::scratch::{Item, Scratch};

/// The permits that a request wants of one counter.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) key: Box<[u8]>,
    pub(crate) permits: u64,
    pub(crate) pace: Pace,
}

/// All permits that a request wants of counters whose rules queue.
pub(crate) struct Claims {
    pub(crate) list: Vec<Claim>,
    /// Indexes of the descriptors that they belong to.
    pub(crate) descriptors: Vec<u32>,
    /// The shortest `max_wait` of these rules.
    pub(crate) max_wait: Duration,
}

impl Claim {
    /// The base of a line whose first request has this claim and its turn at `due`.
    pub(crate) fn base_of(&self, due: Timestamp) -> Timestamp {
        earlier(due, self.pace.steady_ns(self.permits))
    }

    /// The turn of the first request of a line, which has this claim.
    pub(crate) fn turn(&self, base: Timestamp) -> Timestamp {
        base + Duration::from_nanos(self.pace.steady_ns(self.permits))
    }
}

/// `at`, by `ns` nanoseconds earlier.
pub(crate) const fn earlier(at: Timestamp, ns: u64) -> Timestamp {
    Timestamp::from_nanos(at.as_nanos().saturating_sub(ns))
}

/// The claims of the request of `scratch` on counters whose rules queue and may deny it; each counter once.
pub(crate) fn claims(domain: &Domain, scratch: &Scratch) -> Claims {
    let mut claims = Claims { list: Vec::new(), descriptors: Vec::new(), max_wait: Duration::MAX };
    for item in &scratch.items {
        let Some(max_wait) = max_wait(domain, item, &scratch.statuses).filter(|_| !item.cost.is_peek())
        else {
            continue;
        };
        claims.max_wait = claims.max_wait.min(max_wait);
        claims.descriptors.push(item.descriptor);
        let pace = Pace::of(item.quota(domain, &scratch.overrides));
        claims.list.push(Claim { key: item.key(&scratch.keys).into(), permits: item.cost.permits(), pace });
    }
    claims.list.sort_by(|a, b| a.key.cmp(&b.key));
    claims.list.dedup_by(|same, first| {
        let is_same = same.key == first.key;
        if is_same {
            first.permits = first.permits.saturating_add(same.permits);
        }
        is_same
    });
    claims
}

/// Longest wait of a request for the counter of `item`, if its rule may deny it and queues.
pub(crate) fn max_wait(domain: &Domain, item: &Item, statuses: &[Status]) -> Option<Duration> {
    let status = statuses.get(item.descriptor as usize)?;
    match item.limit {
        LimitRef::Rule(_) if !status.is_shadow_rule && !item.shadow => {
            domain.rules().get(item.rule as usize)?.max_wait
        }
        _ => None,
    }
}
