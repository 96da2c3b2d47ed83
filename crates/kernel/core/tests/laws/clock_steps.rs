//! I6: a clock that steps gives nothing away.

use proptest::prelude::*;
use tollgate_core::Cost;

use crate::any;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    /// At every instant, the permits admitted so far are at most those that a clock that stops instead of
    /// going back admits.
    #[test]
    fn a_clock_that_steps_back_never_admits_more_than_one_that_stops(
        plain in any::any_quota(),
        visits in any::visits(1),
        steps in prop::collection::vec(prop_oneof![5 => Just(0.0), 1 => 0.0..3.0, 1 => 0.0..3_000_000.0], 80),
    ) {
        let quota = plain.quota();
        let mut ours = quota.fresh();
        let mut still = quota.fresh();
        let mut admitted = 0_u64;
        let mut most = 0_u64;
        let mut latest = 0;
        let mut back = 0_u64;
        for ((time, _), step) in any::times(&plain, &visits, any::NOON).into_iter().zip(steps) {
            back = back.saturating_add((step * plain.period_ns as f64) as u64);
            let now = time.saturating_sub(back);
            latest = latest.max(now);
            admitted += u64::from(quota.take(&mut ours, Cost::ONE, any::at(now)).is_admitted());
            most += u64::from(quota.take(&mut still, Cost::ONE, any::at(latest)).is_admitted());
            prop_assert!(admitted <= most, "{admitted} against {most} at {now}");
        }
    }

    /// Never frozen longer than the step: once the clock shows the old time again, all is as if it had never
    /// stepped.
    #[test]
    fn a_step_back_is_forgotten_when_it_is_made_up_for(
        plain in prop_oneof![
            any::token_bucket(), any::leaky(false), any::sliding_window_log(false), any::sliding_window(),
            any::warm_up(), any::smooth_bursty(),
        ],
        visits in any::visits(20), step in 0.0..3_000_000.0,
    ) {
        let quota = plain.quota();
        let mut state = quota.fresh();
        // A key that does not start full begins to fill at its first take.
        let _ = quota.take(&mut state, Cost::ONE, any::at(any::NOON));
        for (now, cost) in any::times(&plain, &visits, any::NOON) {
            let mut stepped = state.clone();
            let back = now.saturating_sub((step * plain.period_ns as f64) as u64);
            if !quota.take(&mut stepped, Cost(cost), any::at(back)).is_admitted() {
                let after = quota.take(&mut stepped, Cost(cost), any::at(now));
                prop_assert_eq!(after, quota.take(&mut state.clone(), Cost(cost), any::at(now)));
            }
            let _ = quota.take(&mut state, Cost(cost), any::at(now));
        }
    }

    /// I7 holds also then.
    #[test]
    fn retry_after_is_honest_also_when_the_clock_stepped_back(
        plain in any::any_quota(), visits in any::visits(20), step in 0.0..3_000_000.0,
    ) {
        let quota = plain.quota();
        let mut state = quota.fresh();
        for (now, cost) in any::times(&plain, &visits, any::NOON) {
            let back = now.saturating_sub((step * plain.period_ns as f64) as u64);
            let mut stepped = state.clone();
            let decision = quota.take(&mut stepped, Cost(cost), any::at(back));
            if let tollgate_core::RetryAfter::After(wait) = decision.retry_after() {
                let retry = any::at(back) + wait;
                prop_assert!(quota.take(&mut stepped.clone(), Cost(cost), retry).is_admitted(), "{decision:?}");
                let early = any::at(retry.as_nanos() - 1);
                prop_assert!(!quota.take(&mut stepped, Cost(cost), early).is_admitted(), "{decision:?}");
            }
            let _ = quota.take(&mut state, Cost(cost), any::at(now));
        }
    }
}
