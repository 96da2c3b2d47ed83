//! Every rule file in docs/rules.md, choosing.md, proxies.md, coming-from.md, istio.md and examples/rules
//! loads without a warning, except those marked as faulty; and every key has an example.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

use std::path::Path;

use tollgate_policy::{Entry, Unit};
use tollgate_rule_files::{Options, RuleFile, load, parse, parse_text};

const RULES: &str = include_str!("../../../../../docs/rules.md");
const CHOOSING: &str = include_str!("../../../../../docs/choosing.md");
const PROXIES: &str = include_str!("../../../../../docs/proxies.md");
const ISTIO: &str = include_str!("../../../../../docs/istio.md");
const COMING_FROM: &str = include_str!("../../../../../docs/coming-from.md");

/// The fenced blocks of a page: the word after the fence, the number of the first line, the text.
fn blocks(page: &str) -> Vec<(String, usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, usize, String)> = None;
    for (number, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(kind), None) => open = Some((kind.to_owned(), number + 2, String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((.., text))) => *text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    blocks
}

#[test]
fn every_rule_file_in_the_documentation_loads_or_is_marked_as_faulty() {
    let mut seen = (0, 0);
    let pages = [
        ("docs/rules.md", RULES),
        ("docs/choosing.md", CHOOSING),
        ("docs/proxies.md", PROXIES),
        ("docs/coming-from.md", COMING_FROM),
        ("docs/istio.md", ISTIO),
    ];
    let blocks =
        pages.into_iter().flat_map(|(name, page)| blocks(page).into_iter().map(move |block| (name, block)));
    for (page, (kind, line, text)) in blocks {
        let file = RuleFile { name: format!("{page} from line {line}").into(), text };
        let list = RuleFile { name: "docs/blocked.values".into(), text: "192.0.2.1\n".into() };
        let rules = parse(&[file, list], &Options::default());
        match kind.as_str() {
            "yaml" | "yaml rules" => {
                let rules = rules.unwrap_or_else(|faults| panic!("{faults}"));
                assert!(rules.warnings.is_empty(), "{:?}", rules.warnings);
                seen.0 += 1;
            }
            "yaml faulty" => {
                assert!(rules.is_err(), "line {line} is marked as faulty and loads");
                seen.1 += 1;
            }
            _ => {}
        }
    }
    assert!(seen.0 >= 10 && seen.1 >= 1, "{seen:?}");
}

/// All keys of rule files, as the faults of files with an unknown key name them.
fn keys() -> Vec<String> {
    let sections = [
        "{domain: d, qqqqqqqq: 1}",
        "{domain: d, response: {qqqqqqqq: 1}}",
        "{domain: d, descriptors: [{key: k, qqqqqqqq: 1}]}",
        "{domain: d, descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1, qqqqqqqq: 1}}]}",
    ];
    let faults = sections.map(|text| parse_text("rules.yaml", text).expect_err("an unknown key").to_string());
    let names = faults.iter().flat_map(|fault| {
        let names = fault.split_once("the keys here are ").expect("their names").1.trim_end();
        names.split(", ").flat_map(|name| name.split(" and ")).map(str::to_owned)
    });
    names.collect()
}

#[test]
fn every_key_has_an_example_in_the_documentation() {
    let yaml: String =
        blocks(RULES).into_iter().filter(|block| block.0 == "yaml").map(|block| block.2).collect();
    let keys = keys();
    assert!(keys.len() > 40, "{keys:?}");
    for key in keys {
        let is_there = yaml.match_indices(&format!("{key}:")).any(|(at, _)| {
            at == 0 || !yaml.as_bytes()[at - 1].is_ascii_alphanumeric() && yaml.as_bytes()[at - 1] != b'_'
        });
        assert!(is_there, "{key} has no example");
    }
}

#[test]
fn the_examples_load_together_without_a_warning_and_hold_the_three_rules() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/rules");
    let rules = load(&[folder], &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(rules.warnings.is_empty(), "{:?}", rules.warnings);
    let policy = rules.policy;
    for (action, who, number, unit) in [
        ("post", ("user", "ann"), 2, Unit::Second),
        ("sign_up", ("remote_address", "192.0.2.1"), 10, Unit::Day),
        ("reward", ("device", "d1"), 5, Unit::Week),
    ] {
        let entries = [Entry::new("action", action), Entry::new(who.0, who.1)];
        let rule = policy.domain("app").and_then(|domain| domain.find(&entries)).expect("a rule");
        assert_eq!((rule.limits[0].requests_per_unit, rule.limits[0].unit), (number, Some(unit)), "{action}");
    }
    for (domain, entries) in [
        ("shop", [Entry::new("api_key", "k")]),
        ("shop", [Entry::new("remote_address", "2001:db8::1")]),
        ("auth", [Entry::new("auth_type", "login")]),
        ("messaging", [Entry::new("message_type", "marketing")]),
        ("envoy", [Entry::new("generic_key", "everything")]),
    ] {
        assert!(
            policy.domain(domain).is_some_and(|domain| domain.find(&entries).is_some()),
            "{domain} {entries:?}"
        );
    }
}

/// A plan that a client makes up lifts no limit.
#[test]
fn every_plan_of_the_example_shop_is_limited() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/rules");
    let policy = load(&[folder], &Options::default()).unwrap_or_else(|error| panic!("{error}")).policy;
    for (api_key, plan, limit) in [
        ("alice", "gold", 10),
        ("alice", "silver", 5),
        ("alice", "", 5),
        ("partner-1", "gold", 100),
        ("partner-1", "silver", 100),
    ] {
        let entries = [Entry::new("api_key", api_key), Entry::new("plan", plan)];
        let rule = policy.domain("shop").and_then(|domain| domain.find(&entries));
        assert_eq!(rule.map(|rule| rule.limits[0].requests_per_unit), Some(limit), "{api_key} {plan}");
    }
}
