//! What the HTTP surface bears and how it answers. Not here: sockets, TLS and the number of connections (`net`).

use std::time::Duration;

use tollgate_headers::Style;

use crate::token::Token;

/// Caps, timeouts and manners of the HTTP surface. The defaults suit a private network.
///
/// # Example
/// ```
/// # use tollgate_http_api::HttpSettings;
/// let settings = HttpSettings { max_batch: 100, ..HttpSettings::default() };
/// assert_eq!(settings.max_body_bytes, 65_536);
/// ```
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Which header fields tell of limits.
    pub style: Style,
    /// What admin routes (`/v1/keys`, `/v1/rules`, `/debug`, `/rlconfig`) ask for as `Authorization: Bearer …`. Without one
    /// they answer only where [`is_loopback`](Self::is_loopback).
    pub admin_token: Option<Token>,
    /// Only this machine can reach the port.
    pub is_loopback: bool,
    /// Bytes of one request's body; a batch may have [`max_batch_bytes`](Self::max_batch_bytes).
    pub max_body_bytes: usize,
    /// Bytes of the body of a batch.
    pub max_batch_bytes: usize,
    /// Requests of one batch.
    pub max_batch: usize,
    /// Descriptors of one request.
    pub max_descriptors: usize,
    /// Entries of one body, over all its descriptors and requests.
    pub max_entries: usize,
    /// Bytes of half-arrived bodies over all connections; past it requests are answered 503.
    pub max_buffered_bytes: usize,
    /// Bytes of a request's line and fields; more is answered 431. At least 8 KiB; there are never more than 100 fields.
    pub max_header_bytes: usize,
    /// From the first byte of a request's line to the end of its fields.
    pub header_timeout: Duration,
    /// From the end of the fields to the end of the body.
    pub body_timeout: Duration,
    /// A connection without a request for so long is closed.
    pub idle_timeout: Duration,
    /// A client that takes no byte of an answer for so long is cut off.
    pub write_timeout: Duration,
    /// A connection is closed after so many requests, so that new servers get their share; `None` for never.
    pub max_requests: Option<u64>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            style: Style::default(),
            admin_token: None,
            is_loopback: false,
            max_body_bytes: 64 * 1024,
            max_batch_bytes: 1024 * 1024,
            max_batch: 1_000,
            max_descriptors: 1_000,
            max_entries: 10_000,
            max_buffered_bytes: 64 * 1024 * 1024,
            max_header_bytes: 16 * 1024,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            max_requests: None,
        }
    }
}
