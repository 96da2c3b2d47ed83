//! The structure of the workspace is what ARCHITECTURE.md says: crates depend on lower layers only, and the
//! files of a crate do not import each other in a circle.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of a test count as no test to clippy")]

mod circles;
mod imports;
mod layers;
mod source;

use std::path::{Path, PathBuf};

/// Circles that are left, each a set of files of one crate. A circle that is gone must leave this list.
const KNOWN_CIRCLES: &[&[&str]] = &[];

#[test]
fn no_crate_depends_on_its_own_layer_or_a_higher_one() {
    let layers = layers::read(&read("ARCHITECTURE.md"));
    let faults = layers::faults(&layers, &manifests());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn files_of_a_crate_import_each_other_in_no_circle() {
    let mut found = Vec::new();
    for (name, folder) in crates() {
        let modules = source::modules(&folder.join("src"));
        for circle in circles::of(&imports::between(&modules)) {
            found.push(circle.iter().map(|file| format!("{name}/{file}")).collect::<Vec<_>>());
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

/// Rights come from the login or token of a request. Pages and API that act as the program itself would have
/// all of them.
#[test]
fn the_console_never_acts_as_the_program_itself() {
    let modules = source::modules(&root().join("crates/control/console/src"));
    assert!(modules.len() > 50, "only {} files were read", modules.len());
    let takes_all = |module: &&source::Module| ALL_RIGHTS.iter().any(|it| has(&module.tokens, it));
    let found: Vec<_> = modules.values().filter(takes_all).map(|it| &it.file).collect();
    assert!(found.is_empty(), "take the claim of the visitor instead: {found:?}");
    // The same words are found where they may be.
    let control = source::modules(&root().join("crates/control/control/src"));
    for words in &ALL_RIGHTS[..3] {
        assert!(control.values().any(|it| has(&it.tokens, words)), "{words:?} would not be found");
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
    &["control", ".", "change", "("],
    &["control", ".", "change_beside", "("],
];

fn has(tokens: &[String], words: &[&str]) -> bool {
    tokens.windows(words.len()).any(|it| it == words)
}

/// Name and folder of every crate of the workspace.
fn crates() -> Vec<(String, PathBuf)> {
    let floors = folders_in(&root().join("crates"));
    let mut found: Vec<_> = floors
        .iter()
        .flat_map(|floor| folders_in(floor))
        .chain(floors.iter().cloned())
        .filter(|folder| folder.join("Cargo.toml").is_file())
        .map(|folder| (name_of(&manifest(&folder)), folder))
        .collect();
    found.sort();
    found
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn manifest(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest")
}

/// The package's name without `tollgate-`.
fn name_of(manifest: &str) -> String {
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = ")).expect("a name");
    let name = name.trim_matches('"');
    name.strip_prefix("tollgate-").unwrap_or(name).to_owned()
}

/// Name and Cargo.toml of every crate of the workspace.
fn manifests() -> Vec<(String, String)> {
    crates().into_iter().map(|(name, folder)| (name, manifest(&folder))).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect("a page of the project")
}
