//! What becomes of a decision that the store gives no answer to, and where counters live that never go to the store.
//!
//! Each rule says it: deny, allow, or `local`, which counts in this node's memory by a share of the quota
//! ([`Quota::share_of`]) as large as the nodes that were alive when the store was last heard of make it. Such counters have keys of their
//! own that hold the share's numbers, so that none is ever read by another share. Not here: how the store is asked again (the stores).

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use tollgate_core::{Period, Quota, Sharing, Timestamp};
use tollgate_policy::{Domain, OnStoreFailure, Override, Policy};
use tollgate_store::{Charge, Key, Store, StoreError, Take, Verdicts};

use crate::answer::Status;
use crate::limiter::{Limiter, Rules};
use crate::observe::Global;
use crate::observe::lanes::Seat;
use crate::scratch::{Item, LimitRef};
use crate::settle::Said;

/// The first byte of the key of a counter that is kept while the store gives no answer: a control character, with which no rule's
/// key begins, and none that a quota begins with which came with the question.
const MARK: u8 = 14;

/// Log lines about what the store refuses, at most; the next one says how many were left out.
const REFUSALS_A_SECOND: u32 = 1;

/// The shares of all limits of a policy among so many nodes, each made when it is first needed.
#[derive(Debug)]
pub(crate) struct Shares {
    nodes: u32,
    /// Where each rule's shares begin.
    first: Vec<u32>,
    quotas: Box<[OnceLock<Quota>]>,
}

impl Shares {
    fn new(policy: &Policy, nodes: u32) -> Self {
        let (mut first, mut next) = (Vec::new(), 0);
        for rule in policy.rules() {
            first.push(next);
            next += rule.limits.len() as u32;
        }
        Self { nodes, first, quotas: (0..next).map(|_| OnceLock::new()).collect() }
    }

    fn get(&self, rule: usize, limit: u32, quota: &Quota) -> Option<&Quota> {
        let place = *self.first.get(rule)? + limit;
        Some(self.quotas.get(place as usize)?.get_or_init(|| quota.share_of(self.nodes)))
    }
}

impl Rules {
    /// The shares among so many nodes; made anew when there are more or fewer than last time.
    pub(crate) fn shares(&self, nodes: u32) -> Arc<Shares> {
        if let Some(shares) = self.shares.load_full().filter(|shares| shares.nodes == nodes) {
            return shares;
        }
        let shares = Arc::new(Shares::new(self.policy(), nodes));
        self.shares.store(Some(Arc::clone(&shares)));
        shares
    }
}

/// What one request is decided by, as far as items do not say it themselves.
#[derive(Clone, Copy)]
pub(crate) struct Of<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) domain: &'a Domain,
    pub(crate) overrides: &'a [Override],
    pub(crate) keys: &'a [u8],
    pub(crate) now: Timestamp,
}

/// A take that this node decides by itself.
#[derive(Debug)]
pub(crate) struct Own<'a> {
    pub(crate) key: Vec<u8>,
    pub(crate) quota: Cow<'a, Quota>,
}

/// Appends the key under which this node counts by `share` what is elsewhere counted under `key`.
pub(crate) fn write_own_key(share: &Quota, key: &[u8], out: &mut Vec<u8>) {
    write_head(MARK, share, out);
    out.extend_from_slice(key);
}

/// A kind, and the rate: fourteen bytes, so that no key runs into another.
#[inline]
pub(crate) fn write_head(kind: u8, quota: &Quota, out: &mut Vec<u8>) {
    // 2^40 is above the largest limit that a quota may have; no limit at all has no counter.
    let limit = quota.limit().min((1 << 40) - 1);
    let period = match quota.period() {
        Period::Span(span) => u64::try_from(span.as_nanos()).unwrap_or(u64::MAX),
        Period::Civil { unit, .. } => u64::MAX - 1 - *unit as u64,
        _ => u64::MAX,
    };
    let mut head = [0; 14];
    head[0] = kind;
    head[1..6].copy_from_slice(&limit.to_be_bytes()[3..]);
    head[6..].copy_from_slice(&period.to_be_bytes());
    out.extend_from_slice(&head);
}

impl<S: Store, L: Store> Limiter<S, L> {
    /// Where `quota` is counted: this node's memory, where it says so and there is one beside the store.
    #[inline]
    pub(crate) fn own(&self, quota: &Quota) -> Option<&L> {
        self.local.as_ref().filter(|_| quota.sharing() == Sharing::Local)
    }

