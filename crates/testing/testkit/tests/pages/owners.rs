//! Every folder has one team that reviews its changes, and every file that a recipe names exists.

use std::collections::BTreeMap;
use std::path::Path;

use super::{read, regex, root};

/// The team of each folder. A line without exactly one team is an error.
fn owners(text: &str) -> Result<BTreeMap<&str, &str>, String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pairs = lines.map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [folder, team] if team.starts_with("@tollgate/") => Ok((folder, team)),
        _ => Err(line.to_owned()),
    });
    pairs.collect()
}

/// The folders in `folder`, as CODEOWNERS writes them.
fn folders(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).expect("a folder").flatten();
    let paths = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    let names = paths.filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
    names.map(|name| format!("/{folder}{name}/")).collect()
}

#[test]
fn every_folder_has_one_team() {
    let text = read(".github/CODEOWNERS");
    let owners = owners(&text).expect("one team a line");
    for folder in owners.keys().filter(|folder| **folder != "*") {
        assert!(root().join(folder.trim_matches('/')).is_dir(), "{folder} is not a folder");
    }
    assert!(owners.contains_key("*"), "files of no folder");
    let unowned = |folder: &String| !owners.contains_key(folder.as_str()) && !is_left_out(folder);
    let missing: Vec<String> = folders("crates/").into_iter().chain(folders("")).filter(unowned).collect();
    assert!(missing.is_empty(), "no team for {missing:?}");
}

/// Folders of tools, those that git ignores, and `crates`, whose folders have teams of their own.
fn is_left_out(folder: &str) -> bool {
    let ignored = read(".gitignore");
    let is_ignored = ignored.lines().any(|line| line.trim_matches('/') == folder.trim_matches('/'));
    folder.starts_with("/.") || folder == "/crates/" || is_ignored
}

#[test]
fn a_line_of_the_owners_has_one_team() {
    assert_eq!(owners("# a\n/docs/ @tollgate/docs\n").map(|it| it["/docs/"]), Ok("@tollgate/docs"));
    for line in ["/docs/", "/docs/ @tollgate/a @tollgate/b", "/docs/ @somebody"] {
        assert_eq!(owners(line), Err(line.to_owned()));
    }
}

#[test]
fn every_file_that_a_recipe_names_exists() {
    let page = read("docs/internal/recipes.md");
    let path = regex(r"`((?:crates|docs|browser-tests|fuzz|examples)/[^` ]*)`");
    let named: Vec<&str> =
        path.captures_iter(&page).filter_map(|found| Some(found.get(1)?.as_str())).collect();
    assert!(named.len() >= 50, "only {} files", named.len());
    let missing: Vec<&&str> = named.iter().filter(|path| !root().join(Path::new(path)).exists()).collect();
    assert!(missing.is_empty(), "there is no {missing:?}");
}
