//! Pages call each thing of the console by the name that the console shows.

use std::collections::BTreeSet;

use super::{read, regex, root};

/// The folder with the texts of the console.
const CONSOLE: &str = "crates/control/console/src";

/// Everything that the console shows, in both languages.
fn texts() -> BTreeSet<String> {
    let text = regex(r#""((?:[^"\\]|\\[\s\S])*)""#);
    let mut sources = vec![read(format!("{CONSOLE}/texts.rs"))];
    for entry in std::fs::read_dir(root().join(CONSOLE).join("texts")).expect("a folder").flatten() {
        sources.extend(std::fs::read_to_string(entry.path()));
    }
    sources.iter().flat_map(|source| text.captures_iter(source)).map(|found| found[1].to_owned()).collect()
}

/// The names that a page gives to parts of the console: bold text if all of `page` is about the console, and
/// otherwise the names of console pages.
fn names(page: &str, is_all_of_it: bool) -> Vec<String> {
    let patterns: &[&str] = match is_all_of_it {
        true => &[r"\*\*([^*]+)\*\*"],
        false => &[r"\bpage\s+\*\*([^*]+)\*\*", r"\*\*([^*]+)\*\*\s*页面", "“([^”]+)”\\s*页面"],
    };
    let found = |pattern: &&str| -> Vec<String> {
        regex(pattern).captures_iter(page).map(|found| found[1].to_owned()).collect()
    };
    patterns.iter().flat_map(found).collect()
}

#[test]
fn every_name_that_pages_give_to_a_part_of_the_console_is_a_text_of_it() {
    let texts = texts();
    let mut found = 0;
    for folder in ["docs", "docs/zh-CN"] {
        for entry in std::fs::read_dir(root().join(folder)).expect("a folder").flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            let is_all_of_it = path.file_name().is_some_and(|name| name == "console.md");
            for name in names(&std::fs::read_to_string(&path).expect("a page"), is_all_of_it) {
                assert!(texts.contains(&name), "{}: the console has no {name:?}", path.display());
                found += 1;
            }
        }
    }
    for (page, heading) in [("README.md", "## Console\n"), ("README.zh-CN.md", "id=\"console\"")] {
        let page = read(page);
        let (_, section) = page.split_once(heading).expect("a section");
        for name in names(section, true) {
            assert!(texts.contains(&name), "the console has no {name:?}");
            found += 1;
        }
    }
    assert!(found >= 35, "only {found} names");
}

#[test]
fn a_name_that_the_console_does_not_have_is_found() {
    let page = "on the page **Blocks**, **not a page**, the page\n**Tokens**; 在“临时封禁”页面，**设置**页面，**其他**";
    assert_eq!(names(page, false), ["Blocks", "Tokens", "设置", "临时封禁"]);
    assert_eq!(names("**Adopt** and **Drop**", true), ["Adopt", "Drop"]);
    assert!(texts().contains("Blocks") && !texts().contains("Temporary blocks"));
}
