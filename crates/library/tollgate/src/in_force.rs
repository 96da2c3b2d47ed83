//! The quota in force and its states, and the earlier states that have not been carried over yet.
//!
//! A table keeps no keys, so they cannot be changed all at once: each is carried over when it is asked for
//! next, as of the instant of the change. Then the earlier states no longer have it.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tollgate_core::{Algorithm, Cost, Decision, Inherit, Quota, State, Step, Timestamp};

use crate::states::States;

/// Keys that were not asked for during this many changes count as never seen.
const MOST_CHANGES: usize = 4;

/// A quota, and the states that it has written.
#[derive(Debug)]
pub(crate) struct InForce<S> {
    pub(crate) quota: Quota,
    pub(crate) states: Arc<S>,
    /// Number of changes of the quota before it.
    pub(crate) changes: u64,
    /// Its number where keys have quotas of their own: names of its states begin with it.
    pub(crate) tier: Option<u16>,
    /// The quota without the log of denials, if that differs: callers that wait in a line have not been
    /// denied.
    patient: Option<Box<Quota>>, // apart: what each check reads stays close together
    before: ArcSwapOption<Before<S>>,
}

#[derive(Debug)]
struct Before<S> {
    old: Arc<InForce<S>>,
    how: Inherit,
    at: Timestamp,
    carrying: Mutex<()>,
}

impl<S: States> InForce<S> {
    pub(crate) fn new(quota: Quota, states: Arc<S>) -> Self {
        let patient = match quota.algorithm() {
            Algorithm::SlidingWindowLog { log_denied: true } => {
                let algorithm = Algorithm::SlidingWindowLog { log_denied: false };
                Quota::new(quota.limit(), quota.period().clone(), algorithm).ok().map(Box::new)
            }
            _ => None,
        };
        Self { quota, states, changes: 0, tier: None, patient, before: ArcSwapOption::empty() }
    }

    /// The quota of some keys, with its own states beside those of other quotas.
    pub(crate) fn of_tier(quota: Quota, states: Arc<S>, tier: u16) -> Self {
        Self { tier: Some(tier), ..Self::new(quota, states) }
    }

    #[inline]
    pub(crate) fn take(&self, key: &[u8], cost: Cost, now: Timestamp) -> Decision {
        self.named(key, |name| self.states.take(name, &self.quota, cost, now))
    }

    /// Runs `step` on the state of `key` and keeps the new state. `step` may be called again.
    pub(crate) fn update<T>(&self, key: &[u8], now: Timestamp, step: impl FnMut(&mut State) -> T) -> T {
        self.named(key, |name| self.states.update(name, &self.quota, now, step))
    }

    /// A copy of the state of `key`.
    pub(crate) fn get(&self, key: &[u8]) -> State {
        self.named(key, |name| self.states.get(name, &self.quota))
    }

    #[inline]
    fn named<T>(&self, key: &[u8], with: impl FnOnce(&[u8]) -> T) -> T {
        const SHORT: usize = 128;
        let Some(tier) = self.tier.map(u16::to_be_bytes) else { return with(key) };
        let length = tier.len() + key.len();
        let mut short = [0; SHORT];
        if length > SHORT {
            return with(&[&tier[..], key].concat());
        }
        short[..tier.len()].copy_from_slice(&tier);
        short[tier.len()..length].copy_from_slice(key);
        with(&short[..length])
    }

    /// The quota for callers that wait in a line.
    pub(crate) fn for_lines(&self) -> &Quota {
        self.patient.as_deref().unwrap_or(&self.quota)
    }

    /// Follows `old`, whose counts until `at` are still to be carried over.
    pub(crate) fn following(self, old: Arc<Self>, how: Inherit, at: Timestamp) -> Self {
        let mut link = Arc::clone(&old);
        for _ in 1..MOST_CHANGES {
            let Some(before) = link.before.load_full() else { break };
            link = Arc::clone(&before.old);
        }
        link.before.store(None);
        self.before.store(Some(Arc::new(Before { old, how, at, carrying: Mutex::new(()) })));
        self
    }

    /// Whether earlier states may still have to be carried over.
    pub(crate) fn has_past(&self) -> bool {
        self.before.load().is_some()
    }

    /// Carries over the earlier counts of `key`.
    #[inline]
    pub(crate) fn carry(&self, key: &[u8], now: Timestamp) {
        if let Some(before) = &*self.before.load() {
            self.carry_from(before, key, now);
        }
    }

    #[cold]
    fn carry_from(&self, Before { old, how, at, carrying }: &Before<S>, key: &[u8], now: Timestamp) {
        old.carry(key, now);
        let kept = || Some(old.get(key)).filter(|state| !is_fresh(state));
        if kept().is_none() {
            return;
        }
        let _one_at_a_time = carrying.lock();
        let Some(state) = kept() else { return };
        // If the key has a state, it has been carried already. A state that `old` has even so is from a call
        // that ran during the change, and must not replace newer counts.
        if is_fresh(&self.get(key)) && old.has_something(&state, *at) {
            self.put(key, &self.quota.inherit(state, &old.quota, *how, *at), now);
        }
        old.put(key, &old.quota.fresh(), now);
    }

    pub(crate) fn put(&self, key: &[u8], state: &State, now: Timestamp) {
        self.update(key, now, |it| it.clone_from(state));
    }

    /// False for the state of a key that equals an unseen key at `at`.
    pub(crate) fn has_something(&self, state: &State, at: Timestamp) -> bool {
        if is_fresh(state) {
            return false;
        }
        // A full state is like an unseen one, except that a free warm-up state may still be warm.
        let left = self.quota.take(&mut state.clone(), Cost::PEEK, at);
        let warms_up = matches!(self.quota.algorithm(), Algorithm::WarmUp { .. });
        warms_up || self.quota.starts_partial() || !left.reset_after().is_zero()
    }
}

/// Whether permits are owed in the state from the moment when a waiter joins.
pub(crate) fn owes_ahead(quota: &Quota) -> bool {
    match quota.step() {
        Step::Word(_) => !matches!(quota.algorithm(), Algorithm::FixedWindow { .. } | Algorithm::Total),
        Step::Wide(_) => false,
    }
}

fn is_fresh(state: &State) -> bool {
    match state {
        State::Word(word) => word.is_fresh(),
        State::Wide(wide) => wide.cells.is_empty(),
    }
}
