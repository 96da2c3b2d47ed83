//! Everything that can be wrong with rules built by hand: each check of the builder has a row with its path
//! and its type.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

use std::time::Duration;

use tollgate_core::{Algorithm, Period, QuotaError};
use tollgate_policy::{
    Countable, DescriptorSpec, DomainSpec, LONGEST_WAIT, Limit, LimitError, PolicyBuilder, ResponsePart,
    ResponseSpec, RuleError, RuleSpec, SHORTEST_WAIT, Sharing, Unit, ValueSpec,
};

fn limit() -> Limit {
    Limit::per(1, Unit::Day).expect("a limit")
}

fn any(key: &str) -> DescriptorSpec {
    DescriptorSpec::new(key)
}

fn network(text: &str) -> ValueSpec {
    ValueSpec::network(text).expect("a network")
}

/// Path and error of everything that is wrong with one descriptor.
fn errors(descriptor: DescriptorSpec) -> Vec<(String, RuleError)> {
    let only_windows = Countable::by(|quota, _| match quota.algorithm().name() {
        "fixed_window" | "token_bucket" => Ok(()),
        _ => Err("write fixed_window"),
    });
    let domain = DomainSpec::new("d").descriptor(descriptor);
    match PolicyBuilder::new().countable(only_windows).domain(domain).build() {
        Ok(_) => Vec::new(),
        Err(errors) => errors.into_iter().map(|error| (error.path, error.error)).collect(),
    }
}

#[test]
fn every_error_of_a_descriptor_has_its_path_and_its_type() {
    let bucket = |burst| {
        let initial = Some(0);
        let refill = Default::default();
        let algorithm = Algorithm::TokenBucket { burst, initial, overdraft: 0, refill };
        Limit::new(1, Unit::Day, algorithm).expect("a limit")
    };
    let total = || Limit::new(1, Unit::Day, Algorithm::Total).expect("a limit");
    let several = |names: [&str; 2]| RuleSpec::all_of(names.map(|name| limit().named(name)));
    let duplicate = RuleError::DuplicateLimitName { name: "x".to_owned(), first: 0 };
    for (descriptor, path, error) in [
        (any(""), "descriptors[0].key", RuleError::EmptyKey),
        (any("a*").value(network("10.0.0.0/8")), "descriptors[0].value", RuleError::PatternKey),
        (any("a").share_threshold(true), "descriptors[0].share_threshold", RuleError::NothingToShare),
        (any("a").ipv6_prefix(0), "descriptors[0].ipv6_prefix", RuleError::Ipv6PrefixRange(0)),
        (
            any("a").value(network("10.0.0.0/8")).ipv6_prefix(64),
            "descriptors[0].ipv6_prefix",
            RuleError::Ipv6PrefixOfIpv4,
        ),
        (
            any("a").value(network("2001:db8::/48")).ipv6_prefix(47),
            "descriptors[0].ipv6_prefix",
            RuleError::Ipv6PrefixTooWide { bits: 47, least: 48 },
        ),
        (
            any("a").value(ValueSpec::text("x")).ipv6_prefix(64),
            "descriptors[0].ipv6_prefix",
            RuleError::Ipv6PrefixOfText,
        ),
        (any("a").rule(RuleSpec::all_of([])), "descriptors[0].limits", RuleError::NoLimits),
        (any("a").rule(several(["x", ""])), "descriptors[0].limits[1].name", RuleError::MissingLimitName),
        (any("a").rule(several(["x", "x"])), "descriptors[0].limits[1].name", duplicate),
        (
            any("a").rule(RuleSpec::new(limit()).named("x").replaces(["y", "x"])),
            "descriptors[0].replaces[1]",
            RuleError::ReplacesItself,
        ),
        (
            any("a").rule(several(["x", "y"]).replaces(["y"])),
            "descriptors[0].replaces[0]",
            RuleError::ReplacesOwnLimit,
        ),
        (
            any("a").rule(RuleSpec::unlimited().replaces([""])),
            "descriptors[0].replaces[0]",
            RuleError::EmptyReplaces,
        ),
        (
            any("a").rule(RuleSpec::new(bucket(None)).sharing(Sharing::Leased)),
            "descriptors[0].rate_limit",
            RuleError::NotLeasable { algorithm: "token_bucket" },
        ),
        (
            any("a").rule(RuleSpec::all_of([limit().named("x"), total().named("y")])),
            "descriptors[0].limits[1]",
            RuleError::NotCountable { algorithm: "total", reason: "write fixed_window" },
        ),
        (
            any("a").rule(RuleSpec::new(limit()).queue(Duration::ZERO)),
            "descriptors[0].max_wait",
            RuleError::WaitRange(Duration::ZERO),
        ),
        (
            any("a").rule(RuleSpec::new(limit()).queue(LONGEST_WAIT + Duration::from_nanos(1))),
            "descriptors[0].max_wait",
            RuleError::WaitRange(LONGEST_WAIT + Duration::from_nanos(1)),
        ),
        (
            any("a").rule(RuleSpec::denied().queue(LONGEST_WAIT)),
            "descriptors[0].on_limit",
            RuleError::NoQueue { reason: "a rule that denies everything has nothing to wait for; remove it" },
        ),
        (
            any("a").rule(RuleSpec::new(total()).sharing(Sharing::Local).queue(SHORTEST_WAIT)),
            "descriptors[0].on_limit",
            RuleError::NoQueue {
                reason: "a total has no permits again, however long a request waits; remove it",
            },
        ),
        (
            any("a").child(any("b")).child(any("c")).child(any("b")),
            "descriptors[0].descriptors[2]",
            RuleError::DuplicateDescriptor { descriptor: "b".to_owned() },
        ),
    ] {
        assert_eq!(errors(descriptor), [(path.to_owned(), error)]);
    }
    for max_wait in [SHORTEST_WAIT, LONGEST_WAIT] {
        assert_eq!(errors(any("a").rule(RuleSpec::new(limit()).queue(max_wait))), []);
    }
    let local = any("a").rule(RuleSpec::new(total()).sharing(Sharing::Local));
    assert_eq!(errors(local), [], "this node's memory counts everything");
}

