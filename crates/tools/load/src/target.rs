//! The server under load: a protocol, a host and a port or a Unix socket, and for HTTP a path.

use std::fmt;
use std::str::FromStr;

/// Bytes of a socket's path that every system allows.
const LONGEST_SOCKET: usize = 103;

/// The protocol of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `ShouldRateLimit` of Envoy's rate limit service over HTTP/2.
    Grpc,
    /// HTTP/1.1 with a JSON body.
    Http,
    /// The Redis protocol, RESP2.
    Resp,
}

/// A target, written `grpc://host:port`, `http://host:port/path` or `resp://host:port`; `grpcs`, `https` and
/// `resps` with TLS. A Unix socket is written as listeners have it, behind the protocol:
/// `resp://unix:/run/resp.sock`, and `http://unix:/run/http.sock:/path` with a path of HTTP.
///
/// # Example
/// ```
/// # use tollgate_load::{Protocol, Target, TargetAddress};
/// let target: Target = "https://[::1]:8443".parse()?;
/// assert_eq!((target.protocol, target.is_tls), (Protocol::Http, true));
/// assert_eq!(target.place, TargetAddress::Tcp { host: "::1".into(), port: 8443 });
/// assert_eq!(target.path, "/v1/check");
/// assert_eq!(target.to_string(), "https://[::1]:8443/v1/check");
/// # Ok::<(), tollgate_load::BadTarget>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub protocol: Protocol,
    /// Whether over TLS.
    pub is_tls: bool,
    /// Address on which it listens.
    pub place: TargetAddress,
    /// Path of HTTP requests; `/v1/check` by default. Empty for the others.
    pub path: String,
}

/// Where a target listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetAddress {
    /// On a TCP port.
    Tcp {
        /// Name or address, without the brackets of IPv6.
        host: String,
        port: u16,
    },
    /// On a Unix socket with this path.
    Unix(String),
}

/// An invalid target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid target {given}: {fault}; expected grpc://HOST:PORT, http://HOST:PORT or resp://HOST:PORT, or a Unix \
     socket such as grpc://unix:/path"
)]
pub struct BadTarget {
    given: String,
    fault: &'static str,
}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(given: &str) -> Result<Self, BadTarget> {
        let bad = |fault| BadTarget { given: given.to_owned(), fault };
        // The other slashes of `unix:///path` are no end of a protocol.
        let parts = given.split_once("://").filter(|(scheme, _)| *scheme != "unix");
        let (scheme, rest) = parts.ok_or_else(|| bad("no protocol"))?;
        let (protocol, is_tls) = match scheme {
            "grpc" => (Protocol::Grpc, false),
            "grpcs" => (Protocol::Grpc, true),
            "http" => (Protocol::Http, false),
            "https" => (Protocol::Http, true),
            "resp" | "redis" => (Protocol::Resp, false),
            "resps" | "rediss" => (Protocol::Resp, true),
            _ => return Err(bad("an unknown protocol")),
        };
        let (authority, path) = match rest.strip_prefix("unix:") {
            // The path of HTTP is behind another colon.
            Some(socket) => socket.find(":/").map_or((rest, ""), |at| (&rest[..5 + at], &rest[5 + at + 1..])),
            None => rest.find('/').map_or((rest, ""), |at| rest.split_at(at)),
        };
        let path = match (protocol, path) {
            (Protocol::Http, "" | "/v1/check") => "/v1/check",
            (Protocol::Http, path) if path.bytes().all(|byte| byte.is_ascii_graphic()) => path,
            (Protocol::Http, _) => return Err(bad("a path with characters that have to be percent-encoded")),
            (_, "" | "/") => "",
            _ => return Err(bad("a path, which only HTTP has")),
        };
        let place = match authority.strip_prefix("unix:") {
            Some(_) if is_tls => return Err(bad("TLS, which needs the name of a host")),
            Some(socket) => {
                let socket = socket.strip_prefix("//").unwrap_or(socket);
                if socket.is_empty() || socket.ends_with('/') || socket.len() > LONGEST_SOCKET {
                    return Err(bad("no path of a socket with at most 103 bytes"));
                }
                TargetAddress::Unix(socket.to_owned())
            }
            None => {
                let (host, port) = authority.rsplit_once(':').ok_or_else(|| bad("no port"))?;
                let port = port.parse().map_err(|_| bad("no port number after the last colon"))?;
                let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
                if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
                    return Err(bad("no host"));
                }
                TargetAddress::Tcp { host: host.to_owned(), port }
            }
        };
        Ok(Self { protocol, is_tls, place, path: path.to_owned() })
    }
}

impl Target {
    /// `host:port`, as a Host field has it.
    pub(crate) fn authority(&self) -> String {
        match &self.place {
            TargetAddress::Unix(_) => "localhost".to_owned(),
            TargetAddress::Tcp { .. } => self.place.to_string(),
        }
    }
}

/// As a listener has it: `host:port` or `unix:/path`.
impl fmt::Display for TargetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{path}"),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.protocol {
            Protocol::Grpc => "grpc",
            Protocol::Http => "http",
            Protocol::Resp => "resp",
        };
        let tls = if self.is_tls { "s" } else { "" };
        let colon =
            if matches!(self.place, TargetAddress::Unix(_)) && !self.path.is_empty() { ":" } else { "" };
        write!(f, "{scheme}{tls}://{}{colon}{}", self.place, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_or_refused_with_the_way_out() {
        for (given, want) in [
            ("grpc://127.0.0.1:8081", "grpc://127.0.0.1:8081"),
            ("http://localhost:8080", "http://localhost:8080/v1/check"),
            ("http://localhost:8080/", "http://localhost:8080/"),
            ("http://localhost:8080/throttle", "http://localhost:8080/throttle"),
            ("rediss://[::1]:6390/", "resps://[::1]:6390"),
            ("grpc://unix:/run/grpc.sock", "grpc://unix:/run/grpc.sock"),
            ("resp://unix:///run/resp.sock", "resp://unix:/run/resp.sock"),
            ("http://unix:/run/http.sock", "http://unix:/run/http.sock:/v1/check"),
            ("http://unix:/run/http.sock:/throttle", "http://unix:/run/http.sock:/throttle"),
        ] {
            let target: Target = given.parse().expect(given);
            assert_eq!(target.to_string(), want);
        }
        for (given, fault) in [
            ("127.0.0.1:8081", "no protocol"),
            ("unix:/run/grpc.sock", "no protocol"),
            ("unix:///run/grpc.sock", "no protocol"),
            ("ftp://a:1", "an unknown protocol"),
            ("grpcs://unix:/run/grpc.sock", "TLS, which needs the name of a host"),
            ("grpc://unix:", "no path of a socket with at most 103 bytes"),
            ("grpc://unix:/run/", "no path of a socket with at most 103 bytes"),
            ("grpc://unix:/run/a:/b", "a path, which only HTTP has"),
            ("resp://localhost", "no port"),
            ("resp://localhost:x", "no port number after the last colon"),
            ("resp://:1", "no host"),
            ("grpc://a:1/x", "a path, which only HTTP has"),
            ("http://a:1/x y", "a path with characters that have to be percent-encoded"),
        ] {
            let error = given.parse::<Target>().expect_err(given);
            assert_eq!(error.fault, fault, "{given}");
        }
    }
}
