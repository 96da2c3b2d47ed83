//! Making a reservation: the same plan and the same answer as a decision, but all permits are held or none.

use std::time::Duration;

use tollgate_core::{Cost, Decision, Outcome, Timestamp};
use tollgate_policy::{Domain, OnStoreFailure, Override};
use tollgate_store::{Charge, Key, Store, StoreError, Take, Verdicts};

use super::table::{Counted, Held, HeldItem, LONGEST_KEYS, QuotaRef};
use super::{ReservationId, ReserveError, ReserveTerms, Reserved};
use crate::answer::Status;
use crate::limiter::{Limiter, Rules};
use crate::observe::Global;
use crate::observe::lanes::Seat;
use crate::outage::{Of, merge, own_take};
use crate::plan::plan;
use crate::request::Request;
use crate::scratch::{Item, LimitRef, Scratch};
use crate::settle::{self, Said};
use crate::together::OwnCharge;

impl<S: Store, L: Store> Limiter<S, L> {
    /// Holds the permits that `request` asks for, of every limit of every descriptor or of none, for the first instant at which all
    /// of them are there, if that is at most `terms.max_wait` away.
    ///
    /// Answers as [`decide`](Self::decide) does for what is no hard limit: rules in shadow mode and soft limits never keep others
    /// from being held, and hold what they have; nothing is held where nothing limits. A fixed window does not count what is denied here.
    /// To settle, see [`commit`](Self::commit) and [`cancel`](Self::cancel). When the future is dropped before its end, the permits
    /// may have been taken, and then count as used.
    ///
    /// # Errors
    /// [`ReserveError`]: no permit was taken. A store that gives no answer is no error, as with `decide`.
    ///
    /// # Example
    /// ```
    /// # use tollgate_limiter::{Descriptor, Entry, Limiter, LimiterSettings, Policy, Request, ReserveTerms, Scratch};
    /// # use tollgate_core::Timestamp;
    /// # use tollgate_store::{ModelStore, block_on};
    /// let text = "{domain: llm, descriptors: [{key: team, rate_limit: {unit: minute, requests_per_unit: 1000}}]}";
    /// let rules = tollgate_rule_files::parse_text("llm.yaml", text)?;
    /// let limiter: Limiter<ModelStore> = Limiter::new(rules, ModelStore::default(), LimiterSettings::default());
    ///
    /// let entries = [Entry { key: "team", value: "search" }];
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
    ) -> Result<Reserved<'s>, ReserveError> {
        let longest = self.settings.longest_reservation;
        if terms.ttl.is_zero() || terms.ttl > longest {
            return Err(ReserveError::BadTtl { ttl: terms.ttl, longest });
        }
        if let Err(error) = request.check() {
            self.metrics.count(Seat::here(), Global::BadRequest, 1);
            return Err(error.into());
        }
        let (most, (_, most_bytes)) = (self.reservations.most(), self.reservations.bytes());
        let place = self.reservations.place(now).ok_or(ReserveError::Full { most, most_bytes })?;
        let id = new_id().ok_or(ReserveError::NoRandomness)?;
        scratch.clear();
        let rules = self.rules.load();
        let (mut items, mut delay) = (Vec::new(), Duration::ZERO);
        let answer = match rules.policy().domain(request.domain) {
            None => self.answer_of_no_domain(rules, request, scratch),
            Some(domain) => {
                plan(domain, request, &self.settings, true, scratch)?;
                if scratch.keys.len() > LONGEST_KEYS {
                    return Err(ReserveError::LongKeys { bytes: scratch.keys.len(), most: LONGEST_KEYS });
                }
                if !scratch.items.is_empty() {
                    let max_wait = terms.max_wait.min(longest);
                    (items, delay) = self.hold(&rules, domain, request, (max_wait, now), scratch).await;
                }
                let overall = settle::overall(&mut scratch.statuses);
                if overall == Outcome::Deny && !self.settings.shadow_mode {
                    // What one counter held before another denied is let go.
                    self.let_go(domain, &scratch.overrides, std::mem::take(&mut items), now).await;
                    scratch.statuses.iter_mut().for_each(|status| status.is_charged = false);
                    delay = Duration::ZERO;
                }
                let domain = domain.index();
                self.conclude(rules, domain, request, overall, now, scratch)
            }
        };
        let starts_at = now + delay;
        let expires_at = starts_at + terms.ttl;
        let id = answer.is_admitted().then_some(id);
        if let Some(id) = id {
            let held = Held {
                // Where nothing is held, nothing needs to be found again.
                domain: if items.is_empty() { "" } else { request.domain }.into(),
                generation: answer.rules.generation,
                items: items.into_boxed_slice(),
                reserved: request.hits,
                made_at: now,
                starts_at,
                expires_at,
            };
            self.reservations.insert(place, id, held);
        }
        Ok(Reserved { answer, id, delay, expires_at })
    }

    /// Asks the store for every item of `scratch`, and lets the answers bind their descriptors. What is held, and for when.
    async fn hold(
        &self,
        rules: &Rules,
        domain: &Domain,
        request: &Request<'_>,
        (max_wait, now): (Duration, Timestamp),
        scratch: &mut Scratch,
    ) -> (Vec<HeldItem>, Duration) {
        let Scratch { items, keys, overrides, verdicts, statuses, .. } = scratch;
        let of = Of { rules, domain, overrides, keys, now };
        let takes: Vec<Take<'_>> = items.iter().map(|item| item.take(domain, overrides, keys)).collect();
        let hard = items.partition_point(|item| !item.soft);
        let is_charged =
            self.hold_together(&takes[..hard], &mut items[..hard], (max_wait, now), verdicts).await;
        // What cannot deny the request is held on its own, and only when the request is.
        for take in &takes[hard..] {
            match (is_charged, self.own(take.quota)) {
                (true, Some(local)) => local.hold(&[*take], max_wait, now, verdicts).await,
                (true, None) => self.store.hold(&[*take], max_wait, now, verdicts).await,
                (false, _) => self.take_each(&[Take { cost: Cost::PEEK, ..*take }], now, verdicts).await,
            }
            self.metrics.count_batch(Seat::here(), 1);
        }
        self.note_that_the_store_answers(verdicts);
        let (mut held, mut delay) = (Vec::new(), Duration::ZERO);
        for (item, verdict) in items.iter().zip(verdicts.iter()) {
            let status = &mut statuses[item.descriptor as usize];
            let quota = item.quota(domain, overrides);
            let own = if self.own(quota).is_some() { Counted::Own } else { Counted::Shared };
            let (said, counted, key) = match verdict {
                Ok(decision) => (Said::Decided(*decision), own, item.key(keys).into()),
                Err(error) => self.hold_without_the_store(of, item, status, max_wait, error).await,
            };
            settle::bind(status, item, said, is_charged);
            let (Said::Decided(decision) | Said::Locally(decision)) = said else { continue };
            if decision.is_admitted() && (is_charged || matches!(counted, Counted::Share(_))) {
                delay = delay.max(decision.delay());
                held.push(HeldItem {
                    key,
                    quota: quota_ref(item, domain, overrides),
                    cost: item.cost,
                    is_scaled: request.descriptors[item.descriptor as usize].hits.is_none(),
                    counted,
                    said: decision,
                });
            }
        }
        (held, delay)
    }

    /// Holds all or none, in this node's memory what is counted there; true when none denies. What this node holds while the
    /// store denies is let go at once.
    async fn hold_together(
        &self,
        takes: &[Take<'_>],
        items: &mut [Item],
        (max_wait, now): (Duration, Timestamp),
        verdicts: &mut Verdicts,
    ) -> bool {
        let is_own = |take: &Take<'_>| self.own(take.quota).is_some();
        let admitted = |verdicts: &Verdicts| verdicts.iter().flatten().all(Decision::is_admitted);
        if takes.is_empty() {
            return true;
        }
        self.metrics.count_batch(Seat::here(), takes.len());
        let local = self.local.as_ref().filter(|_| takes.iter().any(is_own));
        let Some(local) = local else {
            self.store.hold(takes, max_wait, now, verdicts).await;
            return admitted(verdicts);
        };
        let (own, mut shared): (Vec<_>, Vec<_>) = takes.iter().copied().partition(is_own);
        let (mut of_own, mut of_shared) = (Verdicts::new(), Verdicts::new());
        local.hold(&own, max_wait, now, &mut of_own).await;
        let is_own_held = admitted(&of_own);
        if is_own_held {
            if !shared.is_empty() {
                let held = OwnCharge::new(Some(local), &own, now);
                self.store.hold(&shared, max_wait, now, &mut of_shared).await;
                held.stands();
            }
        } else {
            shared.iter_mut().for_each(|take| take.cost = Cost::PEEK);
            let looked_at = items.iter_mut().zip(takes).filter(|(_, take)| !is_own(take));
            looked_at.for_each(|(item, _)| item.soft = true);
            self.store.take(&shared, Charge::Each, now, &mut of_shared).await;
        }
        let is_held = is_own_held && admitted(&of_shared);
        if is_own_held && !is_held {
            drop(OwnCharge::new(Some(local), &own, now));
        }
        merge(takes.iter().map(is_own), of_own, of_shared, verdicts);
        is_held
    }

    /// What becomes of `item` when the store gave no answer: what is said, where it is counted, under which key.
    #[cold]
    async fn hold_without_the_store(
        &self,
        of: Of<'_>,
        item: &Item,
        status: &Status,
        max_wait: Duration,
        error: &StoreError,
    ) -> (Said, Counted, Box<[u8]>) {
        let way = self.way_without_the_store(of.domain, item, status, error, of.now);
        if let (OnStoreFailure::Local, Some(local)) = (way, &self.local) {
            let shares = of.rules.shares(self.store.live_nodes());
            let own = own_take(&shares, of, item);
            let take = Take { key: Key(&own.key), quota: &own.quota, cost: item.cost };
            let mut verdicts = Verdicts::new();
            local.hold(&[take], max_wait, of.now, &mut verdicts).await;
            if let Some(Ok(decision)) = verdicts.pop() {
                return (Said::Locally(decision), Counted::Share(shares.nodes()), own.key.into());
            }
        }
        (Said::Nothing(way), Counted::Shared, Box::default())
    }

    /// Gives back what was held for a request that is denied after all. Memory first, which is not waited for.
    async fn let_go(&self, domain: &Domain, overrides: &[Override], held: Vec<HeldItem>, now: Timestamp) {
        let mut shared = Vec::new();
        for item in &held {
            let quota = match item.quota {
                QuotaRef::Rule { place, limit, .. } => {
                    &domain.rules()[place as usize].limits[limit as usize].quota
                }
                QuotaRef::Override { requests_per_unit, unit, .. } => {
                    let given = overrides.iter().map(|it| &it.limit);
                    let mut same =
                        given.filter(|it| it.requests_per_unit == requests_per_unit && it.unit == Some(unit));
                    match same.next() {
                        Some(limit) => &limit.quota,
                        None => continue,
                    }
                }
            };
            match item.counted {
                Counted::Share(nodes) => {
                    let _ = self.give_back(item, &quota.share_of(nodes), item.cost, now).await;
                }
                Counted::Own if self.local.is_some() => {
                    let _ = self.give_back(item, quota, item.cost, now).await;
                }
                _ => shared.push(Take { key: Key(&item.key), quota, cost: item.cost }),
            }
        }
        if !shared.is_empty() {
            let _ = self.store.give_all_back(&shared, now).await; // what is not given back counts as used
        }
    }

    pub(super) async fn give_back(
        &self,
        item: &HeldItem,
        quota: &tollgate_core::Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        match (&self.local, item.counted) {
            (_, Counted::Shared) | (None, _) => self.store.give_back(Key(&item.key), quota, cost, now).await,
            (Some(local), _) => local.give_back(Key(&item.key), quota, cost, now).await,
        }
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
            let sharing = limit.quota.sharing();
            QuotaRef::Override { requests_per_unit: limit.requests_per_unit, unit, sharing }
        }
    }
}

fn new_id() -> Option<ReservationId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(ReservationId(u128::from_le_bytes(bytes)))
}
