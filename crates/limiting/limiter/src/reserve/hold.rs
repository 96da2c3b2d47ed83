//! Making a reservation: planned and answered like a decision, but all permits are held or none.

use std::time::Duration;

use tollgate_core::{Outcome, Timestamp};
use tollgate_observe::{LimitRef, Observer};
use tollgate_policy::{Domain, Override};
use tollgate_store::{Counter, Key, Origin, Store, Take};

use super::nothing::Nothing;
use super::table::{Held, HeldItem, LONGEST_KEYS, NoPlace, QuotaRef, bytes_of};
use super::{ReservationId, ReserveError, ReserveTerms, Reserved};
use crate::charge::Batch;
use crate::keys::Share;
use crate::limiter::Limiter;
use crate::outage::Operation;
use crate::plan::Hits;
use crate::request::Request;
use crate::scratch::{Item, Scratch, Settled};
use crate::settle::{self, ItemResult};

/// The permits that a request holds.
#[derive(Default)]
struct Holding {
    items: Vec<HeldItem>,
    /// Time until all of them are there.
    delay: Duration,
}

impl<S: Store, O: Observer> Limiter<S, O> {
    /// Holds the permits that `request` asks for, of every limit of every descriptor or of none, for the
    /// first instant at which all of them are there, if that is at most `terms.max_wait` away.
    ///
    /// For limits that are not hard it answers as [`decide`](Self::decide) does: rules in shadow mode and
    /// soft limits hold what they have and never keep others from being held. A fixed window does not count
    /// hits that are denied here. To settle, see [`commit`](Self::commit) and [`cancel`](Self::cancel). When
    /// the future is dropped before its end, the permits may have been taken, and then count as used.
    ///
    /// Nothing is held where nothing limits, and where 0 permits are asked for; such a reservation is granted
    /// and takes no place. One domain and first entry may have as many places as are free, and a domain four
    /// times as many.
    ///
    /// # Errors
    /// [`ReserveError`]: no permit was taken. As with `decide`, a store that does not answer is not an error.
    ///
    /// # Example
    /// ```
    /// # use tollgate_limiter::{Descriptor, Entry, Limiter, LimiterSettings, Policy, Request};
    /// # use tollgate_limiter::{ReserveTerms, Scratch};
    /// # use tollgate_core::Timestamp;
    /// # use tollgate_store::{ModelStore, block_on};
    /// let rate_limit = "{unit: minute, requests_per_unit: 1000}";
    /// let text = format!("{{domain: llm, descriptors: [{{key: team, rate_limit: {rate_limit}}}]}}");
    /// let rules = tollgate_rule_files::parse_text("llm.yaml", text)?;
    /// let limiter = Limiter::new(rules, ModelStore::default(), LimiterSettings::default());
    ///
    /// let entries = [Entry::new("team", "search")];
    /// let request = Request { domain: "llm", descriptors: &[Descriptor::new(&entries)], hits: 800 };
    /// let (noon, mut scratch) = (Timestamp::from_unix_seconds(1_700_000_000), Scratch::new());
    /// let reserved = block_on(limiter.reserve(&request, ReserveTerms::default(), noon, &mut scratch))?;
    /// let id = reserved.id.expect("there are 1000");
    /// let settled = block_on(limiter.commit(id, Some(500), noon))?;
    /// assert_eq!((settled.used, settled.returned()), (500, 300));
    /// assert_eq!(block_on(limiter.cancel(id, noon))?, settled); // it is settled already
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn reserve<'s>(
        &self,
        request: &Request<'_>,
        terms: ReserveTerms,
        now: Timestamp,
        scratch: &'s mut Scratch,
    ) -> Result<Reserved<'s, O>, ReserveError> {
        let longest = self.settings.longest_reservation;
        if terms.ttl.is_zero() || terms.ttl > longest {
            return Err(ReserveError::BadTtl { ttl: terms.ttl, longest });
        }
        request.check()?;
        let id = new_id().ok_or(ReserveError::NoRandomness)?;
        scratch.clear();
        let rules = self.rules.load();
        let mut holding = Holding::default();
        let mut place = None;
        let answer = match self.plan(&rules, request, Hits::Held, now, scratch)? {
            None => self.answer_of_no_domain(rules, request, now, scratch),
            Some(domain) => {
                if scratch.keys.len() > LONGEST_KEYS {
                    return Err(ReserveError::LongKeys { bytes: scratch.keys.len(), most: LONGEST_KEYS });
                }
                // A request for no permits takes no place.
                if let Some(item) = scratch.items.iter().find(|item| !item.cost.is_peek()) {
                    let first = request.descriptors[item.descriptor as usize].entries.first();
                    let holder = self.reservations.holder(request.domain, first);
                    let bytes = bytes_of(request.domain, &scratch.items);
                    let kept = self.reservations.place(holder, bytes, now);
                    place = Some(kept.map_err(|why| self.no_place(why))?);
                }
                if scratch.items.is_empty() {
                    self.decide_unmatched(domain, request, scratch);
                } else {
                    let max_wait = terms.max_wait.min(longest);
                    holding = self.hold(domain, request, max_wait, now, scratch).await;
                }
                let overall = settle::overall(&mut scratch.statuses);
                if overall == Outcome::Deny && !self.settings.shadow_mode {
                    // Gives back permits that one counter held before another denied.
                    let held = std::mem::take(&mut holding);
                    self.let_go(domain, &scratch.overrides, &held.items, now).await;
                    scratch.statuses.iter_mut().for_each(|status| status.is_charged = false);
                }
                let domain = domain.index();
                self.conclude(rules, domain, request, overall, now, scratch)
            }
        };
        let Holding { items, delay } = holding;
        let starts_at = now + delay;
        let expires_at = starts_at + terms.ttl;
        if !answer.is_admitted() {
            return Ok(Reserved { answer, id: None, delay, expires_at });
        }
        let holds = items.iter().any(|item| !item.cost.is_peek());
        let id = match place.filter(|_| holds) {
            Some(place) => {
                let held = Held {
                    holder: place.holder,
                    bytes: place.bytes,
                    domain: request.domain.into(),
                    generation: answer.rules.generation,
                    items: items.into_boxed_slice(),
                    reserved: request.hits,
                    made_at: now,
                    starts_at,
                    expires_at,
                };
                self.reservations.insert(place, id, held);
                id
            }
            None => Nothing { hits: request.hits, is_of_zero: items.iter().any(|item| item.is_scaled) }.id(),
        };
        let id = Some(id);
        Ok(Reserved { answer, id, delay, expires_at })
    }

    #[cold]
    fn no_place(&self, why: NoPlace) -> ReserveError {
        match why {
            NoPlace::Full => {
                let (_, most_bytes) = self.reservations.bytes();
                ReserveError::Full { most: self.reservations.most(), most_bytes }
            }
            NoPlace::Share { of, has, free } => ReserveError::Share {
                of,
                open: has.places,
                bytes: has.bytes,
                free: free.places,
                free_bytes: free.bytes,
            },
        }
    }

    /// Holds every item of `scratch`, and lets the results bind their descriptors.
    async fn hold(
        &self,
        domain: &Domain,
        request: &Request<'_>,
        max_wait: Duration,
        now: Timestamp,
        scratch: &mut Scratch,
    ) -> Holding {
        let Scratch { items, keys, overrides, verdicts, statuses, settled, several, .. } = scratch;
        let mut takes: Vec<Take<'_>> = items.iter().map(|item| item.take(domain, overrides, keys)).collect();
        let batch = Batch { domain, items, takes: &mut takes, statuses, verdicts, now };
        let charged = self.charge_together(batch, Operation::Reserve { max_wait }).await;
        self.note_store_answers(verdicts);
        let mut holding = Holding::default();
        for (at, (item, verdict)) in items.iter().zip(verdicts.iter()).enumerate() {
            let result = charged.result(at, verdict);
            let status = &mut statuses[item.descriptor as usize];
            settle::bind(status, item, result, charged.is_charged);
            if *several {
                settled.extend(settle::settle(item, result, charged.is_charged));
            }
            let (decision, share_of) = match result {
                ItemResult::Decided(decision) => (decision, None),
                ItemResult::ByShare { decision, nodes } => (decision, Some(nodes)),
                ItemResult::Unanswered(_) => continue,
            };
            if decision.is_admitted() && charged.is_charged {
                holding.delay = holding.delay.max(decision.delay());
                holding.items.push(HeldItem {
                    key: item.key(keys).into(),
                    quota: quota_ref(item, domain, overrides),
                    cost: item.cost,
                    each: each(item, domain),
                    is_scaled: request.descriptors[item.descriptor as usize].hits.is_none(),
                    share_of,
                    said: decision,
                });
            }
        }
        settled.sort_unstable_by_key(Settled::place);
        holding
    }

    /// Gives back the permits held for a request that is denied after all.
    async fn let_go(&self, domain: &Domain, overrides: &[Override], held: &[HeldItem], now: Timestamp) {
        let shares: Vec<_> = held
            .iter()
            .map(|item| Some(Share::new(counter(item, domain, overrides)?, item.share_of?)))
            .collect();
        let takes: Vec<Take<'_>> = held
            .iter()
            .zip(&shares)
            .filter_map(|(item, share)| match share {
                Some(share) => Some(share.counter().take(item.cost)),
                None => Some(counter(item, domain, overrides)?.take(item.cost)),
            })
            .collect();
        if !takes.is_empty() {
            let _ = self.store.give_all_back(&takes, now).await; // what is not given back counts as used
        }
    }
}

