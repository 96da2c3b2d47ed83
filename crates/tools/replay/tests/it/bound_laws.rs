//! The verifier against the definition of each bound, over every pair of requests.

use std::collections::HashMap;

use proptest::prelude::*;
use tollgate_replay::{Claim, Verifier};

/// By how much the claim is broken at most, and whether it is: every span from one request to another.
fn by_definition(claim: Claim, requests: &[(u8, u64, u64)]) -> (bool, i128) {
    let mut by_key: HashMap<u8, Vec<(u64, u64)>> = HashMap::new();
    for &(key, at, cost) in requests {
        by_key.entry(key).or_default().push((at, cost));
    }
    let mut most = i128::MIN;
    for takes in by_key.values() {
        for first in 0..takes.len() {
            let mut admitted = 0_i128;
            for &(at, cost) in &takes[first..] {
                admitted += i128::from(cost);
                let span = at - takes[first].0;
                let over = match claim {
                    Claim::Window { limit, window_ns } if span < window_ns => admitted - i128::from(limit),
                    Claim::Window { .. } => continue,
                    Claim::Bucket { permits, period_ns, burst } => {
                        (admitted - i128::from(burst)) * i128::from(period_ns)
                            - i128::from(permits) * i128::from(span)
                    }
                };
                most = most.max(over);
            }
        }
    }
    (most > 0, most)
}

fn claims() -> impl Strategy<Value = Claim> {
    let window = (0..6_u64, 1..40_u64).prop_map(|(limit, window_ns)| Claim::Window { limit, window_ns });
    let bucket = (0..6_u64, 1..40_u64, 0..6_u64).prop_map(|(permits, period_ns, burst)| Claim::Bucket {
        permits,
        period_ns,
        burst,
    });
    prop_oneof![window, bucket]
}

fn requests() -> impl Strategy<Value = Vec<(u8, u64, u64)>> {
    let one = (0..3_u8, prop_oneof![3 => Just(0_u64), 2 => 0..15_u64, 1 => 0..200_u64], 0..4_u64);
    prop::collection::vec(one, 1..60).prop_map(|mut requests| {
        let mut now = 0;
        for (_, at, _) in &mut requests {
            now += *at;
            *at = now;
        }
        requests
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_bound_is_broken_exactly_when_some_span_breaks_it(claim in claims(), requests in requests()) {
        let (is_broken, most) = by_definition(claim, &requests);
        // With hardly any memory keys are forgotten all the time, and none that matters.
        for max_bytes in [1 << 20, 700] {
            let mut verifier = Verifier::new(claim, max_bytes);
            for (key, at, cost) in &requests {
                verifier.admit(&[*key], *cost, *at);
            }
            let verdict = verifier.finish();
            prop_assert_eq!(verdict.verified + verdict.left_out, requests.len() as u64);
            if verdict.left_out > 0 {
                prop_assert!(is_broken || verdict.breaking == 0);
                continue;
            }
            prop_assert_eq!(verdict.breaking > 0, is_broken);
            let worst = verdict.worst.expect("there were requests");
            prop_assert_eq!(worst.over() > 0, is_broken);
            if let Claim::Window { limit, .. } = claim {
                prop_assert_eq!(i128::from(worst.admitted) - i128::from(limit), most);
            }
        }
    }
}
