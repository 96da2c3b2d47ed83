//! `ratelimit_service_rate_limit_…` against a small model of the rule by which envoyproxy/ratelimit splits
//! the hits of a request into those near a limit and those over it.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::collections::HashMap;

use proptest::prelude::*;
use tollgate_core::Timestamp;
use tollgate_limiter::{Limiter, LimiterSettings, ObserveSettings};
use tollgate_store::ModelStore;

use crate::common::{NOON, ask, ask_at, limiter, of, policy};

/// Total, within, near, over and shadow hits.
type MetricCounts = [u64; 5];

const NAMES: [&str; 5] = ["total_hits", "within_limit", "near_limit", "over_limit", "shadow_mode"];

/// The series of the rule with this first key, as `/metrics` shows them.
fn shown(limiter: &Limiter<ModelStore>, key1: &str) -> MetricCounts {
    let text = limiter.metrics().render();
    NAMES.map(|name| {
        let start = format!(r#"ratelimit_service_rate_limit_{name}{{domain="d",key1="{key1}"}} "#);
        let value = text.lines().find_map(|line| line.strip_prefix(&*start)).unwrap_or("0");
        value.parse().unwrap_or_else(|_| panic!("{start}{value}"))
    })
}

#[test]
fn hits_of_one_request_are_split_at_the_limit_and_where_near_begins() {
    // What was asked for one after another by one key each, and the sums: near begins above 8 of 10.
    for (asks, want) in [
        (&[("v", 9), ("v", 5), ("w", 11)][..], [25, 9, 4, 5, 0]),
        (&[("v", 8)], [8, 8, 0, 0, 0]),
        (&[("v", 9)], [9, 9, 1, 0, 0]),
        (&[("v", 10)], [10, 10, 2, 0, 0]),
        (&[("v", 11)], [11, 0, 2, 1, 0]),
        (&[("v", 30)], [30, 0, 2, 20, 0]),
        (&[("v", 10), ("v", 1)], [11, 10, 2, 1, 0]),
        (&[("v", 10), ("v", 7)], [17, 10, 2, 7, 0]),
        (&[("v", 11), ("v", 7)], [18, 0, 2, 8, 0]), // the 11 are counted, so the window is over its limit
        (&[("v", 3), ("v", 20)], [23, 3, 2, 13, 0]), // of the 20, five are below near
        (&[("v", 9), ("v", 2)], [11, 9, 2, 1, 0]),
        (&[("v", 11), ("v", 0)], [11, 0, 2, 1, 0]), // a check is over, by no hit
        (&[("v", 0)], [0, 0, 0, 0, 0]),
    ] {
        let rules = "{domain: d, descriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 10}}]}";
        let limiter = limiter(rules);
        for (value, hits) in asks {
            ask(&limiter, &[of(&format!("k={value}")).hits(*hits)]);
        }
        assert_eq!(shown(&limiter, "k"), want, "{asks:?}");
    }
}

#[test]
fn a_denial_that_is_not_counted_leaves_the_room_that_it_found() {
    let rules = "{domain: d, descriptors: [{key: k, rate_limit: {rate: 10/h, algorithm: token_bucket}}]}";
    let limiter = limiter(rules);
    for hits in [3, 20, 7] {
        ask(&limiter, &[of("k=v").hits(hits)]);
    }
    // Of the 20, seven found room, two of them near the limit. The last seven are admitted, two near it.
    assert_eq!(shown(&limiter, "k"), [30, 10, 4, 13, 0]);
    assert!(limiter.metrics().render().contains(r#"tollgate_denied_hits_total{domain="d",rule="k"} 20"#));
}

/// envoyproxy/ratelimit's rule: one counter per key and window.
#[derive(Default)]
struct Model {
    counted: HashMap<(u8, u64), u64>,
    counts: MetricCounts,
}

impl Model {
    fn ask(&mut self, (key, hits, window): (u8, u64, u64), limit: u64, near_ratio: f32, shadow: bool) {
        let counted = self.counted.entry((key, window)).or_default();
        let before = *counted;
        let after = *counted + hits;
        *counted = after;
        let near_from = (limit as f32 * near_ratio).floor() as u64;
        let [total, within, near, over, in_shadow] = &mut self.counts;
        *total += hits;
        if after <= limit {
            *within += hits;
            *near += after.saturating_sub(near_from.max(before));
            return;
        }
        if before >= limit {
            *over += hits;
        } else {
            *over += after - limit;
            *near += limit - near_from.max(before);
        }
        *in_shadow += if shadow { hits } else { 0 };
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hits_are_counted_as_envoyproxy_ratelimit_counts_them(
        asks in prop::collection::vec(
            (0..3_u8, prop_oneof![0..4_u64, 0..30_u64, 0..5_000_000_000_u64], 0..3_u64), 1..30),
        limit in prop_oneof![0..12_u64, 0..4_294_967_296_u64],
        near_ratio in prop_oneof![Just(0.8_f32), 0.0..=1.0_f32],
        shadow in any::<bool>(),
    ) {
        let rules = format!("{{domain: d, descriptors: [{{key: k, shadow_mode: {shadow}, rate_limit: \
                             {{unit: minute, requests_per_unit: {limit}}}}}]}}");
        let observe = ObserveSettings { near_limit_ratio: near_ratio, ..ObserveSettings::default() };
        let settings = LimiterSettings { observe, ..LimiterSettings::default() };
        let limiter = Limiter::new(policy(&rules), ModelStore::default(), settings);
        let mut model = Model::default();
        // Time does not step back.
        let mut asks = asks;
        asks.sort_by_key(|(_, _, window)| *window);
        for (key, hits, window) in asks {
            let at = Timestamp::from_unix_seconds(NOON.unix_seconds() + 60 * window);
            ask_at(&limiter, "d", &[of(&format!("k={key}")).hits(hits)], at);
            model.ask((key, hits, window), limit, near_ratio, shadow);
            prop_assert_eq!(shown(&limiter, "k"), model.counts, "after {} hits of {}", hits, key);
        }
        let [total, within, _, _, _] = model.counts;
        let denied = format!(r#"tollgate_denied_hits_total{{domain="d",rule="k"}} {}"#, total - within);
        prop_assert!(limiter.metrics().render().contains(&denied), "no {}", denied);
    }
}