#[test]
fn a_domain_needs_a_name_and_occurs_twice_only_where_domains_are_merged() {
    let domain = |key: &str| DomainSpec::new("d").descriptor(any(key).rule(RuleSpec::new(limit())));
    let nameless = PolicyBuilder::new().domain(DomainSpec::new("")).build().expect_err("no name");
    assert_eq!(nameless.as_slice()[0].error, RuleError::EmptyDomain);
    let twice = PolicyBuilder::new().domain(domain("a")).domain(domain("b"));
    let errors = twice.clone().build().expect_err("twice");
    let want = "d: domain: d is already the domain of another set of rules; \
                write another, or allow merging with MERGE_DOMAIN_CONFIG=true";
    assert_eq!(errors.to_string(), want);
    let merged = twice.merge_domains(true).build().expect("they add up");
    assert_eq!((merged.domains().len(), merged.rules().count()), (1, 2));
}

#[test]
fn values_and_limits_are_checked_when_they_are_made() {
    let text = "10.0.0.1/8".to_owned();
    let whole = "10.0.0.0/8".parse().expect("a network");
    assert_eq!(ValueSpec::network(&text), Err(RuleError::HostBits { text, network: whole }));
    for text in ["anywhere", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "010.0.0.0/8", "10.0.0/8", "::/129"] {
        assert_eq!(ValueSpec::network(text), Err(RuleError::Network(text.to_owned())));
    }
    assert_eq!(ValueSpec::network("10.0.0.1"), ValueSpec::network("10.0.0.1/32"));
    assert_eq!(ValueSpec::regex(&"a".repeat(1_001)), Err(RuleError::LongRegex(1_001)));
    assert_eq!(ValueSpec::regex("[a-z]{1000}{100}"), Err(RuleError::LargeRegex));
    assert!(matches!(ValueSpec::regex("a)|(b"), Err(RuleError::Regex(_))));
    let zero = Limit::new(1, Period::Span(std::time::Duration::ZERO), Algorithm::SlidingWindowCounter);
    assert!(matches!(zero, Err(LimitError::Quota(QuotaError::EmptyPeriod))));
    assert!(matches!(Limit::new(1, Unit::Day, Algorithm::Unlimited), Err(LimitError::Unlimited)));
}

