//! Rules as YAML and as exports: they are read as they were written, and faults have places.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use tollgate_control::file_rules::FileInput;
use tollgate_control::table_rule::TableRuleInput;
use tollgate_control::{Content, RuleKind, table_rule_yaml, transfer};
use tollgate_harness::rules::{checked, limit};

proptest! {
    #[test]
    fn a_row_as_yaml_is_the_row(
        key in "[A-Za-z0-9_:/-]{1,20}", burst in 1..=1_000_000_000_i64, g in 0..=1_000_000_000_i64,
        description in "[^\\p{C}]{0,60}", state in prop::sample::select(vec!["on", "shadow", "off"]),
        text in "\\PC{0,40}|[\\x00-\\x{a0}\\x{2028}\\x{feff}\\x{ffff}\\x{1ffff}]{0,9}", spaces in " {0,3}",
    ) {
        let extras = serde_json::to_string(&serde_json::json!({"note": text})).expect("JSON");
        let extras = extras.replacen(':', &format!(":{spaces}"), 1) + &spaces;
        let max_permits = burst.to_string();
        let g = tollgate_control::fields::in_words(g);
        let input = TableRuleInput {
            key, max_permits, g, description, extras, state: state.to_owned(), ..TableRuleInput::default()
        };
        let form = input.check().expect("a row").to_input();
        let yaml = table_rule_yaml::write(&form);
        let back = table_rule_yaml::read(&yaml);
        let back = back.map_err(|error| TestCaseError::fail(format!("{error}\n{yaml}")))?;
        prop_assert_eq!(&back, &form);
        prop_assert_eq!(back.extras, input.extras);
        prop_assert_eq!(table_rule_yaml::write(&form), yaml);
    }
}

#[test]
fn a_fault_in_the_yaml_of_a_row_has_its_place() {
    for (yaml, want) in [
        ("key: a\nrat: 5\n", "2:1: rat: unknown field"),
        ("key: a\nrate: [1, 2]\n", "2:1: rate: expected one value"),
        ("key: a\nrate: {x: 1}\n", "2:7: rate: is a value"),
        ("- a\n", "1:1: settings are a map"),
        ("key: \"a\nrate: 1", "not YAML"),
        ("key: a\nkey: b\n", "2:1: "),
    ] {
        let error = table_rule_yaml::read(yaml).expect_err(yaml).to_string();
        assert!(error.contains(want), "{yaml:?}: {error}");
    }
    let input = table_rule_yaml::read("max_permits: 7\nkey: a\nextras: '{\"a\": 1}'\nper:\n").expect("a row");
    assert_eq!((&*input.key, &*input.max_permits, &*input.extras), ("a", "7", "{\"a\": 1}"));
}

prop_compose! {
    fn content()(
        key in "[a-z]{1,6}", rate in 1..=1_000_000_000_i64, is_file in any::<bool>(), note in "\\PC{0,20}",
        spaces in " {0,3}", state in prop::sample::select(vec!["on", "off"]), comment in "[^\\p{C}]{0,20}",
    ) -> Content {
        if is_file {
            let text = format!(
                "# {comment}\ndomain: {key}\ndescriptors:\n  - key: user\n    rate_limit: {{unit: hour, requests_per_unit: {}}}\n{spaces}",
                rate.min(4_000_000_000)
            );
            let description = comment;
            let state = state.to_owned();
            Content::File(FileInput { domain: key, text, description, state }.check().expect("a file"))
        } else {
            let extras = serde_json::json!({"note": note}).to_string() + &spaces;
            let input = TableRuleInput { extras, description: comment, state: state.to_owned(), ..limit(&key, rate) };
            checked(&input)
        }
    }
}

proptest! {
    #[test]
    fn what_was_exported_imports_as_it_was(rules in prop::collection::vec(content(), 0..8)) {
        let rules: BTreeMap<(RuleKind, String), Content> =
            rules.into_iter().map(|it| ((it.kind(), it.key().to_owned()), it)).collect();
        let all = transfer::Imported { app: "shop".to_owned(), rules: rules.into_values().collect() };
        let yaml = transfer::write(&all);
        let back = transfer::read(&yaml).map_err(|error| TestCaseError::fail(format!("{error}\n{yaml}")))?;
        prop_assert_eq!(&back, &all);
        prop_assert_eq!(transfer::write(&back), yaml);
    }
}
