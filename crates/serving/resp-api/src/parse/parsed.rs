//! Types of the parser: caps, arguments as ranges of the buffer, errors.

use std::ops::Range;

/// The most that a client may send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    /// Bytes of one argument.
    pub(crate) bulk: usize,
    /// Arguments of one command.
    pub(crate) arguments: usize,
    /// Bytes of one command.
    pub(crate) command: usize,
    /// The client has not authenticated, and errors about these caps say so.
    pub(crate) is_anonymous: bool,
}

/// The range of an argument in the buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArgumentRange {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl ArgumentRange {
    pub(crate) const fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    #[inline]
    pub(crate) fn of(self, buffer: &[u8]) -> &[u8] {
        &buffer[Range::from(self)]
    }
}

impl From<ArgumentRange> for Range<usize> {
    #[inline]
    fn from(span: ArgumentRange) -> Self {
        span.start as usize..span.end as usize
    }
}

/// Result of parsing the beginning of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// A command, whose arguments were pushed to the vector; the next one begins at `end`.
    Command { end: usize },
    /// An empty line or an empty array, which gets no reply.
    Nothing { end: usize },
    /// The beginning of a command, which is at least `needed` bytes long.
    Part { needed: usize },
    /// The beginning of a command that exceeds a cap, of a client that has authenticated.
    Oversized,
}

/// The client broke the protocol or exceeded a cap. The messages are those of Redis where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error("invalid multibulk length")]
    Arguments,
    #[error("unauthenticated multibulk length")]
    AnonymousArguments,
    #[error("too big mbulk count string")]
    ArgumentsHeader,
    #[error("invalid bulk length")]
    Bulk,
    #[error("unauthenticated bulk length")]
    AnonymousBulk,
    #[error("too big bulk count string")]
    BulkHeader,
    #[error("expected '$', got '{}'", .0.escape_ascii())]
    NoBulk(u8),
    #[error("expected a line break behind an argument")]
    NoLineBreak,
    #[error("command too long")]
    Command,
    #[error("too big inline request")]
    Inline,
    #[error("unbalanced quotes in request")]
    Quotes,
    /// This command is valid, but partial commands of all connections together are too large.
    #[error("too many bytes of partial commands on all connections; send whole commands")]
    Budget,
    #[error("a command that is too large, and not an array of arguments")]
    Broken,
}
