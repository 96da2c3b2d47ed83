//! Pages that must stay equal: the Chinese pages to the English ones, and what pages show of a file to the
//! file. Links lead somewhere, and Chinese texts keep to the list of words.
#![allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use regex::Regex;

#[path = "pages/changelog.rs"]
mod changelog;
#[path = "pages/console.rs"]
mod console;
#[path = "pages/decisions.rs"]
mod decisions;
#[path = "pages/owners.rs"]
mod owners;

/// The pages of `docs/` that `docs/zh-CN/` has too.
const TRANSLATED: [&str; 12] = [
    "rules.md",
    "choosing.md",
    "library.md",
    "coming-from-libraries.md",
    "http.md",
    "headers.md",
    "token-quotas.md",
    "concurrency.md",
    "operating.md",
    "control.md",
    "console.md",
    "guarantees.md",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn regex(text: &str) -> Regex {
    Regex::new(text).expect("a regular expression")
}

/// Parts that two pages in different languages have in common, from one heading to the next.
#[derive(Debug, Default, PartialEq)]
struct Section {
    /// Its level, and the anchor that links use.
    heading: (usize, String),
    /// The language of each block of code, and its lines without comments.
    blocks: Vec<(String, Vec<String>)>,
    /// Rows of tables, and those that hold only numbers as they are.
    rows: (usize, Vec<String>),
    list_items: usize,
    code: BTreeSet<String>,
    links: BTreeSet<String>,
}

/// The anchor that a heading has by itself.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// A line of code without its comment, which is translated.
fn uncommented(line: &str) -> String {
    let marks = ["# ", "// ", "/** ", "\"\"\""].into_iter().filter_map(|mark| {
        let at = line.find(mark)?;
        (at == 0 || line[..at].ends_with(' ')).then_some(at)
    });
    line[..marks.min().unwrap_or(line.len())].trim_end().to_owned()
}

fn sections(page: &str) -> Vec<Section> {
    let anchor = regex(r#"^<a id="([^"]+)"></a>"#);
    let numbers = regex(r"^[\d., %]*$");
    let item = regex(r"^\s*(-|\d+\.) ");
    let code = regex(r"`([^`]+)`");
    let link = regex(r"\]\(([^)]+)\)");
    let mut sections = vec![Section::default()];
    let mut prose = vec![String::new()];
    let mut block: Option<(String, Vec<String>)> = None;
    for line in page.lines() {
        let section = sections.last_mut().expect("one at least");
        if let Some((_, lines)) = &mut block {
            if line.trim_start() == "```" {
                section.blocks.extend(block.take());
            } else {
                lines.push(uncommented(line));
            }
        } else if let Some(language) = line.trim_start().strip_prefix("```") {
            block = Some((language.to_owned(), Vec::new()));
        } else if line.starts_with('#') {
            let (marks, heading) = line.split_once(' ').expect("a heading");
            let id = anchor.captures(heading).map_or_else(|| slug(heading), |found| found[1].to_owned());
            // The title has no anchor that anything links to.
            let id = if marks == "#" { String::new() } else { id };
            sections.push(Section { heading: (marks.len(), id), ..Section::default() });
            prose.push(heading.to_owned());
        } else {
            if line.starts_with('|') {
                section.rows.0 += 1;
                let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
                if cells.len() > 2 && cells[1..].iter().all(|cell| numbers.is_match(cell)) {
                    section.rows.1.push(line.to_owned());
                }
            }
            section.list_items += usize::from(item.is_match(line));
            let prose = prose.last_mut().expect("one at least");
            prose.push(' ');
            prose.push_str(line.trim());
        }
    }
    for (section, prose) in sections.iter_mut().zip(&prose) {
        section.code = code.captures_iter(prose).map(|found| found[1].to_owned()).collect();
        section.links = link.captures_iter(prose).map(|found| found[1].to_owned()).collect();
    }
    sections
}

/// Where a link of an English page leads from its translation: to a Chinese page or picture if there is one.
fn translated(link: &str) -> String {
    let chinese_picture = link.replace(".png", "-zh.png");
    if chinese_picture != link && root().join("docs").join(&chinese_picture).exists() {
        return format!("../{chinese_picture}");
    }
    let page = link.split('#').next().unwrap_or_default();
    match link.starts_with('#') || link.contains("://") || TRANSLATED.contains(&page) {
        true => link.to_owned(),
        false => format!("../{link}"),
    }
}

#[test]
fn every_chinese_page_has_the_sections_code_tables_and_links_of_the_english_one() {
    for page in TRANSLATED {
        let mut english = sections(&read(format!("docs/{page}")));
        for section in &mut english {
            section.links = section.links.iter().map(|link| translated(link)).collect();
        }
        let chinese = sections(&read(format!("docs/zh-CN/{page}")));
        let headings = |sections: &[Section]| -> Vec<_> {
            sections.iter().map(|section| section.heading.clone()).collect()
        };
        assert_eq!(headings(&chinese), headings(&english), "docs/zh-CN/{page}: headings");
        for (chinese, english) in chinese.iter().zip(&english) {
            let at = format!("docs/zh-CN/{page}, section {:?}", english.heading.1);
            assert_eq!(chinese.blocks, english.blocks, "{at}: blocks of code");
            assert_eq!(chinese.rows, english.rows, "{at}: tables");
            assert_eq!(chinese.list_items, english.list_items, "{at}: items of lists");
            assert_eq!(chinese.code, english.code, "{at}: names in the text");
            assert_eq!(chinese.links, english.links, "{at}: links");
        }
    }
}

#[test]
fn what_differs_between_two_pages_is_found() {
    let english = "# Title\n\n## A page\n\n- `a` and [b](b.md)\n\n| x | y |\n|---|---|\n| a | 1 |\n\n```yaml\na: 1 # one\n```\n";
    let chinese = "# 标题\n\n## <a id=\"a-page\"></a>一页\n\n- `a` 和 [b](b.md)\n\n| x | y |\n|---|---|\n| 一 | 1 |\n\n```yaml\na: 1 # 一\n```\n";
    assert_eq!(sections(chinese), sections(english));
    for (from, to) in [
        ("a: 1 ", "a: 2 "),
        ("a-page", "another"),
        ("- `a`", "`a`"),
        ("`a`", "`b`"),
        ("b.md", "c.md"),
        ("| 一 | 1 |\n", ""),
        ("## ", "### "),
        ("```yaml", "```sh"),
    ] {
        let changed = chinese.replace(from, to);
        assert_ne!(sections(&changed), sections(english), "{changed}");
    }
}

/// The pages of a folder and of those below it, as paths from the root.
fn pages_below(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join(folder)).expect("a folder").flatten() {
        let path = format!("{folder}/{}", entry.file_name().into_string().expect("a name in UTF-8"));
        if entry.path().is_dir() {
            found.extend(pages_below(&path));
        } else if entry.path().extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn links_of_the_pages_lead_to_a_page_and_an_anchor() {
    let others = ["README.md", "README.zh-CN.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    let mut anchors: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for page in pages_below("docs").into_iter().chain(others.map(ToOwned::to_owned)) {
        let folder = Path::new(&page).parent().expect("a folder").to_owned();
        for link in sections(&read(&page)).iter().flat_map(|section| &section.links) {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { PathBuf::from(&page) } else { folder.join(file) };
            assert!(root().join(&target).exists(), "{page}: {link} leads nowhere");
            if anchor.is_empty() {
                continue;
            }
            let known = anchors.entry(target).or_insert_with_key(|target| {
                sections(&read(target)).into_iter().map(|section| section.heading.1).collect()
            });
            assert!(known.contains(anchor), "{page}: {link} leads to no section");
        }
    }
}

#[test]
fn every_translated_page_is_linked_from_both_indexes_and_the_chinese_readme_links_to_its_index() {
    let links = |page: &str| -> BTreeSet<String> {
        sections(&read(page)).into_iter().flat_map(|section| section.links).collect()
    };
    for (page, prefix) in [("docs/zh-CN/README.md", ""), ("docs/README.md", "zh-CN/")] {
        let found = links(page);
        for translated in TRANSLATED {
            assert!(found.contains(&format!("{prefix}{translated}")), "{page} lacks {prefix}{translated}");
        }
    }
    assert!(links("README.zh-CN.md").contains("docs/zh-CN/README.md"));
}

#[test]
fn every_page_in_the_chinese_folder_is_held_to_an_english_one() {
    for entry in std::fs::read_dir(root().join("docs/zh-CN")).expect("a folder") {
        let name = entry.expect("a file").file_name().into_string().expect("a name in UTF-8");
        assert!(
            name == "README.md" || TRANSLATED.contains(&&*name),
            "docs/zh-CN/{name} is not in TRANSLATED"
        );
    }
}

#[test]
fn chinese_words_that_the_list_of_words_replaces_are_not_used() {
    let list = read("docs/zh-CN/README.md");
    let (_, rows) = list.split_once("| 英文 | 中文 | 不用 | 说明 |\n|---|---|---|---|\n").expect("the list");
    let mut replaced = Vec::new();
    for row in rows.lines() {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [_, chinese, instead_of, _] = cells[..] else { panic!("not four cells: {row}") };
        replaced.extend(instead_of.split('、').filter(|word| !word.is_empty()).map(|word| (word, chinese)));
    }
    assert!(replaced.len() >= 15, "only {replaced:?}");
    let mut places = vec![root().join("README.zh-CN.md")];
    chinese_texts(&root().join("docs/zh-CN"), &mut places);
    chinese_texts(&root().join("crates"), &mut places);
    assert!(places.iter().filter(|path| path.ends_with("texts.rs")).count() >= 3, "{places:?}");
    let mut found = String::new();
    for path in places.iter().filter(|path| !path.ends_with("docs/zh-CN/README.md")) {
        for (number, line) in read(path).lines().enumerate() {
            for (word, chinese) in replaced.iter().filter(|(word, _)| line.contains(word)) {
                found += &format!("{}:{}: {word}: {chinese}\n", path.display(), number + 1);
            }
        }
    }
    assert!(found.is_empty(), "{found}");
}

/// All pages below a folder, and all sources that hold the texts of a crate in both languages.
fn chinese_texts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let is_text =
            path.ends_with("texts.rs") || folder.ends_with("texts") || folder.ends_with("docs/zh-CN");
        if path.is_dir() {
            chinese_texts(&path, found);
        } else if is_text {
            found.push(path);
        }
    }
}

#[test]
fn the_readmes_are_alike_and_short() {
    let chinese = sections(&read("README.zh-CN.md"));
    let mut english = sections(&read("README.md"));
    for section in &mut english {
        section.links = section.links.iter().map(|link| translated_from_readme(link)).collect();
    }
    assert_eq!(chinese.len(), english.len(), "sections");
    for (chinese, english) in chinese.iter().zip(&english) {
        assert_eq!(chinese, english, "README.zh-CN.md, section {:?}", english.heading.1);
    }
    for page in ["README.md", "README.zh-CN.md"] {
        let lines = read(page).lines().count();
        assert!(lines <= README_LINES, "{page} has {lines} lines; move details to docs/");
    }
}

/// A visitor reads a README in a few minutes; everything else is in `docs/`.
const README_LINES: usize = 150;

/// Where a link of the English README leads from the Chinese one.
fn translated_from_readme(link: &str) -> String {
    let chinese_picture = link.replace(".png", "-zh.png");
    match link.strip_prefix("docs/").unwrap_or_default() {
        _ if link == "README.zh-CN.md" => "README.md".to_owned(),
        _ if chinese_picture != link => chinese_picture,
        page if page == "README.md" || TRANSLATED.contains(&page) => format!("docs/zh-CN/{page}"),
        _ => link.to_owned(),
    }
}

#[test]
fn the_readmes_name_the_envoy_file_that_is_run() {
    for page in ["README.md", "README.zh-CN.md"] {
        let page = read(page);
        assert!(page.contains("envoy -c examples/envoy.yaml") && page.contains("](examples/envoy.yaml)"));
    }
}
