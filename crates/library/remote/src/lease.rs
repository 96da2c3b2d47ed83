//! Permits that this program holds ahead of its calls, and hands out without asking the service.
//!
//! Leased permits were taken from the bucket of their limit. They stop being good at the rate at which the
//! bucket refills, counted from before the service took them. So what is leased and still good shrinks at
//! least as fast as what is missing from the bucket: over all programs it is never more than that, and every
//! permit that is handed out here is one that the bucket could give at that instant. Not here: how the
//! service is asked, and what it offers (half of each burst is never leased).

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Demand is counted in spans of this length, and a lease is to last for one.
const SLOT: Duration = Duration::from_millis(100);
/// Permits of a lease that will be used, at least: fewer are not worth two calls.
const FEWEST: u64 = 8;
/// Keys whose demand is counted.
const MOST_KEYS: usize = 10_000;

/// What the service offers: permits at most, and how long the limit takes to refill as many.
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
    /// How long the limit takes to refill them.
    pub(crate) refill: Duration,
    /// Before the service took them.
    pub(crate) began: Instant,
    /// Those that were handed out.
    pub(crate) used: u64,
}

/// A lease that is over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Over {
    pub(crate) id: String,
    /// Permits that go back.
    pub(crate) good: u64,
    /// All others of the lease.
    pub(crate) used: u64,
}

/// What becomes of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Its permits are from a lease.
    Here,
    /// It asks the service. A lease that was not enough is over.
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

/// A key that was asked for.
#[derive(Debug)]
struct Demand {
    slot: Instant,
    /// Permits that were asked for in this slot, and in the one before.
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
        // What is left here must not be missing there.
        Taken::Ask(demand.lease.take_if(|_| n > 0).map(|lease| lease.over(now)))
    }

    /// How many permits to lease of what the service offers. Then [`Leases::keep`] has to follow.
    pub(crate) fn want(&self, key: &str, offer: Offer, now: Instant) -> Option<u64> {
        let mut keys = self.0.lock();
        let demand = keys.get_mut(key).filter(|demand| demand.lease.is_none() && !demand.is_asked)?;
        demand.count(0, now);
        let used = u128::from(demand.before);
        // In a slot, as many stop being good as the limit refills.
        let gone = u128::from(offer.permits) * SLOT.as_nanos() / offer.refill.as_nanos().max(1);
        let permits = (used + gone).min(u128::from(offer.permits));
        let is_worth_it = used > 0 && used * permits / (used + gone) >= u128::from(FEWEST);
        demand.is_asked = is_worth_it;
        is_worth_it.then(|| u64::try_from(permits).unwrap_or(u64::MAX))
    }

    /// Keeps what the service has leased.
    pub(crate) fn keep(&self, key: &str, lease: Option<Lease>) {
        if let Some(demand) = self.0.lock().get_mut(key) {
            demand.is_asked = false;
            demand.lease = lease;
        }
    }
}

#[cfg(test)]
mod tests;
