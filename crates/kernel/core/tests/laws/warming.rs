//! Takes that pay for the previous ones: the prices, their sums, and refunds.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{Algorithm, Cost, Inherit, Quota, State};

use crate::any::{self, Plain};

const FOREVER: Duration = Duration::from_secs(1 << 32);

fn smooth() -> impl Strategy<Value = Plain> {
    prop_oneof![any::warm_up(), any::smooth_bursty()]
}

/// So that no history owes more than can be counted.
fn within_a_minute(mut plain: Plain) -> Plain {
    plain.period_ns = plain.period_ns.min(60_000_000_000);
    plain
}

/// The wait until the key is free, in ns.
fn owed(quota: &Quota, state: &State, now: u64) -> u64 {
    let decision = quota.reserve(&mut state.clone(), Cost::ONE, FOREVER, any::at(now));
    assert!(decision.is_admitted(), "patience without end");
    decision.delay().as_nanos() as u64
}

/// The usual form of the arithmetic, in floats and by the trapezoid of each take.
#[derive(Debug)]
struct Trapezoids {
    interval: f64,
    cold: f64,
    threshold: f64,
    most: f64,
    refill: f64,
    free: f64,
    stored: f64,
}

impl Trapezoids {
    fn new(plain: &Plain) -> Self {
        let interval = plain.period_ns as f64 / plain.limit as f64;
        let (cold, threshold, most, refill, stored) = match plain.algorithm {
            Algorithm::WarmUp { warm_up, cold_factor } => {
                let warm_up = warm_up.as_nanos() as f64;
                let cold = f64::from(cold_factor) * interval;
                let threshold = 0.5 * warm_up / interval;
                let most = threshold + 2.0 * warm_up / (interval + cold);
                (cold, threshold, most, warm_up / most, most)
            }
            Algorithm::SmoothBursty { burst } => {
                let most = burst.map_or(1e9 / interval, |burst| burst as f64);
                (0.0, most, most, interval, 0.0)
            }
            _ => panic!("no other algorithm"),
        };
        Self { interval, cold, threshold, most, refill, free: 0.0, stored }
    }

    /// The time in which the store fills.
    fn span(&self) -> f64 {
        self.most * self.refill
    }

    fn is_bursty(&self) -> bool {
        self.cold == 0.0
    }

    fn store(&mut self, now: f64) {
        if now > self.free {
            self.stored = self.most.min(self.stored + (now - self.free) / self.refill);
            self.free = now;
        }
    }

    fn take(&mut self, cost: u64, now: f64) {
        self.store(now);
        let spent = self.stored.min(cost as f64);
        let fresh = (cost as f64 - spent) * self.interval;
        self.free += fresh + if self.is_bursty() { 0.0 } else { self.of_stored(spent) };
        self.stored -= spent;
    }

    fn of_stored(&self, spent: f64) -> f64 {
        let slope = (self.cold - self.interval) / (self.most - self.threshold);
        let above = (self.stored - self.threshold).max(0.0);
        let cold = above.min(spent);
        let height = |above: f64| self.interval + above * slope;
        cold * (height(above) + height(above - cold)) / 2.0 + (spent - cold) * self.interval
    }

