//! Every fault, word for word: the faults of each file in `tests/it/faults` are in a file of the same name
//! with the extension `.faults`. `WRITE_FAULTS=1 cargo test -p tollgate-rule-files --test faults` writes them
//! anew, for review.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

use std::fs;
use std::path::{Path, PathBuf};

use tollgate_policy::{Countable, Entry};
use tollgate_rule_files::{Options, RuleFile, parse};

fn file(name: &str, text: &str) -> RuleFile {
    RuleFile { name: name.into(), text: text.into() }
}

#[test]
fn every_fault_of_a_file_is_reported_at_once_with_its_place_and_a_remedy() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/faults");
    let mut seen = 0;
    for entry in fs::read_dir(&folder).expect("the folder is there") {
        let path: PathBuf = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension == "faults") {
            continue;
        }
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let text = fs::read_to_string(&path).expect("text");
        let faults = parse(&[file(name, &text)], &Options::default());
        let shown = format!("{}\n", faults.err().unwrap_or_else(|| panic!("{name} loads")));
        let beside = path.with_extension("faults");
        if std::env::var_os("WRITE_FAULTS").is_some() {
            fs::write(&beside, &shown).expect("written");
        }
        let want = fs::read_to_string(&beside).expect("its faults are beside it");
        assert_eq!(shown, want, "{name}");
        seen += 1;
    }
    assert!(seen >= 20, "only {seen} files");
}

#[test]
fn faults_of_several_files_are_reported_together_in_the_order_of_the_files() {
    let files = [
        file("a.yaml", "domain: one\ndescriptors: [{value: x}]\n"),
        file(
            "b.yaml",
            "domain: two\ndescriptors: [{key: x, rate_limit: {unit: day, requests_per_unit: 1}}]\n",
        ),
        file("c.yaml", "domain: one\ndescriptors: [{key: x}, {kye: x}]\n"),
    ];
    let faults = parse(&files, &Options::default()).expect_err("faulty");
    let want = "\
a.yaml:2:15: descriptors[0].key: is missing; every descriptor needs one
c.yaml:1:9: domain: one is already the domain of a.yaml:1:9; write another, or allow merging with MERGE_DOMAIN_CONFIG=true
c.yaml:2:25: descriptors[1].key: is missing; every descriptor needs one
c.yaml:2:26: descriptors[1].kye: unknown key; did you mean key?";
    assert_eq!(faults.to_string(), want);
}

#[test]
fn merged_files_of_one_domain_add_up_and_duplicates_in_them_are_faults() {
    let merge = Options { merge_domains: true, ..Options::default() };
    let one = "domain: shop\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]\n";
    let two = "domain: shop\ndescriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 2}}]\n";
    let policy = parse(&[file("a.yaml", one), file("b.yaml", two)], &merge).expect("adds up").policy;
    assert_eq!((policy.domains().len(), policy.rules().count()), (1, 2));
    let faults = parse(&[file("a.yaml", one), file("b.yaml", one)], &merge).expect_err("a twice");
    let want = "b.yaml:2:15: descriptors[0]: a occurs twice on this level; \
                merge them, or list several limits under limits";
    assert_eq!(faults.to_string(), want);
}

