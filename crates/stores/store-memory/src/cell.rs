//! One state without a key, for a program that limits itself as a whole.
//!
//! A state of one word is changed by compare-and-swap, without a lock, with the same instructions as a slot
//! of the table; a wide state is behind a lock of its own. A cell that was made for a token bucket keeps [64
//! bits](ShortBucket) in place of the word for as long as they hold as much, and takes by that bucket swap
//! them. Not here: the choice of quota, the time.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use tollgate_core::{Cost, Decision, FastStep, Quota, ShortBucket, State, Step, Timestamp, Wide, Word};

use crate::atomic128::detect_processor;
use crate::sync::{AtomicU64, AtomicU128, InLine, Mutex};
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
    /// The state in the form of `own`, or a mark that it is in `word`: it never comes back from there.
    short: AtomicU64,
    word: AtomicU128,
    in_line: Option<InLine>,
    /// Also held by a caller that moves the state to `word`.
    wide: Mutex<Wide>,
    own: Apart<Option<ShortBucket>>,
}

/// In lines of its own: data that is only read stays in the cache of every processor.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

impl Default for StateCell {
    fn default() -> Self {
        Self::new()
    }
}

impl StateCell {
    /// The state of a quota that was never asked for permits.
    #[must_use]
    pub fn new() -> Self {
        Self::with(None)
    }

    /// The same, made for `quota`: [`take_own`](Self::take_own) takes by it, and is fast from `now` on.
    #[must_use]
    pub fn made_for(quota: &Quota, now: Timestamp) -> Self {
        Self::with(ShortBucket::of(quota, now))
    }

    fn with(own: Option<ShortBucket>) -> Self {
        detect_processor();
        Self {
            short: AtomicU64::new(if own.is_some() { 0 } else { ShortBucket::NO_STATE }),
            word: AtomicU128::default(),
            in_line: InLine::if_possible(),
            wide: Mutex::new(Wide::default()),
            own: Apart(own),
        }
    }

    /// As [`take`](Self::take), where `quota` is the one that the cell was [made for](Self::made_for).
    /// `answer` is in line where each outcome is known, so that a caller pays only for the parts that it
    /// looks at.
    #[inline(always)]
    pub fn take_own<T>(
        &self,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
        answer: impl Fn(Decision) -> T,
    ) -> T {
        match self.take_own_while(quota, cost, now, || true, &answer) {
            Some(answer) => answer,
            None => answer(self.take_slow(quota, cost, now).by_fields()),
        }
    }

    /// As [`take_own`](Self::take_own), but only by the fast path and only while `is_own` is true: `None`
    /// otherwise, and nothing has been taken. `is_own` may become false at any time before
    /// [`close`](Self::close); a take that began before is then made or not made, as a whole.
    #[inline(always)]
    pub fn take_own_while<T>(
        &self,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
        is_own: impl Fn() -> bool,
        answer: impl Fn(Decision) -> T,
    ) -> Option<T> {
        let Some(own) = &self.own.0 else {
            return self.take_fast(quota, cost, now, is_own).map(answer);
        };
        let mut short = self.short.load(Acquire);
        loop {
            let step = own.take(short, cost, now)?;
            let Some(after) = step.write else { return Some(answer(own.decision(step))) };
            match self.short.compare_exchange_weak(short, after, AcqRel, Acquire) {
                Ok(_) => return Some(answer(own.decision(step))),
                Err(actual) => short = actual,
            }
        }
    }

    /// Ends the fast path of a bucket: from here on only [`update`](Self::update) changes the state.
    pub fn close(&self) {
        if let Some(own) = &self.own.0 {
            self.move_to_word(own);
        }
    }

    /// Takes `cost` permits if they fit. In line, so that parts that a caller does not look at need not be
    /// computed.
    #[inline(always)]
    pub fn take(&self, quota: &Quota, cost: Cost, now: Timestamp) -> Decision {
        match self.take_fast(quota, cost, now, || true) {
            Some(decision) => decision,
            None => self.take_slow(quota, cost, now).by_fields(),
        }
    }

