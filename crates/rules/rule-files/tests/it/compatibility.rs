//! Rule files of envoyproxy/ratelimit: the same files load, the same files are rejected, and descriptors find
//! the same limits.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

use std::collections::BTreeMap;

use serde_json::Value;
use tollgate_policy::{Entry, Unit};
use tollgate_rule_files::{Options, RuleFile, parse};

/// `{file name: text}`, or one text.
fn files(config: &Value) -> Vec<RuleFile> {
    match config {
        Value::String(text) => vec![RuleFile { name: "rules.yaml".into(), text: text.clone() }],
        files => {
            let files: BTreeMap<String, String> = serde_json::from_value(files.clone()).expect("files");
            files.into_iter().map(|(name, text)| RuleFile { name: name.into(), text }).collect()
        }
    }
}

/// The cases that `e2e` asks of a running server.
const CASES: &str = include_str!("../../../../testing/e2e/cases/rls_cases.json");

fn cases() -> Value {
    serde_json::from_str(CASES).expect("the cases are JSON")
}

#[test]
fn every_config_of_the_cases_loads_with_a_warning_only_where_one_is_due() {
    let cases = cases();
    for (name, config) in cases["configs"].as_object().expect("a map") {
        let rules = parse(&files(config), &Options::default());
        let rules = rules.unwrap_or_else(|faults| panic!("{name}:\n{faults}"));
        // One limit leaves requests_per_unit out; below two, values without a rule are not limited.
        let expected = usize::from(["count", "basic", "tree"].contains(&name.as_str()));
        assert_eq!(rules.warnings.len(), expected, "{name}: {:?}", rules.warnings);
    }
}

#[test]
fn every_config_that_must_be_rejected_is_rejected_with_a_place() {
    let cases = cases();
    for case in cases["reject_cases"].as_array().expect("a list") {
        let faults = parse(&files(&case["config"]), &Options::default());
        let faults = faults.err().unwrap_or_else(|| panic!("{} loads", case["name"]));
        assert_eq!(faults.as_slice().len(), 1, "{}:\n{faults}", case["name"]);
        assert!(faults.as_slice()[0].place.line >= 1);
    }
}

/// Every first call of every case finds the limit that its answer shows, so far as no rule replaces another.
#[test]
fn descriptors_of_the_cases_find_the_limits_that_the_answers_show() {
    let cases = cases();
    let mut checked = 0;
    for case in cases["cases"].as_array().expect("a list") {
        let config = match &case["config"] {
            Value::String(name) if !cases["configs"][name].is_null() => &cases["configs"][name],
            own => own,
        };
        let policy = parse(&files(config), &Options::default()).expect("loads").policy;
        for step in case["steps"].as_array().expect("a list") {
            let Some(domain) = step["domain"].as_str().and_then(|name| policy.domain(name)) else { continue };
            let answer = [&step["expect"], &step["expect_each"][0], &step["expect_all"]];
            let Some(answer) = answer.into_iter().find(|answer| !answer.is_null()) else { continue };
            let descriptors = step["descriptors"].as_array().expect("a list");
            let owned: Vec<Vec<(String, String)>> = descriptors.iter().map(entries_of).collect();
            let rules: Vec<_> = owned.iter().map(|entries| domain.find(&borrow(entries))).collect();
            for (i, descriptor) in descriptors.iter().enumerate() {
                let Some(status) = answer["statuses"].get(i) else { continue };
                let Some(want) = status.get("limit").filter(|_| descriptor["limit"].is_null()) else {
                    continue;
                };
                let name = rules[i].map_or("", |rule| rule.name.as_str());
                let mut others = rules.iter().flatten().flat_map(|rule| &rule.replaces);
                if !name.is_empty() && others.any(|replaced| replaced == name) {
                    assert!(want.is_null(), "{}: a replaced limit is not shown", case["name"]);
                    continue;
                }
                let limit = rules[i].and_then(|rule| rule.limits.first());
                let unit = limit.and_then(|limit| limit.unit).map(|unit: Unit| unit.name().to_uppercase());
                let number = limit.map(|limit| limit.requests_per_unit);
                assert_eq!(want["unit"].as_str().map(str::to_owned), unit, "{} {descriptor}", case["name"]);
                assert_eq!(want["requests_per_unit"].as_u64(), number, "{} {descriptor}", case["name"]);
                checked += 1;
            }
        }
    }
    assert!(checked > 80, "only {checked} statuses were checked");
}

fn entries_of(descriptor: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entries = descriptor["entries"].as_array().expect("a list");
    entries.iter().map(|entry| (text(&entry["key"]), text(&entry["value"]))).collect()
}

fn borrow(entries: &[(String, String)]) -> Vec<Entry<'_>> {
    entries.iter().map(|(key, value)| Entry::new(key, value)).collect()
}
