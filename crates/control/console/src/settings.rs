//! The addresses of the console, and of its clients.

use std::path::PathBuf;

use hyper::header::HeaderName;
use jiff::tz::TimeZone;
use tollgate_headers::forwarded_client;
use tollgate_http_kit::Request;

/// The addresses and files of a console.
#[derive(Clone, Debug)]
pub struct ConsoleSettings {
    /// `Host`s that it answers to besides this machine's, with their ports: that of the public URL.
    pub hosts: Vec<String>,
    /// Proxies before it, each of which adds the address that it saw to `X-Forwarded-For`. The first one's
    /// is the client's; 0: the client is the peer.
    pub proxy_hops: usize,
    /// Browsers reach it over TLS. Without, use it on loopback only.
    pub is_secure: bool,
    /// The zone of times until a browser names its own.
    pub zone: TimeZone,
    /// The command that joins a node, as pages print it; empty: one with the address that the browser used.
    pub join: String,
    /// The folder with recorded traces, on which rules can be replayed.
    pub traces: Option<PathBuf>,
}

impl Default for ConsoleSettings {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            proxy_hops: 0,
            is_secure: false,
            zone: TimeZone::UTC,
            join: String::new(),
            traces: None,
        }
    }
}

impl ConsoleSettings {
    /// The address of the client that sent `request`, or of the peer where the proxies named none; empty
    /// where connections have no address.
    pub(crate) fn client_of(&self, request: &Request<'_>) -> String {
        let field = HeaderName::from_static("x-forwarded-for");
        let client = forwarded_client(request.headers(), &field, self.proxy_hops);
        client.or_else(|| request.peer()).map_or_else(String::new, |it| it.to_string())
    }
}
