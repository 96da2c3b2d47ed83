//! Engines whose keys have quotas of their own: when they ask, and how the counts of a key follow a changed
//! answer.
//!
//! The function is called while no lock is held; then its answer is stored.

use tollgate_core::{Clock, Cost, Inherit, QuotaError, Timestamp};

use crate::denied::{Admitted, Denied};
use crate::engine::{Engine, keeps_permits};
use crate::in_force::owes_ahead;
use crate::states::States;
use crate::tiers::{TierAnswer, Tiers};
use crate::waiting::shared::Locked;
use crate::waiting::waiter::Leaving;

impl<S: States, C: Clock> Engine<S, C> {
    /// As [`Engine::check`], where keys have quotas of their own.
    #[inline(never)]
    pub(crate) fn check_asking(
        &self,
        key: &[u8],
        n: u64,
        now: Timestamp,
        ask: impl FnOnce() -> Option<crate::Quota>,
    ) -> Result<Admitted, Denied> {
        let Some(tiers) = &self.tiers else { return self.check_special(key, n, now) };
        let tier = tiers.known(key, now).unwrap_or_else(|| self.ask(tiers, key, ask));
        let in_force = tiers.at(tier);
        Denied::unless_admitted(match self.held_up(key, n, in_force, now) {
            Some(denial) => denial,
            None => in_force.take(key, Cost(n), now),
        })
    }

    /// Asks for the quota of `key` unless it is known.
    pub(crate) fn know(&self, key: &[u8], ask: impl FnOnce() -> Option<crate::Quota>) {
        if let Some(tiers) = &self.tiers
            && tiers.known(key, self.now()).is_none()
        {
            self.ask(tiers, key, ask);
        }
    }

    #[cold]
    #[inline(never)]
    fn ask(&self, tiers: &Tiers<S>, key: &[u8], ask: impl FnOnce() -> Option<crate::Quota>) -> u16 {
        let turn = tiers.turn(key); // before it looks: what changes meanwhile is asked for again
        let answer = ask();
        self.learn(tiers, key, answer.as_ref(), turn)
    }

    /// Remembers an answer. A key whose quota has changed keeps the counts that it may keep, and its waiters.
    fn learn(&self, tiers: &Tiers<S>, key: &[u8], answer: Option<&crate::Quota>, turn: u32) -> u16 {
        let tier = tiers.meant_by(answer);
        let is_other = |before: Option<TierAnswer>| before.is_some_and(|before| before.tier != tier);
        if !is_other(tiers.answer(key)) && self.waiting.count() == 0 {
            tiers.remember(key, tier, turn, self.now());
            return tier;
        }
        let mut queue = self.waiting.lock();
        let now = self.look(&mut queue);
        let before = tiers.answer(key);
        if let Some(before) = before
            && turn != tiers.turn(key)
            && before.turn == tiers.turn(key)
        {
            return before.tier; // of a caller that has asked later
        }
        if let Some(before) = queue.tier_of(key).or(before.map(|before| before.tier))
            && before != tier
        {
            let how = tiers.how();
            self.change_tier(tiers, &mut queue, key, [before, tier], how, now);
        }
        tiers.remember(key, tier, turn, now);
        tier
    }

    /// Counts `key` by the second tier from here on.
    fn change_tier(
        &self,
        tiers: &Tiers<S>,
        queue: &mut Locked<'_>,
        key: &[u8],
        [before, tier]: [u16; 2],
        how: Inherit,
        now: Timestamp,
    ) {
        let old = tiers.get(before);
        let new = tiers.get(tier);
        let counts_alike = old.quota.counts_as(&new.quota);
        let reserved = if owes_ahead(&old.quota) { Cost(queue.permits_of(key)) } else { Cost::PEEK };
        let mut state = old.get(key);
        if !reserved.is_peek() {
            let _left = old.quota.give_back(&mut state, reserved, now);
        }
        let has_something = old.has_something(&state, now);
        let mut state =
            if has_something { new.quota.inherit(state, &old.quota, how, now) } else { new.quota.fresh() };
        if counts_alike && !reserved.is_peek() {
            let _left = new.quota.charge(&mut state, reserved, now);
        }
        new.put(key, &state, now);
        old.put(key, &old.quota.fresh(), now);
        queue.set_tier(key, tier);
        if !keeps_permits(counts_alike, how) {
            self.epochs.begin(key);
        }
        if counts_alike {
            self.settle(queue, key);
        } else {
            self.fail_all(queue, key, Leaving::Reconfigured);
        }
    }

    /// Counts the keys that have no quota of their own by `quota` from here on.
    pub(crate) fn replace_otherwise(
        &self,
        tiers: &Tiers<S>,
        quota: &crate::Quota,
        how: Inherit,
    ) -> Result<(), QuotaError> {
        let tier = tiers.number_of_all_others(quota)?;
        let mut queue = self.waiting.lock();
        let now = self.look(&mut queue);
        let before = tiers.replace_otherwise(tier, how);
        self.replace_latest(tiers.get(tier));
        tiers.ask_all_again();
        for key in queue.keys() {
            if queue.tier_of(&key) == Some(before) && before != tier {
                tiers.correct(&key, tier, now);
                self.change_tier(tiers, &mut queue, &key, [before, tier], how, now);
            }
        }
        Ok(())
    }
}
