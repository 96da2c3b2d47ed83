//! The changelog: entries that wait for a release in `changelog.d/`, and the size of each release.

use super::{read, root};

/// The kinds of changes, as `changelog.d/README.md` lists them.
const TYPES: [&str; 5] = ["breaking", "feature", "fix", "performance", "docs"];
/// The most lines of an entry, and the most columns of a line.
const LINES: usize = 6;
const COLUMNS: usize = 110;
/// The most lines of one release.
const RELEASE_LINES: usize = 80;

/// The first thing that is wrong with an entry.
fn fault(name: &str, text: &str) -> Option<&'static str> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let [subject, kind, "md"] = name.split('.').collect::<Vec<_>>()[..] else {
        return Some("name it NAME.TYPE.md");
    };
    let lines: Vec<&str> = text.lines().collect();
    let checks = [
        (subject.is_empty() || !subject.chars().all(is_plain), "NAME has lowercase letters, digits, hyphens"),
        (!TYPES.contains(&kind), "unknown type; see changelog.d/README.md"),
        (lines.is_empty(), "it is empty"),
        (lines.len() > LINES, "it is too long: move details to docs/"),
        (lines.iter().any(|line| line.chars().count() > COLUMNS), "a line is wider than 110 columns"),
        (lines.iter().any(|line| line.trim().is_empty()), "write one paragraph"),
        (text.starts_with(['#', '-', '*', ' ']), "begin with the text, not with a heading or bullet"),
        (!text.trim_end().ends_with('.'), "end with a full stop"),
    ];
    checks.into_iter().find_map(|(is_wrong, why)| is_wrong.then_some(why))
}

#[test]
fn every_entry_of_the_changelog_has_a_known_type_and_is_one_short_paragraph() {
    for entry in std::fs::read_dir(root().join("changelog.d")).expect("a folder") {
        let name = entry.expect("a file").file_name().into_string().expect("a name in UTF-8");
        if name != "README.md" {
            assert_eq!(fault(&name, &read(format!("changelog.d/{name}"))), None, "changelog.d/{name}");
        }
    }
    let page = read("changelog.d/README.md");
    for kind in TYPES {
        assert!(page.contains(&format!("| `{kind}` |")), "changelog.d/README.md does not explain {kind}");
    }
}

#[test]
fn a_fault_of_an_entry_of_the_changelog_is_found() {
    let line = |columns: usize| format!("{}.\n", "x".repeat(columns - 1));
    for (name, text, is_good) in [
        ("queue-wait.fix.md", "A place is free at once.\n".to_owned(), true),
        ("rate-2.breaking.md", line(COLUMNS), true),
        ("a.feature.md", line(COLUMNS + 1), false),
        ("a.docs.md", line(3).repeat(LINES), true),
        ("a.docs.md", line(3).repeat(LINES + 1), false),
        ("a.bugfix.md", line(9), false),
        ("a.md", line(9), false),
        ("A b.fix.md", line(9), false),
        (".fix.md", line(9), false),
        ("a.fix.txt", line(9), false),
        ("a.fix.md", String::new(), false),
        ("a.fix.md", "- A bullet.\n".to_owned(), false),
        ("a.fix.md", "# A heading.\n".to_owned(), false),
        ("a.fix.md", "One.\n\nTwo.\n".to_owned(), false),
        ("a.fix.md", "No stop\n".to_owned(), false),
    ] {
        assert_eq!(fault(name, &text).is_none(), is_good, "{name}: {text}");
    }
}

#[test]
fn every_release_of_the_changelog_fits_on_two_screens() {
    let page = read("CHANGELOG.md");
    assert!(!page.contains("Unreleased"), "changes that wait for a release are files of changelog.d/");
    for release in page.split("\n## ").skip(1) {
        let name = release.lines().next();
        let lines = release.lines().count();
        assert!(lines <= RELEASE_LINES, "{name:?} has {lines} lines");
    }
}
