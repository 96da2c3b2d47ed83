//! Why a connection ends.

use std::io;

/// Why a connection ends.
#[derive(Debug)]
pub(super) enum End {
    /// The client closed it, or it failed.
    Gone,
    /// The server closes it after the last reply, which has been written.
    Close,
    /// The server closes it without a reply.
    Cut,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}