    #[inline(always)]
    fn take_fast(
        &self,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
        is_own: impl Fn() -> bool,
    ) -> Option<Decision> {
        let (in_line, Step::Word(algorithm)) = (self.in_line?, quota.step()) else { return None };
        if self.short.load(Acquire) != ShortBucket::NO_STATE {
            return None;
        }
        let packed = in_line.glance(&self.word);
        if !is_own() {
            return None; // it may be a word of another quota
        }
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

    /// Runs `step` on the state and keeps its result. `step` may be called again, with a newer state; the
    /// last call returns the answer.
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
        if let Some(answer) = self.update_short(quota, &mut step) {
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

    /// [`update`](Self::update) for as long as the state is a short one; `None` once it is in the word.
    fn update_short<T>(&self, quota: &Quota, step: &mut impl FnMut(&mut State) -> T) -> Option<T> {
        let own = self.own.0.as_ref()?;
        let mut short = self.short.load(Acquire);
        while short != ShortBucket::NO_STATE {
            if !own.is_read_by(quota) {
                self.move_to_word(own);
                break;
            }
            let mut state = State::Word(own.word(short));
            let answer = step(&mut state);
            let State::Word(after) = state else { return Some(answer) };
            let Some(after) = own.state(after) else {
                self.move_to_word(own);
                break;
            };
            match self.short.compare_exchange(short, after, AcqRel, Acquire) {
                Ok(_) => return Some(answer),
                Err(actual) => short = actual,
            }
        }
        None
    }

    /// The slow path, for a state that `own` cannot hold, or a quota that would not read it.
    #[cold]
    fn move_to_word(&self, own: &ShortBucket) {
        let _only_writer_of_the_word = self.wide.lock();
        let mut short = self.short.load(Acquire);
        while short != ShortBucket::NO_STATE {
            self.word.store(pack(own.word(short), 0), Release);
            match self.short.compare_exchange(short, ShortBucket::NO_STATE, AcqRel, Acquire) {
                Ok(_) => return,
                Err(actual) => short = actual,
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
        let short = self.short.load(Acquire);
        if let (Some(own), true) = (&self.own.0, short != ShortBucket::NO_STATE) {
            return own.word(short);
        }
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
            new(Algorithm::sliding_window(10)),
            new(Algorithm::SlidingWindowLog { log_denied: false }),
            new(Algorithm::Total),
        ]
    }

    #[test]
    fn threads_that_share_a_cell_share_its_permits_and_no_more() {
        for (quota, is_own) in quotas().into_iter().flat_map(|quota| [(quota.clone(), false), (quota, true)])
        {
            let cell = if is_own { StateCell::made_for(&quota, NOON) } else { StateCell::new() };
            let admitted = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for turn in 0..10_000 {
                            let cost = Cost(turn % 2);
                            let decision = match is_own {
                                true => cell.take_own(&quota, cost, NOON, |it| it),
                                false => cell.take(&quota, cost, NOON),
                            };
                            if decision.is_admitted() {
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
        for (quota, is_own) in quotas().into_iter().flat_map(|quota| [(quota.clone(), false), (quota, true)])
        {
            let cell = if is_own { StateCell::made_for(&quota, NOON) } else { StateCell::new() };
            let mut state = quota.fresh();
            for turn in 0..2_000_u64 {
                let now = NOON + Duration::from_millis(turn * 7);
                let cost = Cost(turn * turn % 23);
                let want = quota.take(&mut state, cost, now);
                let own = is_own && turn % 3 != 0;
                let is = match own {
                    true => cell.take_own(&quota, cost, now, |it| it),
                    false => cell.take(&quota, cost, now),
                };
                assert_eq!(is, want, "{} at {turn}", quota.algorithm().name());
                if turn % 5 == 0 {
                    let back = quota.give_back(&mut state, cost, now);
                    assert_eq!(cell.update(&quota, |state| quota.give_back(state, cost, now)), back);
                }
            }
            assert_eq!(cell.get(&quota), state);
        }
    }

    #[test]
    fn a_short_state_moves_to_the_word_when_another_rate_or_an_old_state_comes() {
        let hour = Duration::from_secs(3_600);
        let quota = Quota::token_bucket(10, hour).expect("a quota");
        let next = Quota::token_bucket(40, hour).expect("a quota").migrated_from(&quota, NOON);
        let before_noon = Timestamp::from_unix_seconds(1_600_000_000);
        let mut old = quota.fresh();
        let _ = quota.take(&mut old, Cost(4), before_noon);
        for by_rate in [true, false] {
            let cell = StateCell::made_for(&quota, NOON);
            let mut state = quota.fresh();
            let both = |quota: &Quota, state: &mut State, cost| {
                assert_eq!(cell.take(quota, cost, NOON), quota.take(state, cost, NOON));
                assert_eq!(cell.get(quota), *state);
            };
            both(&quota, &mut state, Cost(4));
            assert_ne!(cell.short.load(Acquire), ShortBucket::NO_STATE);
            if by_rate {
                both(&next, &mut state, Cost(3));
                both(&next, &mut state, Cost(30));
            } else {
                state = old.clone();
                cell.update(&quota, |state| *state = old.clone());
                both(&quota, &mut state, Cost(10));
            }
            assert_eq!(cell.short.load(Acquire), ShortBucket::NO_STATE);
            let _ = by_rate || cell.take_own(&quota, Cost::ONE, NOON, |it| it.is_admitted());
            assert_eq!(cell.get(&quota), state, "nothing is left to take");
        }
    }
}
