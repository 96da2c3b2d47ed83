//! Results of the commands of this crate.

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// The bound was kept, or the trace was replayed.
    Yes,
    /// The bound was broken.
    No,
    /// The question is wrong, or the log cannot be read to its end.
    CouldNotTell,
}
