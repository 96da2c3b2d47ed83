//! The version of a set of rules and the identity of a rule: equal for equal rules, in every process and
//! release.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

use serde_json::json;
use tollgate_core::{Algorithm, Align, LeakyForm, Refill};
use tollgate_policy::{
    Charge, DescriptorSpec, DomainSpec, Limit, LimitError, OnStoreFailure, PolicyBuilder, ResponseSpec,
    RuleSpec, Sharing, Unit, Unmatched, ValueSpec,
};

/// These values may be stored. They may change only together with `FORMAT` in `digest.rs`.
#[test]
fn versions_and_identities_are_the_same_on_every_machine_and_in_every_release() -> Result<(), LimitError> {
    let rule = || Limit::per(5, Unit::Minute).map(RuleSpec::new);
    let staff = DescriptorSpec::new("user").value(ValueSpec::text("staff*")).rule(RuleSpec::unlimited());
    let network = ValueSpec::network("10.0.0.0/8").expect("a network");
    let path = DescriptorSpec::new("path").value(ValueSpec::regex("/api/.*").expect("an expression"));
    let shop = DomainSpec::new("shop")
        .descriptor(DescriptorSpec::new("user").rule(rule()?))
        .descriptor(staff)
        .descriptor(DescriptorSpec::new("ip").value(network).child(path.rule(rule()?.named("api"))));
    let policy = PolicyBuilder::new().domain(shop).build().expect("rules without errors");
    let found: Vec<String> =
        policy.rules().map(|rule| format!("{:016x} {}", rule.identity(), rule.path)).collect();
    let want = [
        "01fcc4db6ed1e005 user",
        "fa4d88b79bf7d43c user=staff*",
        "b647013b14bd33d0 ip in 10.0.0.0/8 → path=//api/.*/",
    ];
    assert_eq!((policy.version(), found), ("8ccbbd30656a", want.map(str::to_owned).to_vec()));
    let empty = PolicyBuilder::new().build().expect("no rules");
    assert_eq!(empty.version(), "8d710a58aa5c");
    Ok(())
}

