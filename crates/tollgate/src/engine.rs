//! What limiters with and without keys do alike: one quota in force, states, a clock, blocked keys.
//!
//! The fast path of a check reads one flag, the quota that the limiter was made with, and the state. Once the
//! quota was changed or a key blocked, checks take a path that looks for both.

use std::convert::Infallible;
use std::mem::discriminant;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tollgate_core::{Clock, Cost, Decision, Expiry, Quota, QuotaError, State, Timestamp, Word, nanos};

use crate::denied::{Admitted, Denied};
use crate::snapshot::{RestoreError, Snapshot};
use crate::states::{States, Table};
use crate::waiting::shared::Waiting;

/// Room for blocked keys: about 500,000 of them.
const BLOCKS_BYTES: u64 = 16 << 20;

#[derive(Debug)]
pub(crate) struct Engine<S, C> {
    /// Set for good once `first` is not all that there is to look at.
    is_special: AtomicBool,
    first: InForce<S>,
    latest: ArcSwap<InForce<S>>,
    changing: Mutex<()>,
    blocks: OnceLock<Table>,
    pub(crate) waiting: Waiting,
    clock: C,
}

/// A quota, and the states that it has written.
#[derive(Debug)]
pub(crate) struct InForce<S> {
    pub(crate) quota: Quota,
    pub(crate) states: Arc<S>,
}

