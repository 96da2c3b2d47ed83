//! The rules in force.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use hashbrown::HashMap;
use tollgate_core::Timestamp;
use tollgate_observe::{Metrics, Observer};
use tollgate_policy::{Domain, Policy};

use crate::interventions::Interventions;

/// The rules in force, and what was made ready for them.
pub struct Rules<O: Observer = Metrics> {
    pub(crate) policy: Policy,
    /// What the observer has made ready for them.
    pub(crate) observed: O::Rules,
    /// Counts the policies of one limiter.
    pub(crate) generation: u64,
    /// Where each domain is in the policy; nowhere ([`ASIDE`] is added) while operators intervene in it.
    places: HashMap<String, AtomicUsize>,
}

/// Beyond the end of every list of domains. So the check that each look-up makes anyhow finds the domains in
/// which operators intervene, and decisions in others cost not one instruction more.
const ASIDE: usize = 1 << (usize::BITS - 1);

impl<O: Observer> Rules<O> {
    pub(crate) fn new(
        policy: Policy,
        observed: O::Rules,
        generation: u64,
        interventions: &Interventions,
        now: Timestamp,
    ) -> Self {
        let place = |domain: &Domain| (domain.name().to_owned(), AtomicUsize::new(domain.index()));
        let places = policy.domains().iter().map(place).collect();
        let rules = Self { policy, observed, generation, places };
        rules.set_aside(interventions, now);
        rules
    }

    /// The rules.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The domain of that name, if no operator intervenes in it; [`Policy::domain`] finds the others too.
    #[inline]
    pub(crate) fn usual(&self, name: &str) -> Option<&Domain> {
        self.places.get(name).and_then(|place| self.policy.domains().get(place.load(Relaxed)))
    }

    /// Has [`usual`](Self::usual) pass over the domains that `interventions` are about.
    pub(crate) fn set_aside(&self, interventions: &Interventions, now: Timestamp) {
        for domain in self.policy.domains() {
            let aside = if interventions.concerns(domain.name(), now) { ASIDE } else { 0 };
            if let Some(place) = self.places.get(domain.name()) {
                place.store(domain.index() | aside, Relaxed);
            }
        }
    }
}

impl<O: Observer> std::fmt::Debug for Rules<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rules").field("policy", &self.policy).finish_non_exhaustive()
    }
}
