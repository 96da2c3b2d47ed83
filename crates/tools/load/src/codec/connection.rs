//! One connection's side of a protocol.

use tollgate_core::Timestamp;

use crate::tally::{Sent, Tally};

/// The connection cannot be used any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Its requests may or may not have been decided; with the reason.
    Off(String),
    /// The server closes it: in-flight requests were not processed, and may be sent again on another.
    Goodbye,
}

impl Broken {
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Off(why) => why,
            Self::Goodbye => "the server ends every connection without an answer",
        }
    }
}

impl From<&str> for Broken {
    fn from(why: &str) -> Self {
        Self::Off(why.to_owned())
    }
}

/// One connection's side of a protocol.
pub(crate) trait Codec {
    /// Begins a new connection: the first bytes to send go to `out`.
    fn open(&mut self, out: &mut Vec<u8>);
    /// Whether another request may be sent now.
    fn has_room(&self) -> bool;
    /// Writes a request.
    fn request(&mut self, key: u64, sent: Sent, out: &mut Vec<u8>);
    /// Reads all complete replies in `input`, tallies them as of `now`, and returns how many bytes those
    /// were. Bytes to send back go to `out`.
    fn read(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        now: Timestamp,
        tally: &mut Tally,
    ) -> Result<usize, Broken>;
    /// Removes and returns the in-flight requests.
    fn lost(&mut self) -> Vec<Sent>;
    /// Number of requests in flight.
    fn waiting(&self) -> usize;
}
