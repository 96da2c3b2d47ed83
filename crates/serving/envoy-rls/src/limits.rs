//! Bounds of the connections of one service: everything that a peer can make grow has a cap here. Not here:
//! how many connections there may be (`tollgate_net::AcceptLimits`), limits that rules state.

use std::time::Duration;

/// Caps and timeouts of the gRPC surface. The defaults suit a fleet of Envoys on a private network.
///
/// # Example
/// ```
/// # use tollgate_envoy_rls::Limits;
/// let limits = Limits { max_descriptors: 100, ..Limits::default() };
/// assert_eq!(limits.max_message_bytes, 4_194_304);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Concurrent calls of one connection at most; announced to the peer, and further ones are rejected. With
    /// many connections each gets fewer, down to 32.
    pub max_concurrent_streams: u32,
    /// Calls that wait for the rest of their message or for their store, over all connections; see
    /// [`Shared`](crate::Shared). Above it calls are treated as those that are too large.
    pub max_waiting_calls: usize,
    /// Header bytes of one call, decoded.
    pub max_header_list_bytes: u32,
    /// Bytes of one request message. A larger check is undecided, any other larger call ends with
    /// `RESOURCE_EXHAUSTED`. Excess bytes are read and dropped.
    pub max_message_bytes: usize,
    /// Bytes of half-arrived messages over all connections of the service, and of those that share its
    /// budget; above it calls are treated as those that are too large. As many bytes may be held of replies
    /// that clients do not take; above it connections that hold more than an equal share are closed.
    pub max_buffered_bytes: usize,
    /// Descriptors of one request.
    pub max_descriptors: usize,
    /// Entries of one request, over all its descriptors.
    pub max_entries: usize,
    /// From the connection (its TLS handshake behind it, where there is TLS) to HTTP/2's first bytes.
    pub handshake_timeout: Duration,
    /// From the header of a call to the end of its message, where the caller sets no shorter `grpc-timeout`.
    /// A connection on which messages are late again and again is asked to go away.
    pub message_timeout: Duration,
    /// From the header of a call to its answer, where the caller sets no shorter `grpc-timeout`.
    pub request_timeout: Duration,
    /// A connection without a call for this long is asked to go away; [`Duration::MAX`] for never.
    pub idle_timeout: Duration,
    /// A connection without a call for this long is pinged.
    pub keep_alive_interval: Duration,
    /// A ping that is not answered within this time ends the connection.
    pub keep_alive_timeout: Duration,
    /// A connection of that age is asked to go away, so that new servers get their share.
    pub max_connection_age: Duration,
    /// The time for calls to finish after that.
    pub max_connection_age_grace: Duration,
    /// The time for calls to finish when the server drains.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_concurrent_streams: 1_000,
            max_waiting_calls: 10_000,
            // A proxy may pass on what its clients send as the state of a trace: 60 KiB, of Envoy.
            max_header_list_bytes: 128 * 1024,
            // As gRPC's own libraries. Envoy: several descriptors of headers of 60 KiB.
            max_message_bytes: 4 * 1024 * 1024,
            max_buffered_bytes: 64 * 1024 * 1024,
            max_descriptors: 1_000,
            max_entries: 10_000,
            handshake_timeout: Duration::from_secs(10),
            message_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            idle_timeout: Duration::MAX,
            keep_alive_interval: Duration::from_secs(60),
            keep_alive_timeout: Duration::from_secs(20),
            max_connection_age: Duration::from_secs(24 * 3_600),
            max_connection_age_grace: Duration::from_secs(3_600),
            drain_timeout: Duration::from_secs(10),
        }
    }
}
