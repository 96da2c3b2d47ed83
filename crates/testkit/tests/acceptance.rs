//! What `docs/internal/acceptance.md` and the pages of guarantees claim can be looked up: every test that
//! they name exists, is run, and does something. `./test` also fails when one of them was skipped in its run.
#![allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn every_test_named_in_the_acceptance_page_is_run() {
    assert_named_tests_are_run("internal/acceptance.md", 40, 3);
}

#[test]
fn every_test_named_in_the_pages_of_guarantees_is_run() {
    // A name with fewer words is a metric, a setting or an algorithm.
    assert_named_tests_are_run("guarantees.md", 15, 5);
    assert_named_tests_are_run("guarantees-memcache.md", 5, 5);
}

#[test]
fn every_test_in_a_browser_that_the_acceptance_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/internal/acceptance.md")).expect("the page");
    let mut tests = String::new();
    for file in fs::read_dir(root.join("browser-tests/tests")).expect("a folder") {
        tests.push_str(&fs::read_to_string(file.expect("a file").path()).expect("a text"));
    }
    let is_id =
        |it: &&str| it.strip_prefix('B').is_some_and(|it| it.starts_with(|c: char| c.is_ascii_digit()));
    let named: BTreeSet<&str> = page.split('`').skip(1).step_by(2).filter(is_id).collect();
    assert!(named.len() >= 5, "only {named:?}");
    let missing = named.into_iter().filter(|id| !tests.contains(&format!("id: \"{id}\"")));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&str>::new());
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
        assert_eq!(fault_of("named", source), want, "{source}");
    }
}

/// The page names `least` tests or more; a quoted name with `underscores` or more is one.
fn assert_named_tests_are_run(page: &str, least: usize, underscores: usize) {
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
                && quoted.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        })
        .collect();
    assert!(named.len() >= least, "only {} tests named", named.len());
    let faults: Vec<_> = named
        .iter()
        .filter_map(|name| fault_of(name, &source).map(|fault| format!("{name} {fault}")))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Why the source does not show that the test `name` shows anything; `None` if nothing speaks against it.
fn fault_of(name: &str, source: &str) -> Option<&'static str> {
    let Some(at) = ["(", "<"].iter().find_map(|next| source.find(&format!("fn {name}{next}"))) else {
        return Some("does not exist");
    };
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

/// What is between the braces of the function whose line begins at `line`: up to the first `}` of its own
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
