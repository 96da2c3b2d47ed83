//! Rule files on disk, the version of their rules, and how one policy follows another.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

use std::fs;
use std::path::Path;

use tollgate_core::{Cost, Timestamp};
use tollgate_human_text::with_causes;
use tollgate_policy::{Charge, Entry, OnStoreFailure, Policy, RuleSource as _, Sharing};
use tollgate_rule_files::{FileSource, LoadError, Options, RuleFile, WatchSettings, parse, parse_text};

fn load(path: &Path) -> Result<Policy, LoadError> {
    Ok(tollgate_rule_files::load(&[path.to_owned()], &Options::default())?.policy)
}

fn rules(text: &str) -> Policy {
    parse_text("rules.yaml", text).unwrap_or_else(|faults| panic!("{faults}"))
}

fn names(policy: &Policy) -> Vec<&str> {
    policy.domains().iter().map(|domain| domain.name()).collect()
}

#[test]
fn a_folder_is_read_in_name_order_and_only_its_rule_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("sub")).expect("made");
    fs::create_dir(at(".git")).expect("made");
    for (name, text) in [
        ("b.yaml", "domain: b"),
        ("a.yml", "domain: a"),
        ("c.json", r#"{"domain": "c", "descriptors": []}"#),
        ("sub/d.YAML", "domain: d"),
        ("notes.txt", "not: [rules"),
        ("b.yaml~", "domain: b"),
        (".b.yaml.swp", "domain: b"),
        (".hidden.yaml", "domain: b"),
        (".git/x.yaml", "domain: b"),
        ("4913", ""),
    ] {
        fs::write(at(name), text).expect("written");
    }
    assert_eq!(names(&load(folder.path()).expect("loads")), ["a", "b", "c", "d"]);
    // A path that is given itself is read whatever its name is.
    fs::write(at("rules.conf"), "domain: e").expect("written");
    assert_eq!(names(&load(&at("rules.conf")).expect("loads")), ["e"]);
    let both = [at("c.json"), at("a.yml")];
    assert_eq!(
        names(&tollgate_rule_files::load(&both, &Options::default()).expect("loads").policy),
        ["c", "a"]
    );
}

#[cfg(unix)]
#[test]
fn files_whose_names_begin_with_a_dot_are_read_on_request_and_folders_never() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("..2026_11_28")).expect("made");
    for (name, text) in [
        (".config.yaml", "domain: b\ndescriptors: [{key: k, value_file: .l.values, action: deny}]\n"),
        (".l.values", "10.0.0.1\n"),
        ("a.yaml", "domain: a"),
        (".a.yaml.swp", "domain: ["),
        ("..2026_11_28/x.yaml", "domain: x"),
    ] {
        fs::write(at(name), text).expect("written");
    }
    std::os::unix::fs::symlink(at("nowhere"), at(".#a.yaml")).expect("a link, as editors make them");
    let options = |dot_files| Options { dot_files, ..Options::default() };
    let load = |dot_files| {
        tollgate_rule_files::load(&[folder.path().to_owned()], &options(dot_files)).expect("loads").policy
    };
    assert_eq!(names(&load(false)), ["a"]);
    assert_eq!(names(&load(true)), ["b", "a"]);
    assert_eq!(
        tollgate_rule_files::hidden_files(&[folder.path().to_owned()]).expect("a folder"),
        [at(".config.yaml"), at(".l.values")]
    );
    // Whoever follows the folder sees them alike.
    let settings = WatchSettings::new(vec![folder.path().to_owned()], options(true));
    let (mut source, _handle) = FileSource::watch(settings);
    assert_eq!(names(&source.next().expect("an update").policy.expect("rules")), ["b", "a"]);
}

#[cfg(unix)]
#[test]
fn a_kubernetes_config_map_is_read_once_before_and_after_a_swap() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for (version, number) in [("..2026_11_21", 1), ("..2026_11_22", 2)] {
        fs::create_dir(at(version)).expect("made");
        let text = format!(
            "domain: shop\ndescriptors: [{{key: a, rate_limit: {{unit: day, requests_per_unit: {number}}}}}]"
        );
        fs::write(at(version).join("shop.yaml"), text).expect("written");
    }
    symlink("..2026_11_21", at("..data")).expect("linked");
    symlink("..data/shop.yaml", at("shop.yaml")).expect("linked");
    let before = load(folder.path()).expect("loads");
    symlink("..2026_11_22", at("..data_tmp")).expect("linked");
    fs::rename(at("..data_tmp"), at("..data")).expect("swapped");
    let after = load(folder.path()).expect("loads");
    let number =
        |policy: &Policy| policy.rules().map(|rule| rule.limits[0].requests_per_unit).collect::<Vec<_>>();
    assert_eq!((number(&before), number(&after)), (vec![1], vec![2]));
    assert_ne!(before.version(), after.version());
}

