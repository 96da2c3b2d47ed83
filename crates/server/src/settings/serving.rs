//! Settings of all surfaces together: threads, connections, sizes, timeouts, the end.

use std::time::Duration;

use super::layers::Layers;
use super::parse;
use super::row::Heading::{Listen, Process};
use super::row::{OptionalRow, Row, rows};

rows! {
    /// The rows of this file.
    ROWS:
    WORKERS: OptionalRow<usize> = OptionalRow::new("workers", "N", |text| parse::number(text, 1, 1024))
        .help(Listen, "Worker threads, each with its own socket on every address [default: one per core, by affinity and \
                       the container's limit of CPU, rounded down]");
    MAX_CONNECTIONS: Row<usize> =
        Row::new("max-connections", "N", "20000", |text| parse::number(text, 1, 10_000_000))
            .help(Listen, "Maximum concurrent connections per address; further ones are closed at once");
    BACKLOG: Row<u32> = Row::new("backlog", "N", "4096", |text| parse::number(text, 1, 1 << 20))
        .help(Listen, "Connections waiting to be accepted, per worker and address; the system caps this too \
                       (net.core.somaxconn)");
    SOCKET_MODE: Row<u32> = Row::new("socket-mode", "MODE", "660", parse::file_mode)
        .help(Listen, "Permissions of the files of Unix sockets: a process that may not write to the file cannot connect");
    MAX_BODY: Row<usize> = Row::new("max-body", "BYTES", "4MiB", parse::body)
        .help(Listen, "Maximum size of a request body over HTTP, of a gRPC message and of an argument over the Redis \
                       protocol; a batch of several requests over HTTP and a command of the Redis protocol may be four \
                       times as large. --undecided says what happens to a larger one");
    MAX_HEADER: Row<usize> = Row::new("max-header", "BYTES", "2MiB", parse::header)
        .help(Listen, "Maximum size of a request's line and header fields over HTTP, of which there are at most 24000. \
                       --undecided says what happens to a larger one");
    MAX_BUFFERED: Row<usize> = Row::new("max-buffered", "BYTES", "64MiB", parse::held)
        .help(Listen, "Maximum bytes of requests that have arrived in part, per address over all its connections, and \
                       the same again of replies that clients of HTTP and the Redis protocol do not take; above it such \
                       requests are treated as --undecided says, and such connections closed");
    REQUEST_TIMEOUT: Row<Duration> = Row::new("request-timeout", "DURATION", "10s", parse::timeout)
        .help(Listen, "Time that a client has to send a header, a body, a gRPC message or a command, and to read a reply of \
                       the Redis protocol");
    DRAIN_DELAY: Row<Duration> = Row::new("drain-delay", "DURATION", "5s", parse::duration)
        .help(Process, "After SIGTERM: how long requests are still accepted while /readyz already fails");
    DRAIN_TIMEOUT: Row<Duration> = Row::new("drain-timeout", "DURATION", "30s", parse::duration)
        .help(Process, "After the delay: grace period for in-flight requests");
}

/// Settings of all surfaces together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Number of worker threads.
    pub workers: usize,
    /// Maximum concurrent connections of each surface.
    pub max_connections: usize,
    /// Connections that the system keeps until they are accepted, per worker and surface.
    pub backlog: u32,
    /// Permissions of the files of Unix sockets.
    pub socket_mode: u32,
    /// Bytes of one request's body over HTTP, of a gRPC message, and of one argument over the Redis protocol.
    pub max_body: usize,
    /// Bytes of one request's line and fields over HTTP.
    pub max_header: usize,
    /// Bytes of half-arrived requests of one surface, and again of replies that are not taken.
    pub max_buffered: usize,
    /// From the first byte of a header, a body or a command to its last; from a gRPC call to its message.
    pub request_timeout: Duration,
    /// From the signal to the end of listening.
    pub drain_delay: Duration,
    /// From the end of listening to the end of requests.
    pub drain_timeout: Duration,
}

impl Serving {
    pub(super) fn read(layers: &mut Layers, cores: usize) -> Self {
        Self {
            workers: layers.maybe(&WORKERS).unwrap_or(cores),
            max_connections: layers.one(&MAX_CONNECTIONS),
            backlog: layers.one(&BACKLOG),
            socket_mode: layers.one(&SOCKET_MODE),
            max_body: layers.one(&MAX_BODY),
            max_header: layers.one(&MAX_HEADER),
            max_buffered: layers.one(&MAX_BUFFERED),
            request_timeout: layers.one(&REQUEST_TIMEOUT),
            drain_delay: layers.one(&DRAIN_DELAY),
            drain_timeout: layers.one(&DRAIN_TIMEOUT),
        }
    }
}
