//! `rate: 5/minute burst 20` means what the long keys mean.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

use tollgate_rule_files::{Options, RuleFile, parse};

/// The version of the rules of one descriptor, which must load without a warning.
fn version(descriptor: &str) -> String {
    let text = format!("{{domain: d, descriptors: [{{key: k, {descriptor}}}]}}");
    let rules = parse(&[RuleFile { name: "d.yaml".into(), text }], &Options::default())
        .unwrap_or_else(|faults| panic!("{faults}"));
    assert!(rules.warnings.is_empty(), "{:?}", rules.warnings);
    rules.policy.version().to_owned()
}

#[test]
fn a_rate_means_the_same_as_the_long_keys() {
    for (short, long) in [
        ("rate: 100/s", "rate_limit: {unit: second, requests_per_unit: 100}"),
        (
            "rate: 5/minute burst 20",
            "rate_limit: {unit: minute, requests_per_unit: 5, algorithm: token_bucket, burst: 20}",
        ),
        ("rate: 5/minute BURST 20", "rate: 5/minute burst 20"),
        ("rate: 300/3h", "rate_limit: {period: 3h, requests_per_unit: 300}"),
        ("rate: 5/min, sharing: local", "sharing: local, rate_limit: {unit: minute, requests_per_unit: 5}"),
        ("rate_limit: {rate: 100/s}", "rate: 100/s"),
        (
            "rate_limit: {rate: 5/s burst 9, initial: 0, name: n}",
            "rate_limit: {unit: second, requests_per_unit: 5, algorithm: token_bucket, burst: 9, initial: 0, name: n}",
        ),
        (
            "rate_limit: {rate: 5/s, algorithm: leaky_bucket, capacity: 9}",
            "rate_limit: {unit: second, requests_per_unit: 5, algorithm: leaky_bucket, capacity: 9}",
        ),
        (
            "rate_limit: {rate: 5/day, time_zone: Asia/Shanghai}",
            "rate_limit: {unit: day, requests_per_unit: 5, time_zone: Asia/Shanghai}",
        ),
        (
            "limits: [{name: a, rate: 9/s}, {name: b, rate: 99/h burst 9}]",
            "limits: [{name: a, unit: second, requests_per_unit: 9}, {name: b, unit: hour, \
             requests_per_unit: 99, algorithm: token_bucket, burst: 9}]",
        ),
    ] {
        assert_eq!(version(short), version(long), "{short}");
    }
}

#[test]
fn a_rate_that_cannot_be_meant_says_what_to_write() {
    for (rate, want) in [
        ("1k/s", "invalid rate \"1k/s\": write 1000/s"),
        ("9007199254740991/s", "invalid rate \"9007199254740991/s\": the largest number is 9007199254740990"),
        ("1/s burst 9007199254740991", "the largest burst is 9007199254740990"),
        ("10q/s", "expected something like 100/s, 5/minute burst 20 or 300/3h"),
    ] {
        let text = format!("{{domain: d, descriptors: [{{key: k, rate: {rate}}}]}}");
        let faults = parse(&[RuleFile { name: "d.yaml".into(), text }], &Options::default());
        let faults = faults.map(|_| ()).expect_err(rate).to_string();
        assert!(faults.contains(want), "{faults}");
    }
}
