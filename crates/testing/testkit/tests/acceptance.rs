//! Claims of pages can be looked up: every test that they name exists, is run, and does something. `./test`
//! also compares the names with the tests that passed in its run, and lists the rows whose tests were
//! skipped.
#![allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use tollgate_testkit::claims::Named;

#[test]
fn every_test_named_in_the_acceptance_page_is_run() {
    let mut named = Named::default();
    named.read_rows(&page("internal/acceptance.md"));
    assert_named_tests_are_run(&named, 240);
}

#[test]
fn every_test_named_in_any_other_page_is_run() {
    for (folder, least) in [("", 55), ("zh-CN", 5)] {
        let mut named = Named::default();
        for entry in fs::read_dir(root().join("docs").join(folder)).expect("a folder").flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "md") {
                named.read_page(folder, &fs::read_to_string(entry.path()).expect("a page"));
            }
        }
        assert_named_tests_are_run(&named, least);
    }
}

#[test]
fn every_test_in_a_browser_that_the_acceptance_page_names_exists() {
    let mut tests = String::new();
    for file in fs::read_dir(root().join("browser-tests/tests")).expect("a folder") {
        tests.push_str(&fs::read_to_string(file.expect("a file").path()).expect("a text"));
    }
    let mut named = Named::default();
    named.read_rows(&page("internal/acceptance.md"));
    let named: Vec<&str> = named.names().filter(|name| name.starts_with('B')).collect();
    assert!(named.len() >= 10, "only {named:?}");
    let missing = named.into_iter().filter(|id| !tests.contains(&format!("id: \"{id}\"")));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&str>::new());
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join("docs").join(name)).expect("the page")
}

#[test]
fn a_test_that_shows_nothing_is_a_fault() {
    let cases = [
        ("#[test]\nfn named() { assert_eq!(1, f()); }", None),
        ("#[tokio::test(flavor = \"multi_thread\")]\nasync fn named() {\n    run().await;\n}", None),
        ("    #[test]\n    fn named(cost in 1..9_u64) {\n        prop_assert!(cost > 0);\n    }", None),
        ("#[test]\nfn other() { g(); }", Some("does not exist")),
        ("/// As test.\nfn named() { g(); }", Some("is not a test")),
        ("#[test]\nfn a() {}\n\nfn named() { g(); }", Some("is not a test")),
        ("#[test]\n#[ignore = \"slow\"]\nfn named() { g(); }", Some("is ignored")),
        ("#[test]\n#[cfg(any())]\nfn named() { g(); }", Some("is compiled nowhere")),
        ("#[test]\nfn named() {\n    // assert!(f());\n}", Some("is empty")),
        ("#[test]\nfn named() {\n    println!(\"SKIPPED for now\");\n}", Some("only prints")),
        ("#[test]\nfn named() {\n    println!(\"SKIPPED\");\n    return;\n    f();\n}", Some("only prints")),
    ];
    for (source, want) in cases {
        let found = functions(source).get("named").map(|at| fault_at(*at, "named", source));
        assert_eq!(found.unwrap_or(Some("does not exist")), want, "{source}");
    }
}

/// There are `least` tests or more, those in a browser aside.
fn assert_named_tests_are_run(named: &Named, least: usize) {
    let mut source = String::new();
    read_rust(&root().join("crates"), &mut source);
    let named: Vec<&str> = named.names().filter(|name| !name.starts_with('B')).collect();
    assert!(named.len() >= least, "only {} tests named", named.len());
    let places = functions(&source);
    let fault = |name: &&str| match places.get(name) {
        Some(at) => fault_at(*at, name, &source),
        None => Some("does not exist"),
    };
    let faults: Vec<_> =
        named.iter().filter_map(|name| fault(name).map(|fault| format!("{name} {fault}"))).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Where each function of the source begins; of those of one name, the first.
fn functions(source: &str) -> HashMap<&str, usize> {
    let mut places = HashMap::new();
    for (at, _) in source.match_indices("fn ") {
        let rest = &source[at + 3..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if rest[end..].starts_with(['(', '<']) {
            places.entry(&rest[..end]).or_insert(at);
        }
    }
    places
}

/// Why the source does not show that the test `name`, which begins at `at`, shows anything; `None` if nothing
/// speaks against it.
fn fault_at(at: usize, name: &str, source: &str) -> Option<&'static str> {
    let line = source[..at].rfind('\n').map_or(0, |end| end + 1);
    let attributes: Vec<&str> = source[..line]
        .lines()
        .rev()
        .map(str::trim)
        .take_while(|line| !line.is_empty() && !line.ends_with(['}', ';', '{']))
        .filter(|line| !line.starts_with("//"))
        .collect();
    let has = |text: &str| attributes.iter().any(|line| line.contains(text));
    let is_law_of_a_suite = source.contains(&format!("const LAW: &str = \"{name}\""));
    if !has("test]") && !has("::test(") && !is_law_of_a_suite {
        return Some("is not a test");
    }
    if has("ignore") {
        return Some("is ignored");
    }
    if has("cfg(any())") {
        return Some("is compiled nowhere");
    }
    let body: Vec<&str> = body(source, line)
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
        .collect();
    match body.first() {
        None => Some("is empty"),
        Some(first)
            if first.starts_with("println!") && body.get(1).is_none_or(|next| next.starts_with("return")) =>
        {
            Some("only prints")
        }
        Some(_) => None,
    }
}

/// The text between the braces of the function whose line begins at `line`: up to the first `}` of its own
/// indentation.
fn body(source: &str, line: usize) -> &str {
    let text = &source[line..];
    let indentation = text.len() - text.trim_start().len();
    let Some(begin) = text.find('{') else { return "" };
    let first_line = text.find('\n').unwrap_or(text.len());
    let end = if text[..first_line].ends_with('}') {
        first_line - 1
    } else {
        text.find(&format!("\n{}}}", &text[..indentation])).unwrap_or(text.len())
    };
    text.get(begin + 1..end).unwrap_or_default()
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