#[test]
fn a_rule_that_the_store_cannot_count_is_a_fault_unless_it_is_local() {
    let only_windows = Countable::by(|quota, _| match quota.algorithm().name() {
        "fixed_window" => Ok(()),
        _ => Err("this store counts only fixed_window"),
    })
    .without_slots("this store keeps no slots");
    let text = "\
domain: d
descriptors:
  - {key: a, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: b, rate_limit: {unit: day, requests_per_unit: 1, algorithm: total}}
  - {key: c, sharing: local, rate_limit: {unit: day, requests_per_unit: 1, algorithm: token_bucket}}
  - key: d
    limits:
      - {name: x, unit: day, requests_per_unit: 1}
      - {name: y, unit: day, requests_per_unit: 1, algorithm: token_bucket}
  - {key: e, rate_limit: {algorithm: concurrency, limit: 1, ttl: 30s}}
  - {key: f, sharing: local, rate_limit: {algorithm: concurrency, limit: 1, ttl: 30s}}
";
    let text = text.replace(
        "unit: day, requests_per_unit: 1, algorithm: total",
        "requests_per_unit: 1, algorithm: total",
    );
    let options = Options { countable: only_windows, ..Options::default() };
    let faults = parse(&[file("d.yaml", &text)], &options).expect_err("faults");
    let want = "\
d.yaml:4:60: descriptors[1].rate_limit.algorithm: total: this store counts only fixed_window
d.yaml:9:63: descriptors[3].limits[1].algorithm: token_bucket: this store counts only fixed_window
d.yaml:10:38: descriptors[4].rate_limit.algorithm: concurrency: this store keeps no slots";
    assert_eq!(faults.to_string(), want);
}

#[test]
fn keys_without_effect_are_warnings_and_not_faults() {
    let text = "\
domain: shop
descriptors:
  - key: a
    requests_per_unit: 5
    Value: x
    Value: y
    rate_limit: {unit: day, shadow_mode: true}
  - key: b
    rate_limit: {unlimited: true, unit: whenever, requests_per_unit: 5}
  - key: c
    response: {body: '[{{retry_after}}]'}
  - key: d
    response: {content_type: text/html}
---
domain: other
";
    let rules = parse(&[file("shop.yaml", text)], &Options::default()).expect("loads");
    let shown: Vec<String> = rules.warnings.iter().map(ToString::to_string).collect();
    let want = [
        "shop.yaml:4:5: descriptors[0].requests_per_unit: has no effect here; it belongs under rate_limit",
        "shop.yaml:6:5: Value occurs twice in one map; the last one counts",
        "shop.yaml:7:17: descriptors[0].rate_limit.requests_per_unit: is missing, so it is 0 and everything is denied; \
         write the number of requests",
        "shop.yaml:7:29: descriptors[0].rate_limit.shadow_mode: has no effect here; it belongs in a descriptor",
        "shop.yaml:9:35: descriptors[1].rate_limit.unit: has no effect with unlimited; remove one of the two",
        "shop.yaml:9:51: descriptors[1].rate_limit.requests_per_unit: has no effect with unlimited; remove one of the two",
        "shop.yaml:11:22: descriptors[2].response.body: looks like JSON but is sent as text/plain; add content_type: \
         application/json",
        "shop.yaml:13:16: descriptors[3].response.content_type: has no effect without body; write one, or remove it",
        "shop.yaml:14:1: a second document is ignored; put it into a file of its own",
    ];
    assert_eq!(shown, want);
}

#[test]
fn a_limit_without_a_value_is_warned_of_where_the_file_is_one_of_another_limiter() {
    let text = "domain: d\ndescriptors:\n  - key: a\n    value:\n    rate_limit:\n    shadow_mode:\n";
    let rules = parse(&[file("d.yaml", text)], &Options::default()).expect("loads");
    let shown: Vec<String> = rules.warnings.iter().map(ToString::to_string).collect();
    let want = "d.yaml:5:5: descriptors[0].rate_limit: has no value, so it limits nothing; write one, or remove the key";
    assert_eq!(shown, [want]);
}

