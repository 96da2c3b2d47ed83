//! Never too much, never a needless denial: every decision is the exact model's decision.

use proptest::prelude::*;
use tollgate_core::{Align, Cost};

use crate::any::{self, Plain, Visit};
use crate::oracle::{ExpectedDecision, Oracle};

fn decides_as_the_oracle(plain: &Plain, visits: &[Visit], start: u64) -> Result<(), TestCaseError> {
    let quota = plain.quota();
    let mut oracle = Oracle::new(plain);
    let mut state = quota.fresh();
    for (now, cost) in any::times(plain, visits, start) {
        let decision = quota.take(&mut state, Cost(cost), any::at(now));
        let ours = ExpectedDecision { admitted: decision.is_admitted(), remaining: decision.remaining() };
        prop_assert_eq!(ours, oracle.take(now, cost), "at {} cost {}: {:?}", now, cost, decision);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn token_bucket_decides_as_the_exact_model(plain in any::token_bucket(), visits in any::visits(20), start in any::start()) {
        decides_as_the_oracle(&plain, &visits, start)?;
    }

    #[test]
    fn interval_bucket_decides_as_the_exact_model(plain in any::interval_bucket(), visits in any::visits(20), start in any::start()) {
        decides_as_the_oracle(&plain, &visits, start)?;
    }

    #[test]
    fn leaky_meter_decides_as_the_exact_model(plain in any::leaky(false), visits in any::visits(20), start in any::start()) {
        decides_as_the_oracle(&plain, &visits, start)?;
    }

    #[test]
    fn leaky_queue_decides_as_the_exact_model(plain in any::leaky(true), visits in any::visits(20), start in any::start()) {
        decides_as_the_oracle(&plain, &visits, start)?;
    }

    #[test]
    fn calendar_window_decides_as_the_exact_model(plain in any::fixed_window(Align::Calendar), visits in any::visits(20), start in any::start()) {
        decides_as_the_oracle(&plain, &visits, start)?;
    }

    #[test]
    fn first_hit_window_decides_as_the_exact_model(plain in any::fixed_window(Align::FirstHit), visits in any::visits(20), start in any::start()) {
        decides_as_the_oracle(&plain, &visits, start)?;
    }

    #[test]
    fn sliding_window_decides_as_the_exact_model(plain in any::sliding_window(), visits in any::visits(20), start in any::start()) {
        decides_as_the_oracle(&plain, &visits, start)?;
    }

    #[test]
    fn a_window_that_drops_the_leaving_cell_decides_as_the_exact_model(plain in any::sliding_window_that_drops(), visits in any::visits(20), start in any::start()) {
        decides_as_the_oracle(&plain, &visits, start)?;
    }

    #[test]
    fn sliding_window_counter_decides_as_the_exact_model(plain in any::sliding_window_counter(), visits in any::visits(20), start in any::start()) {
        decides_as_the_oracle(&plain, &visits, start)?;
    }

    #[test]
    fn sliding_window_log_decides_as_the_exact_model(plain in any::sliding_window_log(false), visits in any::visits(20), start in any::start()) {
        decides_as_the_oracle(&plain, &visits, start)?;
    }

    #[test]
    fn total_decides_as_the_exact_model(plain in any::total(), visits in any::visits(20), start in any::start()) {
        decides_as_the_oracle(&plain, &visits, start)?;
    }

    /// The remaining permits under a log of denied takes are not compared: entries grow to the limit and one.
    #[test]
    fn sliding_window_log_of_denied_takes_admits_as_the_exact_model(plain in any::sliding_window_log(true), visits in any::visits(20), start in any::start()) {
        let quota = plain.quota();
        let mut oracle = Oracle::new(&plain);
        let mut state = quota.fresh();
        for (now, cost) in any::times(&plain, &visits, start) {
            let decision = quota.take(&mut state, Cost(cost), any::at(now));
            prop_assert_eq!(decision.is_admitted(), oracle.take(now, cost).admitted, "at {}: {:?}", now, decision);
        }
    }
}