#[cfg(unix)]
#[test]
fn links_to_parents_are_ignored_and_missing_rule_files_are_named() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().expect("a folder");
    symlink("nowhere.txt", folder.path().join("readme")).expect("linked");
    assert!(load(folder.path()).is_ok());
    symlink("nowhere.yaml", folder.path().join("gone.yaml")).expect("linked");
    let error = load(folder.path()).expect_err("a rule file is missing").to_string();
    assert!(error.contains("gone.yaml"), "{error}");
    fs::remove_file(folder.path().join("gone.yaml")).expect("removed");
    for name in ["round", "again", "third"] {
        symlink(".", folder.path().join(name)).expect("linked");
    }
    fs::write(folder.path().join("shop.yaml"), "domain: shop").expect("written");
    assert_eq!(names(&load(folder.path()).expect("loads once")), ["shop"]);
}

#[test]
fn an_unreadable_path_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = load(&folder.path().join("missing")).expect_err("is not there");
    assert!(matches!(&error, LoadError::Unreadable { path, .. } if path.ends_with("missing")));
    let path = folder.path().join("latin1.yaml");
    fs::write(&path, b"domain: a\n# caf\xe9\n").expect("written");
    let error = with_causes(&load(folder.path()).expect_err("is no UTF-8")).to_string();
    assert!(error.contains("latin1.yaml") && error.contains("line 2 is not UTF-8"), "{error}");
    fs::write(&path, vec![b'#'; (16 << 20) + 1]).expect("written");
    let error = with_causes(&load(folder.path()).expect_err("is too large")).to_string();
    assert!(error.contains("more than 16777216 bytes"), "{error}");
    fs::write(&path, "domain: [").expect("written");
    assert!(matches!(load(folder.path()), Err(LoadError::Faulty(_))));
}

#[test]
fn an_empty_folder_makes_a_policy_without_rules() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = load(folder.path()).expect("loads");
    assert!(policy.domains().is_empty() && policy.rules().next().is_none());
}

#[test]
fn the_version_changes_with_the_rules_and_the_revision_with_the_text() {
    let one = rules("domain: a");
    assert_eq!(one.version(), rules("# a comment\n{\"domain\": a}").version());
    assert_ne!(one.version(), rules("domain: b").version());
    let revision = |text: &str| {
        let file = RuleFile { name: "rules.yaml".into(), text: text.into() };
        parse(&[file], &Options::default()).expect("loads").revision
    };
    assert_eq!(revision("domain: a"), revision("domain: a"));
    assert_ne!(revision("domain: a"), revision("domain: a # b"));
    assert!(one.version().len() == 12 && one.version().bytes().all(|byte| byte.is_ascii_hexdigit()));
}

#[test]
fn domains_and_rules_are_numbered_without_gaps() {
    let texts = ["a", "b"].map(|name| RuleFile {
        name: name.into(),
        text: format!(
            "domain: {name}\ndescriptors:\n  - {{key: x, rate_limit: {{unit: day}}, descriptors: [{{key: y, rate_limit: {{unit: day}}}}]}}\n  - {{key: z}}\n"
        ),
    });
    let policy = parse(&texts, &Options::default()).expect("loads").policy;
    let numbers: Vec<usize> = policy.rules().map(|rule| rule.index).collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
    let paths: Vec<&str> = policy.rules().map(|rule| rule.path.as_str()).collect();
    assert_eq!(paths, ["x", "x → y", "x", "x → y"]);
    assert_eq!(policy.domain("b").map(|domain| domain.index()), Some(1));
}

