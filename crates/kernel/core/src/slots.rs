//! A limit on concurrency: slots that are held until they are released, or until their time is over.
//!
//! The slot of a holder that crashes expires after the time to live, so that nothing leaks; a running holder
//! renews its slot by acquiring it again. A release frees the slot of that holder and no other, once. Not
//! here: where the state is kept (a store), how a holder is named (its caller draws 128 random bits).

use core::time::Duration;

use crate::bounds::{LONGEST_PERIOD, MAX_SLOTS};
use crate::decision::Decision;
use crate::error::QuotaError;
use crate::state::{Expiry, Wide};
use crate::time::{Timestamp, nanos};

/// First cell of every state of slots.
const TAG: u64 = 5;
/// Numbers per slot: its expiry, and its holder in two halves.
const CELLS: usize = 3;

/// The holder of a slot: 128 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Holder(pub u128);

/// The answer to an attempt to take a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// Whether the holder has a slot now, and the number of free slots. `retry_after` of a denial is the time
    /// until the first slot expires, `reset_after` that until all have.
    pub decision: Decision,
    /// The holder had a slot already: its time begins anew.
    pub is_renewal: bool,
    /// Slots that were found expired. Without a call for the key within another time to live, they are
    /// forgotten and not counted.
    pub expired: u64,
}

impl Acquired {
    /// Whether the holder has a slot now.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        self.decision.is_admitted()
    }
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// The holder had a slot until now. False if it was released before, or has expired.
    pub was_held: bool,
    /// Slots that were found expired; see [`Acquired::expired`].
    pub expired: u64,
}

/// A limit on the slots that are held at a time.
///
/// # Example
/// ```
/// # use tollgate_core::*;
/// # use std::time::Duration;
/// let slots = Slots::new(1, Duration::from_secs(30))?;
/// let (noon, mut state) = (Timestamp::from_unix_seconds(1_700_000_000), Wide::default());
/// let (ann, bob) = (Holder(1), Holder(2));
/// assert!(slots.acquire(&mut state, ann, noon).is_admitted());
/// let denied = slots.acquire(&mut state, bob, noon).decision;
/// assert_eq!(denied.retry_after(), RetryAfter::After(Duration::from_secs(30)));
/// assert!(slots.release(&mut state, ann, noon).was_held);
/// assert!(!slots.release(&mut state, ann, noon).was_held); // once
/// assert!(slots.acquire(&mut state, bob, noon).is_admitted());
/// # Ok::<(), QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    limit: u64,
    ttl_ns: u64,
}

impl Slots {
    /// The most slots that a key may have.
    pub const MOST: u64 = MAX_SLOTS;

    /// At most `limit` slots at a time, each held for at most `ttl` unless it is renewed. A limit of 0 admits
    /// no holder.
    ///
    /// # Errors
    /// [`QuotaError`]: a limit above [`Slots::MOST`], a time of zero or above
    /// [`Quota::LONGEST_PERIOD`](crate::Quota::LONGEST_PERIOD).
    pub fn new(limit: u64, ttl: Duration) -> Result<Self, QuotaError> {
        if limit > Self::MOST {
            return Err(QuotaError::ManySlots(limit));
        }
        if ttl.is_zero() {
            return Err(QuotaError::EmptyPeriod);
        }
        if ttl > LONGEST_PERIOD {
            return Err(QuotaError::LongPeriod(ttl));
        }
        Ok(Self { limit, ttl_ns: nanos(ttl) })
    }

    /// The most slots at a time.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Lifetime of a slot that is neither released nor renewed.
    #[must_use]
    pub const fn ttl(&self) -> Duration {
        Duration::from_nanos(self.ttl_ns)
    }

