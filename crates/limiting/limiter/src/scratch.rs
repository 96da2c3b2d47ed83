//! Buffers of one caller, used again from decision to decision, so that none allocates.

use std::ops::Range;

use tollgate_core::{Cost, Decision, Outcome, Quota};
use tollgate_policy::{Domain, Override};
use tollgate_store::{Origin, Payment, Sharing, Take, Verdicts};

use tollgate_observe::{Degraded, LimitRef, Status};

/// Buffers that a caller keeps and lends to [`Limiter::decide`](crate::Limiter::decide); they grow to the
/// largest request seen. One for each request that is being decided at the same time: a thread's, a
/// connection's or a task's.
#[derive(Debug, Default)]
pub struct Scratch {
    /// One for each descriptor of the request, in its order.
    pub(crate) statuses: Vec<Status>,
    /// The takes to be made, in the order of descriptors and their limits.
    pub(crate) items: Vec<Item>,
    /// The bytes of all keys.
    pub(crate) keys: Vec<u8>,
    /// Limits that came with the request.
    pub(crate) overrides: Vec<Override>,
    pub(crate) verdicts: Verdicts,
    /// Result of each limit that binds, in the order of descriptors and limits; only where a rule has
    /// several.
    pub(crate) settled: Vec<Settled>,
    /// A rule with several limits matches.
    pub(crate) several: bool,
    /// A rule with a queue matches.
    pub(crate) queues: bool,
    /// End of each key, for quotas that came with the request.
    pub(crate) ends: Vec<usize>,
    /// Empty between decisions; only its room is kept.
    pub(crate) takes: Vec<Take<'static>>,
}

/// One take to be made.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) descriptor: u32,
    /// Place of the rule in its domain; without meaning for an override.
    pub(crate) rule: u32,
    pub(crate) limit: LimitRef,
    /// Permits that the limit admits beyond its number.
    pub(crate) excess: u64,
    pub(crate) key: Range<u32>,
    /// Where its counter is kept.
    pub(crate) sharing: Sharing,
    /// The origin of an override that no rule matches: the request.
    pub(crate) origin: Origin,
    pub(crate) cost: Cost,
    pub(crate) payment: Payment,
    /// Its denial does not deny the request, so it does not keep others from being charged.
    pub(crate) soft: bool,
    /// It binds nothing: its limit is tried beside others.
    pub(crate) shadow: bool,
    /// It binds nothing: its counter is that of a version alone, beside one that nodes share.
    pub(crate) alone: bool,
}

/// A limit that binds its descriptor, beside others of its rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    pub(crate) descriptor: u32,
    pub(crate) limit: LimitRef,
    pub(crate) outcome: Outcome,
    pub(crate) decision: Option<Decision>,
    pub(crate) remaining: u64,
    pub(crate) degraded: Option<Degraded>,
}

impl Settled {
    /// The place among all limits of the request.
    pub(crate) const fn place(&self) -> (u32, u32) {
        let (LimitRef::Rule(index) | LimitRef::Override(index)) = self.limit;
        (self.descriptor, index)
    }
}

impl Item {
    #[inline]
    pub(crate) fn quota<'a>(&self, domain: &'a Domain, overrides: &'a [Override]) -> &'a Quota {
        match self.limit {
            LimitRef::Rule(index) => &domain.rules()[self.rule as usize].limits[index as usize].quota,
            LimitRef::Override(index) => &overrides[index as usize].limit.quota,
        }
    }

    #[inline]
    pub(crate) fn key<'a>(&self, keys: &'a [u8]) -> &'a [u8] {
        &keys[self.key.start as usize..self.key.end as usize]
    }
}

impl Scratch {
    /// No buffer yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            statuses: Vec::new(),
            items: Vec::new(),
            keys: Vec::new(),
            overrides: Vec::new(),
            verdicts: Vec::new(),
            settled: Vec::new(),
            several: false,
            queues: false,
            ends: Vec::new(),
            takes: Vec::new(),
        }
    }

    /// The items that deny the request by themselves, where the soft ones are last.
    pub(crate) fn hard(&self) -> &[Item] {
        &self.items[..self.items.partition_point(|item| !item.soft)]
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.statuses.clear();
        self.items.clear();
        self.keys.clear();
        if !self.overrides.is_empty() {
            self.overrides.clear();
        }
        self.verdicts.clear();
        if !self.settled.is_empty() {
            self.settled.clear();
        }
        self.ends.clear();
    }
}