#[test]
fn every_error_of_a_response_has_its_part_and_its_type() {
    let new = ResponseSpec::new;
    for (spec, part, error) in [
        (new().status(200), ResponsePart::Status, RuleError::Status(200)),
        (new().content_type("json"), ResponsePart::ContentType, RuleError::ContentType("json".to_owned())),
        (new().header("a b", ""), ResponsePart::HeaderName(0), RuleError::HeaderName),
        (new().header("Content-Type", ""), ResponsePart::HeaderName(0), RuleError::ContentTypeHeader),
        (new().header("Upgrade", ""), ResponsePart::HeaderName(0), RuleError::FramingHeader),
        (new().header("a", "").header("A", ""), ResponsePart::HeaderName(1), RuleError::DuplicateHeader),
        (new().header("a", "x\ny"), ResponsePart::HeaderValue(0), RuleError::HeaderControlCharacter),
    ] {
        assert_eq!(spec.build().expect_err("an error").as_slice(), [(part, error)]);
    }
    let body = new()
        .content_type("application/json")
        .body(r#"{"a": {{rule}}}"#)
        .build()
        .expect_err("text without quotes");
    assert!(matches!(body.as_slice(), [(ResponsePart::Body, RuleError::BodyNotJson(_))]));
    let misspelt = new().body("{{rul}}").build().expect_err("an unknown placeholder");
    assert!(matches!(misspelt.as_slice(), [(ResponsePart::Body, RuleError::Template(_))]));
}

#[test]
fn only_the_one_limit_in_force_beside_limits_in_shadow_may_have_no_name() {
    let (named, tried) = (|name: &str| limit().named(name), |name: &str| limit().named(name).in_shadow());
    for (limits, at_fault) in [
        (vec![limit(), tried("t")], vec![]),
        (vec![tried("t"), limit(), tried("u")], vec![]),
        (vec![limit()], vec![0]),
        (vec![limit(), named("b")], vec![0]),
        (vec![limit(), limit(), tried("t")], vec![0, 1]),
        (vec![limit(), named("b"), tried("t")], vec![0]),
        (vec![named("a"), tried("")], vec![1]),
        (vec![limit(), tried("")], vec![1]),
    ] {
        let want = at_fault.into_iter();
        let want: Vec<_> = want
            .map(|at| (format!("descriptors[0].limits[{at}].name"), RuleError::MissingLimitName))
            .collect();
        assert_eq!(errors(any("a").rule(RuleSpec::all_of(limits))), want);
    }
}

#[test]
fn a_limit_without_a_name_keeps_the_counter_that_it_has_alone() {
    let entries = [tollgate_policy::Entry::new("a", "x")];
    let keys = |rule: RuleSpec| {
        let domain = DomainSpec::new("d").descriptor(any("a").rule(rule));
        let policy = PolicyBuilder::new().domain(domain).build().expect("valid");
        let rule = policy.domain("d").and_then(|it| it.find(&entries)).expect("a rule");
        let key = |at| {
            let mut key = Vec::new();
            rule.write_key(at, "d", &entries, &mut key);
            String::from_utf8(key).expect("text")
        };
        (0..rule.limits.len()).map(key).collect::<Vec<_>>()
    };
    let alone = keys(RuleSpec::new(limit()));
    assert_eq!(
        keys(RuleSpec::all_of([limit(), limit().named("next").in_shadow()])),
        [&*alone[0], "d|a=x|day#next"]
    );
}