#[test]
fn every_key_of_a_rule_is_read() {
    let policy = rules(
        r#"
domain: shop
charge: together
response: {status: 503}
descriptors:
  - key: a
    shadow_mode: true
    quota_mode: true
    sharing: leased
    on_store_failure: deny
    metadata: {plan: gold, size: 3, half: 0.5, on: true, none: ~, list: [1, "2"]}
    response: {status: 429, content_type: text/plain, body: "wait {{retry_after}} s", headers: {X-Rule: "{{ rule }}"}}
    rate_limit: {name: n, unit: week, requests_per_unit: 3, replaces: [{name: m}]}
  - key: b
    rate_limit: {unit: week, requests_per_unit: 3, sharing: local, on_store_failure: local}
  - key: c
    on_limit: queue
    max_wait: 2s
    rate_limit: {unit: week, requests_per_unit: 3}
    descriptors:
      - {key: d, on_limit: queue, max_wait: 2s, rate_limit: {rate: 3/s, on_limit: reject}}
      - {key: e, on_limit: reject, rate_limit: {rate: 3/s, on_limit: queue, max_wait: 1ms}}
"#,
    );
    let domain = policy.domain("shop").expect("there");
    assert_eq!(
        (domain.charge(), domain.response().and_then(|response| response.status)),
        (Charge::Together, Some(503))
    );
    let [a, b, c, d, e] = domain.rules() else { panic!("five rules") };
    assert_eq!([a, b, d].map(|rule| rule.max_wait), [None; 3]);
    assert_eq!([c, e].map(|rule| rule.max_wait.map(|wait| wait.as_millis())), [Some(2_000), Some(1)]);
    assert!(a.shadow_mode && a.quota_mode && !a.unlimited && !b.shadow_mode && !b.quota_mode);
    assert_eq!((a.sharing, a.on_store_failure), (Sharing::Leased, OnStoreFailure::Deny));
    assert_eq!((b.sharing, b.on_store_failure), (Sharing::Local, OnStoreFailure::Local));
    assert_eq!((a.name.as_str(), a.replaces.as_slice()), ("n", &["m".to_owned()][..]));
    let metadata = a.metadata.as_ref().map(ToString::to_string);
    let want = r#"{"half":0.5,"list":[1,"2"],"none":null,"on":true,"plan":"gold","size":3}"#;
    assert_eq!(metadata.as_deref(), Some(want));
    let response = a.response.as_ref().expect("there");
    assert_eq!(response.headers, [("X-Rule".to_owned(), "{{rule}}".parse().expect("a template"))]);
    assert_eq!(a.place.as_ref().map(ToString::to_string).as_deref(), Some("rules.yaml:6:5"));
}

#[test]
fn a_token_bucket_keeps_its_count_when_its_rate_changes() {
    let text = |rate: u32, path: &str, name: &str| {
        format!(
            "domain: d\ndescriptors:\n  - {{key: {path}, rate_limit: {{name: {name}, unit: second, requests_per_unit: {rate}, algorithm: token_bucket, burst: 100}}}}"
        )
    };
    let noon = Timestamp::from_unix_seconds(1_700_000_000);
    for (path, name) in [("user", "other"), ("users", "same")] {
        let old = rules(&text(10, "user", "same"));
        let new = rules(&text(1000, path, name)).migrated_from(&old, noon);
        let quota = |policy: &Policy, key| {
            let domain = &policy.domains()[0];
            domain.find(&[Entry::new(key, "ann")]).expect("found").limits[0].quota.clone()
        };
        let old = quota(&old, "user");
        let new = quota(&new, path);
        let mut state = old.fresh();
        assert_eq!(old.take(&mut state, Cost(60), noon).remaining(), 40);
        assert_eq!(new.take(&mut state, Cost(1), noon).remaining(), 39, "by {path} or {name}");
    }
}

