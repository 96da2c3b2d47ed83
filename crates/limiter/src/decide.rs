//! One decision, step by step: plan what to take, take it, settle what it means.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use arc_swap::Guard;
use tollgate_core::{Cost, Outcome, Timestamp};
use tollgate_policy::{Charge, Domain, OnStoreFailure, Override};
use tollgate_store::{Charge as StoreCharge, Key, Store, StoreError, Take, Verdicts};

use crate::answer::{Answer, Kind, Status};
use crate::limiter::{Limiter, Rules};
use crate::observe::Global;
use crate::observe::lanes::Seat;
use crate::observe::meters::count_details;
use crate::plan::plan;
use crate::request::{Descriptor, Request, RequestError};
use crate::scratch::{Item, LimitRef, Scratch, rehouse};
use crate::settle::{self, Said};

impl<S: Store, L: Store> Limiter<S, L> {
    /// Decides `request` at `now`.
    ///
    /// Allocates nothing once `scratch` has grown to the size of the requests that come. When the future is dropped
    /// before its end, the permits may or may not have been taken.
    ///
    /// # Errors
    /// [`RequestError`]: the request makes no sense; no permit was taken. A store that gives no answer is no error: each
    /// rule says what to do then, and the answer is marked [`degraded`](crate::DescriptorAnswer::degraded).
    ///
    /// # Example
    /// ```
    /// # use tollgate_limiter::{Descriptor, Entry, Limiter, LimiterSettings, Policy, Request, Scratch};
    /// # use tollgate_policy::{Options, Source};
    /// # use tollgate_core::Timestamp;
    /// # use tollgate_store::{ModelStore, block_on};
    /// let text = "{domain: shop, descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 2}}]}";
    /// let rules = Policy::parse(&[Source { name: "shop.yaml".into(), text: text.into() }], &Options::default())?;
    /// let limiter: Limiter<ModelStore> = Limiter::new(rules, ModelStore::default(), LimiterSettings::default());
    ///
    /// let entries = [Entry { key: "user", value: "ann" }];
    /// let request = Request { domain: "shop", descriptors: &[Descriptor::new(&entries)], hits: 1 };
    /// let (noon, mut scratch) = (Timestamp::from_unix_seconds(1_700_000_000), Scratch::new());
    /// let answer = block_on(limiter.decide(&request, noon, &mut scratch))?;
    /// assert!(answer.is_admitted());
    /// assert_eq!(answer.descriptor(0).map(|it| it.remaining()), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn decide<'s>(
        &self,
        request: &Request<'_>,
        now: Timestamp,
        scratch: &'s mut Scratch,
    ) -> Result<Answer<'s>, RequestError> {
        if let Err(error) = request.check() {
            self.metrics.count(Seat::here(), Global::BadRequest, 1);
            return Err(error);
        }
        scratch.clear();
        let rules = self.rules.load();
        let Some(domain) = rules.policy().domain(request.domain) else {
            return Ok(self.answer_of_no_domain(rules, request, scratch));
        };
        plan(domain, request, &self.settings, domain.charge() == Charge::Together, scratch)?;
        if !scratch.items.is_empty() {
            self.take(domain, now, scratch).await;
        }
        let overall = settle::overall(&mut scratch.statuses);
        let domain = domain.index();
        Ok(self.conclude(rules, domain, request, overall, now, scratch))
    }

    /// The answer where no file is about the domain: everything passes.
    pub(crate) fn answer_of_no_domain<'s>(
        &self,
        rules: Guard<Arc<Rules>>,
        request: &Request<'_>,
        scratch: &'s mut Scratch,
    ) -> Answer<'s> {
        self.metrics.count(Seat::here(), Global::UnknownDomain, 1);
        let hits = |it: &Descriptor<'_>| it.hits.unwrap_or(request.hits);
        scratch.statuses.extend(request.descriptors.iter().map(|it| Status::free(hits(it))));
        Answer {
            rules,
            domain: None,
            overall: Outcome::Admit,
            is_shadowed: false,
            statuses: &scratch.statuses,
            overrides: &scratch.overrides,
        }
    }

    /// Counts what became of the request, and makes the answer of it.
    #[inline(always)]
    pub(crate) fn conclude<'s>(
        &self,
        rules: Guard<Arc<Rules>>,
        domain: usize,
        request: &Request<'_>,
        mut overall: Outcome,
        now: Timestamp,
        scratch: &'s mut Scratch,
    ) -> Answer<'s> {
        let seat = Seat::here();
        let is_shadowed = self.settings.shadow_mode && overall == Outcome::Deny;
        if is_shadowed {
            overall = Outcome::Admit;
            self.metrics.count(seat, Global::Shadowed, 1);
        }
        let near_ratio = self.settings.near_limit_ratio;
        let any_denied = rules.meters.count(seat, domain, &scratch.statuses, near_ratio);
        if any_denied {
            self.note_denials(
                &rules,
                &rules.policy().domains()[domain],
                request,
                &scratch.statuses,
                seat,
                now,
            );
        }
        if rules.meters.has_details {
            let (details, domain) = (self.metrics.details(), &rules.policy().domains()[domain]);
            count_details(details, seat, domain, request, &scratch.statuses, near_ratio);
        }
        let Scratch { statuses, overrides, .. } = scratch;
        Answer { rules, domain: Some(domain), overall, is_shadowed, statuses, overrides }
    }

    /// Asks the store for every item of `scratch`, and lets the answers bind their descriptors.
    async fn take(&self, domain: &Domain, now: Timestamp, scratch: &mut Scratch) {
        let Scratch { items, keys, overrides, verdicts, statuses, takes: room, .. } = scratch;
        let mut takes = rehouse(std::mem::take(room));
        takes.extend(items.iter().map(|item| item.take(domain, overrides, keys)));
        let mut is_charged = true;
        match domain.charge() {
            Charge::Each => {
                self.store.take(&takes, StoreCharge::Each, now, verdicts).await;
                self.metrics.count_batch(Seat::here(), takes.len());
            }
            Charge::Together => {
                let hard = items.partition_point(|item| !item.soft);
                if hard > 0 {
                    self.ask(&takes[..hard], StoreCharge::Together, now, verdicts).await;
                    is_charged = verdicts.iter().flatten().all(|decision| decision.is_admitted());
                }
                if hard < takes.len() {
                    // What cannot deny the request is charged on its own, and only when the request is.
                    let soft = &mut takes[hard..];
                    if !is_charged {
                        soft.iter_mut().for_each(|take| take.cost = Cost::PEEK);
                    }
                    self.ask(soft, StoreCharge::Each, now, verdicts).await;
                }
            }
        }
        self.note_that_the_store_answers(verdicts);
        for (item, verdict) in items.iter().zip(verdicts.iter()) {
            let said = match verdict {
                Ok(decision) => Said::Decided(*decision),
                Err(error) => self.without_the_store(domain, item, overrides, keys, now, error).await,
            };
            settle::bind(&mut statuses[item.descriptor as usize], item, said, is_charged);
        }
        *room = rehouse(takes);
    }

    async fn ask(&self, takes: &[Take<'_>], charge: StoreCharge, now: Timestamp, verdicts: &mut Verdicts) {
        self.store.take(takes, charge, now, verdicts).await;
        self.metrics.count_batch(Seat::here(), takes.len());
    }

    /// What becomes of `item` when the store gave no answer.
    #[cold]
    async fn without_the_store(
        &self,
        domain: &Domain,
        item: &Item,
        overrides: &[Override],
        keys: &[u8],
        now: Timestamp,
        error: &StoreError,
    ) -> Said {
        let way = self.way_without_the_store(domain, item, error);
        if let (OnStoreFailure::Local, Some(local)) = (way, &self.local) {
            let mut verdicts = Verdicts::new();
            local.take(&[item.take(domain, overrides, keys)], StoreCharge::Each, now, &mut verdicts).await;
            if let Some(Ok(decision)) = verdicts.pop() {
                return Said::Locally(decision);
            }
        }
        Said::Nothing(way)
    }

    /// What the rule of `item` says for that case.
    pub(crate) fn way_without_the_store(
        &self,
        domain: &Domain,
        item: &Item,
        error: &StoreError,
    ) -> OnStoreFailure {
        self.metrics.count(Seat::here(), Global::StoreErrors, 1);
        self.note_that_the_store_fails(error);
        match item.limit {
            LimitRef::Rule(_) => domain.rules()[item.rule as usize].on_store_failure,
            LimitRef::Override(_) => OnStoreFailure::default(),
        }
    }

    pub(crate) fn note_that_the_store_fails(&self, error: &StoreError) {
        if !self.store_fails.swap(true, Relaxed) {
            tracing::warn!(%error, "the store gives no answer; each rule decides as its on_store_failure says");
        }
    }

    #[inline]
    pub(crate) fn note_that_the_store_answers(&self, verdicts: &Verdicts) {
        if self.store_fails.load(Relaxed) && verdicts.iter().all(Result::is_ok) {
            self.store_fails.store(false, Relaxed);
            tracing::info!(store = %self.store.name(), "the store answers again");
        }
    }
}

impl Item {
    #[inline]
    pub(crate) fn take<'a>(&self, domain: &'a Domain, overrides: &'a [Override], keys: &'a [u8]) -> Take<'a> {
        Take { key: Key(self.key(keys)), quota: self.quota(domain, overrides), cost: self.cost }
    }
}

impl Status {
    /// Nothing limits it.
    pub(crate) const fn free(hits: u64) -> Self {
        Self {
            rule: None,
            kind: Kind::Free,
            limit: None,
            decision: None,
            remaining: 0,
            hits,
            outcome: Outcome::Admit,
            is_quota: false,
            is_shadow_rule: false,
            is_shadowed: false,
            is_charged: false,
            degraded: None,
        }
    }
}
