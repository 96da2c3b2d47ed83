//! Rule files as a source: what is supplied, and when the source ends. With a limiter: `tests/follow.rs`
//! there.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use tollgate_policy::{Entry, RuleSource};
use tollgate_rule_files::{FileSource, LoadError, Options, WatchHandle, WatchSettings, load};

const RULES: &str = "{domain: d, descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]}";

fn watch(folder: &Path, loaded: Option<String>) -> (FileSource, WatchHandle) {
    let settings = WatchSettings::new(vec![folder.to_owned()], Options::default());
    let poll = Duration::from_millis(20);
    let settle = Duration::from_millis(1);
    FileSource::watch(WatchSettings { loaded, poll, settle, ..settings })
}

#[test]
fn files_that_are_loaded_already_are_supplied_once_they_change_or_are_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rules.yaml");
    fs::write(&file, RULES).expect("a file");
    let rules = load(&[folder.path().to_owned()], &Options::default()).expect("rules");
    let (mut source, handle) = watch(folder.path(), Some(rules.revision.clone()));
    handle.reload_now();
    let update = source.next().expect("an update");
    assert_eq!(update.revision, rules.revision, "the files have not changed");
    fs::write(&file, format!("{RULES} # the same rules")).expect("a file");
    let update = source.next().expect("an update");
    assert_ne!(update.revision, rules.revision);
    assert_eq!(update.policy.expect("rules").version(), rules.policy.version());
}

#[test]
fn files_that_are_not_loaded_yet_are_supplied_at_once_with_their_warnings() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("rules.yaml"), "domain: d\nunit: day\n").expect("a file");
    let (mut source, _handle) = watch(folder.path(), None);
    let update = source.next().expect("an update");
    assert!(update.policy.is_ok());
    assert!(
        update.warnings[0].ends_with("rules.yaml:2:1: unit: has no effect here; it belongs under rate_limit")
    );
}

#[test]
fn a_folder_without_rule_files_is_an_error_and_a_missing_one_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut source, _handle) = watch(folder.path(), None);
    let update = source.next().expect("an update");
    assert!(matches!(update.policy, Err(LoadError::NoFiles)));
    fs::write(folder.path().join("l.values"), "a list\n").expect("a file");
    let (mut source, _handle) = watch(folder.path(), None);
    assert!(
        matches!(source.next().expect("an update").policy, Err(LoadError::NoFiles)),
        "lists are no rules"
    );
    let (mut source, _handle) = watch(&folder.path().join("missing"), None);
    let update = source.next().expect("an update");
    assert!(matches!(update.policy, Err(LoadError::Unreadable { .. })));
}

#[test]
fn a_change_of_a_list_of_values_is_supplied() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = "{domain: d, descriptors: [{key: a, value_file: l.values, action: deny}]}";
    fs::write(folder.path().join("rules.yaml"), rules).expect("a file");
    fs::write(folder.path().join("l.values"), "ann\n").expect("a file");
    let (mut source, _handle) = watch(folder.path(), None);
    let mut denies = |value: &str| {
        let policy = source.next().expect("an update").policy.expect("rules");
        policy.domains()[0].find(&[Entry::new("a", value)]).is_some_and(|rule| rule.denies)
    };
    assert!(denies("ann"));
    fs::write(folder.path().join("l.values"), "bob\n").expect("a file");
    assert!(denies("bob"));
}

#[test]
fn the_source_ends_with_its_handle() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("rules.yaml"), RULES).expect("a file");
    let (mut source, handle) = watch(folder.path(), None);
    assert!(source.next().is_some());
    let waiting = std::thread::spawn(move || source.next().is_none());
    drop(handle);
    assert!(waiting.join().expect("the source waits without a panic"));
}
