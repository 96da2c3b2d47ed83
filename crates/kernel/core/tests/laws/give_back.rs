//! I8: giving back never makes more than there was.

use proptest::prelude::*;
use tollgate_core::{Algorithm, Cost};

use crate::any;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_is_given_back_at_once_was_never_taken(
        plain in any::any_quota(), visits in any::visits(30), start in any::start(), extra in 0_u64..50,
    ) {
        let quota = plain.quota();
        let mut state = quota.fresh();
        for (now, cost) in any::times(&plain, &visits, start) {
            let before = quota.take(&mut state.clone(), Cost::PEEK, any::at(now));
            let mut taken = state.clone();
            let decision = quota.take(&mut taken, Cost(extra), any::at(now));
            if decision.is_admitted() {
                let given = quota.give_back(&mut taken, Cost(extra), any::at(now));
                let after = quota.take(&mut taken.clone(), Cost::PEEK, any::at(now));
                // The weighted count of the window before may be rounded differently by one.
                let slack = u64::from(matches!(plain.algorithm, Algorithm::SlidingWindowCounter));
                prop_assert!(after.remaining().abs_diff(before.remaining()) <= slack, "{:?} then {:?}", before, after);
                prop_assert_eq!(given.remaining(), after.remaining());
                prop_assert_eq!(given.reset_after(), after.reset_after());
            }
            let _ = quota.take(&mut state, Cost(cost), any::at(now));
        }
    }

    #[test]
    fn giving_back_never_makes_more_than_a_full_quota(
        plain in any::any_quota(), visits in any::visits(30), start in any::start(), much in prop_oneof![0_u64..50, Just(u64::MAX)],
    ) {
        let quota = plain.quota();
        let mut state = quota.fresh();
        for (now, cost) in any::times(&plain, &visits, start) {
            let _ = quota.take(&mut state, Cost(cost), any::at(now));
            let before = quota.take(&mut state.clone(), Cost::PEEK, any::at(now)).remaining();
            let after = quota.give_back(&mut state, Cost(much), any::at(now)).remaining();
            prop_assert!(after <= plain.burst() && after >= before);
            prop_assert!(after - before <= much);
        }
    }

    /// The strict windows keep their promise whichever takes are undone.
    #[test]
    fn a_strict_window_with_refunds_never_admits_above_the_limit_in_any_window(
        plain in prop_oneof![any::sliding_window(), any::sliding_window_log(false)],
        visits in any::visits(10), undo in prop::collection::vec(prop::option::of(0_usize..5), 80),
    ) {
        let quota = plain.quota();
        let mut state = quota.fresh();
        let mut kept: Vec<(u64, u64)> = Vec::new();
        for ((now, cost), undo) in any::times(&plain, &visits, any::NOON).into_iter().zip(undo) {
            if quota.take(&mut state, Cost(cost), any::at(now)).is_admitted() {
                kept.push((now, cost));
            }
            let sum: u64 = kept.iter().filter(|(at, _)| now - at < plain.period_ns).map(|(_, cost)| cost).sum();
            prop_assert!(sum <= plain.limit, "{sum} in the window before {now}");
            if let Some(back) = undo.filter(|&back| back < kept.len()) {
                let (at, cost) = kept.remove(kept.len() - 1 - back);
                // Permits that have left the window cannot be given back: they count for nobody any more.
                if now - at < plain.period_ns {
                    let _ = quota.give_back(&mut state, Cost(cost), any::at(now));
                }
            }
        }
    }
}
