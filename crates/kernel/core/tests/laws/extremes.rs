//! Nothing overflows, nothing panics, for any input.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{Cost, Expiry, Period, Quota, Shape, State, Step, Timestamp, Word};

use crate::any;

/// Numbers with a liking for the edges.
fn edgy() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0_u64..4,
        (0_u64..4).prop_map(|below| u64::MAX - below),
        (0_u32..64, 0_u64..4).prop_map(|(shift, off)| (1_u64 << shift).wrapping_sub(off)),
        Just(any::NOON),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_number_makes_a_step_panic(
        plain in any::any_quota(), limit in edgy(), period in edgy(), takes in prop::collection::vec((edgy(), edgy(), 0_u8..4), 1..20),
    ) {
        let span = Duration::from_nanos(period);
        let wild = Quota::new(limit, Period::Span(span), plain.algorithm.clone());
        for quota in [Some(plain.quota()), wild.ok()].into_iter().flatten() {
            let mut state = quota.fresh();
            for &(now, cost, what) in &takes {
                let now = any::at(now);
                let cost = Cost(cost);
                let decision = match what {
                    0 => quota.give_back(&mut state, cost, now),
                    1 => quota.charge(&mut state, cost, now),
                    _ => quota.take(&mut state, cost, now),
                };
                prop_assert!(decision.is_admitted() != (decision.never_fits() || decision.retry_after() > tollgate_core::RetryAfter::Now));
                if let (Step::Word(algorithm), State::Word(word)) = (quota.step(), &mut state) {
                    let reservation = algorithm.promise(*word, cost, Duration::from_nanos(cost.permits()), now);
                    prop_assert!(reservation.granted || reservation.word == *word);
                    *word = reservation.word;
                }
            }
        }
    }

    /// Also not of another algorithm, or torn.
    #[test]
    fn no_word_makes_a_step_panic(plain in any::any_quota(), value: u64, bits: u32, cost in edgy(), now in edgy()) {
        let quota = plain.quota();
        let word = Word { value, expires: Expiry::from_bits(bits) };
        let now = any::at(now);
        let cost = Cost(cost);
        let Step::Word(step) = quota.step() else { return Ok(()) };
        let _ = (step.take(word, cost, now), step.take_slow(word, cost, now), step.give_back(word, cost, now));
        let _ = (step.charge(word, cost, now), step.promise(word, cost, Duration::MAX, now));
    }

    #[test]
    fn a_state_of_another_algorithm_is_no_state(plain in any::any_quota(), other in any::any_quota(), visits in any::visits(20)) {
        prop_assume!(plain.algorithm.name() != other.algorithm.name() || plain.quota().shape() != other.quota().shape());
        let (quota, other_quota) = (plain.quota(), other.quota());
        let mut foreign = other_quota.fresh();
        for (now, cost) in any::times(&other, &visits, any::NOON) {
            let _ = other_quota.take(&mut foreign, Cost(cost), any::at(now));
            let _ = quota.take(&mut foreign.clone(), Cost(cost), any::at(now));
            let ours = quota.take(&mut foreign.clone(), Cost::PEEK, any::at(now));
            if foreign.shape() != quota.shape() {
                // Nothing that the other counted counts here.
                prop_assert_eq!(ours, quota.take(&mut quota.fresh(), Cost::PEEK, any::at(now)));
            } else if quota.shape() == Shape::Wide {
                prop_assert!(ours.remaining() <= plain.burst());
            }
        }
    }

    /// The slowest and fastest rates: the refill of a drained bucket after a while is exact to 1 ppm.
    #[test]
    fn rates_from_one_a_year_to_a_thousand_million_a_second_are_exact_to_one_ppm(
        limit in prop_oneof![Just(1_u64), 1_u64..1_000_000_000, Just(1_000_000_000)],
        seconds in prop_oneof![Just(1_u64), 1_u64..31_536_000, Just(31_536_000)],
        burst in prop_oneof![1_u64..10, 1_u64..1_000_000_000],
    ) {
        let algorithm = tollgate_core::Algorithm::TokenBucket {
            burst: Some(burst), initial: None, overdraft: 0, refill: tollgate_core::Refill::Continuous,
        };
        let quota = Quota::new(limit, Period::Span(Duration::from_secs(seconds)), algorithm);
        let fill_ns = u128::from(burst) * u128::from(seconds) * 1_000_000_000 / u128::from(limit);
        let Ok(quota) = quota else {
            prop_assert!(fill_ns > 30 * 365 * 86_400 * 1_000_000_000);
            return Ok(());
        };
        prop_assume!(fill_ns < 40 * 365 * 86_400 * 1_000_000_000);
        let mut state = quota.fresh();
        let drained = quota.take(&mut state, Cost(burst), Timestamp::from_unix_seconds(1_000_000));
        prop_assert!(drained.is_admitted());
        let reset = drained.reset_after().as_nanos();
        prop_assert!(reset >= fill_ns && (reset - fill_ns) * 1_000_000 <= fill_ns + 1_000_000, "{} for {}", reset, fill_ns);
    }
}
