//! One state without a key: what a program keeps that limits itself as a whole.
//!
//! A state of one word is changed by compare-and-swap, without a lock, with the same instructions as a slot
//! of the table; a wide state is behind a lock of its own. Not here: which quota counts, what time it is.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use tollgate_core::{Cost, Decision, FastStep, Quota, State, Step, Timestamp, Wide, Word};

use crate::atomic128::detect_processor;
use crate::sync::{AtomicU128, InLine, Mutex};
use crate::table::{pack, unpack};

/// The state of one quota, which all threads share.
///
/// # Example
/// ```
/// # use tollgate_store_memory::StateCell;
/// # use tollgate_core::{Cost, Quota, Timestamp};
/// # use std::time::Duration;
/// let (cell, quota) = (StateCell::new(), Quota::token_bucket(2, Duration::from_secs(1))?);
/// let now = Timestamp::from_unix_seconds(1_700_000_000);
/// assert!(cell.take(&quota, Cost(2), now).is_admitted());
/// assert!(!cell.take(&quota, Cost::ONE, now).is_admitted());
/// cell.update(&quota, |state| *state = quota.fresh());
/// assert!(cell.take(&quota, Cost::ONE, now).is_admitted());
/// # Ok::<(), tollgate_core::QuotaError>(())
/// ```
#[derive(Debug)]
#[repr(align(128))] // processors fetch lines in pairs: what else is read often stays out of both
pub struct StateCell {
    word: AtomicU128,
    in_line: Option<InLine>,
    wide: Mutex<Wide>,
}

impl Default for StateCell {
    fn default() -> Self {
        Self::new()
    }
}

impl StateCell {
    /// The state of a quota that was never asked.
    #[must_use]
    pub fn new() -> Self {
        detect_processor();
        Self {
            word: AtomicU128::default(),
            in_line: InLine::if_possible(),
            wide: Mutex::new(Wide::default()),
        }
    }

    /// Takes `cost` permits if they fit. In line, so that what a caller does not look at need not be worked
    /// out.
    #[inline(always)]
    pub fn take(&self, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        match self.take_fast(quota, cost, now) {
            Some(decision) => decision,
            None => self.take_slow(quota, cost, now).by_fields(),
        }
    }

    #[inline(always)]
    fn take_fast(&self, quota: &Quota, cost: Cost, now: Timestamp) -> Option<Decision> {
        let (in_line, Step::Word(algorithm)) = (self.in_line?, quota.step()) else { return None };
        let packed = in_line.glance(&self.word);
        let FastStep { write, decision } = algorithm.take_fast(unpack(packed), cost, now)?;
        let is_same = match write {
            Some(word) => in_line.replace(&self.word, packed, pack(word, 0)).is_ok(),
            None => in_line.load(&self.word) == packed, // the halves may be of different states
        };
        is_same.then_some(decision)
    }

    #[cold]
    #[inline(never)]
    fn take_slow(&self, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        self.update(quota, |state| quota.take(state, cost, now))
    }

    /// Runs `step` on the state and keeps what it made of it. `step` may be called again, with a newer state;
    /// what the last call returned is the answer.
    pub fn update<T>(&self, quota: &Quota, mut step: impl FnMut(&mut State) -> T) -> T {
        if let Step::Wide(_) = quota.step() {
            let mut wide = self.wide.lock();
            let mut state = State::Wide(std::mem::take(&mut *wide));
            let answer = step(&mut state);
            if let State::Wide(after) = state {
                *wide = after;
            }
            return answer;
        }
        let mut packed = self.word.load(Acquire);
        loop {
            let mut state = State::Word(unpack(packed));
            let answer = step(&mut state);
            let State::Word(after) = state else { return answer };
            match self.word.compare_exchange(packed, pack(after, 0), AcqRel, Acquire) {
                Ok(_) => return answer,
                Err(actual) => packed = actual,
            }
        }
    }

    /// A copy of the state.
    #[must_use]
    pub fn get(&self, quota: &Quota) -> State {
        match quota.step() {
            Step::Word(_) => State::Word(self.word()),
            Step::Wide(_) => State::Wide(self.wide.lock().clone()),
        }
    }

    fn word(&self) -> Word {
        unpack(self.word.load(Acquire))
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use tollgate_core::{Algorithm, Period};

    use super::*;

    const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);

    fn quotas() -> Vec<Quota> {
        let hour = Duration::from_secs(3_600);
        let new = |algorithm| Quota::new(10_000, Period::Span(hour), algorithm).expect("a quota");
        vec![
            Quota::token_bucket(10_000, hour).expect("a quota"),
            Quota::fixed_window(10_000, hour).expect("a quota"),
            new(Algorithm::SlidingWindow { cells: 10 }),
            new(Algorithm::SlidingWindowLog { log_denied: false }),
            new(Algorithm::Total),
        ]
    }

    #[test]
    fn threads_that_share_a_cell_share_its_permits_and_no_more() {
        for quota in quotas() {
            let (cell, admitted) = (StateCell::new(), AtomicU64::new(0));
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for turn in 0..10_000 {
                            let cost = Cost(turn % 2);
                            if cell.take(&quota, cost, NOON).is_admitted() {
                                admitted.fetch_add(cost.permits(), Ordering::Relaxed);
                            }
                        }
                    });
                }
            });
            assert_eq!(admitted.into_inner(), 10_000, "{}", quota.algorithm().name());
        }
    }

    #[test]
    fn a_cell_answers_as_the_quota_does_on_its_own() {
        for quota in quotas() {
            let (cell, mut state) = (StateCell::new(), quota.fresh());
            for turn in 0..2_000_u64 {
                let (now, cost) = (NOON + Duration::from_millis(turn * 7), Cost(turn * turn % 23));
                let want = quota.take(&mut state, cost, now);
                assert_eq!(cell.take(&quota, cost, now), want, "{} at {turn}", quota.algorithm().name());
                if turn % 5 == 0 {
                    let back = quota.give_back(&mut state, cost, now);
                    assert_eq!(cell.update(&quota, |state| quota.give_back(state, cost, now)), back);
                }
            }
            assert_eq!(cell.get(&quota), state);
        }
    }
}
