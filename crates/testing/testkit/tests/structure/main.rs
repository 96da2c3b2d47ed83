//! The structure of the workspace is what its folders say: crates depend on the floors that their floor's
//! README allows, the files of a crate do not import each other in a circle, few types share a name, and errors
//! say their cause once.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of a test count as no test to clippy")]

mod circles;
mod errors;
mod floors;
mod imports;
mod names;
mod source;

use std::path::{Path, PathBuf};

use floors::{Crate, Floor};
use regex::Regex;

/// Circles that are left, each a set of files of one crate. A circle that is gone must leave this list.
const KNOWN_CIRCLES: &[&[&str]] = &[];

#[test]
fn crates_depend_on_their_own_floor_and_those_that_its_readme_allows() {
    assert_eq!(floors::faults(&floors()), [""; 0]);
}

#[test]
fn every_floor_has_a_readme_with_its_words_invariants_boundary_tests_and_a_recipe() {
    assert_eq!(floors::faults_of_readmes(&floors()), [""; 0]);
}

#[test]
fn links_of_the_readmes_lead_to_a_file_or_a_folder() {
    let link = Regex::new(r"\]\(([^)#]+)[^)]*\)").expect("a regular expression");
    for Floor { name, readme, .. } in floors() {
        let folder = root().join("crates").join(&name);
        let links: Vec<String> = link.captures_iter(&readme).map(|found| found[1].to_owned()).collect();
        assert!(links.len() >= 3, "{name}/README.md has only {links:?}");
        for link in links {
            assert!(folder.join(&link).exists(), "{name}/README.md: {link} leads nowhere");
        }
    }
}

#[test]
fn the_map_has_every_crate() {
    assert_eq!(floors::faults_of_map(&read("ARCHITECTURE.md"), &floors()), [""; 0]);
}

/// In other crates a comment stands where a name is not enough.
#[test]
fn published_crates_and_no_other_must_document_all_that_is_public() {
    let faults = floors().into_iter().flat_map(|floor| floor.crates).filter(|Crate { path, manifest }| {
        let library = root().join("crates").join(path).join("src/lib.rs");
        let is_held =
            std::fs::read_to_string(library).is_ok_and(|it| it.contains("\n#![deny(missing_docs)]"));
        is_held != manifest.contains("\npublish = true")
    });
    assert_eq!(faults.map(|it| it.path).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn files_of_a_crate_import_each_other_in_no_circle() {
    let mut found = Vec::new();
    for Crate { path, .. } in floors().iter().flat_map(|floor| &floor.crates) {
        let modules = source::modules(&root().join("crates").join(path).join("src"));
        for circle in circles::of(&imports::between(&modules)) {
            found.push(circle.iter().map(|file| format!("{path}/{file}")).collect::<Vec<_>>());
        }
    }
    let known: Vec<Vec<String>> =
        KNOWN_CIRCLES.iter().map(|circle| circle.iter().map(ToString::to_string).collect()).collect();
    let new: Vec<_> =
        found.iter().filter(|circle| !known.contains(circle)).map(|c| c.join(" <-> ")).collect();
    assert!(new.is_empty(), "{} new circles between files:\n{}", new.len(), new.join("\n"));
    let gone: Vec<_> = known.iter().filter(|circle| !found.contains(circle)).collect();
    assert!(gone.is_empty(), "no longer circles, remove them from KNOWN_CIRCLES: {gone:?}");
}

/// Who prints an error for people prints its causes too, so that a message with its cause in it says it twice.
#[test]
fn no_error_repeats_its_source_in_its_message() {
    let mut found = errors::Found::default();
    for folder in ["crates", "benches", "fuzz"] {
        errors::read(&root().join(folder), &mut found);
    }
    let errors::Found { messages, sources, faults } = found;
    // Fewer mean that the test has gone blind.
    assert!(messages > 300 && sources > 30, "only {messages} messages and {sources} sources were read");
    assert!(faults.is_empty(), "{} messages:\n{}", faults.len(), faults.join("\n"));
}

/// A name that many types share says too little. A search for it finds the others first.
#[test]
fn no_type_name_is_used_more_than_five_times() {
    const MOST: usize = 5;
    let names = names::of_types(&root(), &["crates", "benches"]);
    assert!(names.len() > 2_000, "only {} names were found", names.len());
    let found: Vec<String> = names
        .iter()
        .filter(|(_, places)| places.len() > MOST)
        .map(|(name, places)| format!("{name} ({}):\n  {}", places.len(), places.join("\n  ")))
        .collect();
    assert!(found.is_empty(), "names of more than {MOST} types; rename some:\n{}", found.join("\n"));
}

/// Rights come from the login or token of a request. Pages and API that act as the program itself would have
/// all of them.
#[test]
fn the_console_never_acts_as_the_program_itself() {
    let modules = source::modules(&root().join("crates/control/console/src"));
    assert!(modules.len() > 50, "only {} files were read", modules.len());
    let takes_all = |module: &&source::Module| ALL_RIGHTS.iter().any(|it| has(&module.tokens, it));
    let found: Vec<_> = modules.values().filter(takes_all).map(|it| &it.file).collect();
    assert!(found.is_empty(), "take the claim of the visitor instead: {found:?}");
    // The same words are found where they may be: a function with a new name would go unnoticed.
    let folders =
        ["crates/control/control/src", "crates/control/control/tests", "crates/testing/harness/src"];
    let others = folders.map(|folder| source::modules(&root().join(folder)));
    for words in ALL_RIGHTS {
        let is_there = others.iter().flat_map(|it| it.values()).any(|it| has(&it.tokens, words));
        assert!(is_there, "{words:?} would not be found");
    }
}

/// Ways to all rights.
const ALL_RIGHTS: &[&[&str]] = &[
    &["Actor", "::", "system"],
    &["Who", "::", "system"],
    &["Claim", "::", "program"],
    &["Claim", "::", "assumed"],
    &[".", "acting", "("],
    // These ask for no claim.
    &["control", ".", "commit", "("],
    &["control", ".", "commit_beside", "("],
];

fn has(tokens: &[String], words: &[&str]) -> bool {
    tokens.windows(words.len()).any(|it| it == words)
}

/// The floors, each with its crates. The server is a floor and a crate.
fn floors() -> Vec<Floor> {
    let mut floors: Vec<Floor> = folders_in("crates")
        .into_iter()
        .map(|name| {
            let mut paths = folders_in(&format!("crates/{name}"));
            paths.iter_mut().for_each(|folder| *folder = format!("{name}/{folder}"));
            paths.push(name.clone());
            let manifest = |path: String| {
                let manifest =
                    std::fs::read_to_string(root().join(format!("crates/{path}/Cargo.toml"))).ok()?;
                Some(Crate { path, manifest })
            };
            let crates = paths.into_iter().filter_map(manifest).collect();
            let readme = read(&format!("crates/{name}/README.md"));
            Floor { name, readme, crates }
        })
        .collect();
    floors.sort_by(|a, b| a.name.cmp(&b.name));
    let crates: usize = floors.iter().map(|floor| floor.crates.len()).sum();
    assert!(floors.len() > 8 && crates > 40, "only {crates} crates on {} floors", floors.len());
    floors
}

fn folders_in(path: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(path)).expect("a folder").flatten();
    entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().expect("a name in UTF-8"))
        .collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
