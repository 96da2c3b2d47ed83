//! The server under load: a protocol, a host, a port, and for HTTP a path.

use std::fmt;
use std::str::FromStr;

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
/// `resps` with TLS.
///
/// # Example
/// ```
/// # use tollgate_load::{Protocol, Target};
/// let target: Target = "https://[::1]:8443".parse()?;
/// assert_eq!((target.protocol, target.is_tls, target.port), (Protocol::Http, true, 8443));
/// assert_eq!(target.path, "/v1/check");
/// assert_eq!(target.to_string(), "https://[::1]:8443/v1/check");
/// # Ok::<(), tollgate_load::BadTarget>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The protocol.
    pub protocol: Protocol,
    /// Whether over TLS.
    pub is_tls: bool,
    /// Name or address, without the brackets of IPv6.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Path of HTTP requests; `/v1/check` by default. Empty for the others.
    pub path: String,
}

/// An invalid target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid target {given}: {fault}; expected grpc://HOST:PORT, http://HOST:PORT or resp://HOST:PORT")]
pub struct BadTarget {
    given: String,
    fault: &'static str,
}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(given: &str) -> Result<Self, BadTarget> {
        let bad = |fault| BadTarget { given: given.to_owned(), fault };
        let (scheme, rest) = given.split_once("://").ok_or_else(|| bad("no protocol"))?;
        let (protocol, is_tls) = match scheme {
            "grpc" => (Protocol::Grpc, false),
            "grpcs" => (Protocol::Grpc, true),
            "http" => (Protocol::Http, false),
            "https" => (Protocol::Http, true),
            "resp" | "redis" => (Protocol::Resp, false),
            "resps" | "rediss" => (Protocol::Resp, true),
            _ => return Err(bad("an unknown protocol")),
        };
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let path = match (protocol, path) {
            (Protocol::Http, "" | "/v1/check") => "/v1/check",
            (Protocol::Http, path) if path.bytes().all(|byte| byte.is_ascii_graphic()) => path,
            (Protocol::Http, _) => return Err(bad("a path with characters that have to be percent-encoded")),
            (_, "" | "/") => "",
            _ => return Err(bad("a path, which only HTTP has")),
        };
        let (host, port) = authority.rsplit_once(':').ok_or_else(|| bad("no port"))?;
        let port = port.parse().map_err(|_| bad("no port number after the last colon"))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(bad("no host"));
        }
        Ok(Self { protocol, is_tls, host: host.to_owned(), port, path: path.to_owned() })
    }
}

impl Target {
    /// `host:port`, as a Host field has it.
    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
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
        write!(f, "{scheme}{tls}://{}{}", self.authority(), self.path)
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
        ] {
            let target: Target = given.parse().expect(given);
            assert_eq!(target.to_string(), want);
        }
        for (given, fault) in [
            ("127.0.0.1:8081", "no protocol"),
            ("ftp://a:1", "an unknown protocol"),
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
