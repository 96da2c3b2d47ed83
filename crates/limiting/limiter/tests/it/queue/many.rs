//! Random requests of several counters at once: nobody waits for ever, beyond its deadline or out of order.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_limiter::{Limiter, LimiterSettings};
use tollgate_store::ModelStore;

use super::Hall;
use super::RequestFate::{Denied, Passed, Waits};
use crate::common::policy;

const RULES: &str = "
domain: d
descriptors:
  - key: a
    rate_limit: {rate: 4/s burst 4, on_limit: queue, max_wait: 3s}
  - key: b
    rate_limit: {unit: second, requests_per_unit: 4, on_limit: queue, max_wait: 2s}
  - key: c
    rate_limit: {rate: 3/s burst 2, algorithm: token_bucket, on_limit: queue, max_wait: 4s}
  - key: strict
    rate_limit: {rate: 2/s burst 4}
";

const MOST: usize = 12;

#[derive(Clone, Debug)]
struct Ask {
    after_ms: u64,
    descriptors: Vec<(&'static str, u64)>,
    longest_ms: u64,
    leaves_ms: Option<u64>,
}

fn ask() -> impl Strategy<Value = Ask> {
    let keys = prop::sample::subsequence(vec!["a", "b", "c", "strict"], 1..=3);
    let after = prop_oneof![2 => Just(0_u64), 5 => 1..120_u64, 1 => 120..1_500_u64];
    let leaves = prop_oneof![4 => Just(None), 1 => (1..2_000_u64).prop_map(Some)];
    (after, keys, prop::collection::vec(1..=3_u64, 3), 0..5_000_u64, leaves, any::<bool>()).prop_map(
        |(after_ms, mut keys, costs, longest_ms, leaves_ms, is_reversed)| {
            if is_reversed {
                keys.reverse();
            }
            let descriptors = keys.into_iter().zip(costs).collect();
            Ask { after_ms, descriptors, longest_ms, leaves_ms }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_of_several_lines_end_in_time_and_those_alike_in_order(
        asks in prop::collection::vec(ask(), 1..60),
        is_together in any::<bool>(),
    ) {
        let charge = if is_together { "charge: together" } else { "" };
        let settings = LimiterSettings { max_queued: MOST, ..LimiterSettings::default() };
        let limiter = Limiter::new(policy(&format!("{charge}{RULES}")), ModelStore::default(), settings);
        let mut hall = Hall::new(&limiter);
        let mut leaving = Vec::new();
        let mut arrived = Vec::new();
        let mut now_ms = 0;
        for ask in &asks {
            for _ in 0..ask.after_ms {
                hall.pass_ms(1);
                now_ms += 1;
                leaving.retain(|&(at_ms, index)| {
                    if at_ms == now_ms {
                        hall.leave(index);
                    }
                    at_ms > now_ms
                });
            }
            let index = hall.ask_for(&ask.descriptors, Duration::from_millis(ask.longest_ms));
            arrived.push(now_ms);
            leaving.extend(ask.leaves_ms.map(|leaves_ms| (now_ms + leaves_ms, index)));
            prop_assert!(hall.waiting() <= MOST as u64);
        }
        leaving.iter().for_each(|&(_, index)| hall.leave(index));
        hall.pass_ms(6_000);
        let seen = hall.seen();
        let max_wait = |key: &str| match key { "a" => 3_000, "b" => 2_000, "c" => 4_000, _ => u64::MAX };
        for (ask, seen) in asks.iter().zip(&seen) {
            let most = ask.descriptors.iter().map(|(key, _)| max_wait(key)).min().unwrap_or(0);
            match *seen {
                Passed(ms) | Denied(ms) => {
                    prop_assert!(ms <= if most == u64::MAX { 0 } else { most.min(ask.longest_ms) }, "{ask:?} {ms}");
                }
                Waits => prop_assert!(ask.leaves_ms.is_some(), "{ask:?} waits for ever"),
            }
        }
        for later in 0..asks.len() {
            for earlier in 0..later {
                // Those whose order of entries differs want the same counters all the same.
                let [a, b] = [earlier, later].map(|index| {
                    let mut wants = asks[index].descriptors.clone();
                    wants.sort_unstable();
                    wants
                });
                if let (true, Passed(first), Passed(second)) = (a == b, seen[earlier], seen[later]) {
                    prop_assert!(arrived[earlier] + first <= arrived[later] + second, "{earlier} {later}");
                }
            }
        }
        prop_assert_eq!(hall.waiting(), 0);
        let ends: u64 = ["passed", "denied", "timed_out", "left"].map(|end| hall.event(end)).iter().sum();
        prop_assert_eq!(hall.event("joined"), ends);
    }
}
