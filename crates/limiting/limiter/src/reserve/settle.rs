//! Settling a reservation: unused permits go back, permits used beyond it are owed.

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;

use tollgate_core::{Cost, Quota, Timestamp};
use tollgate_observe::Observer;
use tollgate_policy::{Domain, Limit, Override, Rule};
use tollgate_store::{Counter, Key, Origin, Sharing, Store, StoreError};

use super::nothing::Nothing;
use super::table::{Found, Held, HeldItem, QuotaRef};
use super::{Ending, ReservationId, SettleError, Settled};
use crate::keys::Share;
use crate::limiter::Limiter;
use crate::rules::Rules;

/// The smallest number of permits that is rejected.
const HUGE: u64 = 1 << 63;

impl<S: Store, O: Observer> Limiter<S, O> {
    /// Reports that the call used `actual` permits, or as many as were reserved. Unused permits go back.
    /// Permits used beyond the reservation are charged even if they are not available yet, and later permits
    /// repay them.
    ///
    /// `actual` replaces the request's number of hits; descriptors with a number of their own keep it. For a
    /// reservation that is settled already, the first result is returned and nothing changes. When the future
    /// is dropped before its end, the reservation is settled, and permits to give back may count as used. A
    /// reservation that holds nothing charges nothing, and each call gets a new answer.
    ///
    /// # Errors
    /// [`SettleError`]: nothing was settled.
    pub async fn commit(
        &self,
        id: ReservationId,
        actual: Option<u64>,
        now: Timestamp,
    ) -> Result<Settled, SettleError> {
        if let Some(actual) = actual.filter(|actual| *actual >= HUGE) {
            return Err(SettleError::HugeActual { actual });
        }
        self.settle(id, Ending::Committed, actual, now).await
    }

    /// Reports that the call will not be made: all permits go back. But if the reservation was for a later
    /// instant that has passed, they count as used, since no other caller could have them. (A caller that
    /// knows better commits 0.)
    ///
    /// For a reservation that is settled already, the first result is returned and nothing changes.
    ///
    /// # Errors
    /// [`SettleError`]: nothing was settled.
    pub async fn cancel(&self, id: ReservationId, now: Timestamp) -> Result<Settled, SettleError> {
        self.settle(id, Ending::Cancelled, Some(0), now).await
    }

    async fn settle(
        &self,
        id: ReservationId,
        ending: Ending,
        actual: Option<u64>,
        now: Timestamp,
    ) -> Result<Settled, SettleError> {
        if let Some(nothing) = Nothing::of(id) {
            return nothing.settle(ending, actual);
        }
        let found = self.reservations.settle(id, now, |held| {
            let is_late =
                ending == Ending::Cancelled && held.starts_at > held.made_at && now > held.starts_at;
            let ending = if is_late { Ending::CancelledLate } else { ending };
            let used = if is_late { held.reserved } else { actual.unwrap_or(held.reserved) };
            Settled { ending, reserved: held.reserved, used, is_degraded: false }
        });
        let (held, mut settled) = match found {
            Found::Unknown => return Err(SettleError::Unknown),
            Found::Settled(settled) => return Ok(settled),
            Found::Open(held, settled) => (held, settled),
        };
        let events = &self.reservations.events;
        let counter = if ending == Ending::Committed { &events.committed } else { &events.cancelled };
        counter.fetch_add(1, Relaxed);
        let rules = self.rules.load_full();
        for item in &held.items {
            let used = match settled.ending {
                Ending::Committed if item.is_scaled => Cost(settled.used.saturating_mul(item.each)),
                Ending::Committed | Ending::CancelledLate => item.cost,
                Ending::Cancelled => Cost::PEEK,
            };
            if self.settle_item(&rules, &held, item, used, now).await.is_err() {
                settled.is_degraded = true;
            }
        }
        if settled.is_degraded {
            self.reservations.degrade(id);
        }
        Ok(settled)
    }

    async fn settle_item(
        &self,
        rules: &Rules<O>,
        held: &Held,
        item: &HeldItem,
        used: Cost,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        // A rule that was removed counts nothing.
        let Some((quota, sharing, origin)) = quota_of(rules, held, item) else { return Ok(()) };
        let whole = Counter::new(Key(&item.key), &quota).shared(sharing).from_origin(origin);
        let share = item.share_of.map(|nodes| Share::new(whole, nodes));
        let counter = share.as_ref().map_or(whole, Share::counter);
        let done = if used > item.cost {
            let more = Cost(used.permits() - item.cost.permits());
            self.store.charge(counter, more, now).await
        } else {
            let unused = Cost(item.cost.permits() - used.permits());
            let back = counter.quota.refundable(unused, &item.said, held.made_at, now);
            if back.is_peek() {
                return Ok(());
            }
            self.store.give_back(counter, back, now).await
        };
        done.map(drop).inspect_err(|error| self.note_store_error(error, now))
    }
}

/// The present quota of the item's counter, where the counter is kept now, and where the quota came from.
fn quota_of<'a, O: Observer>(
    rules: &'a Rules<O>,
    held: &Held,
    item: &HeldItem,
) -> Option<(Cow<'a, Quota>, Sharing, Origin)> {
    match item.quota {
        QuotaRef::Override { requests_per_unit, unit, sharing, origin } => {
            let given = Override::new(requests_per_unit, unit).ok()?;
            Some((Cow::Owned(given.limit.quota), sharing, origin))
        }
        QuotaRef::Rule { identity, place, limit } => {
            let domain = rules.policy().domain(&held.domain)?;
            let (rule, limit) = if held.generation == rules.generation {
                let rule = domain.rules().get(place as usize)?;
                (rule, rule.limits.get(limit as usize)?)
            } else {
                find_again(domain, identity, &item.key)?
            };
            Some((Cow::Borrowed(&limit.quota), rule.sharing, Origin::Rule))
        }
    }
}

/// The limit with this counter key after a reload: of the rule at the same path, the limit that is counted in
/// the same way; or any limit that shares its bucket.
fn find_again<'a>(domain: &'a Domain, identity: u64, key: &[u8]) -> Option<(&'a Rule, &'a Limit)> {
    let tail = key.rsplit(|&byte| byte == b'|').next()?;
    let limits = || domain.rules().iter().flat_map(|rule| rule.limits.iter().map(move |limit| (rule, limit)));
    let mut counted_so = limits().filter(|(_, limit)| limit.key_tail().as_bytes() == tail);
    let own = counted_so.clone().find(|(rule, _)| rule.identity() == identity);
    own.or_else(|| counted_so.find(|(_, limit)| limit.bucket.is_some()))
}
