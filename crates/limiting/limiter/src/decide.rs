//! One decision, step by step: plan the takes, make them, settle their results.

use std::future::{Future, Ready};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use tollgate_buffers::recycle;
use tollgate_core::{Outcome, Timestamp};
use tollgate_observe::{Decided, Kind, Observer, Status};
use tollgate_policy::{Charge, Domain, Override, Unmatched};
use tollgate_store::{Counter, Key, Store, Take};

use crate::answer::Answer;
use crate::charge::Batch;
use crate::limiter::Limiter;
use crate::outage::Operation;
use crate::plan::Hits;
use crate::queue::Patience;
use crate::request::{Descriptor, Request, RequestError};
use crate::rules::Rules;
use crate::scratch::{Item, Scratch, Settled};
use crate::settle;

impl<S: Store, O: Observer> Limiter<S, O> {
    /// Decides `request` at `now`.
    ///
    /// Allocates nothing once `scratch` has grown to the size of the requests. When the future is dropped
    /// before its end, the permits may or may not have been taken; limits that are charged together are
    /// charged all or none.
    ///
    /// # Errors
    /// [`RequestError`]: the request is invalid; no permit was taken. A store that does not answer is not an
    /// error: each rule says what to do then, and the answer is marked
    /// [`degraded`](crate::DescriptorAnswer::degraded).
    ///
    /// # Example
    /// ```
    /// # use tollgate_limiter::{Descriptor, Entry, Limiter, LimiterSettings, Policy, Request, Scratch};
    /// # use tollgate_core::Timestamp;
    /// # use tollgate_store::{ModelStore, block_on};
    /// let rate_limit = "{unit: minute, requests_per_unit: 2}";
    /// let text = format!("{{domain: shop, descriptors: [{{key: user, rate_limit: {rate_limit}}}]}}");
    /// let rules = tollgate_rule_files::parse_text("shop.yaml", text)?;
    /// let limiter = Limiter::new(rules, ModelStore::default(), LimiterSettings::default());
    ///
    /// let entries = [Entry::new("user", "ann")];
    /// let request = Request { domain: "shop", descriptors: &[Descriptor::new(&entries)], hits: 1 };
    /// let (noon, mut scratch) = (Timestamp::from_unix_seconds(1_700_000_000), Scratch::new());
    /// let answer = block_on(limiter.decide(&request, noon, &mut scratch))?;
    /// assert!(answer.is_admitted());
    /// assert_eq!(answer.descriptor(0).map(|it| it.remaining()), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn decide<'s>(
        &self,
        request: &Request<'_>,
        now: Timestamp,
        scratch: &'s mut Scratch,
    ) -> impl Future<Output = Result<Answer<'s, O>, RequestError>> + Send {
        self.decide_with(request, now, None::<&Patience<'_, fn(Duration) -> Ready<()>>>, scratch)
    }

    /// As [`decide`](Self::decide), except that a request which a rule with a queue
    /// ([`Rule::max_wait`](tollgate_policy::Rule::max_wait)) denies waits for its turn, for as long as the
    /// rule and `patience` allow. Without a queue it is the same, and as fast.
    ///
    /// When the future is dropped while the request waits, no permit was taken and the request has left its
    /// place.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn decide_patiently<'s, F, T>(
        &self,
        request: &Request<'_>,
        now: Timestamp,
        patience: &Patience<'_, F>,
        scratch: &'s mut Scratch,
    ) -> impl Future<Output = Result<Answer<'s, O>, RequestError>> + Send
    where
        F: Fn(Duration) -> T + Sync,
        T: Future<Output = ()> + Send,
    {
        self.decide_with(request, now, Some(patience), scratch)
    }

    #[inline(always)]
    async fn decide_with<'s, F, T>(
        &self,
        request: &Request<'_>,
        now: Timestamp,
        patience: Option<&Patience<'_, F>>,
        scratch: &'s mut Scratch,
    ) -> Result<Answer<'s, O>, RequestError>
    where
        F: Fn(Duration) -> T + Sync,
        T: Future<Output = ()> + Send,
    {
        request.check()?;
        scratch.clear();
        let rules = self.rules.load();
        let Some(domain) = self.plan(&rules, request, Hits::Asked, now, scratch)? else {
            return Ok(self.answer_of_no_domain(rules, request, now, scratch));
        };
        if scratch.queues {
            drop(rules);
            // Boxed, so that the future of a decision stays small.
            return Box::pin(self.queue(request, now, patience, scratch)).await;
        }
        if scratch.items.is_empty() {
            self.decide_unmatched(domain, request, scratch);
        } else {
            self.charge::<true>(domain, domain.charge(), now, scratch).await;
        }
        let overall = settle::overall(&mut scratch.statuses);
        let domain = domain.index();
        Ok(self.conclude(rules, domain, request, overall, now, scratch))
    }

    /// Counts the hits of `request` in full, in every limit of every descriptor, since they are used already:
    /// the cost of a request was known only afterwards. Missing permits become a debt
    /// ([`Decision::owed`](tollgate_core::Decision::owed)).
    ///
    /// No limit denies it. It is denied only if a rule or an operator denies it whatever its limits say, and
    /// then nothing is counted; or if the store did not count it and its rule says `deny`.
    ///
    /// # Errors
    /// As [`decide`](Self::decide); nothing was counted.
    ///
    /// # Example
    /// ```
    /// # use tollgate_limiter::{Descriptor, Entry, Limiter, LimiterSettings, Policy, Request, Scratch};
    /// # use tollgate_core::Timestamp;
    /// # use tollgate_store::{ModelStore, block_on};
    /// let rate_limit = "{unit: hour, requests_per_unit: 1000, algorithm: token_bucket}";
    /// let text = format!("{{domain: llm, descriptors: [{{key: team, rate_limit: {rate_limit}}}]}}");
    /// let rules = tollgate_rule_files::parse_text("llm.yaml", text)?;
    /// let limiter = Limiter::new(rules, ModelStore::default(), LimiterSettings::default());
    ///
    /// let entries = [Entry::new("team", "search")];
    /// let request = Request { domain: "llm", descriptors: &[Descriptor::new(&entries)], hits: 1800 };
    /// let (noon, mut scratch) = (Timestamp::from_unix_seconds(1_700_000_000), Scratch::new());
    /// let answer = block_on(limiter.consume(&request, noon, &mut scratch))?;
    /// let used = answer.descriptor(0).and_then(|it| it.decision).expect("counted");
    /// assert_eq!((answer.is_admitted(), used.remaining(), used.owed()), (true, 0, 800));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn consume<'s>(
        &self,
        request: &Request<'_>,
        now: Timestamp,
        scratch: &'s mut Scratch,
    ) -> Result<Answer<'s, O>, RequestError> {
        request.check()?;
        scratch.clear();
        let rules = self.rules.load();
        let Some(domain) = self.plan(&rules, request, Hits::Consumed, now, scratch)? else {
            return Ok(self.answer_of_no_domain(rules, request, now, scratch));
        };
        if scratch.items.is_empty() {
            self.decide_unmatched(domain, request, scratch);
        } else {
            self.charge::<false>(domain, Charge::Each, now, scratch).await;
        }
        let overall = settle::overall(&mut scratch.statuses);
        let domain = domain.index();
        Ok(self.conclude(rules, domain, request, overall, now, scratch))
    }

    /// Checks whether a rule with slots matches a request, which only the rules in force know. For the
    /// requests of a batch, so that no request is charged if another one is invalid.
    ///
    /// # Errors
    /// [`RequestError::NeedsHolder`], as [`decide`](Self::decide) would return it.
    pub fn check_rules(&self, request: &Request<'_>) -> Result<(), RequestError> {
        let rules = self.rules.load();
        let Some(domain) = rules.policy().domain(request.domain).filter(|domain| domain.has_slots()) else {
            return Ok(());
        };
        let mut found = request.descriptors.iter().filter_map(|descriptor| domain.find(descriptor.entries));
        match found.find(|rule| rule.slots.is_some()) {
            None => Ok(()),
            Some(rule) => Err(RequestError::NeedsHolder { rule: rule.path.clone() }),
        }
    }

    /// Denies a request for which no rule matches, if its domain or the settings say so. `scratch` has its
    /// plan, which has no takes.
    #[cold]
    pub(crate) fn decide_unmatched(&self, domain: &Domain, request: &Request<'_>, scratch: &mut Scratch) {
        let unmatched = domain.unmatched().unwrap_or(self.settings.unmatched);
        let is_matched = |status: &Status| status.rule.is_some() || status.kind != Kind::Free;
        if unmatched == Unmatched::Admit
            || scratch.statuses.iter().any(is_matched)
            || request.descriptors.iter().any(|it| domain.is_exception(it.entries))
        {
            return;
        }
        scratch.statuses.iter_mut().for_each(|status| status.outcome = Outcome::Deny);
    }

    /// The answer for a domain without rules.
    pub(crate) fn answer_of_no_domain<'s>(
        &self,
        rules: Guard<Arc<Rules<O>>>,
        request: &Request<'_>,
        now: Timestamp,
        scratch: &'s mut Scratch,
    ) -> Answer<'s, O> {
        let outcome = match self.settings.unmatched {
            Unmatched::Admit => Outcome::Admit,
            Unmatched::Deny => Outcome::Deny,
        };
        let hits = |it: &Descriptor<'_>| it.hits.unwrap_or(request.hits);
        let statuses = request.descriptors.iter().map(|it| Status { outcome, ..Status::free(hits(it)) });
        scratch.statuses.extend(statuses);
        let outcome = self.intervene_without_rules(request, now, outcome, scratch);
        let is_shadowed = self.settings.shadow_mode && outcome == Outcome::Deny;
        let overall = if is_shadowed { Outcome::Admit } else { outcome };
        // Before the first rules nothing is decided: a surface answers with an error.
        match rules.policy().is_loaded() {
            false => self.observer.no_rules(),
            true => self.observer.unknown_domain(request.domain, overall),
        }
        Answer { rules, domain: None, overall, is_shadowed, waited_ns: 0, scratch }
    }

    /// Reports the decided request, and makes its answer.
    #[inline(always)]
    pub(crate) fn conclude<'s>(
        &self,
        rules: Guard<Arc<Rules<O>>>,
        domain: usize,
        request: &Request<'_>,
        mut overall: Outcome,
        now: Timestamp,
        scratch: &'s mut Scratch,
    ) -> Answer<'s, O> {
        let is_shadowed = self.settings.shadow_mode && overall == Outcome::Deny;
        if is_shadowed {
            overall = Outcome::Admit;
        }
        let statuses = &scratch.statuses;
        let decided = Decided { domain: &rules.policy().domains()[domain], statuses, is_shadowed, now };
        self.observer.decided(&rules.observed, decided, |index| request.descriptors[index].entries);
        Answer { rules, domain: Some(domain), overall, is_shadowed, waited_ns: 0, scratch }
    }

    /// Charges every item of `scratch`, and lets the results bind their descriptors.
    ///
    /// `IS_USUAL` makes a copy of it for the usual path alone, which the compiler then inlines there.
    #[inline]
    pub(crate) async fn charge<const IS_USUAL: bool>(
        &self,
        domain: &Domain,
        charge: Charge,
        now: Timestamp,
        scratch: &mut Scratch,
    ) {
        let Scratch { items, keys, overrides, verdicts, statuses, settled, several, takes: kept, .. } =
            scratch;
        let mut takes = recycle(std::mem::take(kept));
        takes.extend(items.iter().map(|item| item.take(domain, overrides, keys)));
        let batch = Batch { domain, items, takes: &mut takes, statuses, verdicts, now };
        let charged = match charge {
            Charge::Each => self.charge_each(batch).await,
            Charge::Together => self.charge_together(batch, Operation::Take).await,
            Charge::SpareOthers => self.charge_sparing_others(batch).await,
        };
        self.note_store_answers(verdicts);
        for (at, (item, verdict)) in items.iter().zip(verdicts.iter()).enumerate() {
            let status = &mut statuses[item.descriptor as usize];
            settle::bind(status, item, charged.result(at, verdict), charged.is_charged);
        }
        if *several {
            for (at, (item, verdict)) in items.iter().zip(verdicts.iter()).enumerate() {
                settled.extend(settle::settle(item, charged.result(at, verdict), charged.is_charged));
            }
            settled.sort_unstable_by_key(Settled::place); // soft ones were asked last
        }
        *kept = recycle(takes);
    }
}

impl Item {
    #[inline]
    pub(crate) fn take<'a>(&self, domain: &'a Domain, overrides: &'a [Override], keys: &'a [u8]) -> Take<'a> {
        let quota = self.quota(domain, overrides);
        let counter = Counter::new(Key(self.key(keys)), quota).shared(self.sharing);
        Take { counter: counter.from_origin(self.origin), cost: self.cost, payment: self.payment }
    }
}
