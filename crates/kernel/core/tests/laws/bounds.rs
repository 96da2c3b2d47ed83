//! Never too much: the admitted permits of any span, summed up afterwards.

use proptest::prelude::*;
use tollgate_core::{Algorithm, Align, Cost, LeavingCell};

use crate::any::{self, Plain, Visit};

/// (instant, cost) of everything that was admitted.
fn admitted(plain: &Plain, visits: &[Visit]) -> Vec<(i128, i128)> {
    let quota = plain.quota();
    let mut state = quota.fresh();
    any::times(plain, visits, any::NOON)
        .into_iter()
        .filter(|&(now, cost)| quota.take(&mut state, Cost(cost), any::at(now)).is_admitted())
        .map(|(now, cost)| (i128::from(now), i128::from(cost)))
        .collect()
}

/// Most admitted in any window (t - window, t].
fn most_in_any_window(admitted: &[(i128, i128)], window: i128) -> i128 {
    let ends = admitted.iter().map(|&(end, _)| end);
    let sums = ends.map(|end| {
        admitted.iter().filter(|&&(at, _)| at > end - window && at <= end).map(|&(_, cost)| cost).sum()
    });
    sums.max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// I1, for buckets and queues.
    #[test]
    fn admitted_cost_never_exceeds_burst_plus_limit_per_window(
        plain in prop_oneof![any::token_bucket(), any::interval_bucket(), any::leaky(false), any::leaky(true)],
        visits in any::visits(20),
    ) {
        let admitted = admitted(&plain, &visits);
        let limit = i128::from(plain.limit);
        let period = i128::from(plain.period_ns);
        let most = i128::from(plain.burst() + plain.overdraft());
        let is_interval = matches!(plain.algorithm, Algorithm::TokenBucket { refill: tollgate_core::Refill::Interval, .. });
        for (first, &(from, _)) in admitted.iter().enumerate() {
            let mut sum = 0;
            for &(to, cost) in &admitted[first..] {
                sum += cost;
                // A period's worth may come just after `from`.
                let refilled = if is_interval { ((to - from) / period + 1) * limit * period } else { limit * (to - from) };
                prop_assert!(sum * period <= most * period + refilled, "{sum} in {} ns", to - from);
            }
        }
    }

    /// I2, strict: a limit for any window.
    #[test]
    fn a_strict_window_never_admits_above_the_limit_in_any_window(
        plain in prop_oneof![any::sliding_window(), any::sliding_window_log(false), any::sliding_window_log(true)],
        visits in any::visits(20),
    ) {
        let most = most_in_any_window(&admitted(&plain, &visits), i128::from(plain.period_ns));
        prop_assert!(most <= i128::from(plain.limit), "{most}");
    }

    /// I2, Delta = L
    #[test]
    fn a_window_on_the_grid_never_admits_above_twice_the_limit_in_any_window(
        plain in prop_oneof![any::fixed_window(Align::Calendar), any::fixed_window(Align::FirstHit), any::sliding_window_counter()],
        visits in any::visits(20),
    ) {
        let most = most_in_any_window(&admitted(&plain, &visits), i128::from(plain.period_ns));
        prop_assert!(most <= 2 * i128::from(plain.limit), "{most}");
    }

    /// Rows 39 and 120: the form of which the leaving cell does not count.
    #[test]
    fn a_window_that_drops_the_leaving_cell_never_admits_above_the_limit_in_its_cells_nor_above_twice_it_in_any_window(
        plain in any::sliding_window_that_drops(), visits in any::visits(20),
    ) {
        let Algorithm::SlidingWindow { cells, .. } = plain.algorithm else { unreachable!() };
        let admitted = admitted(&plain, &visits);
        let limit = i128::from(plain.limit);
        let cell = i128::from(plain.period_ns) / i128::from(cells);
        for &(last, _) in &admitted {
            let newest = last / cell;
            let oldest = newest + 1 - i128::from(cells);
            let inside = admitted.iter().filter(|&&(at, _)| (oldest..=newest).contains(&(at / cell)));
            let sum = inside.map(|&(_, cost)| cost).sum::<i128>();
            prop_assert!(sum <= limit, "{sum} in the cells from {oldest}");
        }
        let most = most_in_any_window(&admitted, i128::from(plain.period_ns) - cell);
        prop_assert!(most <= limit, "{most} in a window that is a cell shorter");
        let most = most_in_any_window(&admitted, i128::from(plain.period_ns));
        prop_assert!(most <= 2 * limit, "{most}");
    }

    /// The other side: under steady demand the whole limit passes in each window's time, and a window that
    /// begins within a cell gets twice the limit from those who wait for its edge.
    #[test]
    fn a_window_that_drops_the_leaving_cell_passes_all_of_the_limit_and_twice_it_around_an_edge(
        limit in 12_u64..40, cells in 1_u32..12,
    ) {
        let period_ns = 1_000 * u64::from(cells);
        let leaving = LeavingCell::Drops;
        let plain = Plain { limit, period_ns, algorithm: Algorithm::SlidingWindow { cells, leaving } };
        let quota = plain.quota();
        let mut state = quota.fresh();
        let rounds = 20;
        let passed = (0..rounds * period_ns).step_by(10).filter(|now| {
            quota.take(&mut state, Cost::ONE, any::at(any::NOON / period_ns * period_ns + now)).is_admitted()
        });
        prop_assert_eq!(passed.count() as u64, limit * rounds);
        let begins = any::NOON / period_ns * period_ns;
        let mut state = quota.fresh();
        for now in [begins + 999, begins + period_ns] {
            prop_assert!(quota.take(&mut state, Cost(limit), any::at(now)).is_admitted(), "{now}");
        }
    }

    /// A18: at least N/(N+1) of the limit a window gets through under steady demand.
    #[test]
    fn a_strict_window_of_cells_passes_its_share_of_steady_demand(limit in 12_u64..40, cells in 1_u32..12) {
        let plain = Plain { limit, period_ns: 1_000 * u64::from(cells), algorithm: Algorithm::sliding_window(cells) };
        let visits: Vec<_> = (0..4_000).map(|_| Visit { gap: 1.0 / (100.0 * f64::from(cells)), cost: 1 }).collect();
        let quota = plain.quota();
        let mut state = quota.fresh();
        let times = any::times(&plain, &visits, any::NOON);
        let span = times[times.len() - 1].0 - any::NOON;
        let passed = times.iter().filter(|&&(now, _)| quota.take(&mut state, Cost::ONE, any::at(now)).is_admitted()).count();
        // passed ≥ limit × (span / ((N + 1) cells)), whole rounds only: each begins with a hundred requests
        // in one cell.
        let rounds = span / (1_000 * (u64::from(cells) + 1));
        prop_assert!(passed as u64 >= limit * rounds, "{passed} in {rounds} rounds");
    }
}