#[test]
fn a_list_of_values_is_read_with_the_rules_that_refer_to_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    };
    let rule = "domain: d\ndescriptors:\n  - {key: ip, rate: 1/s}\n";
    write(
        "a.yaml",
        &format!("{rule}  - {{key: ip, value_file: lists/../lists/blocked.values, action: deny}}\n"),
    );
    write(
        "lists/blocked.values",
        "# what is blocked\n\n192.0.2.1\n  10.0.0.0/8  \n2001:db8::/32\nann\na/b\nann\n",
    );
    let rules = |path: &Path| tollgate_rule_files::load(&[path.to_owned()], &Options::default());
    let loaded = rules(folder.path()).unwrap_or_else(|error| panic!("{error}"));
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let denied = |policy: &Policy, value: &str| {
        let rule = policy.domains()[0].find(&[Entry::new("ip", value)]).expect("a rule");
        assert_eq!(rule.path, if rule.denies { "ip in lists/../lists/blocked.values" } else { "ip" });
        rule.denies
    };
    for (value, want) in [
        ("192.0.2.1", true),
        ("::ffff:192.0.2.1", true), // another spelling of the same address
        ("192.0.2.2", false),
        ("10.9.8.7", true),
        ("2001:db8::9", true),
        ("ann", true),
        ("a/b", true),
        ("a/c", false),
        ("# what is blocked", false),
        ("", false),
    ] {
        assert_eq!(denied(&loaded.policy, value), want, "{value}");
    }
    assert_eq!(loaded.policy.rules().count(), 2, "one rule, however many values");
    // A change of the list alone is a change of the rules; the rule stays the same one.
    write("lists/blocked.values", "bob\n");
    let changed = rules(folder.path()).unwrap_or_else(|error| panic!("{error}"));
    assert!(denied(&changed.policy, "bob") && !denied(&changed.policy, "ann"));
    assert_ne!((&changed.revision, changed.policy.version()), (&loaded.revision, loaded.policy.version()));
    let identities = |policy: &Policy| policy.rules().map(|rule| rule.identity()).collect::<Vec<_>>();
    assert_eq!(identities(&changed.policy), identities(&loaded.policy));
    // Every fault has its line.
    write("lists/blocked.values", "ann\nb*\n\n10.0.0.1/8\n");
    let faults = rules(folder.path()).expect_err("faulty").to_string();
    let at = format!("{}/a.yaml:4:27: descriptors[1].value_file: line", folder.path().display());
    let want = format!(
        "{at} 2: b* is a pattern, which a list of values cannot have; write it as value: in the rule file\n\
         {at} 4: 10.0.0.1/8 has bits set behind its prefix; write 10.0.0.0/8"
    );
    assert_eq!(faults, want);
    fs::remove_file(folder.path().join("lists/blocked.values")).expect("removed");
    let faults = rules(folder.path()).expect_err("faulty").to_string();
    assert!(faults.contains("no list of values lists/../lists/blocked.values was read"), "{faults}");
    // The paths can also name both.
    write("lists/blocked.values", "ann\n");
    let both = ["a.yaml", "lists/blocked.values"].map(|name| folder.path().join(name));
    let policy = tollgate_rule_files::load(&both, &Options::default()).expect("rules").policy;
    assert!(denied(&policy, "ann"));
}

#[test]
fn a_value_that_is_listed_and_has_a_rule_of_its_own_is_a_fault() {
    let list = |text: &str| RuleFile { name: "l.values".into(), text: text.into() };
    for (own, listed, is_fault) in [
        ("value: ann", "bob\nann\n", true),
        ("value_cidr: 10.0.0.0/8", "10.0.0.0/8\n", true),
        ("value_cidr: 10.0.0.0/8", "10.1.0.0/16\n", false),
        ("value: a*", "ann\n", false),
    ] {
        for list_first in [false, true] {
            let mut both = [format!("{{key: k, {own}}}"), "{key: k, value_file: l.values}".to_owned()];
            if list_first {
                both.reverse();
            }
            let text = format!("{{domain: d, descriptors: [{}]}}", both.join(", "));
            let files = [RuleFile { name: "d.yaml".into(), text }, list(listed)];
            let parsed = tollgate_rule_files::parse(&files, &Options::default());
            assert_eq!(parsed.is_err(), is_fault, "{own} {listed}: {:?}", parsed.err());
        }
    }
}

#[test]
fn a_domain_that_does_not_say_its_charge_has_the_default() {
    let file = |name: &str, charge: &str| RuleFile {
        name: name.into(),
        text: format!("domain: d\n{charge}descriptors: [{{key: {name}, rate_limit: {{unlimited: true}}}}]\n"),
    };
    for (charges, default, want) in [
        (&[""][..], Charge::Each, Charge::Each),
        (&[""], Charge::Together, Charge::Together),
        (&["charge: each\n"], Charge::Together, Charge::Each),
        (&["charge: together\n"], Charge::Each, Charge::Together),
        (&["charge: each\n", ""], Charge::Together, Charge::Each), // merged: a file that does not say it changes nothing
        (&["", "charge: each\n"], Charge::Together, Charge::Each),
    ] {
        let files: Vec<_> = (0..).zip(charges).map(|(at, charge)| file(&format!("k{at}"), charge)).collect();
        let options = Options { merge_domains: true, charge: default, ..Options::default() };
        let rules = parse(&files, &options).expect("valid rules");
        assert_eq!(rules.policy.domains()[0].charge(), want, "{charges:?} {default:?}");
    }
}