    fn replaced_by(mut self, plain: &Plain, now: f64) -> Self {
        self.store(now);
        let new = Self::new(plain);
        Self { free: self.free, stored: self.stored * new.most / self.most, ..new }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    /// Through changes of the rate and of the warm-up too. Floats are off by parts of 2^52.
    #[test]
    fn a_key_is_free_when_the_usual_form_of_the_arithmetic_says_so(
        plains in prop_oneof![
            prop::collection::vec(any::warm_up().prop_map(within_a_minute), 1..5),
            prop::collection::vec(any::smooth_bursty().prop_map(within_a_minute), 1..5),
        ],
        visits in any::visits(20),
    ) {
        let mut quota = plains[0].quota();
        let mut state = quota.fresh();
        let mut oracle = Trapezoids::new(&plains[0]);
        let mut start = any::NOON;
        let mut exact = 2.0;
        for plain in &plains {
            // A share of a small store is known to a unit only, which may be much of a large one.
            let dearest = oracle.cold.max(oracle.interval) / oracle.interval;
            exact += dearest * (1.0 + oracle.span() / Trapezoids::new(plain).span().min(oracle.span()));
            let new = plain.quota().migrated_from(&quota, any::at(start));
            state = new.inherit(state, &quota, Inherit::Taken, any::at(start));
            let before = oracle.span();
            oracle = oracle.replaced_by(plain, (start - any::NOON) as f64);
            exact *= (oracle.span() / before).max(1.0) * dearest;
            quota = new;
            for (now, cost) in any::times(plain, &visits, start) {
                if cost > 0 {
                    let _ = quota.reserve(&mut state, Cost(cost), FOREVER, any::at(now));
                    oracle.take(cost, (now - any::NOON) as f64);
                }
                oracle.store((now - any::NOON) as f64);
                let ours = owed(&quota, &state, now) as f64;
                let theirs = oracle.free - (now - any::NOON) as f64;
                let off = exact + (theirs + (now - any::NOON) as f64) * 1e-9;
                prop_assert!((ours - theirs).abs() <= off, "{} and {} at +{} of {:?}", ours, theirs, now - any::NOON, oracle);
                start = now;
            }
        }
    }

    /// The integral: exactly p permits are above the threshold, and cost the whole warm-up.
    #[test]
    fn the_permits_above_the_threshold_cost_the_warm_up_in_any_split(
        (limit, permits, parts) in (1_u64..40, 1_u64..2_000, 1_u64..1_000_000),
        cold_factor in prop_oneof![Just(1_u32), Just(3), 1_u32..=1_000],
        costs in prop::collection::vec(1_u64..100, 1..60),
    ) {
        let interval = 2 * parts;
        let warm_up = Duration::from_nanos((1 + u64::from(cold_factor)) * permits * interval / 2);
        let algorithm = Algorithm::WarmUp { warm_up, cold_factor };
        let quota = Plain { limit, period_ns: limit * interval, algorithm }.quota();
        let mut state = quota.fresh();
        let mut left = permits;
        for cost in costs.into_iter().chain([u64::MAX]) {
            let cost = cost.min(left);
            left -= cost;
            let _ = quota.reserve(&mut state, Cost(cost), FOREVER, any::at(any::NOON));
        }
        prop_assert_eq!(Duration::from_nanos(owed(&quota, &state, any::NOON)), warm_up);
        // From the threshold on, a permit costs its interval.
        let _ = quota.reserve(&mut state, Cost(7), FOREVER, any::at(any::NOON));
        prop_assert_eq!(u128::from(owed(&quota, &state, any::NOON)), warm_up.as_nanos() + u128::from(7 * interval));
    }

    /// Exact to the last bit, for any numbers.
    #[test]
    fn the_prices_of_a_split_add_up_to_that_of_the_whole(
        plain in smooth(), visits in any::visits(20), costs in prop::collection::vec(0_u64..50, 1..20),
    ) {
        let quota = plain.quota();
        let mut state = quota.fresh();
        let mut now = any::NOON;
        for (at, cost) in any::times(&plain, &visits, any::NOON) {
            let _ = quota.take(&mut state, Cost(cost), any::at(at));
            now = at;
        }
        let mut whole = state.clone();
        let _ = quota.reserve(&mut whole, Cost(costs.iter().sum()), FOREVER, any::at(now));
        for cost in costs {
            let _ = quota.reserve(&mut state, Cost(cost), FOREVER, any::at(now));
        }
        prop_assert_eq!(whole, state);
    }

    /// Never too much: all but the last take of any span are paid for within it, except for stored permits.
    #[test]
    fn what_passes_is_paid_for_by_the_time_until_the_next(plain in smooth(), visits in any::visits(20)) {
        let quota = plain.quota();
        let mut state = quota.fresh();
        let admitted: Vec<_> = any::times(&plain, &visits, any::NOON)
            .into_iter()
            .filter(|&(now, cost)| cost > 0 && quota.take(&mut state, Cost(cost), any::at(now)).is_admitted())
            .collect();
        let limit = u128::from(plain.limit);
        let period = u128::from(plain.period_ns);
        let free = match plain.algorithm {
            Algorithm::SmoothBursty { burst: Some(burst) } => u128::from(burst) * period,
            Algorithm::SmoothBursty { burst: None } => 1_000_000_000 * limit,
            _ => 0,
        };
        for (first, &(from, _)) in admitted.iter().enumerate() {
            let mut paid = 0;
            for &(to, cost) in &admitted[first..] {
                prop_assert!(paid * period <= free + limit * u128::from(to - from), "{} in {} ns", paid, to - from);
                paid += u128::from(cost);
            }
        }
    }

    /// No needless denial: a caller that asks again at each named instant gets the rate of the limit, less
    /// the warm-up once.
    #[test]
    fn a_steady_load_passes_at_the_rate_of_the_limit_once_it_is_warm(
        plain in any::warm_up(), permits in 200_u64..400,
    ) {
        let Algorithm::WarmUp { warm_up, cold_factor } = plain.algorithm else { return Ok(()) };
        let quota = plain.quota();
        let mut now = any::NOON;
        let mut state = quota.fresh();
        for _ in 0..permits {
            prop_assert!(quota.take(&mut state, Cost::ONE, any::at(now)).is_admitted());
            now += owed(&quota, &state, now).max(1);
        }
        let interval = plain.period_ns as f64 / plain.limit as f64;
        let cold = f64::from(cold_factor);
        let most = permits as f64 * interval.max(1.0) + warm_up.as_nanos() as f64 * (cold - 1.0) / (cold + 1.0);
        // Each retry is rounded up to a nanosecond, in which the key cools down.
        prop_assert!((now - any::NOON) as f64 <= most + permits as f64 * (1.0 + cold), "{} for {}", now - any::NOON, most);
    }

    /// Whatever is given back before its time has come, in any order, was never taken.
    #[test]
    fn reservations_that_are_given_back_leave_what_the_others_would_have_made(
        plain in smooth(), visits in any::visits(20), costs in prop::collection::vec((1_u64..12, any::<bool>()), 1..20),
    ) {
        let quota = plain.quota();
        let mut state = quota.fresh();
        let mut now = any::NOON;
        for (at, cost) in any::times(&plain, &visits, any::NOON) {
            let _ = quota.take(&mut state, Cost(cost), any::at(at));
            now = at;
        }
        let mut without = state.clone();
        for &(cost, stays) in &costs {
            let _ = quota.reserve(&mut state, Cost(cost), FOREVER, any::at(now));
            if stays {
                let _ = quota.reserve(&mut without, Cost(cost), FOREVER, any::at(now));
            }
        }
        prop_assume!(costs.iter().any(|(_, stays)| *stays)); // a peek writes nothing down
        for &(cost, stays) in costs.iter().rev() {
            if !stays {
                let _ = quota.give_back(&mut state, Cost(cost), any::at(now));
            }
        }
        prop_assert_eq!(state, without);
    }

    /// A state in place, read by the next rate, equals one that was carried over, while the warm-up stays.
    #[test]
    fn a_state_is_read_by_another_rate_as_if_it_had_been_carried_over(
        plain in any::warm_up(), limit in 1_u64..40, visits in any::visits(20), gap in 0.0..3.0,
    ) {
        let old = plain.quota();
        let new = Plain { limit, ..plain.clone() }.quota();
        let mut state = old.fresh();
        let mut now = any::NOON;
        for (at, cost) in any::times(&plain, &visits, any::NOON) {
            let _ = old.take(&mut state, Cost(cost), any::at(at));
            now = at;
        }
        let carried = new.inherit(state.clone(), &old, Inherit::Taken, any::at(now));
        let later = now + (gap * plain.period_ns as f64) as u64;
        let [mut here, mut there] = [state, carried];
        for state in [&mut here, &mut there] {
            let _ = new.reserve(state, Cost(3), FOREVER, any::at(later));
        }
        let here = owed(&new, &here, later);
        let there = owed(&new, &there, later);
        // The units that the store is missing are rounded up at each change, and the coldest units cost the
        // most.
        let off = 30 + here / 1_000_000;
        prop_assert!(here.abs_diff(there) <= off, "{} and {}", here, there);
    }
}
