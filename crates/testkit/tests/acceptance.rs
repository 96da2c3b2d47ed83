//! What `docs/internal/acceptance.md` and the pages of guarantees claim can be looked up: every test that they name exists.
#![allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn every_test_named_in_the_acceptance_page_exists() {
    assert_named_tests_exist("internal/acceptance.md", 40, 1);
}

#[test]
fn every_test_named_in_the_pages_of_guarantees_exists() {
    // What has fewer words is a metric, a setting or an algorithm.
    assert_named_tests_exist("guarantees.md", 15, 5);
    assert_named_tests_exist("guarantees-memcache.md", 5, 5);
}

/// At least `least` tests are named; what is quoted and has so many underscores is one.
fn assert_named_tests_exist(page: &str, least: usize, underscores: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut source = String::new();
    read_rust(&root.join("crates"), &mut source);
    let page = fs::read_to_string(root.join("docs").join(page)).expect("the page");
    let named: BTreeSet<&str> = page
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|quoted| {
            quoted.matches('_').count() >= underscores
                && quoted.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
        .collect();
    assert!(named.len() >= least, "only {} tests named", named.len());
    let exists = |name: &str| ["(", "<"].iter().any(|next| source.contains(&format!("fn {name}{next}")));
    let missing: Vec<_> = named.iter().filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "no such test: {missing:?}");
}

fn read_rust(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            read_rust(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(&path).expect("a source file"));
        }
    }
}
