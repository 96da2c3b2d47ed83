//! I8: whatever is reserved and settled, in whatever order, every permit is accounted for.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::common::desk::{Desk, NOW};
use crate::common::{NOON, ask_at, limiter, of, policy, seconds};
use proptest::prelude::*;
use tollgate_limiter::{Limiter, LimiterSettings, ReservationId, ReserveTerms, SettleError};
use tollgate_store_memory::MemoryStore;

/// One step of a history on a stock that never comes back, of 100.
#[derive(Clone, Copy, Debug)]
enum StockStep {
    Reserve {
        hits: u64,
        ttl_s: u64,
    },
    /// Picks from all reservations that were ever made, also those that are settled or over.
    Commit {
        which: usize,
        actual: Option<u64>,
    },
    Cancel {
        which: usize,
    },
    Take {
        hits: u64,
    },
    Wait {
        seconds: u64,
    },
}

fn step() -> impl Strategy<Value = StockStep> {
    prop_oneof![
        // One of 0 holds nothing: `reservations.rs` has it.
        4 => (1..20_u64, 1..30_u64).prop_map(|(hits, ttl_s)| StockStep::Reserve { hits, ttl_s }),
        3 => (0..20_usize, prop::option::of(0..30_u64))
            .prop_map(|(which, actual)| StockStep::Commit { which, actual }),
        2 => (0..20_usize).prop_map(|which| StockStep::Cancel { which }),
        1 => (0..10_u64).prop_map(|hits| StockStep::Take { hits }),
        2 => (0..10_u64).prop_map(|seconds| StockStep::Wait { seconds }),
    ]
}

/// Fate of a reservation that was made: open until then, or this much used.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Open { until: u64 },
    Used(u64),
}

proptest! {
    /// I8, on a stock, where every permit can be counted: what is left is what was neither used nor is held,
    /// at every moment.
    #[test]
    fn what_is_left_is_what_is_neither_used_nor_held(steps in prop::collection::vec(step(), 1..80)) {
        let text = "{domain: d, descriptors: [{key: k, rate_limit: {requests_per_unit: 100, algorithm: total}}]}";
        let desk = Desk(limiter(text));
        let mut made: Vec<(ReservationId, u64, Fate)> = Vec::new();
        let mut taken = 0;
        let mut second = 0;
        for step in steps {
            let now = NOON + seconds(second);
            let spent = |made: &[(ReservationId, u64, Fate)]| made.iter().map(|(_, hits, fate)| match fate {
                Fate::Open { .. } => *hits, // one that is over counts as used
                Fate::Used(used) => *used,
            }).sum::<u64>();
            let settle = |which: usize, actual: Option<u64>, made: &mut [(ReservationId, u64, Fate)]| {
                let Some((id, hits, fate)) = made.get_mut(which) else { return Ok(()) };
                let want = match *fate {
                    Fate::Open { until } if until <= second => Err(SettleError::Unknown),
                    Fate::Open { .. } => Ok(actual.map_or(*hits, |actual| actual)),
                    Fate::Used(used) => Ok(used),
                };
                let got = match actual {
                    Some(0) => desk.cancel(*id, now),
                    _ => desk.commit(*id, actual, now),
                };
                let got = got.map(|(_, reserved, used)| { assert_eq!(reserved, *hits); used });
                // A settled one is forgotten some time later; then it is not known, and never settled again.
                let is_forgotten = matches!(fate, Fate::Used(_)) && got == Err(SettleError::Unknown);
                prop_assert!(got == want || is_forgotten, "got {:?}, want {:?}", got, want);
                if let Ok(used) = got { *fate = Fate::Used(used) }
                Ok(())
            };
            match step {
                StockStep::Reserve { hits, ttl_s } => {
                    let got = desk.reserve("k=v", hits, ReserveTerms { ttl: seconds(ttl_s), ..NOW }, now);
                    let fits = (taken + spent(&made)) + hits <= 100;
                    prop_assert_eq!(got.id.is_some(), fits, "{} more of {}", hits, taken + spent(&made));
                    made.extend(got.id.map(|id| (id, hits, Fate::Open { until: second + ttl_s })));
                }
                StockStep::Commit { which, actual } => settle(which, actual, &mut made)?,
                StockStep::Cancel { which } => settle(which, Some(0), &mut made)?,
                StockStep::Take { hits } => {
                    let fits = taken + spent(&made) + hits <= 100;
                    let told = ask_at(&desk.0, "d", &[of("k=v").hits(hits)], now);
                    prop_assert_eq!(told.starts_with("OK"), fits, "{}", told);
                    taken += if fits { hits } else { 0 };
                }
                StockStep::Wait { seconds } => second += seconds,
            }
            let left = 100_u64.saturating_sub(taken + spent(&made));
            prop_assert_eq!(desk.left("k=v", NOON + seconds(second)), left, "after {:?}", step);
        }
    }
}

/// I8: whatever is settled, in whatever order, nobody ever gets more than the limit, and nothing is lost.
#[test]
fn many_callers_at_once_never_hold_more_than_there_is_and_what_they_do_not_use_comes_back() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 400;
    let text = "{domain: d, descriptors: [
        {key: total, rate_limit: {requests_per_unit: 1000, algorithm: total}},
        {key: year, rate_limit: {unit: year, requests_per_unit: 900}}]}";
    let desk =
        Desk(Limiter::<MemoryStore>::new(policy(text), MemoryStore::default(), LimiterSettings::default()));
    let used = AtomicU64::new(0);
    let open = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let desk = &desk;
            let used = &used;
            let open = &open;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let hits = 1 + (thread + round) % 7;
                    let asks = if round % 2 == 0 { ["total=k", "year=k"] } else { ["year=k", "total=k"] };
                    let got = desk.try_reserve(&asks.map(of), hits, NOW, NOON).expect("there is room");
                    let Some(id) = got.id else { continue };
                    let held = open.fetch_add(hits, SeqCst) + hits;
                    assert!(held <= 900, "{held} are held at once");
                    let actual = round % (hits + 1);
                    // Two say it at once, and one of them is heard.
                    let (first, second) = std::thread::scope(|pair| {
                        let other = pair.spawn(|| desk.cancel(id, NOON));
                        open.fetch_sub(hits, SeqCst);
                        (desk.commit(id, Some(actual), NOON), other.join().expect("no panic"))
                    });
                    assert_eq!(first, second);
                    used.fetch_add(first.expect("it was open").2, SeqCst);
                }
            });
        }
    });
    let used = used.into_inner();
    assert!(used <= 900, "{used}");
    assert_eq!([1_000 - desk.left("total=k", NOON), 900 - desk.left("year=k", NOON)], [used, used]);
    assert_eq!(desk.0.report(NOON).reservations, 0);
}
