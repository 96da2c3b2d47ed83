//! A reader of sets that follow each other says what reading each anew would.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

use proptest::prelude::*;
use tollgate_rule_files::{Options, RuleFile, RuleReader, RuleSet, parse};

/// Good and faulty texts, of three domains; two that warn, and one that refers to a list.
const TEXTS: [&str; 8] = [
    "domain: a\ndescriptors: [{key: k, rate_limit: {rate: 1/s}}]\n",
    "domain: a\ndescriptors: [{key: k, rate_limit: {rate: 2/s}}]\n",
    "domain: b\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 4}}]\n",
    "domain: b\ndescriptors: [{key: k, rate_limit: {unit: days}}]\n",
    "domain: c\ndescriptors: [{key: k, value_file: v.values, rate_limit: {rate: 1/s}}]\n",
    "domain: c\ndescriptors: [{key: k, value: \"\", rate_limit: {rate: 1/s}}, {key: k, value: x}]\n",
    "{",
    "",
];
const LISTS: [&str; 2] = ["x\n", "y\nz\n"];

fn set() -> impl Strategy<Value = Vec<RuleFile>> {
    let file = |(name, text): (usize, usize)| RuleFile {
        name: format!("{name}.yaml").into(),
        text: TEXTS[text].to_owned(),
    };
    let files = prop::collection::btree_map(0_usize..4, 0..TEXTS.len(), 0..4);
    let list = prop::option::weighted(0.2, 0..LISTS.len());
    (files, list).prop_map(move |(files, list)| {
        let mut files: Vec<_> = files.into_iter().map(file).collect();
        files.extend(list.map(|it| RuleFile { name: "v.values".into(), text: LISTS[it].to_owned() }));
        files
    })
}

proptest! {
    #[test]
    fn sets_that_follow_each_other_read_as_each_alone(
        sets in prop::collection::vec(set(), 1..12),
        merge_domains: bool,
    ) {
        let options = Options { merge_domains, ..Options::default() };
        let mut reader = RuleReader::new(options);
        for set in &sets {
            match (reader.parse(set), parse(set, &options)) {
                (Ok(again), Ok(anew)) => {
                    prop_assert_eq!(again.policy.version(), anew.policy.version());
                    let rules = |set: &RuleSet| format!("{:?}", set.policy.rules().collect::<Vec<_>>());
                    prop_assert_eq!(rules(&again), rules(&anew));
                    prop_assert_eq!(again.revision, anew.revision);
                    prop_assert_eq!(again.warnings, anew.warnings);
                }
                (Err(again), Err(anew)) => prop_assert_eq!(again.as_slice(), anew.as_slice()),
                (again, anew) => prop_assert!(false, "{again:?}, and anew {anew:?}"),
            }
        }
    }
}
