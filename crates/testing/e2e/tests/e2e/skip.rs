//! The notice of a test that cannot run here: one line that `./test` shows in its summary.

/// Prints why a test, or a part of it, does nothing on this machine.
pub(crate) fn skip(what: &str, why: impl std::fmt::Display) {
    println!("SKIPPED {what}: {why}");
}
