//! A version that is rolled out, judged by counters of its own beside those that nodes share.
#![allow(clippy::expect_used, reason = "in a test a panic is the finding")]

use tollgate_limiter::{Limiter, LimiterSettings};
use tollgate_store::suite::OutageStore;
use tollgate_store::{ModelStore, Store, block_on};

use crate::common::{NOON, ask_at, entries, of, policy};

const RULES: &str = "
domain: d
descriptors:
  - {key: exact, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: leased, sharing: leased, rate_limit: {algorithm: token_bucket, unit: day, requests_per_unit: 2}}
  - {key: local, sharing: local, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}
  - key: several
    limits:
      - {name: a, unit: day, requests_per_unit: 9}
      - {name: b, unit: hour, requests_per_unit: 2}
  - {key: x, value: one, rate_limit: {algorithm: token_bucket, unit: day, requests_per_unit: 2, bucket: all}}
  - {key: x, value: two, rate_limit: {algorithm: token_bucket, unit: day, requests_per_unit: 2, bucket: all}}";

/// Admitted, denied, and of those admitted how many the version alone would have denied; of all rules.
fn totals<S: Store>(limiter: &Limiter<S>) -> (u64, u64, u64) {
    let report = limiter.report(NOON);
    let rules = report.domains.iter().flat_map(|domain| &domain.rules).map(|rule| rule.totals);
    rules.fold((0, 0, 0), |sum, it| {
        (sum.0 + it.admitted + it.shadow_denied, sum.1 + it.denied, sum.2 + it.alone_denied)
    })
}

/// Six requests, before each of which the counter that nodes share is full again, as nodes with the version
/// before make it.
fn six<S: Store>(limiter: &Limiter<S>, names: &[&str]) -> (u64, u64, u64) {
    for at in 0..6 {
        let name = names[at % names.len()];
        ask_at(limiter, "d", &[of(name)], NOON);
        block_on(limiter.reset("d", &entries(name), NOON)).expect("it is counted");
    }
    totals(limiter)
}

fn remote(charge: &str) -> Limiter<OutageStore> {
    let store = OutageStore::new(ModelStore::default());
    Limiter::new(policy(&format!("{RULES}{charge}")), store, LimiterSettings::default())
}

#[test]
fn what_a_version_alone_would_deny_is_counted_although_others_refill_the_counter_that_nodes_share() {
    for charge in ["", "\ncharge: together"] {
        for (names, alone) in [
            (&["exact=k"][..], 4),
            (&["leased=k"], 4),
            (&["several=k"], 4),
            (&["x=one", "x=two"], 4), // one bucket, also of the version alone
            (&["exact=k", "exact=l"], 2),
            (&["local=k"], 0), // no other node refills it
            (&["shadow=k"], 0),
        ] {
            let limiter = remote(charge);
            assert_eq!(six(&limiter, names), (6, 0, 0), "nothing is judged: {names:?}{charge}");
            limiter.judge(vec![("d".to_owned(), 7)], NOON);
            assert_eq!(six(&limiter, names), (12, 0, alone), "{names:?}{charge}");
            limiter.replace(policy(&format!("{RULES}{charge}")), NOON);
            assert_eq!(six(&limiter, names).0, 18, "also after other rules: {names:?}{charge}");
            let judged = totals(&limiter);
            limiter.judge(Vec::new(), NOON);
            assert_eq!(
                six(&limiter, names),
                (24, 0, judged.2),
                "nothing is judged any more: {names:?}{charge}"
            );
        }
    }
}

#[test]
fn another_version_begins_with_counters_of_its_own_and_another_domain_is_not_judged() {
    let limiter = remote("");
    limiter.judge(vec![("other".to_owned(), 7)], NOON);
    assert_eq!(six(&limiter, &["exact=k"]), (6, 0, 0));
    limiter.judge(vec![("d".to_owned(), 8)], NOON);
    assert_eq!(six(&limiter, &["exact=k"]), (12, 0, 4));
    limiter.judge(vec![("d".to_owned(), 9)], NOON);
    assert_eq!(six(&limiter, &["exact=k"]), (18, 0, 8));
}

#[test]
fn a_node_with_counters_of_its_own_charges_nothing_twice() {
    let limiter: Limiter<ModelStore> =
        Limiter::new(policy(RULES), ModelStore::default(), LimiterSettings::default());
    limiter.judge(vec![("d".to_owned(), 7)], NOON);
    assert_eq!(six(&limiter, &["exact=k"]), (6, 0, 0));
}
