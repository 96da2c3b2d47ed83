//! Putting interventions in force, and finding them for a request.

use std::sync::Arc;

use tollgate_core::{Outcome, Timestamp};
use tollgate_observe::{Observer, Status};
use tollgate_policy::{Charge, Domain, Entry};
use tollgate_store::Store;

use crate::candidates::Candidates;
use crate::explain::{Explanation, explain};
use crate::interventions::{InForce, Intervening, Intervention, Interventions};
use crate::limiter::Limiter;
use crate::plan::{Hits, How, plan, plan_with};
use crate::request::{Request, RequestError};
use crate::rules::{NO_SLOT, Rules};
use crate::scratch::Scratch;

impl<S: Store, O: Observer> Limiter<S, O> {
    /// Puts `list` in force in place of the earlier interventions, whatever the rules say, also when rules
    /// change. Each ends by itself; interventions above the caps of this module are dropped.
    ///
    /// Permits and slots that clients hold already are not affected: reservations, slots, permits leased to a
    /// program.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_core::{RetryAfter, Timestamp};
    /// # use tollgate_limiter::{Descriptor, Entry, Intervened, Intervention};
    /// # use tollgate_limiter::{Limiter, LimiterSettings, Policy, Request, Scratch};
    /// # use tollgate_store::{ModelStore, block_on};
    /// let limiter: Limiter<ModelStore> =
    ///     Limiter::new(Policy::empty(), ModelStore::default(), LimiterSettings::default());
    /// let noon = Timestamp::from_unix_seconds(1_700_000_000);
    /// let until = noon + Duration::from_secs(60);
    /// let entries = vec![("user".into(), "mallory".into())];
    /// let block = Intervention { domain: "shop".into(), entries, action: Intervened::Blocked, until };
    /// assert_eq!(limiter.intervene(vec![block], noon).in_force, 1);
    ///
    /// let entries = [Entry::new("user", "mallory")];
    /// let request = Request { domain: "shop", descriptors: &[Descriptor::new(&entries)], hits: 1 };
    /// let mut scratch = Scratch::new();
    /// let answer = block_on(limiter.decide(&request, noon, &mut scratch))?;
    /// assert_eq!(answer.retry_after(), RetryAfter::After(Duration::from_secs(60)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn intervene(&self, list: Vec<Intervention>, now: Timestamp) -> Intervening {
        let (interventions, result) = Interventions::new(list, now);
        let _changing = self.changing.lock();
        self.interventions.store(Arc::new(interventions));
        self.set_aside(now);
        self.observer.interventions_changed(result.in_force);
        self.lines.refresh(); // those that wait look again
        result
    }

    /// Makes these versions, by domain, charge counters of their own beside those that nodes share. They
    /// replace the earlier list. Such a counter binds nothing: requests that it would have denied are counted
    /// ([`Totals::alone_denied`](tollgate_observe::Totals::alone_denied)), so that a version in a rollout is
    /// judged by its own numbers. Nothing is charged where this node shares no counters.
    pub fn judge(&self, candidates: Vec<(String, u64)>, now: Timestamp) {
        let candidates =
            if self.store.is_remote() { Candidates::new(candidates) } else { Candidates::default() };
        let _changing = self.changing.lock();
        self.candidates.store(Arc::new(candidates));
        self.set_aside(now);
    }

    /// Has to be called while `changing` is locked.
    fn set_aside(&self, now: Timestamp) {
        let interventions = self.interventions.load();
        let candidates = self.candidates.load();
        self.rules.load().set_aside(&interventions, &candidates, now);
    }

    /// The intervention that decides a descriptor of `entries`.
    #[must_use]
    pub fn intervention(&self, domain: &str, entries: &[Entry<'_>], now: Timestamp) -> Option<InForce> {
        let interventions = self.interventions.load();
        let rules = self.rules.load();
        interventions.of(domain)?.find(rules.policy().domain(domain), entries, now)
    }

    /// Explains the treatment of a descriptor of `entries` by the rules in force, and by the intervention
    /// that precedes them.
    #[must_use]
    pub fn explain(&self, domain: &str, entries: &[Entry<'_>], now: Timestamp) -> Explanation {
        let mut explanation = explain(self.rules.load().policy(), domain, entries, self.settings.unmatched);
        explanation.intervention = self.intervention(domain, entries, now);
        explanation
    }

    /// Applies interventions in a domain without rules to `scratch`; returns the outcome of the request,
    /// which is `outcome` if there are no interventions.
    #[cold]
    pub(crate) fn intervene_without_rules(
        &self,
        request: &Request<'_>,
        now: Timestamp,
        outcome: Outcome,
        scratch: &mut Scratch,
    ) -> Outcome {
        let interventions = self.interventions.load();
        let Some(of) = interventions.of(request.domain) else { return outcome };
        for (descriptor, status) in request.descriptors.iter().zip(&mut scratch.statuses) {
            if let Some(found) = of.find(None, descriptor.entries, now) {
                self.observer.intervened(found.action);
                found.apply(status);
            }
        }
        let denies = |status: &Status| status.outcome == Outcome::Deny;
        if scratch.statuses.iter().any(denies) { Outcome::Deny } else { Outcome::Admit }
    }

    /// Plans `request`, and returns its domain; `None` for a domain without rules.
    #[inline(always)]
    pub(crate) fn plan<'r>(
        &self,
        rules: &'r Rules<O>,
        request: &Request<'_>,
        hits: Hits,
        now: Timestamp,
        scratch: &mut Scratch,
    ) -> Result<Option<&'r Domain>, RequestError> {
        let Some(domain) = rules.usual(request.domain) else {
            return self.plan_aside(rules, request, hits, now, scratch);
        };
        let how = How { hits, is_together: is_together(hits, domain) };
        plan(domain, request, &self.settings, how, scratch)?;
        Ok(Some(domain))
    }

    /// As [`plan`](Self::plan), of a domain in which operators intervene, or of which a version is judged.
    #[cold]
    #[inline(never)]
    fn plan_aside<'r>(
        &self,
        rules: &'r Rules<O>,
        request: &Request<'_>,
        hits: Hits,
        now: Timestamp,
        scratch: &mut Scratch,
    ) -> Result<Option<&'r Domain>, RequestError> {
        let Some((domain, slot)) = rules.unusual(request.domain) else { return Ok(None) };
        let interventions = self.interventions.load();
        let of = interventions.at(slot, request.domain);
        // Permits that are only held may be given back, which a version's own counter would not learn of.
        let candidate = if hits == Hits::Held { None } else { self.candidates.load().of(request.domain) };
        let how = How { hits, is_together: is_together(hits, domain) };
        plan_with(domain, request, &self.settings, how, candidate, scratch, |entries| {
            let found = of?.find(Some(domain), entries, now)?;
            self.observer.intervened(found.action);
            Some(found)
        })?;
        if slot != NO_SLOT
            && of.is_none_or(|of| of.is_over(now))
            && let Some(_changing) = self.changing.try_lock()
        {
            // All of them, since others may have been put in force meanwhile.
            self.set_aside(now);
        }
        Ok(Some(domain))
    }
}

/// Whether limits are charged all or none.
#[inline(always)]
fn is_together(hits: Hits, domain: &Domain) -> bool {
    match hits {
        Hits::Asked => domain.charge() != Charge::Each,
        Hits::Consumed => false,
        Hits::Held => true,
    }
}
