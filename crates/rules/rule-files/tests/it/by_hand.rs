//! Rules that are built by hand are the rules that the same text makes: the same version, keys and decisions.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

use std::time::Duration;

use serde_json::json;
use tollgate_core::{Algorithm, Align, CivilUnit, Cost, LeakyForm, LeavingCell, Period, Refill, Timestamp};
use tollgate_policy::{
    Charge, DescriptorSpec, DomainSpec, Entry, Limit, OnStoreFailure, Policy, PolicyBuilder, ResponseSpec,
    RuleSpec, Sharing, Unit, ValueSpec,
};
use tollgate_rule_files::parse_text;

const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);

fn build(domain: DomainSpec) -> Policy {
    PolicyBuilder::new().domain(domain).build().unwrap_or_else(|errors| panic!("{errors}"))
}

fn entries(text: &'static str) -> Vec<Entry<'static>> {
    let pairs = text.split_ascii_whitespace().map(|pair| pair.split_once('=').expect("key=value"));
    pairs.map(|(key, value)| Entry::new(key, value)).collect()
}

/// The outcome of a request: identity, path, key and text of each limit, and whether five hits are admitted.
fn outcome(policy: &Policy, entries: &[Entry<'_>]) -> Option<String> {
    let domain = &policy.domains()[0];
    let rule = domain.find(entries)?;
    let mut outcome = format!("{:016x} {}", rule.identity(), rule.path);
    for (i, limit) in rule.limits.iter().enumerate() {
        let mut key = Vec::new();
        rule.write_key(i, domain.name(), entries, &mut key);
        let mut state = limit.quota.fresh();
        let decision = limit.quota.take(&mut state, Cost(5), NOON);
        outcome += &format!(" [{limit}] {} {decision:?}", String::from_utf8_lossy(&key));
    }
    Some(outcome)
}

fn shop() -> Result<DomainSpec, Box<dyn std::error::Error>> {
    let response = ResponseSpec::new()
        .status(503)
        .content_type("application/json")
        .body(r#"{"wait": {{retry_after}}}"#)
        .header("X-Rule", "{{ rule }}")
        .build()?;
    let metadata = json!({"plan": "gold", "list": [1, "2", null, true], "size": 3});
    let ten = Period::Span(Duration::from_secs(10));
    let bucket =
        Algorithm::TokenBucket { burst: Some(9), initial: None, overdraft: 2, refill: Refill::Continuous };
    let user = RuleSpec::new(Limit::per(5, Unit::Minute)?)
        .named("n")
        .replaces(["m", "o"])
        .shadow_mode(true)
        .quota_mode(true)
        .metadata(metadata.as_object().cloned().unwrap_or_default())
        .on_store_failure(OnStoreFailure::Deny)
        .sharing(Sharing::Leased)
        .response(response.clone());
    let several = RuleSpec::all_of([
        Limit::new(5, ten.clone(), Algorithm::SlidingWindow { cells: 5, leaving: LeavingCell::Drops })?
            .named("short"),
        Limit::new(50, Unit::Hour, bucket)?.named("a|b"),
    ]);
    let tokyo = jiff::tz::TimeZone::get("Asia/Tokyo")?;
    let daily = Limit::new(
        7,
        Period::Civil { unit: CivilUnit::Day, time_zone: tokyo },
        Algorithm::FixedWindow { align: Align::Calendar },
    )?;
    let waits = RuleSpec::new(Limit::per(3, Unit::Second)?).queue(Duration::from_millis(1_500));
    let queue = Algorithm::LeakyBucket { capacity: Some(4), form: LeakyForm::Queue { delay_after: 1 } };
    Ok(DomainSpec::new("shop")
        .charge(Charge::Together)
        .response(response)
        .descriptor(DescriptorSpec::new("user").detailed_metric(true).rule(user))
        .descriptor(DescriptorSpec::new("user").value(ValueSpec::text("staff*")).rule(RuleSpec::unlimited()))
        .descriptor(DescriptorSpec::new("plan").value(ValueSpec::text("gold")).rule(several))
        .descriptor(
            DescriptorSpec::new("ip").value(ValueSpec::network("2001:db8::/32")?).ipv6_prefix(64).child(
                DescriptorSpec::new("path")
                    .value(ValueSpec::regex("/api/.*")?)
                    .share_threshold(true)
                    .value_to_metric(true)
                    .rule(RuleSpec::new(daily)),
            ),
        )
        .descriptor(DescriptorSpec::new("wk*").rule(RuleSpec::new(Limit::new(
            3,
            ten,
            Algorithm::SlidingWindowCounter,
        )?)))
        .descriptor(DescriptorSpec::new("all").rule(RuleSpec::new(Limit::new(
            8,
            Unit::Second,
            Algorithm::Total,
        )?)))
        .descriptor(DescriptorSpec::new("waits").rule(waits))
        .descriptor(DescriptorSpec::new("slow").rule(RuleSpec::new(Limit::new(2, Unit::Second, queue)?))))
}

const SHOP: &str = r#"
# Comments, quotes and the order of keys make no difference.
charge: together
domain: shop
response: &busy
  status: 503
  content_type: application/json
  body: '{"wait": {{retry_after}}}'
  headers: {X-Rule: "{{rule}}"}
descriptors:
  - key: "user"
    detailed_metric: true
    shadow_mode: true
    quota_mode: true
    sharing: leased
    on_store_failure: deny
    metadata: {size: 3, plan: gold, list: [1, "2", ~, true]}
    response: *busy
    rate_limit: {name: n, unit: MINUTE, requests_per_unit: 5, replaces: [{name: m}, {name: o}]}
  - {key: user, value: staff*, rate_limit: {unlimited: true}}
  - key: plan
    value: gold
    limits:
      - {name: short, period: 10s, requests_per_unit: 5, algorithm: sliding_window, cells: 5, leaving_cell: drop}
      - {name: a|b, unit: hour, requests_per_unit: 50, algorithm: token_bucket, burst: 9, overdraft: 2}
  - key: ip
    value_cidr: 2001:db8::/32
    ipv6_prefix: 64
    descriptors:
      - key: path
        value_regex: /api/.*
        share_threshold: true
        value_to_metric: true
        rate_limit: {unit: day, time_zone: asia/tokyo, requests_per_unit: 7}
  - {key: wk*, rate_limit: {period: 10000ms, requests_per_unit: 3, algorithm: sliding_window_counter}}
  - {key: all, rate_limit: {algorithm: total, limit: 8}}
  - {key: waits, rate_limit: {unit: second, requests_per_unit: 3, on_limit: queue, max_wait: 1500ms}}
  - key: slow
    rate_limit: {unit: second, requests_per_unit: 2, algorithm: leaky_bucket, form: queue, capacity: 4, delay_after: 1}
"#;

#[test]
fn a_policy_built_by_hand_is_the_policy_of_the_same_text() {
    let built = build(shop().expect("specs"));
    let read = parse_text("shop.yaml", SHOP).unwrap_or_else(|faults| panic!("{faults}"));
    for request in [
        "user=ann",
        "user=staff-ann",
        "user=",
        "plan=gold",
        "plan=tin",
        "ip=2001:db8::1 path=/api/x",
        "ip=2001:db8::1",
        "wkfoo=1",
        "all=x",
        "slow=x",
    ] {
        let entries = entries(request);
        assert_eq!(outcome(&built, &entries), outcome(&read, &entries), "{request}");
    }
    for (built, read) in built.rules().zip(read.rules()) {
        assert_eq!(
            (&built.name, &built.replaces, &built.metadata, &built.response),
            (&read.name, &read.replaces, &read.metadata, &read.response)
        );
        assert_eq!((built.sharing, built.on_store_failure), (read.sharing, read.on_store_failure));
        assert_eq!(built.max_wait, read.max_wait);
        assert_eq!((built.shadow_mode, built.quota_mode), (read.shadow_mode, read.quota_mode));
        let quotas = built.limits.iter().zip(&read.limits);
        assert!(quotas.into_iter().all(|(built, read)| built.quota.is_equivalent_to(&read.quota)));
        assert!(built.place.is_none() && read.place.is_some());
    }
    let built_domain = &built.domains()[0];
    let read_domain = &read.domains()[0];
    assert_eq!(
        (built_domain.charge(), built_domain.response(), built.rules().count()),
        (read_domain.charge(), read_domain.response(), read.rules().count())
    );
    assert_eq!(built.version(), read.version());
}