#[test]
fn a_line_of_a_list_that_is_hardly_meant_as_it_is_written_is_warned_of() {
    let text = "{domain: d, descriptors: [{key: ip, value_file: l.values, action: deny}]}";
    let of = |list: &str| {
        let files = [file("d.yaml", text), file("l.values", list)];
        let rules = parse(&files, &Options::default()).expect("loads");
        rules.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let comment = "matches only as a whole, with what follows #; write the comment on a line of its own";
    let network =
        "is not a network, so only this exact text matches; write it as 10.0.0.0/8 or 2001:db8::/32";
    for (list, line, value, message) in [
        ("1.1.1.1\n2.2.2.2 # comment\n", 2, "2.2.2.2 # comment", comment),
        ("10.0.0.0/8\t# ours\n", 1, "10.0.0.0/8\\t# ours", comment),
        ("# list\n\n1.2.3.4/33\n", 3, "1.2.3.4/33", network),
        ("2001:db8::/129\n", 1, "2001:db8::/129", network),
        ("1.2.3.4 / 32\n", 1, "1.2.3.4 / 32", network),
        ("1.2.3.4/255.255.255.255\n", 1, "1.2.3.4/255.255.255.255", network),
    ] {
        let want = format!("d.yaml:1:49: descriptors[0].value_file: line {line}: {value} {message}");
        assert_eq!(of(list), [want], "{list:?}");
    }
    for list in ["1.2.3.4/32\n", "2001:db8::/32\n", "a/33\n", "1.2.3/24\n", "C#\n", "#1\n", "c/1.2.3.4\n"] {
        assert!(of(list).is_empty(), "{list:?}");
    }
}

#[test]
fn a_value_that_is_written_as_a_network_is_warned_of_and_so_is_no_other() {
    let of = |value: &str| {
        let text = format!(
            "domain: d\ndescriptors:\n  - key: a\n    value: {value}\n    rate_limit: {{unit: day, requests_per_unit: 1}}\n"
        );
        let rules = parse(&[file("d.yaml", &text)], &Options::default()).expect("loads");
        rules.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for (value, network) in
        [("10.0.0.0/8", "10.0.0.0/8"), ("10.1.2.3/8", "10.0.0.0/8"), ("\"2001:db8::/32\"", "2001:db8::/32")]
    {
        let want = format!(
            "d.yaml:4:12: descriptors[0].value: only this exact text matches; write value_cidr: {network} for the network"
        );
        assert_eq!(of(value), [want]);
    }
    for value in ["10.0.0.1", "\"2001:db8::1\"", "a/8", "/10.0.0.0", "10.0.0.0/99", "10.0.0.0/*"] {
        assert!(of(value).is_empty(), "{value}");
    }
}

#[test]
fn a_descriptor_whose_values_a_pattern_in_a_key_takes_is_warned_of_and_is_not_reached() {
    let warning = |index: usize, key: &str, by: usize, remedy: &str| {
        format!(
            "d.yaml:{}:5: descriptors[{index}]: no request reaches this, because key: {key} of descriptors[{by}] takes \
             its values first; {remedy}",
            index + 3
        )
    };
    let write = "write value: \"*\" here";
    let write_and_move = "write value: \"*\" here, and move it above that one";
    let move_up = "move it above that one";
    for (descriptors, want) in [
        (&["key: user", "key: '*'"][..], vec![warning(0, "*", 1, write)]),
        (&["key: '*'", "key: user"], vec![warning(1, "*", 0, write_and_move)]),
        (&["key: '*'", "key: user, value: ''"], vec![warning(1, "*", 0, write_and_move)]),
        (&["key: '*'", "key: user, value: 'a*'"], vec![warning(1, "*", 0, move_up)]),
        (&["key: '*'", "key: user, value_regex: 'a.'"], vec![warning(1, "*", 0, move_up)]),
        (&["key: '*'", "key: 'user*'"], vec![warning(1, "*", 0, move_up)]),
        (&["key: user_id", "key: 'user*'"], vec![warning(0, "user*", 1, write)]),
        (&["key: user", "key: 'user_*'"], vec![warning(0, "user_*", 1, write)]),
        (&["key: user, value: '*'", "key: '*'"], vec![]),
        (&["key: user, value: 'a*'", "key: '*'"], vec![]),
        (&["key: '*'", "key: user, value: ann", "key: user, value_cidr: 10.0.0.0/8"], vec![]),
        (&["key: 'user*'", "key: '*'"], vec![]),
        (&["key: 'user_a*'", "key: user"], vec![]),
        (&["key: 'a*b'", "key: a"], vec![]),
    ] {
        let entries: Vec<String> = descriptors
            .iter()
            .enumerate()
            .map(|(at, entry)| format!("  - {{{entry}, rate: {}/minute}}\n", at + 1))
            .collect();
        let text = format!("domain: d\ndescriptors:\n{}", entries.concat());
        let rules = parse(&[file("d.yaml", &text)], &Options::default()).expect("loads");
        let shown: Vec<String> = rules.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(shown, want, "{descriptors:?}");
        // It is as the warning says: the number of a limit is the place of its descriptor.
        let domain = &rules.policy.domains()[0];
        let reached = ["user", "user_id", "a", "other"].iter().flat_map(|key| {
            ["", "a", "ab", "ann", "10.1.2.3"].map(|value| domain.find(&[Entry::new(key, value)]))
        });
        let reached: Vec<u64> = reached.flatten().map(|rule| rule.limits[0].requests_per_unit - 1).collect();
        for index in 0..descriptors.len() {
            let is_warned = want.iter().any(|it| it.contains(&format!(" descriptors[{index}]: ")));
            let is_reached = reached.contains(&u64::try_from(index).expect("few"));
            assert!(is_reached != is_warned, "{index} of {descriptors:?}");
        }
    }
    // Below another descriptor too.
    let text = "domain: d\ndescriptors:\n  - key: a\n    descriptors: [{key: b, rate: 1/s}, {key: '*', rate: 1/s}]\n";
    let rules = parse(&[file("d.yaml", text)], &Options::default()).expect("loads");
    let place = "d.yaml:4:19: descriptors[0].descriptors[0]: no request reaches this";
    assert!(rules.warnings.iter().any(|it| it.to_string().starts_with(place)), "{:?}", rules.warnings);
}

#[test]
fn a_limited_descriptor_below_which_other_values_are_not_limited_is_warned_of() {
    let limit = "rate_limit: {unit: day, requests_per_unit: 1}";
    let of = |own: &str, below: &[&str]| {
        let below: Vec<String> =
            below.iter().map(|entry| format!("      - {{{entry}, {limit}}}\n")).collect();
        let text =
            format!("domain: d\ndescriptors:\n  - key: user\n{own}    descriptors:\n{}", below.concat());
        let rules = parse(&[file("d.yaml", &text)], &Options::default()).expect("loads");
        rules.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let own = format!("    {limit}\n");
    let warning = |line: u32, index: usize, key: &str| {
        format!(
            "d.yaml:{line}:9: descriptors[0].descriptors[{index}]: other values of {key} match no rule here, so they \
             are not limited; add a descriptor with key: {key} and no value"
        )
    };
    for (below, want) in [
        (&["key: plan, value: gold"][..], vec![warning(6, 0, "plan")]),
        (&["key: plan, value: gold", "key: plan, value: tin"], vec![warning(6, 0, "plan")]),
        (&["key: path", "key: plan, value_regex: 'g.*'"], vec![warning(7, 1, "plan")]),
        (
            &["key: ip, value_cidr: 10.0.0.0/8", "key: plan, value: a*"],
            vec![warning(6, 0, "ip"), warning(7, 1, "plan")],
        ),
        (&["key: plan, value: gold", "key: plan"], vec![]),
        (&["key: plan, value: gold", "key: plan, value: '*'"], vec![]),
        (&["key: plan, value: gold", "key: plan, value_regex: '.*'"], vec![]),
        (&["key: plan, value: gold", "key: pl*"], vec![]),
        (&["key: plan"], vec![]),
    ] {
        assert_eq!(of(&own, below), want, "{below:?}");
    }
    // Without a limit of its own, a descriptor says nothing about other values.
    assert!(of("", &["key: plan, value: gold"]).is_empty());
    assert!(of("    rate_limit: {unlimited: true}\n", &["key: plan, value: gold"]).is_empty());
    // A descriptor without a limit says that other values have none.
    let text = format!(
        "domain: d\ndescriptors:\n  - key: user\n{own}    descriptors:\n      - {{key: plan, value: gold, {limit}}}\n      - key: plan\n"
    );
    assert!(parse(&[file("d.yaml", &text)], &Options::default()).expect("loads").warnings.is_empty());
}
