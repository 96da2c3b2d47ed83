//! The statements of a decision about the future and the state are true.

use proptest::prelude::*;
use tollgate_core::{Cost, RetryAfter, State};

use crate::any;

const fn expires_by(state: &State, now: u64) -> bool {
    match state {
        State::Word(word) => word.expires.is_past(any_at(now)),
        State::Wide(wide) => wide.expires.is_past(any_at(now)),
    }
}

const fn any_at(ns: u64) -> tollgate_core::Timestamp {
    tollgate_core::Timestamp::from_nanos(ns)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    /// I7, for takes.
    #[test]
    fn waiting_retry_after_is_enough_and_one_nanosecond_less_is_not(
        plain in any::any_quota(), visits in any::visits(30), start in any::start(),
    ) {
        let quota = plain.quota();
        let mut state = quota.fresh();
        for (now, cost) in any::times(&plain, &visits, start) {
            let decision = quota.take(&mut state, Cost(cost), any::at(now));
            match decision.retry_after() {
                RetryAfter::Now => prop_assert!(decision.is_admitted()),
                RetryAfter::After(wait) => {
                    prop_assert!(!decision.is_admitted() && !wait.is_zero());
                    let retry = any::at(now) + wait;
                    let early = any::at(retry.as_nanos() - 1);
                    prop_assert!(!quota.take(&mut state.clone(), Cost(cost), early).is_admitted(), "{decision:?} early");
                    prop_assert!(quota.take(&mut state.clone(), Cost(cost), retry).is_admitted(), "{decision:?} late");
                }
                RetryAfter::Never => {
                    prop_assert!(!decision.is_admitted());
                    let ages = any::at(now) + std::time::Duration::from_secs(40 * 365 * 86_400 / 2);
                    prop_assert!(!quota.take(&mut state.clone(), Cost(cost), ages).is_admitted());
                }
            }
        }
    }

    /// I5 and `reset_after`: once it has passed, a key is as one never seen; a nanosecond before, it is not.
    #[test]
    fn after_reset_after_everything_fits_again(
        plain in any::any_quota(), visits in any::visits(30), start in any::start(),
    ) {
        let quota = plain.quota();
        let mut state = quota.fresh();
        // A key that does not start full begins to fill at its first take.
        let _ = quota.take(&mut state, Cost::ONE, any::at(start));
        for (now, cost) in any::times(&plain, &visits, start) {
            let decision = quota.take(&mut state, Cost(cost), any::at(now));
            let reset = decision.reset_after().as_nanos() as u64;
            if reset == u64::MAX {
                continue; // never
            }
            let peek = quota.take(&mut state.clone(), Cost::PEEK, any::at(now + reset));
            prop_assert_eq!(peek.remaining(), plain.burst(), "after {:?}", decision);
            prop_assert_eq!(peek.reset_after().as_nanos(), 0);
            prop_assert!(quota.take(&mut state.clone(), Cost(plain.burst()), any::at(now + reset)).is_admitted());
            if reset > 0 {
                let early = quota.take(&mut state.clone(), Cost::PEEK, any::at(now + reset - 1));
                prop_assert_ne!(early.reset_after().as_nanos(), 0, "before {:?}", decision);
            }
        }
    }

    /// I11, except for algorithms that admit any cost.
    #[test]
    fn what_is_remaining_can_be_taken_at_once_and_no_more(
        plain in any::any_bounded(), visits in any::visits(30), start in any::start(),
    ) {
        let quota = plain.quota();
        let mut state = quota.fresh();
        for (now, cost) in any::times(&plain, &visits, start) {
            let decision = quota.take(&mut state, Cost(cost), any::at(now));
            let remaining = decision.remaining();
            prop_assert!(remaining <= plain.burst());
            if remaining > 0 {
                prop_assert!(quota.take(&mut state.clone(), Cost(remaining), any::at(now)).is_admitted());
            }
            if plain.overdraft() == 0 {
                prop_assert!(!quota.take(&mut state.clone(), Cost(remaining + 1), any::at(now)).is_admitted());
            }
        }
    }

    #[test]
    fn a_peek_changes_nothing_visible(
        plain in any::any_quota(), visits in any::visits(30), start in any::start(),
    ) {
        let quota = plain.quota();
        let mut peeked = quota.fresh();
        let mut plainly = quota.fresh();
        for (now, cost) in any::times(&plain, &visits, start) {
            let first = quota.take(&mut peeked, Cost::PEEK, any::at(now));
            let second = quota.take(&mut peeked, Cost::PEEK, any::at(now));
            prop_assert_eq!(first, second);
            let ours = quota.take(&mut peeked, Cost(cost), any::at(now));
            prop_assert_eq!(ours, quota.take(&mut plainly, Cost(cost), any::at(now)));
        }
    }

    /// But in fixed windows and logs of denied takes, which count them, and except for the first take of a
    /// key that does not start full.
    #[test]
    fn a_denied_take_changes_nothing(
        plain in prop_oneof![
            any::token_bucket(), any::interval_bucket(), any::leaky(false), any::leaky(true), any::sliding_window(),
            any::sliding_window_that_drops(),
            any::sliding_window_counter(), any::sliding_window_log(false), any::total(), any::warm_up(), any::smooth_bursty(),
        ],
        visits in any::visits(30), start in any::start(),
    ) {
        let quota = plain.quota();
        let mut ours = quota.fresh();
        let mut without = quota.fresh();
        let times = any::times(&plain, &visits, start);
        // A take that begins the fill of both.
        let _ = (quota.take(&mut ours, Cost::ONE, any::at(times[0].0)), quota.take(&mut without, Cost::ONE, any::at(times[0].0)));
        for (now, cost) in times {
            let decision = quota.take(&mut ours, Cost(cost), any::at(now));
            if decision.is_admitted() {
                prop_assert_eq!(decision, quota.take(&mut without, Cost(cost), any::at(now)));
            }
        }
    }

    #[test]
    fn an_expired_state_says_the_same_as_none(
        plain in any::any_quota(), visits in any::visits(30), start in any::start(), cost in 0_u64..50,
    ) {
        let quota = plain.quota();
        let mut state = quota.fresh();
        for (now, cost_now) in any::times(&plain, &visits, start) {
            if expires_by(&state, now) {
                let fresh = quota.take(&mut quota.fresh(), Cost(cost), any::at(now));
                prop_assert_eq!(quota.take(&mut state.clone(), Cost(cost), any::at(now)), fresh);
            }
            let _ = quota.take(&mut state, Cost(cost_now), any::at(now));
        }
    }

    /// I10, for states in memory.
    #[test]
    fn the_history_of_one_key_never_changes_another(
        plain in any::any_quota(), visits in any::visits(30), other in any::visits(30),
    ) {
        let quota = plain.quota();
        let mut alone = quota.fresh();
        let mut beside = quota.fresh();
        let mut neighbour = quota.fresh();
        let others = any::times(&plain, &other, any::NOON);
        for (turn, (now, cost)) in any::times(&plain, &visits, any::NOON).into_iter().enumerate() {
            if let Some(&(then, cost)) = others.get(turn) {
                let _ = quota.take(&mut neighbour, Cost(cost), any::at(then));
            }
            let with = quota.take(&mut beside, Cost(cost), any::at(now));
            prop_assert_eq!(with, quota.clone().take(&mut alone, Cost(cost), any::at(now)));
        }
    }
}
