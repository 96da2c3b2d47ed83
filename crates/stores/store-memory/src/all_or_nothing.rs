//! All or nothing over a batch.
//!
//! First every take is decided on copies of the states; the takes are done only if all are admitted. Calls of
//! this kind exclude each other if they share keys, by locks on stripes of keys, taken in ascending order to
//! avoid deadlock. Takes outside of such batches take no stripe and pay nothing. One of them may therefore
//! come between deciding and doing; if a take is then denied, those already done are given back and the
//! denial is returned.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use tollgate_core::{Cost, Decision, Shape, State, Timestamp};
use tollgate_store::{Take, Verdicts};

use crate::hash::KeyHash;
use crate::states::States;
use crate::sync::{Mutex, MutexGuard};

const STRIPES: usize = if cfg!(loom) { 1 } else { 64 };

#[derive(Debug)]
pub(crate) struct Stripes(Box<[Mutex<()>]>);

impl Stripes {
    pub(crate) fn new() -> Self {
        Self((0..STRIPES).map(|_| Mutex::new(())).collect())
    }

    fn lock(&self, keys: &[KeyHash]) -> Vec<MutexGuard<'_, ()>> {
        let wanted = keys.iter().fold(0_u64, |wanted, key| wanted | 1 << (key.tag as usize % STRIPES));
        self.0
            .iter()
            .enumerate()
            .filter(|(stripe, _)| wanted >> stripe & 1 == 1)
            .map(|(_, lock)| lock.lock())
            .collect()
    }
}

/// Charges the whole batch or nothing of it. With `max_wait` its takes are
/// [reserved](tollgate_core::Quota::reserve).
pub(crate) fn take(
    states: &States,
    stripes: &Stripes,
    batch: &[Take<'_>],
    max_wait: Option<Duration>,
    now: Timestamp,
    verdicts: &mut Verdicts,
) {
    let keys: Vec<KeyHash> = batch.iter().map(|take| states.hash(take.counter)).collect();
    let _guards = stripes.lock(&keys);
    let decided = decisions_on_copies(states, batch, max_wait, &keys, now);
    if !decided.iter().all(Decision::is_admitted) {
        for (take, key) in batch.iter().zip(&keys) {
            if take.counter.quota.starts_partial() && !take.cost.is_peek() {
                // The first request starts the refill, admitted or not; see `Quota::start_refill`.
                let _never = states.take(*key, take.counter.quota, Cost(u64::MAX), now);
            }
        }
        verdicts.extend(decided.into_iter().map(Ok));
        return;
    }
    let begin = verdicts.len();
    for (done, (take, key)) in batch.iter().zip(&keys).enumerate() {
        let decision = match max_wait {
            None => states.take(*key, take.counter.quota, take.cost, now),
            Some(max_wait) => states.reserve(*key, take.counter.quota, take.cost, max_wait, now),
        };
        verdicts.push(Ok(decision));
        if !decision.is_admitted() {
            for (take, key) in batch.iter().zip(&keys).take(done) {
                let _peek = states.give_back(*key, take.counter.quota, take.cost, now);
            }
            verdicts.truncate(begin);
            verdicts.extend(decided.into_iter().map(Ok));
            verdicts[begin + done] = Ok(decision);
            return;
        }
    }
}

/// The decisions on the takes one after another; changes nothing.
fn decisions_on_copies(
    states: &States,
    batch: &[Take<'_>],
    max_wait: Option<Duration>,
    keys: &[KeyHash],
    now: Timestamp,
) -> Vec<Decision> {
    let mut copies: HashMap<(KeyHash, bool), State> = HashMap::new();
    let mut decisions = Vec::with_capacity(batch.len());
    for (take, key) in batch.iter().zip(keys) {
        let state = match copies.entry((*key, take.counter.quota.shape() == Shape::Wide)) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(states.get(*key, take.counter.quota)),
        };
        decisions.push(match max_wait {
            None => take.counter.quota.take(state, take.cost, now),
            Some(max_wait) => take.counter.quota.reserve(state, take.cost, max_wait, now),
        });
    }
    decisions
}