#[test]
fn the_order_of_domains_does_not_matter_and_every_part_of_a_rule_does() -> Result<(), LimitError> {
    let domain =
        |name: &str, rule: RuleSpec| DomainSpec::new(name).descriptor(DescriptorSpec::new("k").rule(rule));
    let rule = || Limit::per(1, Unit::Day).map(RuleSpec::new);
    let version = |domains: [DomainSpec; 2]| {
        let [a, b] = domains;
        let policy = PolicyBuilder::new().domain(a).domain(b).build().expect("rules without errors");
        policy.version().to_owned()
    };
    let a = domain("a", rule()?);
    let b = domain("b", rule()?);
    let first = version([a.clone(), b.clone()]);
    assert_eq!(first, version([b.clone(), a.clone()]));
    let mut versions = vec![first];
    let limit = |algorithm| Limit::new(1, Unit::Day, algorithm).map(RuleSpec::new);
    let bucket = |burst, initial, overdraft, refill| {
        limit(Algorithm::TokenBucket { burst, initial, overdraft, refill })
    };
    let leaky = |capacity, form| limit(Algorithm::LeakyBucket { capacity, form });
    let metadata = |value| match value {
        serde_json::Value::Object(map) => map,
        _ => serde_json::Map::new(),
    };
    for changed in [
        Limit::per(2, Unit::Day).map(RuleSpec::new)?,
        Limit::per(1, Unit::Week).map(RuleSpec::new)?,
        RuleSpec::new(Limit::per(1, Unit::Day)?.with_excess(1)?),
        RuleSpec::new(Limit::per(2, Unit::Day)?.with_cost(2)?),
        RuleSpec::all_of([Limit::per(1, Unit::Day)?.named("x"), Limit::per(1, Unit::Day)?.named("y")]),
        RuleSpec::all_of([
            Limit::per(1, Unit::Day)?.named("x"),
            Limit::per(1, Unit::Day)?.named("y").in_shadow(),
        ]),
        RuleSpec::new(Limit::per(1, Unit::Day)?.in_bucket("x")),
        RuleSpec::new(Limit::per(1, Unit::Day)?.in_bucket("y")),
        RuleSpec::unlimited(),
        RuleSpec::denied(),
        RuleSpec::all_of([Limit::per(1, Unit::Day)?.named("x")]),
        RuleSpec::all_of([Limit::per(1, Unit::Day)?.named("y")]),
        rule()?.named("x"),
        rule()?.replaces(["x"]),
        rule()?.replaces(["x", "y"]),
        rule()?.shadow_mode(true),
        rule()?.quota_mode(true),
        rule()?.sharing(Sharing::Local),
        rule()?.on_store_failure(OnStoreFailure::Local),
        rule()?.queue(std::time::Duration::from_secs(1)),
        rule()?.queue(std::time::Duration::from_secs(2)),
        rule()?.metadata(metadata(json!({}))),
        rule()?.metadata(metadata(json!({"a": 1}))),
        rule()?.metadata(metadata(json!({"a": "1"}))),
        rule()?.response(ResponseSpec::new().build().expect("a response")),
        rule()?.response(ResponseSpec::new().status(503).build().expect("a response")),
        rule()?.response(ResponseSpec::new().body("{{rule}}").build().expect("a response")),
        rule()?.response(ResponseSpec::new().body("rule").build().expect("a response")),
        rule()?.response(ResponseSpec::new().header("a", "b").build().expect("a response")),
        limit(Algorithm::FixedWindow { align: Align::FirstHit })?,
        limit(Algorithm::sliding_window(2))?,
        limit(Algorithm::sliding_window(3))?,
        limit(Algorithm::SlidingWindowCounter)?,
        limit(Algorithm::SlidingWindowLog { log_denied: false })?,
        limit(Algorithm::SlidingWindowLog { log_denied: true })?,
        limit(Algorithm::Total)?,
        bucket(None, None, 0, Refill::Continuous)?,
        bucket(Some(1), None, 0, Refill::Continuous)?,
        bucket(None, Some(1), 0, Refill::Continuous)?,
        bucket(None, None, 1, Refill::Continuous)?,
        bucket(None, None, 0, Refill::Interval)?,
        limit(Algorithm::PriorityBuckets { burst: None, weights: [1].into(), class: 0 })?,
        limit(Algorithm::PriorityBuckets { burst: Some(2), weights: [1].into(), class: 0 })?,
        limit(Algorithm::PriorityBuckets { burst: Some(2), weights: [1, 1].into(), class: 0 })?,
        limit(Algorithm::PriorityBuckets { burst: Some(2), weights: [1, 2].into(), class: 0 })?,
        limit(Algorithm::PriorityBuckets { burst: Some(2), weights: [1, 2].into(), class: 1 })?,
        leaky(None, LeakyForm::Meter)?,
        leaky(Some(1), LeakyForm::Meter)?,
        leaky(None, LeakyForm::Queue { delay_after: 0 })?,
        leaky(None, LeakyForm::Queue { delay_after: 1 })?,
    ] {
        versions.push(version([domain("a", changed), b.clone()]));
    }
    let descriptor = || rule().map(|rule| DescriptorSpec::new("k").rule(rule));
    for changed in [
        descriptor()?.value(ValueSpec::text("v")),
        descriptor()?.value(ValueSpec::text("v*")),
        descriptor()?.value(ValueSpec::text("v*")).share_threshold(true),
        descriptor()?.value(ValueSpec::regex("v.*").expect("an expression")),
        descriptor()?.value(ValueSpec::network("10.0.0.0/8").expect("a network")),
        descriptor()?.value(ValueSpec::list("l", ["v"]).expect("a list")),
        descriptor()?.value(ValueSpec::list("l", ["v", "w"]).expect("a list")),
        descriptor()?.value(ValueSpec::list("m", ["v"]).expect("a list")),
        descriptor()?.value_to_metric(true),
        descriptor()?.detailed_metric(true),
        descriptor()?.ipv6_prefix(64),
        descriptor()?.child(DescriptorSpec::new("l")),
        DescriptorSpec::new("k"),
        DescriptorSpec::new("l").rule(rule()?),
    ] {
        versions.push(version([DomainSpec::new("a").descriptor(changed), b.clone()]));
    }
    versions.push(version([a.clone().charge(Charge::Together), b.clone()]));
    versions.push(version([a.clone().unmatched(Unmatched::Admit), b.clone()]));
    versions.push(version([a.clone().unmatched(Unmatched::Deny), b.clone()]));
    versions.push(version([a.response(ResponseSpec::new().build().expect("a response")), b]));
    let number = versions.len();
    versions.sort();
    versions.dedup();
    assert_eq!(versions.len(), number, "two rule sets have the same version");
    Ok(())
}
