//! Random requests against an oracle that only counts: never too much, never a needless denial, all or
//! nothing.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::collections::BTreeMap;

use crate::common::{Ask, NOON, limiter, of};
use proptest::prelude::*;
use tollgate_core::{Outcome, Timestamp};
use tollgate_limiter::{Descriptor, Limiter, Request, Scratch};
use tollgate_store::{ModelStore, block_on};

/// Keys and their limits a minute; `b` has two limits.
const LIMITS: [(&str, &[u64]); 4] = [("a", &[3]), ("b", &[5, 9]), ("c", &[7]), ("z", &[0])];
const RULES: &str = "
domain: d
descriptors:
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 3}}
  - key: b
    limits:
      - {name: narrow, unit: minute, requests_per_unit: 5}
      - {name: wide, unit: minute, requests_per_unit: 9}
  - {key: c, rate_limit: {unit: minute, requests_per_unit: 7}}
  - {key: z, rate_limit: {unit: minute, requests_per_unit: 0}}";

/// One request: key and hits of each descriptor.
type Asked = Vec<(usize, u64)>;

fn requests() -> impl Strategy<Value = Vec<Asked>> {
    prop::collection::vec(prop::collection::vec((0..LIMITS.len(), 0..4_u64), 1..5), 1..20)
}

/// Hits that each counter has counted, by key and limit.
type HitCounts = BTreeMap<(usize, usize), u64>;

/// Adds one descriptor's hits to all its limits; true when none of them is passed.
fn count(counts: &mut HitCounts, (key, hits): (usize, u64)) -> bool {
    let limits = LIMITS[key].1.iter().enumerate();
    // No `all`: every limit is charged, whatever the others say.
    limits.fold(true, |fits, (index, limit)| {
        let counted = counts.entry((key, index)).or_default();
        *counted += hits;
        fits & (*counted <= *limit)
    })
}

fn outcomes(limiter: &Limiter<ModelStore>, asked: &Asked, now: Timestamp) -> (bool, Vec<bool>) {
    let texts: Vec<String> = asked.iter().map(|(key, _)| format!("{}=x", LIMITS[*key].0)).collect();
    let asks: Vec<Ask<'_>> = asked.iter().zip(&texts).map(|((_, hits), text)| of(text).hits(*hits)).collect();
    let lists: Vec<_> = asks.iter().map(|ask| crate::common::entries(ask.entries)).collect();
    let descriptors: Vec<_> = asks
        .iter()
        .zip(&lists)
        .map(|(ask, entries)| Descriptor { hits: ask.hits, ..Descriptor::new(entries) })
        .collect();
    let request = Request { domain: "d", descriptors: &descriptors, hits: 1 };
    let mut scratch = Scratch::new();
    let answer = block_on(limiter.decide(&request, now, &mut scratch)).expect("it makes sense");
    (answer.is_admitted(), answer.descriptors().map(|it| it.outcome == Outcome::Admit).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_limit_counts_every_hit_and_denies_what_passes_it(requests in requests()) {
        let limiter = limiter(RULES);
        let mut counts = HitCounts::new();
        for asked in requests {
            let want: Vec<bool> = asked.iter().map(|&one| count(&mut counts, one)).collect();
            let (overall, got) = outcomes(&limiter, &asked, NOON);
            prop_assert_eq!(&got, &want, "{:?}", asked);
            prop_assert_eq!(overall, want.iter().all(|fits| *fits));
        }
    }

    #[test]
    fn together_is_charged_exactly_when_everything_fits(requests in requests()) {
        let limiter = limiter(&format!("{RULES}\ncharge: together"));
        let mut counts = HitCounts::new();
        for asked in requests {
            let mut tried = counts.clone();
            let want: Vec<bool> = asked.iter().map(|&one| count(&mut tried, one)).collect();
            let all = want.iter().all(|fits| *fits);
            if all {
                counts = tried;
            }
            let (overall, got) = outcomes(&limiter, &asked, NOON);
            prop_assert_eq!((overall, &got), (all, &want), "{:?} with {:?} counted", asked, counts);
        }
    }
}
