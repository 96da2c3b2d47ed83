//! What a test says that cannot run here: one line that `./test` shows in its summary.

/// Prints why a test, or a part of it, does nothing on this machine.
pub(crate) fn skip(what: &str, why: impl std::fmt::Display) {
    println!("SKIPPED {what}: {why}");
}

/// A file of the folder that may lie beside the project, if it is there.
pub(crate) fn shared(path: &str) -> Option<std::path::PathBuf> {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    file.exists().then_some(file)
}
