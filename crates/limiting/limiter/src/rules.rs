//! The rules in force.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hashbrown::HashMap;
use tollgate_core::Timestamp;
use tollgate_observe::{Metrics, Observer};
use tollgate_policy::{Domain, Policy};

use crate::candidates::Candidates;
use crate::interventions::Interventions;

/// The rules in force, and the data prepared for them.
pub struct Rules<O: Observer = Metrics> {
    pub(crate) policy: Policy,
    /// Meters and the like that the observer has prepared for these rules.
    pub(crate) observed: O::Rules,
    /// Number of the policy among those of one limiter.
    pub(crate) generation: u64,
    /// Place of each domain in the policy. It is beyond the end, as [`aside`] writes it, while operators
    /// intervene in the domain or a version of it is judged by counters of its own. So the bounds check of
    /// each look-up finds these domains, and decisions in other domains cost no further instruction.
    places: HashMap<String, AtomicU64>,
}

/// In place of a slot: the domain has no interventions, and is set aside for another reason.
pub(crate) const NO_SLOT: usize = 0x7fff_ffff;

/// The place of a domain, and that of its interventions in their list.
const fn aside(domain: usize, slot: usize) -> u64 {
    1 << 63 | (slot as u64) << 32 | domain as u64
}

impl<O: Observer> Rules<O> {
    pub(crate) fn new(
        policy: Policy,
        observed: O::Rules,
        generation: u64,
        interventions: &Interventions,
        candidates: &Candidates,
        now: Timestamp,
    ) -> Self {
        let place = |domain: &Domain| (domain.name().to_owned(), AtomicU64::new(domain.index() as u64));
        let places = policy.domains().iter().map(place).collect();
        let rules = Self { policy, observed, generation, places };
        rules.set_aside(interventions, candidates, now);
        rules
    }

    /// The rules, ready to be matched.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The domain of that name, if no operator intervenes in it; [`Policy::domain`] finds the others too.
    #[inline]
    pub(crate) fn usual(&self, name: &str) -> Option<&Domain> {
        self.places.get(name).and_then(|place| self.policy.domains().get(place.load(Relaxed) as usize))
    }

    /// The domain of that name, and the likely slot of its interventions in their list.
    pub(crate) fn unusual(&self, name: &str) -> Option<(&Domain, usize)> {
        let place = self.places.get(name)?.load(Relaxed);
        let domain = self.policy.domains().get(place as u32 as usize)?;
        Some((domain, (place >> 32) as usize & NO_SLOT))
    }

    /// Has [`usual`](Self::usual) pass over the domains that `interventions` and `candidates` are about.
    pub(crate) fn set_aside(&self, interventions: &Interventions, candidates: &Candidates, now: Timestamp) {
        for domain in self.policy.domains() {
            let place = match interventions.slot(domain.name(), now) {
                Some(slot) => aside(domain.index(), slot),
                None if candidates.of(domain.name()).is_some() => aside(domain.index(), NO_SLOT),
                None => domain.index() as u64,
            };
            if let Some(kept) = self.places.get(domain.name()) {
                kept.store(place, Relaxed);
            }
        }
    }
}

impl<O: Observer> std::fmt::Debug for Rules<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rules").field("policy", &self.policy).finish_non_exhaustive()
    }
}
