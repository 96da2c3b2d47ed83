//! Any text as a rule file: the function of the fuzz target, on stable.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

#[path = "../../../../../fuzz/src/rules.rs"]
#[allow(unreachable_pub, reason = "public in the crate of the fuzz target")]
mod rules;

use proptest::prelude::*;
use rules::read_any_text;
use tollgate_rule_files::parse_text;

/// The only fault of a text.
fn fault(text: &str) -> String {
    let faults = parse_text("f", text).expect_err("faulty");
    assert_eq!(faults.as_slice().len(), 1, "{faults}");
    faults.to_string()
}

#[test]
fn a_bomb_of_aliases_is_rejected_before_it_expands() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..30 {
        let alias = format!("*a{},", i - 1);
        text += &format!("a{i}: &a{i} [{}]\n", alias.repeat(10));
    }
    assert_eq!(fault(&text), "f:7:9: the file expands to more than 2000000 values; split it");
}

#[test]
fn a_bomb_of_merge_keys_is_rejected_before_it_expands() {
    let keys: Vec<String> = (0..2_000).map(|i| format!("k{i}: 1")).collect();
    let text = format!("base: &base {{{}}}\nall:\n{}", keys.join(", "), "  - {<<: *base}\n".repeat(2_000));
    assert!(fault(&text).contains("expands to more than 2000000 values"));
}

#[test]
fn nesting_is_bounded_however_it_is_written() {
    let nested = |deep: usize| "[".repeat(deep) + &"]".repeat(deep);
    assert!(fault(&nested(200)).contains("nest deeper than 128"));
    read_any_text(&nested(100_000));
    let block: String = (0..300).map(|i| " ".repeat(i) + "a:\n").collect();
    assert!(fault(&block).contains("nest"));
    // Aliases nest without brackets.
    let chain: String = (1..300).map(|i| format!("a{i}: &a{i} [*a{}]\n", i - 1)).collect();
    assert!(fault(&format!("a0: &a0 x\n{chain}")).contains("nest deeper than 128"));
}

#[test]
fn a_file_of_nothing_but_faults_reports_the_first_thousand() {
    let keys: Vec<String> = (0..200_000).map(|i| format!("unknown_{i}: 1")).collect();
    let faults = parse_text("f", format!("domain: d\n{}\n", keys.join("\n"))).expect_err("faulty");
    assert_eq!(faults.as_slice().len(), 1_000);
    let last = faults.as_slice().last().map(ToString::to_string);
    assert_eq!(last.as_deref(), Some("f:1001:1: more errors follow from here; correct those above first"));
}

#[test]
fn long_texts_are_shown_short() {
    let long = "x".repeat(100_000);
    for text in [
        format!("domain: {long}\n{long}: 1\n"),
        format!("domain: d\ndescriptors: [{{key: a, rate_limit: {{unit: {long}}}}}]\n"),
        format!("domain: d\ndescriptors: [{{key: a, value_cidr: {long}}}]\n"),
        format!("domain: d\ndescriptors: [{{key: a, value: 1.{}}}]\n", "5".repeat(10_000)),
        format!("domain: d\ndescriptors: [{{key: {long}}}, {{key: {long}}}]\n"),
        format!("domain: d\ndescriptors: *{long}\n"),
        format!("domain: d\nresponse: {{body: \"{{{{{long}}}}}\", headers: {{\"{long} \": x}}}}\n"),
        format!("domain: d\n{long}: 1\n{long}: 2\n"),
        format!("domain: d\ndescriptors: [{{key: a, limits: [{{name: {long}}}, {{name: {long}}}]}}]\n"),
        format!("domain: d\ndescriptors: [{{key: a, rate_limit: {{unit: day, time_zone: {long}}}}}]\n"),
        format!("domain: d\ndescriptors: [{{key: a, rate_limit: {{algorithm: {long}}}}}]\n"),
        format!("!{long} domain: d\n"),
        format!("%TAG !{long}! x\n---\n!z!x y\n"),
    ] {
        read_any_text(&text);
    }
}

/// Pieces of rule files, and pieces that break them.
const PIECES: &[&str] = &[
    "domain: d\n",
    "domain:",
    "descriptors:\n",
    "descriptors: ",
    "- key: a\n",
    "  - key: a\n",
    "    - key: b\n",
    "    value: b\n",
    "    value: b*\n",
    "    Value: x\n",
    "    value_cidr: 10.0.0.0/8\n",
    "    value_regex: '[a-c]*'\n",
    "    ipv6_prefix: 64\n",
    "    rate_limit:\n",
    "      unit: day\n",
    "      unit: minute\n",
    "      requests_per_unit: 5\n",
    "      algorithm: token_bucket\n",
    "      burst: 7\n",
    "      period: 10s\n",
    "      unlimited: true\n",
    "    limits:\n",
    "    shadow_mode: true\n",
    "    share_threshold: true\n",
    "    metadata: {a: [1, 2.5, ~]}\n",
    "    descriptors:\n",
    "      - key: c\n",
    "      - {name: x, unit: day}\n",
    "{",
    "}",
    "[",
    "]",
    ",",
    ": ",
    "- ",
    "? ",
    "&a ",
    "*a ",
    "<<: ",
    "|\n",
    ">-\n",
    "\"",
    "'",
    "#",
    "%",
    "!",
    "!!str ",
    "@",
    "`",
    "\t",
    "\n",
    "\r",
    "\r\n",
    " ",
    "---\n",
    "...\n",
    "\u{feff}",
    "\0",
    "é",
    "\u{2028}",
    "1.5",
    "0x",
    "-1",
    "99999999999999999999",
    "null",
    "~",
    "true",
];

fn lines() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..40).prop_map(|pieces| pieces.concat())
}

/// A valid file that is broken in a few places.
fn broken_file() -> impl Strategy<Value = String> {
    let files: Vec<&str> = vec![
        include_str!("../../../../../examples/rules/app.yaml"),
        include_str!("../../../../../examples/rules/shop.yaml"),
        include_str!("faults/algorithms.yaml"),
        include_str!("faults/limits.yaml"),
        include_str!("faults/response.yaml"),
        include_str!("faults/anchors.yaml"),
    ];
    let cuts = prop::collection::vec(
        (any::<prop::sample::Index>(), 0..12_usize, prop::sample::select(PIECES)),
        1..4,
    );
    (prop::sample::select(files), cuts).prop_map(|(file, cuts)| {
        let mut chars: Vec<char> = file.chars().collect();
        for (at, length, piece) in cuts {
            let start = at.index(chars.len() + 1);
            let end = (start + length).min(chars.len());
            chars.splice(start..end, piece.chars());
        }
        chars.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn any_text_is_read_or_rejected_with_places(text in any::<String>()) {
        read_any_text(&text);
    }

    #[test]
    fn any_sequence_of_pieces_is_read_or_rejected_with_places(text in lines()) {
        read_any_text(&text);
    }

    #[test]
    fn any_broken_file_is_read_or_rejected_with_places(text in broken_file()) {
        read_any_text(&text);
    }
}
