//! Requests that want the same counters by the same rules: the first of them in a line can ask for those
//! behind it, too. Where permits come back one by one, it can ask ahead of the turn.

use tollgate_core::{Algorithm, Cost, Quota};
use tollgate_observe::LimitRef;
use tollgate_policy::Domain;
use tollgate_store::Sharing;

use super::claim::Claim;
use super::pace::Pace;
use crate::scratch::{Item, Scratch};

/// The permits that a request wants, if others can ask for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alike {
    /// Its permits can be promised ahead of its turn.
    pub(crate) is_promised: bool,
    /// The rules, and the limit and the key of each of its hard items.
    of: Box<[u8]>,
    /// The permits that it wants of each item.
    pub(crate) costs: Box<[Cost]>,
}

impl Alike {
    /// Made of the request of `scratch`, by the rules of `generation`. `None` if others cannot ask for it:
    /// the time of its turn is not known, a counter is leased or promises permits in a way of its own, or
    /// soft limits decide together whether it waits.
    pub(crate) fn of(generation: u64, domain: &Domain, scratch: &Scratch, claims: &[Claim]) -> Option<Self> {
        let hard = scratch.hard();
        if claims.is_empty()
            || claims.iter().any(|claim| claim.pace == Pace::Unknown)
            || !scratch.overrides.is_empty()
            || scratch.statuses.iter().filter(|status| status.is_quota).count() > 1
            || !hard.iter().all(|item| can_wait(item, item.quota(domain, &scratch.overrides)))
        {
            return None;
        }
        let mut of = Vec::with_capacity(16 + scratch.keys.len() + 12 * hard.len());
        of.extend(generation.to_le_bytes());
        of.extend((domain.index() as u64).to_le_bytes());
        for item in hard {
            let LimitRef::Rule(limit) = item.limit else { return None };
            let key = item.key(&scratch.keys);
            of.extend([item.rule, limit, key.len() as u32].into_iter().flat_map(u32::to_le_bytes));
            of.extend(key);
        }
        let is_promised = claims.iter().any(|claim| claim.pace.is_steady());
        Some(Self { is_promised, of: of.into(), costs: hard.iter().map(|item| item.cost).collect() })
    }

    /// Whether both want the same, at whatever cost.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.of == other.of
    }
}

/// Whether a counter promises permits as a bucket does, or promises none, so that a reservation of a request
/// means what a take at its turn would.
fn can_wait(item: &Item, quota: &Quota) -> bool {
    let promises_none = matches!(
        quota.algorithm(),
        Algorithm::FixedWindow { .. }
            | Algorithm::SlidingWindow { .. }
            | Algorithm::SlidingWindowCounter
            | Algorithm::SlidingWindowLog { .. }
            | Algorithm::Total
            | Algorithm::Unlimited
    );
    item.sharing != Sharing::Leased && (promises_none || Pace::of(quota).is_steady())
}
