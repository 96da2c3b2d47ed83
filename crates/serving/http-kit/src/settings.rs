//! The bounds of a surface's connections. Not here: sockets, TLS and the number of connections (`net`).

use std::time::Duration;

use tollgate_net::Budget;

use crate::admin::AdminAccess;
use crate::shared::Shared;

/// Caps and timeouts of an HTTP surface. The defaults suit a private network.
///
/// # Example
/// ```
/// # use tollgate_http_kit::SurfaceSettings;
/// let settings = SurfaceSettings { max_requests: Some(10_000), ..SurfaceSettings::default() };
/// assert_eq!(settings.max_header_bytes, 16 * 1024);
/// ```
#[derive(Clone, Debug)]
pub struct SurfaceSettings {
    /// Access control for the operations that are marked as admin's.
    pub admin: AdminAccess,
    /// Bytes of half-arrived bodies, and of large heads, over all connections of all workers; above it
    /// requests are answered 503.
    pub max_buffered_bytes: usize,
    /// Bytes of replies that clients do not take, over all connections of all workers; a connection that
    /// exceeds it is closed.
    pub max_unread_bytes: usize,
    /// Bytes of a request's line and fields; more is [unreadable](crate::Api::unreadable). At least 8 KiB.
    /// Above 16 KiB or 100 fields they count as half-arrived bodies do, and the reply is the last of its
    /// connection.
    pub max_header_bytes: usize,
    /// Fields of a request; more is unreadable. At most 24,000.
    pub max_header_fields: usize,
    /// From the first byte of a request's line to the end of its fields.
    pub header_timeout: Duration,
    /// From the end of the fields to the end of the body.
    pub body_timeout: Duration,
    /// A connection without a request for this long is closed.
    pub idle_timeout: Duration,
    /// A client that takes no byte of a reply for this long is cut off.
    pub write_timeout: Duration,
    /// A connection is closed after this many requests, so that new servers get their share; `None` for
    /// never.
    pub max_requests: Option<u64>,
}

impl SurfaceSettings {
    /// Creates the bounds and counts that the surfaces of all workers with these settings share.
    #[must_use]
    pub fn shared(&self) -> Shared {
        Shared::new(Budget::new(self.max_buffered_bytes), Budget::new(self.max_unread_bytes))
    }
}

impl Default for SurfaceSettings {
    fn default() -> Self {
        Self {
            admin: AdminAccess::default(),
            max_buffered_bytes: 64 * 1024 * 1024,
            max_unread_bytes: 64 * 1024 * 1024,
            max_header_bytes: 16 * 1024,
            max_header_fields: 100,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            max_requests: None,
        }
    }
}