impl<S: States, C: Clock> Engine<S, C> {
    pub(crate) fn new(quota: Quota, states: S, clock: C) -> Self {
        let states = Arc::new(states);
        let latest = InForce { quota: quota.clone(), states: Arc::clone(&states) };
        Self {
            is_special: AtomicBool::new(false),
            first: InForce { quota, states },
            latest: ArcSwap::from_pointee(latest),
            changing: Mutex::new(()),
            blocks: OnceLock::new(),
            waiting: Waiting::new(),
            clock,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// What counts now.
    pub(crate) fn in_force(&self) -> arc_swap::Guard<Arc<InForce<S>>> {
        self.latest.load()
    }

    #[inline(always)]
    pub(crate) fn check(&self, key: &[u8], n: u64) -> Result<Admitted, Denied> {
        let now = self.clock.now();
        if self.is_special.load(Ordering::Acquire) {
            return self.check_special(key, n, now);
        }
        Denied::unless_admitted(self.first.states.take(key, &self.first.quota, Cost(n), now))
    }

    #[cold]
    #[inline(never)]
    fn check_special(&self, key: &[u8], n: u64, now: Timestamp) -> Result<Admitted, Denied> {
        let InForce { quota, states } = &**self.in_force();
        Denied::unless_admitted(match self.blocked(key, quota, now) {
            Some(denial) => denial,
            None => states.take(key, quota, Cost(n), now),
        })
    }

    pub(crate) fn take_at_most(&self, key: &[u8], n: u64) -> u64 {
        let (now, in_force) = (self.clock.now(), self.in_force());
        let InForce { quota, states } = &**in_force;
        if self.blocked(key, quota, now).is_some() {
            return 0;
        }
        let taken = states.update(key, quota, now, |state| quota.take_at_most(state, Cost(n), now).0);
        taken.permits()
    }

    /// What a check would answer; nothing is taken.
    pub(crate) fn peek(&self, key: &[u8], n: u64) -> Decision {
        let (now, in_force) = (self.clock.now(), self.in_force());
        let InForce { quota, states } = &**in_force;
        if let Some(denial) = self.blocked(key, quota, now) {
            return denial;
        }
        quota.take(&mut states.get(key, quota), Cost(n), now)
    }

    /// Takes `n` permits if they fit; otherwise nothing changes, also where a check would count a denial.
    pub(crate) fn take_or_leave(&self, key: &[u8], n: u64) -> Decision {
        let (now, in_force) = (self.clock.now(), self.in_force());
        let InForce { quota, states } = &**in_force;
        if let Some(denial) = self.blocked(key, quota, now) {
            return denial;
        }
        states.update(key, quota, now, |state| {
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

    pub(crate) fn give_back(&self, key: &[u8], n: u64) {
        let _left = self.change(key, |quota, state, now| quota.give_back(state, Cost(n), now));
        self.after_gain(key);
    }

    pub(crate) fn penalise(&self, key: &[u8], n: u64) {
        let _left = self.change(key, |quota, state, now| quota.charge(state, Cost(n), now));
        self.after_loss(key);
    }

    pub(crate) fn reset(&self, key: &[u8]) {
        let Ok(()) = self.replace(key, |quota| Ok::<_, Infallible>(quota.fresh()));
    }

    pub(crate) fn snapshot(&self, key: &[u8]) -> Snapshot {
        let (now, in_force) = (self.clock.now(), self.in_force());
        Snapshot::of(&in_force.quota, in_force.states.get(key, &in_force.quota), now)
    }

    pub(crate) fn restore(&self, key: &[u8], snapshot: &Snapshot) -> Result<(), RestoreError> {
        self.replace(key, |quota| snapshot.state_for(quota))
    }

    fn change<T>(&self, key: &[u8], mut step: impl FnMut(&Quota, &mut State, Timestamp) -> T) -> T {
        let (now, in_force) = (self.clock.now(), self.in_force());
        let InForce { quota, states } = &**in_force;
        states.update(key, quota, now, |state| step(quota, state, now))
    }

    /// Puts a state in place of that of `key`. What waiters have reserved is still owed.
    fn replace<E>(&self, key: &[u8], new: impl Fn(&Quota) -> Result<State, E>) -> Result<(), E> {
        let mut queue = self.waiting.lock();
        let (now, in_force) = (self.clock.now(), self.in_force());
        let InForce { quota, states } = &**in_force;
        let reserved = Cost(queue.permits_of(key));
        states.update(key, quota, now, |state| {
            *state = new(quota)?;
            if !reserved.is_peek() {
                let _left = quota.charge(state, reserved, now);
            }
            Ok(())
        })?;
        self.settle(&mut queue, key);
        Ok(())
    }

    /// Denies `key` until then, whatever is left of its quota.
    pub(crate) fn block(&self, key: &[u8], until: Timestamp) {
        let (now, quota) = (self.clock.now(), Quota::unlimited());
        let blocks = self.blocks.get_or_init(|| Table::new(BLOCKS_BYTES));
        blocks.update(key, &quota, now, |state| {
            *state = State::Word(Word { value: until.as_nanos(), expires: Expiry::at(until) });
        });
        self.is_special.store(true, Ordering::Release);
        self.after_loss(key);
    }

    /// The denial of a key that is blocked.
    fn blocked(&self, key: &[u8], quota: &Quota, now: Timestamp) -> Option<Decision> {
        let until = self.blocked_until(key).filter(|until| *until > now)?;
        let wait_ns = nanos(until.since(now));
        Some(Decision::deny(quota.limit(), 0, wait_ns, wait_ns))
    }

    /// Until when `key` was blocked last.
    pub(crate) fn blocked_until(&self, key: &[u8]) -> Option<Timestamp> {
        match self.blocks.get()?.get(key, &Quota::unlimited()) {
            State::Word(word) => Some(Timestamp::from_nanos(word.value)),
            State::Wide(_) => None,
        }
    }

    /// Counts by `quota` from here on. What was taken stays taken, in permits, as long as the algorithm stays
    /// the same; another algorithm begins with nothing taken.
    pub(crate) fn reconfigure(&self, quota: &crate::Quota) -> Result<(), QuotaError> {
        let quota = quota.checked()?;
        let _one_at_a_time = self.changing.lock();
        let old = self.latest.load();
        let is_of_its_kind = discriminant(old.quota.algorithm()) == discriminant(quota.algorithm())
            && old.quota.shape() == quota.shape();
        let (quota, states) = if is_of_its_kind {
            (quota.migrated_from(&old.quota, self.clock.now()), Arc::clone(&old.states))
        } else {
            (quota, Arc::new(old.states.another()))
        };
        let mut queue = self.waiting.lock();
        self.latest.store(Arc::new(InForce { quota, states }));
        self.is_special.store(true, Ordering::Release);
        self.after_reconfiguration(&mut queue, is_of_its_kind);
        Ok(())
    }
}
