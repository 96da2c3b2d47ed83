//! I12: a change of the rule keeps the counts.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{Algorithm, Cost, LeavingCell, Quota, State};

use crate::any::{self, Plain};

/// An exact bucket that counts the missing permits, in parts of a permit, through changes of the rate.
struct Missing {
    /// (permits, parts in a permit): rounded up at each change, by less than one part in 2^60.
    parts: i128,
    at: i128,
}

const PARTS: i128 = 1 << 60;

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Missing {
    fn pass(&mut self, plain: &Plain, now: u64) {
        let elapsed = i128::from(now) - self.at;
        let back = elapsed * i128::from(plain.limit) * PARTS / i128::from(plain.period_ns);
        self.parts = (self.parts - back).max(0);
        self.at = i128::from(now);
    }
}

fn any_index() -> impl Strategy<Value = prop::sample::Index> {
    proptest::arbitrary::any::<prop::sample::Index>()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Through any number of reloads: missing permits stay missing, and flow back at the rate in force.
    #[test]
    fn counts_survive_a_change_of_rate_and_burst(
        plains in prop::collection::vec(prop_oneof![any::token_bucket(), any::leaky(false)], 1..9),
        visits in any::visits(20), is_leaky: bool,
    ) {
        let plains: Vec<_> = plains.into_iter().map(|mut plain| {
            let most = plain.burst();
            plain.period_ns = plain.period_ns.max(1_000);
            plain.algorithm = if is_leaky {
                Algorithm::LeakyBucket { capacity: Some(most), form: tollgate_core::LeakyForm::Meter }
            } else {
                Algorithm::TokenBucket { burst: Some(most), initial: None, overdraft: 0, refill: tollgate_core::Refill::Continuous }
            };
            plain
        }).collect();
        let mut quota = plains[0].quota();
        let mut state = quota.fresh();
        let mut model = Missing { parts: 0, at: 0 };
        let mut now = any::NOON;
        // A debt continues in whole units of the next rate, rounded up.
        let mut rounded = 0;
        for (turn, plain) in plains.iter().enumerate() {
            if turn > 0 {
                quota = plain.quota().migrated_from(&quota, any::at(now));
                rounded += PARTS / i128::from(plain.period_ns / gcd(plain.limit, plain.period_ns)) + 1;
            }
            for &any::Visit { gap, cost } in &visits[..visits.len().min(12)] {
                now += (gap * plain.period_ns as f64) as u64;
                model.pass(plain, now);
                if let State::Word(word) = &state && word.expires.is_past(any::at(now)) {
                    model.parts = 0; // repaid at the rate at which it was owed: a store may have dropped it by now
                }
                let cost = cost.min(plain.burst());
                let decision = quota.take(&mut state, Cost(cost), any::at(now));
                let room = i128::from(plain.burst()) * PARTS - model.parts - i128::from(cost) * PARTS;
                // Within a millionth of a permit of the edge either answer will do; rounding up only denies.
                let edge = PARTS / 1_000_000;
                if cost > 0 && (room < -edge || room > edge + rounded) {
                    prop_assert_eq!(decision.is_admitted(), room > 0, "turn {}: room {} of {}, {:?}", turn, room, PARTS, decision);
                }
                if decision.is_admitted() {
                    model.parts += i128::from(cost) * PARTS;
                }
            }
        }
    }

    /// Decisions that changes of the rate have overtaken read the words of later rates, and later ones read
    /// theirs: in permits, all count as one.
    #[test]
    fn decisions_that_are_overtaken_count_with_the_others(
        rates in prop::collection::vec((1_u64..1_000, 1_u64..100_000), 2..16), burst in 5_u64..200,
        asked in prop::collection::vec((any_index(), 1_u64..6), 1..80),
    ) {
        let now = any::at(any::NOON);
        let bucket = |(limit, period_ms): (u64, u64)| {
            let algorithm = Algorithm::TokenBucket {
                burst: Some(burst), initial: None, overdraft: 0, refill: tollgate_core::Refill::Continuous,
            };
            let period = tollgate_core::Period::Span(Duration::from_millis(period_ms));
            Quota::new(limit, period, algorithm).expect("small")
        };
        let mut quotas = vec![bucket(rates[0])];
        for rate in &rates[1..] {
            let next = bucket(*rate).migrated_from(quotas.last().expect("one"), now);
            quotas.push(next);
        }
        let mut state = quotas[0].fresh();
        let mut taken = 0;
        let mut is_short = false;
        for (quota, cost) in asked {
            let is_admitted = quota.get(&quotas).take(&mut state, Cost(cost), now).is_admitted();
            prop_assert!(!is_admitted || taken + cost <= burst, "{} of {}", taken + cost, burst);
            // Less than a unit is rounded up at each change of hands: less than a permit in all.
            let fits = taken + cost + u64::from(is_short) <= burst;
            prop_assert!(is_admitted || !fits, "{} of {} denied", taken + cost, burst);
            taken += if is_admitted { cost } else { 0 };
            is_short = true;
        }
    }

    #[test]
    fn a_lower_limit_admits_nothing_until_the_level_is_there_again(used in 1_u64..100, lower in 1_u64..100) {
        let [old, new] = [100, lower].map(|limit| Quota::token_bucket(limit, Duration::from_secs(100)).expect("small"));
        let mut state = old.fresh();
        prop_assert!(old.take(&mut state, Cost(used), any::at(any::NOON)).is_admitted());
        let new = new.migrated_from(&old, any::at(any::NOON));
        let decision = new.take(&mut state, Cost::ONE, any::at(any::NOON));
        prop_assert_eq!(decision.is_admitted(), used < lower);
    }

    /// Windows count permits at any limit, so the state stays as it is.
    #[test]
    fn counts_survive_a_change_of_limit_in_windows(
        plain in prop_oneof![
            any::fixed_window(tollgate_core::Align::Calendar), any::sliding_window(), any::sliding_window_that_drops(),
            any::sliding_window_counter(), any::sliding_window_log(false),
        ],
        used in 1_u64..40, limit in 1_u64..80,
    ) {
        let used = used.min(plain.limit);
        let old = plain.quota();
        let mut state = old.fresh();
        prop_assert!(old.take(&mut state, Cost(used), any::at(any::NOON)).is_admitted());
        let new = Plain { limit, ..plain }.quota().migrated_from(&old, any::at(any::NOON));
        let decision = new.take(&mut state, Cost::PEEK, any::at(any::NOON));
        prop_assert_eq!(decision.remaining(), limit.saturating_sub(used));
        prop_assert_eq!(new.take(&mut state, Cost::ONE, any::at(any::NOON)).is_admitted(), used < limit);
    }

    /// Other cells or another window: nothing that is in the new window is forgotten.
    #[test]
    fn counts_survive_a_change_of_window(
        plain in prop_oneof![any::sliding_window(), any::sliding_window_that_drops()], cells in 1_u32..13, cell_ns in 1_u64..2_000_000_000, visits in any::visits(5),
    ) {
        let old = plain.quota();
        let mut state = old.fresh();
        let mut admitted = Vec::new();
        let mut last = any::NOON;
        for (now, cost) in any::times(&plain, &visits, any::NOON) {
            if old.take(&mut state, Cost(cost), any::at(now)).is_admitted() {
                admitted.push((now, cost));
            }
            last = now;
        }
        let period_ns = cell_ns * u64::from(cells);
        let new = Plain { limit: 1_000, period_ns, algorithm: Algorithm::sliding_window(cells) }.quota();
        let new = new.migrated_from(&old, any::at(last));
        let peek = new.take(&mut state, Cost::PEEK, any::at(last));
        // A cell that is leaving may have been dropped already.
        let before = match plain.algorithm {
            Algorithm::SlidingWindow { cells, leaving: LeavingCell::Drops } => {
                plain.period_ns - plain.period_ns / u64::from(cells)
            }
            _ => plain.period_ns,
        };
        let inside = |&&(at, _): &&(u64, u64)| last - at < period_ns.min(before);
        let sum: u64 = admitted.iter().filter(inside).map(|(_, cost)| cost).sum();
        prop_assert!(1_000 - peek.remaining() >= sum, "{} of {}", 1_000 - peek.remaining(), sum);
    }
}
