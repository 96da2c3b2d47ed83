//! The common part of limiters with and without keys: one quota in force, states, a clock, blocked keys.
//!
//! The fast path of a check reads one flag, the quota that the limiter was made with, and the state. Once the
//! quota was changed, a key was blocked or a caller waited for a window, checks take a path that looks for
//! all of these.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use tollgate_core::{
    Clock, Cost, Decision, Expiry, Inherit, Period, Quota, QuotaError, State, Timestamp, Word, nanos,
};

use crate::denied::{Admitted, Denied};
use crate::epochs::Epochs;
use crate::in_force::{InForce, owes_ahead};
use crate::snapshot::{RestoreError, Snapshot};
use crate::states::{States, Table};
use crate::tiers::{Asking, Tiers};
use crate::waiting::queue::Queue;
use crate::waiting::shared::{Locked, Waiting};

/// Room for blocked keys: about 500,000 of them.
const BLOCKS_BYTES: u64 = 16 << 20;

#[derive(Debug)]
pub(crate) struct Engine<S, C> {
    /// Set for good once a check has to look at more than `first`.
    is_special: AtomicBool,
    first: InForce<S>,
    latest: ArcSwap<InForce<S>>,
    /// Changes of the quota, including the one being made. An earlier quota no longer changes any state,
    /// since it would misread the states of the new one.
    changes: AtomicU64,
    changing: Mutex<()>,
    blocks: OnceLock<Table>,
    /// Where keys have quotas of their own.
    pub(crate) tiers: Option<Box<Tiers<S>>>,
    pub(crate) waiting: Waiting,
    pub(crate) epochs: Epochs,
    clock: C,
}

impl<S: States, C: Clock> Engine<S, C> {
    pub(crate) fn new(quota: Quota, states: S, clock: C) -> Self {
        let states = Arc::new(states);
        let latest = InForce::new(quota.clone(), Arc::clone(&states));
        Self::of(InForce::new(quota, states), Arc::new(latest), None, clock)
    }

    /// An engine whose keys have quotas of their own; `quota` is that of all other keys.
    pub(crate) fn with_tiers(
        quota: crate::Quota,
        states: S,
        clock: C,
        settings: Asking,
    ) -> Result<Self, QuotaError> {
        let first = InForce::new(quota.checked()?, Arc::new(states));
        let tiers = Tiers::new(&first, quota, settings, clock.now());
        let otherwise = tiers.otherwise();
        Ok(Self::of(first, otherwise, Some(Box::new(tiers)), clock))
    }

