//! The folders of what releases have written.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Names a release: then what this build writes is kept for it.
const KEEP: &str = "TOLLGATE_KEEP";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upgrades")
}

/// The folders of one part, one for each release.
pub(crate) fn releases(part: &str) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(root().join("kept"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path());
    let mut found: Vec<PathBuf> = folders.map(|path| path.join(part)).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

/// Has `write` fill a temporary folder by this build. `TOLLGATE_KEEP` keeps a copy for the release that it
/// names.
pub(crate) fn of_this_build(part: &str, write: impl FnOnce(&Path)) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path());
    if let Some(name) = std::env::var_os(KEEP).filter(|name| !name.is_empty()) {
        copy(folder.path(), &root().join("kept").join(name).join(part));
    }
    folder
}

/// A file of a release.
pub(crate) fn read(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Copies the files to the folder of a release. Existing files stay.
fn copy(from: &Path, to: &Path) {
    assert!(!to.exists(), "{} is there; remove it if its release is not out yet", to.display());
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").map(|entry| entry.expect("an entry")) {
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copied")),
        }
    }
}
