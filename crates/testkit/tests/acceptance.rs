//! What `docs/acceptance.md` claims can be looked up: every test that it names exists.
#![allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn every_test_named_in_the_acceptance_page_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut source = String::new();
    read_rust(&root.join("crates"), &mut source);
    let page = fs::read_to_string(root.join("docs/acceptance.md")).expect("the page");
    let named: BTreeSet<&str> = page
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|quoted| {
            quoted.contains('_') && quoted.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
        .collect();
    assert!(named.len() > 40, "only {} tests named", named.len());
    let missing: Vec<_> = named.iter().filter(|name| !source.contains(&format!("fn {name}("))).collect();
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
