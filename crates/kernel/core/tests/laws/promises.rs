//! Reservations and places in a queue, against a model that counts missing permits in 128 bits.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{Algorithm, Cost, LeakyForm, Timestamp, Word};

use crate::any::{self, Plain};

/// Permits × period that are missing from a full bucket.
struct Missing {
    missing: i128,
    at: i128,
}

impl Missing {
    const NONE: Self = Self { missing: 0, at: 0 };

    fn at(&mut self, plain: &Plain, now: u64) -> i128 {
        let back = (i128::from(now) - self.at) * i128::from(plain.limit);
        (self.missing, self.at) = ((self.missing - back).max(0), i128::from(now));
        self.missing
    }
}

/// Whole ns until `missing` is down to `room`, rounded up.
fn wait_ns(plain: &Plain, missing: i128, room: i128) -> u64 {
    let too_much = (missing - room).max(0);
    u64::try_from((too_much + i128::from(plain.limit) - 1) / i128::from(plain.limit)).expect("small")
}

fn full_at_first(mut plain: Plain) -> Plain {
    if let Algorithm::TokenBucket { initial, overdraft, .. } = &mut plain.algorithm {
        (*initial, *overdraft) = (None, 0);
    }
    plain
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_reservation_is_for_the_first_instant_at_which_all_of_it_is_there(
        plain in any::token_bucket().prop_map(full_at_first), visits in any::visits(20),
        patience in prop::collection::vec(prop_oneof![Just(f64::INFINITY), 0.0..3.0], 80),
    ) {
        let quota = plain.quota();
        let mut model = Missing::NONE;
        let mut word = Word::FRESH;
        let full = i128::from(plain.burst()) * i128::from(plain.period_ns);
        for ((now, cost), patience) in any::times(&plain, &visits, any::NOON).into_iter().zip(patience) {
            let max_wait = if patience.is_finite() { (patience * plain.period_ns as f64) as u64 } else { u64::MAX };
            let owed = model.at(&plain, now) + i128::from(cost) * i128::from(plain.period_ns);
            let wait = wait_ns(&plain, owed, full);
            let granted = cost <= plain.burst() && wait <= max_wait;
            let ours = any::word_algorithm(&quota).promise(word, Cost(cost), Duration::from_nanos(max_wait), any::at(now));
            prop_assert_eq!(ours.granted, granted, "{:?}", ours);
            if granted {
                prop_assert_eq!(ours.act_at, any::at(now + wait));
                model.missing = owed;
            } else {
                prop_assert_eq!(ours.word, word, "a denied one changes nothing");
                let never = Timestamp::from_nanos(u64::MAX);
                prop_assert_eq!(ours.act_at, if cost > plain.burst() { never } else { any::at(now + wait) });
            }
            word = ours.word;
        }
    }

    #[test]
    fn the_delay_in_a_queue_is_exactly_what_is_before_it(plain in any::leaky(true), visits in any::visits(20)) {
        let Algorithm::LeakyBucket { form: LeakyForm::Queue { delay_after }, .. } = plain.algorithm else {
            return Ok(());
        };
        let (quota, mut model, mut state) = (plain.quota(), Missing::NONE, plain.quota().fresh());
        let undelayed = i128::from(delay_after) * i128::from(plain.period_ns);
        for (now, cost) in any::times(&plain, &visits, any::NOON) {
            let before = model.at(&plain, now);
            let decision = quota.take(&mut state, Cost(cost), any::at(now));
            // Denied or not: the wait that it has, or would have had.
            prop_assert_eq!(decision.delay(), Duration::from_nanos(wait_ns(&plain, before, undelayed)));
            if decision.is_admitted() {
                model.missing = before + i128::from(cost) * i128::from(plain.period_ns);
            }
        }
    }

    /// A charge above the available permits is repaid before anything else is granted.
    #[test]
    fn a_charge_is_owed_until_it_is_repaid(plain in any::token_bucket().prop_map(full_at_first), charge in 0_u64..500) {
        let (quota, mut state) = (plain.quota(), plain.quota().fresh());
        let _ = quota.charge(&mut state, Cost(charge), any::at(any::NOON));
        let owed = i128::from(charge) * i128::from(plain.period_ns);
        let room = i128::from(plain.burst() - 1) * i128::from(plain.period_ns);
        let wait = wait_ns(&plain, owed, room);
        let then = any::NOON + wait;
        prop_assert!(quota.take(&mut state.clone(), Cost::ONE, any::at(then)).is_admitted());
        if wait > 0 {
            prop_assert!(!quota.take(&mut state.clone(), Cost::ONE, any::at(then - 1)).is_admitted());
        }
    }
}
