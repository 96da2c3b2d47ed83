//! What is told about a descriptor.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

mod common;

use common::{entries, policy};
use tollgate_limiter::explain::explain;

const RULES: &str = "domain: shop
descriptors:
  - key: plan
    value: gold
    descriptors:
      - {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}
      - {key: user, value: staff*, rate_limit: {unlimited: true}}
  - {key: plan, rate_limit: {unit: hour, requests_per_unit: 100, algorithm: token_bucket}}
  - key: ip
    value_cidr: 10.0.0.0/8
    limits:
      - {name: short, unit: second, requests_per_unit: 1}
      - {name: long, unit: day, requests_per_unit: 9}
";

#[test]
fn a_descriptor_is_told_which_rule_applies_and_why_others_do_not() {
    let policy = policy(RULES);
    for (asked, want) in [
        (
            "plan=gold user=ann",
            "domain shop
entry plan=gold: taken by its key and value
entry user=ann: taken by its key
rule plan=gold → user (rules.yaml:6:9)
charges 5 per minute by fixed_window, counter shop|plan=gold|user=ann|minute
not plan=gold → user=staff* (rules.yaml:7:9): `user=staff*` does not take user=ann
not plan (rules.yaml:8:5): it ends after 1 of the descriptor's 2 entries
",
        ),
        (
            "plan=gold",
            "domain shop
entry plan=gold: taken by its key and value
no limit: no rule ends at the last entry
not plan=gold → user (rules.yaml:6:9): it needs 2 entries, the descriptor has 1
not plan=gold → user=staff* (rules.yaml:7:9): it needs 2 entries, the descriptor has 1
not plan (rules.yaml:8:5): plan=gold has a level of its own, not `plan`
",
        ),
        (
            "plan=silver color=red",
            "domain shop
entry plan=silver: taken by its key
entry color=red: taken by nothing
no limit: no rule takes entry 2
not plan=gold → user (rules.yaml:6:9): `plan=gold` does not take plan=silver
not plan=gold → user=staff* (rules.yaml:7:9): `plan=gold` does not take plan=silver
not plan (rules.yaml:8:5): it ends after 1 of the descriptor's 2 entries
",
        ),
        (
            "ip=10.1.2.3",
            "domain shop
entry ip=10.1.2.3: taken by a network that it lies in
rule ip in 10.0.0.0/8 (rules.yaml:9:5)
charges 1 per second by fixed_window, counter shop|ip@10.1.2.3|second#short
charges 9 per day by fixed_window, counter shop|ip@10.1.2.3|day#long
",
        ),
    ] {
        assert_eq!(explain(&policy, "shop", &entries(asked)).to_string(), want, "{asked}");
    }
    let elsewhere = explain(&policy, "elsewhere", &[]);
    assert!(!elsewhere.is_domain_known);
    assert_eq!(elsewhere.to_string(), "domain elsewhere\nno limit: no file is about this domain\n");
}
