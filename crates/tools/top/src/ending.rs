//! Results of the commands of this crate.

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The user has quit, the text is printed, or the server is ready.
    Done,
    /// The server is not ready.
    No,
    /// The server cannot be reached, or there is no terminal to draw on.
    CouldNotTell,
}