    /// Takes a slot for `holder`, or renews the one that it has. A denial has the time until the first slot
    /// lapses; a slot may be released earlier.
    pub fn acquire(&self, state: &mut Wide, holder: Holder, now: Timestamp) -> Acquired {
        let expired = self.drop_lapsed(state, now);
        let until = now.as_nanos().saturating_add(self.ttl_ns);
        let own = find(state, holder);
        let is_admitted = own.is_some() || held(state) < self.limit;
        if let Some(slot) = own {
            state.cells[slot] = until;
        } else if is_admitted {
            if state.cells.is_empty() {
                state.cells.push(TAG);
            }
            state.cells.extend([until, (holder.0 >> 64) as u64, holder.0 as u64]);
        }
        Acquired { decision: self.answer(state, is_admitted, now), is_renewal: own.is_some(), expired }
    }

    /// Frees the slot of `holder`, if it has one.
    pub fn release(&self, state: &mut Wide, holder: Holder, now: Timestamp) -> Released {
        let expired = self.drop_lapsed(state, now);
        let slot = find(state, holder);
        if let Some(slot) = slot {
            state.cells.drain(slot..slot + CELLS);
            self.set_expiry(state);
        }
        Released { was_held: slot.is_some(), expired }
    }

    /// This node's part of the slots, an equal share for each of `nodes` nodes; at least one.
    #[must_use]
    pub fn share_of(&self, nodes: u32) -> Self {
        let part = self.limit / u64::from(nodes.max(1));
        Self { limit: part.max(self.limit.min(1)), ..*self }
    }

    /// The decision of an acquisition that leaves `held` slots, of which the first lapses after `first` and
    /// the last after `last`.
    pub fn decision(&self, is_admitted: bool, held: u64, first: Duration, last: Duration) -> Decision {
        match (is_admitted, self.limit) {
            (true, limit) => Decision::admit(limit, limit.saturating_sub(held), nanos(last)),
            (false, 0) => Decision::never(0, 0, nanos(last)),
            (false, limit) => Decision::deny(limit, 0, nanos(first), nanos(last)),
        }
    }

    fn answer(&self, state: &mut Wide, is_admitted: bool, now: Timestamp) -> Decision {
        self.set_expiry(state);
        let lapse = || slots(state).map(|(until, _)| until);
        let after = |until: Option<u64>| Timestamp::from_nanos(until.unwrap_or(0)).since(now);
        self.decision(is_admitted, held(state), after(lapse().min()), after(lapse().max()))
    }

    /// Drops the slots that have lapsed; returns their number.
    fn drop_lapsed(&self, state: &mut Wide, now: Timestamp) -> u64 {
        if state.cells.first().is_some_and(|&tag| tag != TAG) {
            *state = Wide::default(); // another algorithm's
        }
        let before = held(state);
        let mut kept = 1;
        for slot in (1..state.cells.len()).step_by(CELLS) {
            if state.cells[slot] > now.as_nanos() {
                state.cells.copy_within(slot..slot + CELLS, kept);
                kept += CELLS;
            }
        }
        state.cells.truncate(kept);
        self.set_expiry(state);
        before - held(state)
    }

    fn set_expiry(&self, state: &mut Wide) {
        match slots(state).map(|(until, _)| until).max() {
            // Kept for longer than they are held, so that the next call can report the number that have
            // expired.
            Some(last) => {
                state.expires = Expiry::at(Timestamp::from_nanos(last.saturating_add(self.ttl_ns)));
            }
            None => *state = Wide::default(),
        }
    }
}

fn held(state: &Wide) -> u64 {
    slots(state).count() as u64
}

/// The expiry of each slot, and its holder.
fn slots(state: &Wide) -> impl Iterator<Item = (u64, Holder)> {
    state
        .cells
        .get(1..)
        .unwrap_or_default()
        .chunks_exact(CELLS)
        .map(|slot| (slot[0], Holder(u128::from(slot[1]) << 64 | u128::from(slot[2]))))
}

