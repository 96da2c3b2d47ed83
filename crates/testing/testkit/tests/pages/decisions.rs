//! Decisions: one form for all pages of `docs/decisions`, and an index that lists each.

use std::collections::BTreeSet;

use super::{pages_below, read, regex};

const FOLDER: &str = "docs/decisions";

/// One sentence for each fault of the pages of decisions (name of the file, text) and of their index.
fn faults(pages: &[(String, String)], index: &str) -> Vec<String> {
    let name = regex(r"^(\d{4})-[a-z0-9-]+\.md$");
    let mut numbers = BTreeSet::new();
    let mut out = Vec::new();
    for (file, page) in pages {
        let Some(number) = name.captures(file).map(|found| found[1].to_owned()) else {
            out.push(format!("{file}: expected a name such as 0001-a-title.md"));
            continue;
        };
        if !numbers.insert(number.clone()) {
            out.push(format!("{file}: another page has this number"));
        }
        let mut parts = page.split("\n## ");
        let title = parts.next().and_then(|head| head.trim().strip_prefix(&format!("# {number}. ")));
        let Some(title) = title.filter(|title| !title.contains('\n')) else {
            out.push(format!("{file}: expected a title such as \"# {number}. A title\""));
            continue;
        };
        let sections: Vec<&str> = parts
            .filter_map(|part| part.split_once('\n'))
            .filter(|(_, text)| !text.trim().is_empty())
            .map(|(heading, _)| heading)
            .collect();
        if sections != ["Context", "Decision", "Price"] {
            out.push(format!("{file}: expected Context, Decision, Price, each with text: {sections:?}"));
        }
        let line = format!("- [{number}]({file}) {title}");
        if index.lines().filter(|found| *found == line).count() != 1 {
            out.push(format!("{file}: expected one line in the index: {line}"));
        }
    }
    for link in regex(r"\]\((\d[^)]*)\)").captures_iter(index) {
        if !pages.iter().any(|(file, _)| *file == link[1]) {
            out.push(format!("the index names {}, which does not exist", &link[1]));
        }
    }
    out
}

#[test]
fn every_decision_has_a_number_three_sections_and_a_line_in_the_index() {
    let paths = pages_below(FOLDER);
    let mut pages: Vec<(String, String)> =
        paths.iter().map(|path| (path[FOLDER.len() + 1..].to_owned(), read(path))).collect();
    pages.retain(|(file, _)| file != "README.md");
    assert!(!pages.is_empty());
    let found = faults(&pages, &read(format!("{FOLDER}/README.md")));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn each_fault_of_a_decision_is_found() {
    let page = |number: &str| {
        format!("# {number}. A title\n\n## Context\n\na\n\n## Decision\n\nb\n\n## Price\n\nc\n")
    };
    let whole_index = "# Decisions\n\n- [0001](0001-one.md) A title\n- [0002](0002-two.md) A title\n";
    let faults_with = |file: &str, text: &str, index: &str| {
        let pages = [("0001-one.md", page("0001")), (file, text.to_owned())];
        faults(&pages.map(|(file, page)| (file.to_owned(), page)), index)
    };
    let second = page("0002");
    assert_eq!(faults_with("0002-two.md", &second, whole_index), [""; 0]);
    for (file, text, index, want) in [
        ("two.md", second.clone(), whole_index.to_owned(), "expected a name"),
        ("0001-two.md", page("0001"), whole_index.replace("0002", "0001"), "another page has this number"),
        ("0002-two.md", page("0003"), whole_index.to_owned(), "expected a title"),
        ("0002-two.md", second.replace("## Price", "## Cost"), whole_index.to_owned(), "expected Context"),
        ("0002-two.md", second.replace("\nc\n", "\n"), whole_index.to_owned(), "expected Context"),
        (
            "0002-two.md",
            second.clone(),
            whole_index.replace("two.md) A", "two.md) B"),
            "one line in the index",
        ),
        ("0002-two.md", second.clone(), format!("{whole_index}- [0003](0003-x.md) X\n"), "does not exist"),
    ] {
        let found = faults_with(file, &text, &index);
        assert!(found.iter().any(|fault| fault.contains(want)), "{file} {text}: {found:?}");
    }
}
