//! How the commands of this crate end.

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The bound was kept, or the trace was replayed.
    Yes,
    /// The bound was broken.
    No,
    /// The question is wrong, or the log cannot be read to its end.
    CouldNotTell,
}