/// The place where the slot of `holder` begins.
fn find(state: &Wide, holder: Holder) -> Option<usize> {
    slots(state).position(|(_, it)| it == holder).map(|nth| 1 + nth * CELLS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);

    #[test]
    fn limits_and_times_have_bounds() {
        let second = Duration::from_secs(1);
        assert_eq!(Slots::new(Slots::MOST + 1, second), Err(QuotaError::ManySlots(Slots::MOST + 1)));
        assert_eq!(Slots::new(1, Duration::ZERO), Err(QuotaError::EmptyPeriod));
        assert!(matches!(Slots::new(1, Duration::MAX), Err(QuotaError::LongPeriod(_))));
        let none = Slots::new(0, second).expect("no holder may");
        assert!(none.acquire(&mut Wide::default(), Holder(1), NOON).decision.never_fits());
    }

    #[test]
    fn a_slot_lapses_at_its_time_and_not_before() {
        let slots = Slots::new(1, Duration::from_secs(2)).expect("slots");
        let mut state = Wide::default();
        assert!(slots.acquire(&mut state, Holder(1), NOON).is_admitted());
        let almost = NOON + Duration::from_nanos(1_999_999_999);
        assert_eq!(
            slots.acquire(&mut state, Holder(2), almost).decision.retry_after(),
            crate::RetryAfter::After(Duration::from_nanos(1))
        );
        let after = NOON + Duration::from_secs(2);
        let second = slots.acquire(&mut state, Holder(2), after);
        assert_eq!((second.is_admitted(), second.is_renewal, second.expired), (true, false, 1));
        let late = slots.release(&mut state, Holder(1), after);
        assert_eq!(late, Released { was_held: false, expired: 0 }, "it was counted");
        assert!(slots.acquire(&mut state, Holder(2), after).is_renewal);
    }

    #[test]
    fn the_shares_of_nodes_are_whole_and_one_at_least() {
        for (limit, nodes, want) in [(10, 3, 3), (2, 3, 1), (0, 3, 0), (5, 1, 5), (5, 0, 5)] {
            let slots = Slots::new(limit, Duration::from_secs(2)).expect("slots");
            assert_eq!(slots.share_of(nodes).limit(), want, "{limit} of {nodes}");
        }
    }

    proptest! {
        /// Against a plain map from holders to the end of their time; the clock may step back.
        #[test]
        fn never_more_are_held_than_the_limit_and_each_by_its_holder(
            limit in 0_u64..4,
            steps in prop::collection::vec((0_u128..6, any::<bool>(), -3_i64..6), 1..80),
        ) {
            let ttl = 10;
            let slots = Slots::new(limit, Duration::from_secs(10)).expect("slots");
            let mut state = Wide::default();
            let mut model = std::collections::BTreeMap::new();
            let mut now = 1_000_i64;
            for (holder, acquires, passes) in steps {
                now += passes;
                let at = Timestamp::from_unix_seconds(now as u64);
                // Both halves are needed to distinguish two holders.
                let who = Holder(((holder % 3) << 64) | (holder / 3));
                model.retain(|_, until| *until > now);
                if acquires {
                    let had_one = model.contains_key(&holder);
                    let admitted = had_one || (model.len() as u64) < limit;
                    if admitted {
                        model.insert(holder, now + ttl);
                    }
                    let said = slots.acquire(&mut state, who, at);
                    prop_assert_eq!((said.is_admitted(), said.is_renewal), (admitted, had_one));
                    let said = said.decision;
                    if admitted {
                        prop_assert_eq!(said.remaining(), limit - model.len() as u64);
                    } else if limit > 0 {
                        let first = model.values().min().map_or(0, |until| until - now);
                        prop_assert_eq!(said.retry_after(), crate::RetryAfter::After(Duration::from_secs(first as u64)));
                    }
                } else {
                    prop_assert_eq!(slots.release(&mut state, who, at).was_held, model.remove(&holder).is_some());
                }
                prop_assert_eq!(held(&state), model.len() as u64);
                prop_assert!(held(&state) <= limit);
            }
        }
    }
}