    fn of(first: InForce<S>, latest: Arc<InForce<S>>, tiers: Option<Box<Tiers<S>>>, clock: C) -> Self {
        Self {
            is_special: AtomicBool::new(tiers.is_some()),
            latest: ArcSwap::new(latest),
            first,
            changes: AtomicU64::new(0),
            changing: Mutex::new(()),
            blocks: OnceLock::new(),
            tiers,
            waiting: Waiting::new(),
            epochs: Epochs::new(),
            clock,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The quota and states in force, except where keys have quotas of their own.
    pub(crate) fn in_force(&self) -> Guard<Arc<InForce<S>>> {
        self.latest.load()
    }

    /// The quota and states that count `key` now, with all that is known of it.
    pub(crate) fn in_force_of(&self, key: &[u8], now: Timestamp) -> Guard<Arc<InForce<S>>> {
        if let Some(tiers) = &self.tiers {
            return Guard::from_inner(tiers.of_key(key));
        }
        let in_force = self.in_force();
        in_force.carry(key, now);
        in_force
    }

    /// The quota and states that count callers that wait for `key`.
    pub(crate) fn in_force_in(&self, queue: &Queue, key: &[u8]) -> Guard<Arc<InForce<S>>> {
        match &self.tiers {
            Some(tiers) => Guard::from_inner(match queue.tier_of(key) {
                Some(tier) => tiers.get(tier),
                None => tiers.of_key(key),
            }),
            None => self.in_force(),
        }
    }

    #[inline(always)]
    pub(crate) fn check(&self, key: &[u8], n: u64) -> Result<Admitted, Denied> {
        self.check_or_else(key, n, |now| self.check_special(key, n, now))
    }

    /// As [`check`](Self::check); `special` decides the requests that do not take the fast path.
    #[inline(always)]
    pub(crate) fn check_or_else(
        &self,
        key: &[u8],
        n: u64,
        special: impl FnOnce(Timestamp) -> Result<Admitted, Denied>,
    ) -> Result<Admitted, Denied> {
        let now = self.clock.now();
        let is_own = || !self.is_special.load(Ordering::Acquire);
        if is_own()
            && let Some(answer) = self.first.states.take_own(
                key,
                &self.first.quota,
                Cost(n),
                now,
                is_own,
                Denied::unless_admitted,
            )
        {
            return answer;
        }
        special(now)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn check_special(&self, key: &[u8], n: u64, now: Timestamp) -> Result<Admitted, Denied> {
        let in_force = self.in_force_of(key, now);
        Denied::unless_admitted(match self.held_up(key, n, &in_force, now) {
            Some(denial) => denial,
            None if S::HAS_KEYS && in_force.changes == 0 => in_force.take(key, Cost(n), now),
            None => self.update(key, now, |in_force, state| in_force.quota.take(state, Cost(n), now)),
        })
    }

    /// Runs `step` on the state of `key` with its present quota, and keeps the new state. `step` may be
    /// called again, also with another quota if that changes meanwhile.
    pub(crate) fn update<T>(
        &self,
        key: &[u8],
        now: Timestamp,
        mut step: impl FnMut(&InForce<S>, &mut State) -> T,
    ) -> T {
        loop {
            let in_force = self.in_force_of(key, now);
            let is_in_force =
                || self.tiers.is_some() || self.changes.load(Ordering::Acquire) == in_force.changes;
            // After the state was read: a change that comes later changes the state too.
            let step = |state: &mut State| is_in_force().then(|| step(&in_force, state));
            if let Some(done) = in_force.update(key, now, step) {
                return done;
            }
            drop(self.changing.lock()); // until the change is made
        }
    }

    pub(crate) fn take_at_most(&self, key: &[u8], n: u64) -> u64 {
        let now = self.clock.now();
        if self.held_up(key, n, &self.in_force_of(key, now), now).is_some() {
            return 0;
        }
        let taken =
            self.update(key, now, |in_force, state| in_force.quota.take_at_most(state, Cost(n), now).0);
        taken.permits()
    }

    /// The decision of a check, without taking permits.
    pub(crate) fn peek(&self, key: &[u8], n: u64) -> Decision {
        let now = self.clock.now();
        let in_force = self.in_force_of(key, now);
        let quota = &in_force.quota;
        if let Some(denial) = self.held_up(key, n, &in_force, now) {
            return denial;
        }
        quota.take(&mut in_force.get(key), Cost(n), now)
    }

    /// Takes `n` permits if they fit; otherwise nothing changes, also if a check would count the denial.
    pub(crate) fn take_or_leave(&self, key: &[u8], n: u64) -> Decision {
        let now = self.clock.now();
        if let Some(denial) = self.held_up(key, n, &self.in_force_of(key, now), now) {
            return denial;
        }
        self.update(key, now, |in_force, state| {
            let quota = &in_force.quota;
            let mut after = state.clone();
            let decision = quota.take(&mut after, Cost(n), now);
            if decision.is_admitted() {
                *state = after;
            } else {
                quota.start_refill(state, now);
            }
            decision
        })
    }

    /// Makes a key fill from now on that does not start full.
    pub(crate) fn start_refill(&self, key: &[u8]) {
        self.change(key, |quota, state, now| quota.start_refill(state, now));
    }

    pub(crate) fn give_back(&self, key: &[u8], n: u64) {
        let _left = self.change(key, |quota, state, now| quota.give_back(state, Cost(n), now));
        self.after_gain(key);
    }

    pub(crate) fn penalise(&self, key: &[u8], n: u64) {
        let _left = self.change(key, |quota, state, now| quota.charge(state, Cost(n), now));
        self.after_loss(key);
    }

    /// 0 asks whether anything is left; any other number is counted, even if the key is blocked or has
    /// waiters.
    pub(crate) fn pay(&self, key: &[u8], n: u64) -> Result<Admitted, Denied> {
        let now = self.clock.now();
        let held_up = self.held_up(key, n.min(1), &self.in_force_of(key, now), now);
        Denied::unless_admitted(match held_up {
            Some(denial) if n == 0 => denial,
            _ if n == 0 => self.update(key, now, |it, state| it.quota.pay(state, Cost::PEEK, now)),
            held_up => {
                let paid = self.change(key, |quota, state, now| quota.pay(state, Cost(n), now));
                self.after_loss(key);
                held_up.unwrap_or(paid)
            }
        })
    }

    pub(crate) fn reset(&self, key: &[u8]) {
        let Ok(()) = self.replace(key, |quota| Ok::<_, Infallible>(quota.fresh()));
    }

    pub(crate) fn snapshot(&self, key: &[u8]) -> Snapshot {
        let now = self.clock.now();
        let in_force = self.in_force_of(key, now);
        Snapshot::of(&in_force.quota, in_force.get(key), now)
    }

    pub(crate) fn restore(&self, key: &[u8], snapshot: &Snapshot) -> Result<(), RestoreError> {
        self.replace(key, |quota| snapshot.state_for(quota))
    }

    fn change<T>(&self, key: &[u8], mut step: impl FnMut(&Quota, &mut State, Timestamp) -> T) -> T {
        self.serve_before_change(&self.in_force_of(key, self.clock.now()).quota);
        let now = self.clock.now();
        self.update(key, now, |in_force, state| step(&in_force.quota, state, now))
    }

    /// Puts a state in place of that of `key`. Permits that waiters have reserved are still owed.
    fn replace<E>(&self, key: &[u8], new: impl Fn(&Quota) -> Result<State, E>) -> Result<(), E> {
        let mut queue = self.waiting.lock();
        let now = self.look(&mut queue);
        let in_force = self.in_force_in(&queue, key);
        in_force.carry(key, now);
        let quota = &in_force.quota;
        let reserved = if owes_ahead(quota) { Cost(queue.permits_of(key)) } else { Cost::PEEK };
        in_force.update(key, now, |state| {
            *state = new(quota)?;
            if !reserved.is_peek() {
                let _left = quota.charge(state, reserved, now);
            }
            Ok(())
        })?;
        self.epochs.begin(key);
        self.settle(&mut queue, key);
        Ok(())
    }

    /// Denies `key` until that instant, whatever is left of its quota.
    pub(crate) fn block(&self, key: &[u8], until: Timestamp) {
        let now = self.clock.now();
        let quota = Quota::unlimited();
        let blocks = self.blocks.get_or_init(|| Table::new(BLOCKS_BYTES));
        blocks.update(key, &quota, now, |state| {
            *state = State::Word(Word { value: until.as_nanos(), expires: Expiry::at(until) });
        });
        self.is_special.store(true, Ordering::Release);
        self.after_loss(key);
    }

    /// Makes checks look for lines from now on, where permits of waiters are not owed yet.
    pub(crate) fn watch_lines(&self) {
        self.is_special.store(true, Ordering::Release);
    }

    /// The denial of a caller that may not take permits: its key is blocked, or others wait for it.
    #[inline]
    pub(crate) fn held_up(
        &self,
        key: &[u8],
        n: u64,
        in_force: &InForce<S>,
        now: Timestamp,
    ) -> Option<Decision> {
        self.blocked(key, &in_force.quota, now).or_else(|| self.behind_a_line(in_force, key, n))
    }

    /// The denial of a key that is blocked.
    fn blocked(&self, key: &[u8], quota: &Quota, now: Timestamp) -> Option<Decision> {
        let until = self.blocked_until(key).filter(|until| *until > now)?;
        let wait_ns = nanos(until.since(now));
        Some(Decision::deny(quota.limit(), 0, wait_ns, wait_ns))
    }

    /// The instant until which `key` was last blocked.
    pub(crate) fn blocked_until(&self, key: &[u8]) -> Option<Timestamp> {
        match self.blocks.get()?.get(key, &Quota::unlimited()) {
            State::Word(word) => Some(Timestamp::from_nanos(word.value)),
            State::Wide(_) => None,
        }
    }

    /// Counts by `quota` from now on; `how` says which counts keys keep. Calls that are decided at this
    /// instant may be counted by either.
    pub(crate) fn reconfigure(&self, quota: &crate::Quota, how: Inherit) -> Result<(), QuotaError> {
        if let Some(tiers) = &self.tiers {
            return self.replace_otherwise(tiers, quota, how);
        }
        let quota = quota.checked()?;
        let _one_at_a_time = self.changing.lock();
        let mut queue = self.waiting.lock();
        let now = self.look(&mut queue);
        let old = self.latest.load_full();
        let counts_alike = old.quota.counts_as(&quota);
        let quota = if counts_alike { quota.migrated_from(&old.quota, now) } else { quota };
        // The debt of a slower bucket would outlive its state in the table.
        let stays = how == Inherit::Taken && !(owes_ahead(&quota) && is_slower(&quota, &old.quota));
        let is_in_place = counts_alike && (!S::HAS_KEYS || (stays && !old.has_past()));
        let states = if is_in_place { Arc::clone(&old.states) } else { Arc::new(old.states.another()) };
        let mut new = InForce::new(quota, states);
        new.changes = old.changes + 1;
        // Before the state is changed, or read to be carried over: callers that still have the old quota then
        // wait for the change.
        self.is_special.store(true, Ordering::Release);
        self.changes.store(new.changes, Ordering::Release);
        old.states.close();
        if !is_in_place {
            for key in self.keys_to_carry(&queue) {
                old.carry(&key, now);
                let reserved = queue.permits_of(&key);
                let mut state = old.get(&key);
                self.inherit(&new.quota, &mut state, &old.quota, how, reserved, now);
                new.put(&key, &state, now);
                old.put(&key, &old.quota.fresh(), now);
            }
            let keeps_some = how != Inherit::Reset && (counts_alike || how != Inherit::Taken);
            if S::HAS_KEYS && keeps_some {
                new = new.following(Arc::clone(&old), how, now);
            }
        }
        let new = Arc::new(new);
        self.latest.store(Arc::clone(&new));
        if is_in_place && !S::HAS_KEYS {
            let reserved = queue.permits_of(b"");
            new.update(b"", now, |state| {
                self.inherit(&new.quota, state, &old.quota, how, reserved, now);
            });
        }
        if !keeps_permits(counts_alike, how) {
            self.epochs.begin_all();
        }
        self.after_reconfiguration(&mut queue, counts_alike);
        Ok(())
    }

    /// Publishes `new` as the quota in force.
    pub(crate) fn replace_latest(&self, new: Arc<InForce<S>>) {
        self.latest.store(new);
    }

    /// The keys whose states have to be carried over at once: the only one of a limiter without keys,
    /// otherwise the keys with waiters.
    fn keys_to_carry(&self, queue: &Locked<'_>) -> Vec<Arc<[u8]>> {
        if S::HAS_KEYS { queue.keys() } else { vec![Arc::default()] }
    }

    /// Makes a state of the quota before into one of `new`. Permits that waiters have reserved are kept as
    /// they are, or leave with them.
    fn inherit(
        &self,
        new: &Quota,
        state: &mut State,
        old: &Quota,
        how: Inherit,
        reserved: u64,
        now: Timestamp,
    ) {
        let counts_alike = old.counts_as(new);
        let reads = if counts_alike { new } else { old };
        let reserved = if owes_ahead(reads) { Cost(reserved) } else { Cost::PEEK };
        if !reserved.is_peek() {
            let _left = reads.give_back(state, reserved, now);
        }
        *state = new.inherit(std::mem::replace(state, new.fresh()), old, how, now);
        if counts_alike && !reserved.is_peek() {
            let _left = new.charge(state, reserved, now);
        }
    }
}

/// Whether a permit that was taken before a change of the quota is worth one permit after it.
pub(crate) const fn keeps_permits(counts_alike: bool, how: Inherit) -> bool {
    counts_alike && matches!(how, Inherit::Taken | Inherit::AsIs | Inherit::Additive)
}

/// Whether permits come back more slowly than before.
fn is_slower(new: &Quota, old: &Quota) -> bool {
    match (new.period(), old.period()) {
        (Period::Span(new_period), Period::Span(old_period)) => {
            u128::from(new.limit()) * old_period.as_nanos() < u128::from(old.limit()) * new_period.as_nanos()
        }
        _ => true,
    }
}