    /// Takes each on its own, from the store or from this node's memory as its quota says. Both are asked once.
    pub(crate) async fn take_each(&self, takes: &[Take<'_>], now: Timestamp, verdicts: &mut Verdicts) {
        let is_own = |take: &Take<'_>| self.own(take.quota).is_some();
        match &self.local {
            Some(local) if takes.iter().any(is_own) => {
                let (own, shared): (Vec<_>, Vec<_>) = takes.iter().copied().partition(is_own);
                let (mut of_own, mut of_shared) = (Verdicts::new(), Verdicts::new());
                local.take(&own, Charge::Each, now, &mut of_own).await;
                if !shared.is_empty() {
                    self.store.take(&shared, Charge::Each, now, &mut of_shared).await;
                }
                merge(takes.iter().map(is_own), of_own, of_shared, verdicts);
            }
            _ => self.store.take(takes, Charge::Each, now, verdicts).await,
        }
        self.metrics.count_batch(Seat::here(), takes.len());
    }

    /// What becomes of `item` when the store gave no answer, where it stands alone.
    #[cold]
    pub(crate) async fn without_the_store(
        &self,
        of: Of<'_>,
        item: &Item,
        status: &Status,
        error: &StoreError,
    ) -> Said {
        let way = self.way_without_the_store(of.domain, item, status, error, of.now);
        if let (OnStoreFailure::Local, Some(local)) = (way, &self.local) {
            let shares = of.rules.shares(self.store.live_nodes());
            let own = own_take(&shares, of, item);
            let take = Take { key: Key(&own.key), quota: &own.quota, cost: item.cost };
            let mut verdicts = Verdicts::new();
            local.take(&[take], Charge::Each, of.now, &mut verdicts).await;
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
        status: &Status,
        error: &StoreError,
        now: Timestamp,
    ) -> OnStoreFailure {
        self.metrics.count(Seat::here(), Global::StoreErrors, 1);
        self.note_that_the_store_fails(error, now);
        // A limit that came with the request falls to the rule whose counter it shares.
        let rule = match item.limit {
            LimitRef::Rule(_) => Some(item.rule),
            LimitRef::Override(_) => status.rule,
        };
        rule.map_or_else(OnStoreFailure::default, |rule| domain.rules()[rule as usize].on_store_failure)
    }

    /// Takes note of an error. That the store is down is told by whoever watches it, once; what it refuses is told here.
    pub(crate) fn note_that_the_store_fails(&self, error: &StoreError, now: Timestamp) {
        match error {
            StoreError::Unreachable { .. } | StoreError::Silent { .. } => {
                if !self.store_fails.swap(true, Relaxed) {
                    tracing::debug!(%error, "a rule decides as its on_store_failure says");
                }
            }
            _ => {
                if let Some(left_out) = self.refusals.next(Seat::here(), REFUSALS_A_SECOND, now) {
                    let left_out = (left_out > 0).then_some(left_out);
                    tracing::warn!(%error, left_out, "a rule decides as its on_store_failure says");
                }
            }
        }
    }

    #[inline]
    pub(crate) fn note_that_the_store_answers(&self, verdicts: &Verdicts) {
        if self.store_fails.load(Relaxed) && verdicts.iter().all(Result::is_ok) {
            self.store_fails.store(false, Relaxed);
            tracing::debug!(store = %self.store.name(), "the store answers again");
        }
    }
}

/// The take by which this node decides `item` itself.
pub(crate) fn own_take<'a>(shares: &'a Shares, of: Of<'a>, item: &Item) -> Own<'a> {
    let quota = item.quota(of.domain, of.overrides);
    let share = match item.limit {
        LimitRef::Rule(limit) => {
            let rule = of.domain.rules()[item.rule as usize].index;
            shares.get(rule, limit, quota).map(Cow::Borrowed)
        }
        LimitRef::Override(_) => None,
    };
    let quota = share.unwrap_or_else(|| Cow::Owned(quota.share_of(shares.nodes)));
    let mut key = Vec::new();
    write_own_key(&quota, item.key(of.keys), &mut key);
    Own { key, quota }
}

impl Shares {
    pub(crate) const fn nodes(&self) -> u32 {
        self.nodes
    }
}

/// Puts the answers of two parts of a batch into its order.
pub(crate) fn merge(
    is_own: impl Iterator<Item = bool>,
    of_own: Verdicts,
    of_shared: Verdicts,
    verdicts: &mut Verdicts,
) {
    let (mut of_own, mut of_shared) = (of_own.into_iter(), of_shared.into_iter());
    verdicts.extend(is_own.filter_map(|is_own| if is_own { of_own.next() } else { of_shared.next() }));
}
