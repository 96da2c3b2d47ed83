//! Permits that this program holds ahead of its calls, and hands out without asking the service.
//!
//! Leased permits were taken from the bucket of their limit. They stop being good at the rate at which the
//! bucket refills, counted from before the service took them. So the leased permits that are still good
//! shrink at least as fast as the permits missing from the bucket. Over all programs they are never more than
//! those, and the bucket could give every permit that is handed out here at that instant. Not here: calls to
//! the service, and its offers (half of each burst is never leased).

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Demand is counted in spans of this length, and a lease is meant to last for one.
const SLOT: Duration = Duration::from_millis(100);
/// Fewest permits of a lease that will be used: fewer are not worth two calls.
const FEWEST: u64 = 8;
/// Most keys whose demand is counted.
const MOST_KEYS: usize = 10_000;

/// Offer of the service: most permits of a lease, and the time in which the limit refills the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) permits: u64,
    pub(crate) refill: Duration,
}

/// Permits that were leased.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) id: String,
    pub(crate) permits: u64,
    /// Time in which the limit refills them.
    pub(crate) refill: Duration,
    /// An instant before the service took the permits.
    pub(crate) began: Instant,
    /// Permits that were handed out.
    pub(crate) used: u64,
}

/// A lease that is over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Over {
    pub(crate) id: String,
    /// Permits to give back.
    pub(crate) good: u64,
    /// All other permits of the lease.
    pub(crate) used: u64,
}

/// Source of the permits of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Its permits are from a lease.
    Here,
    /// The caller has to ask the service. A lease with too few permits is over.
    Ask(Option<Over>),
}

impl Lease {
    /// Permits that may be handed out.
    fn good(&self, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.began).as_nanos();
        let gone = match self.refill.as_nanos() {
            0 => u128::from(self.permits),
            refill => (elapsed * u128::from(self.permits)).div_ceil(refill),
        };
        let gone = u64::try_from(gone).unwrap_or(u64::MAX);
        self.permits.saturating_sub(gone.saturating_add(self.used))
    }

    fn over(self, now: Instant) -> Over {
        let good = self.good(now);
        Over { good, used: self.permits - good, id: self.id }
    }
}

/// A key with calls.
#[derive(Debug)]
struct Demand {
    slot: Instant,
    /// Permits of calls in this slot, and in the one before.
    asked: u64,
    before: u64,
    lease: Option<Lease>,
    /// The service is being asked for a lease.
    is_asked: bool,
}

impl Demand {
    fn count(&mut self, n: u64, now: Instant) {
        let elapsed = now.saturating_duration_since(self.slot);
        if elapsed >= SLOT {
            self.before = if elapsed < 2 * SLOT { self.asked } else { 0 };
            (self.slot, self.asked) = (now, 0);
        }
        self.asked = self.asked.saturating_add(n);
    }
}

/// The leases of this program.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<HashMap<Box<str>, Demand>>);

impl Leases {
    /// Takes `n` permits of a key from its lease, if it has them.
    pub(crate) fn take(&self, key: &str, n: u64, now: Instant) -> Taken {
        let mut keys = self.0.lock();
        let Some(demand) = keys.get_mut(key) else {
            let is_full = keys.len() >= MOST_KEYS;
            if is_full {
                keys.retain(|_, demand| {
                    demand.is_asked || now.saturating_duration_since(demand.slot) < 2 * SLOT
                });
            }
            if keys.len() < MOST_KEYS {
                let new = Demand { slot: now, asked: n, before: 0, lease: None, is_asked: false };
                keys.insert(key.into(), new);
            }
            return Taken::Ask(None);
        };
        demand.count(n, now);
        if let Some(lease) = &mut demand.lease
            && n > 0
            && n <= lease.good(now)
        {
            lease.used += n;
            return Taken::Here;
        }
        // Permits that are left here must not be missing at the service.
        Taken::Ask(demand.lease.take_if(|_| n > 0).map(|lease| lease.over(now)))
    }

    /// Number of permits to lease of the service's offer. The caller has to call [`Leases::keep`] afterwards.
    pub(crate) fn want(&self, key: &str, offer: Offer, now: Instant) -> Option<u64> {
        let mut keys = self.0.lock();
        let demand = keys.get_mut(key).filter(|demand| demand.lease.is_none() && !demand.is_asked)?;
        demand.count(0, now);
        let used = u128::from(demand.before);
        // In a slot, as many permits stop being good as the limit refills.
        let gone = u128::from(offer.permits) * SLOT.as_nanos() / offer.refill.as_nanos().max(1);
        let permits = (used + gone).min(u128::from(offer.permits));
        let is_worth_it = used > 0 && used * permits / (used + gone) >= u128::from(FEWEST);
        demand.is_asked = is_worth_it;
        is_worth_it.then(|| u64::try_from(permits).unwrap_or(u64::MAX))
    }

    /// Keeps a lease of the service; `None` if it has leased nothing.
    pub(crate) fn keep(&self, key: &str, lease: Option<Lease>) {
        if let Some(demand) = self.0.lock().get_mut(key) {
            demand.is_asked = false;
            demand.lease = lease;
        }
    }
}

#[cfg(test)]
mod tests;