/// The counter in which `item` was just held; a share is a part of it.
fn counter<'a>(item: &'a HeldItem, domain: &'a Domain, overrides: &'a [Override]) -> Option<Counter<'a>> {
    let (quota, sharing, origin) = match item.quota {
        QuotaRef::Rule { place, limit, .. } => {
            let rule = &domain.rules()[place as usize];
            (&rule.limits[limit as usize].quota, rule.sharing, Origin::Rule)
        }
        QuotaRef::Override { requests_per_unit, unit, sharing, origin } => {
            let mut given = overrides.iter().map(|it| &it.limit);
            let given = given
                .find(|it| it.requests_per_unit == u64::from(requests_per_unit) && it.unit == Some(unit))?;
            (&given.quota, sharing, origin)
        }
    };
    Some(Counter::new(Key(&item.key), quota).shared(sharing).from_origin(origin))
}

/// Permits that each hit takes of the item's limit.
fn each(item: &Item, domain: &Domain) -> u64 {
    match item.limit {
        LimitRef::Rule(limit) => domain.rules()[item.rule as usize].limits[limit as usize].cost,
        LimitRef::Override(_) => 1,
    }
}

fn quota_ref(item: &Item, domain: &Domain, overrides: &[Override]) -> QuotaRef {
    match item.limit {
        LimitRef::Rule(limit) => {
            let identity = domain.rules()[item.rule as usize].identity();
            QuotaRef::Rule { identity, place: item.rule, limit }
        }
        LimitRef::Override(index) => {
            let limit = &overrides[index as usize].limit;
            let unit = limit.unit.unwrap_or(tollgate_policy::Unit::Second);
            // It came as a number of 32 bits.
            let requests_per_unit = u32::try_from(limit.requests_per_unit).unwrap_or(u32::MAX);
            let sharing = item.sharing;
            let origin = item.origin;
            QuotaRef::Override { requests_per_unit, unit, sharing, origin }
        }
    }
}

fn new_id() -> Option<ReservationId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(Nothing::unlike(u128::from_le_bytes(bytes)))
}
