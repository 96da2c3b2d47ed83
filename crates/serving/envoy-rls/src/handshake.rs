//! The start of HTTP/2: the settings announced to a peer, and the number of its errors that are tolerated.
//! Not here: anything after the handshake (`connection`).

use h2::Reason;
use h2::server::{Builder, Handshake};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::limits::Limits;
use crate::lingering::Lingering;
use crate::shared::ConnectionCalls;
use crate::unsent::Unsent;

/// Most stream errors of a peer in the life of its connection before the connection ends, or the number of
/// streams it may have, if that is larger. HTTP/2 keeps the stream of each error until it has been reported,
/// and frees the memory with the connection only.
///
/// A call above the announced number of streams is one such error, and its message another. Usual clients
/// send up to 100 calls before they have read that number, which is 32 at least.
const FEWEST_FAULTS: usize = 160;

/// Calls that may be reset before they are accepted, for each stream that the peer may have. A proxy resets
/// the calls of clients that go away: one client that does nothing else, as fast as it can, must not cost the
/// calls of all others that go over the same connection.
const RESETS: usize = 10;

/// Begins HTTP/2 on `io`.
pub(crate) fn handshake<IO>(
    io: IO,
    limits: &Limits,
    calls: &ConnectionCalls,
) -> Handshake<Lingering<IO>, Unsent>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let streams = calls.max_streams(limits.max_concurrent_streams);
    Builder::new()
        .max_concurrent_streams(streams)
        .max_pending_accept_reset_streams(streams as usize * RESETS)
        .max_local_error_reset_streams(Some(FEWEST_FAULTS.max(streams as usize)))
        .max_header_list_size(limits.max_header_list_bytes)
        .initial_connection_window_size(1 << 20)
        .handshake(Lingering::new(io))
}

/// Whether a connection ended because its peer made too many faults.
pub(crate) fn is_of_faults(error: &h2::Error) -> bool {
    error.is_library() && error.reason() == Some(Reason::ENHANCE_YOUR_CALM)
}
