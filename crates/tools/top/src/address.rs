//! Where a server's HTTP surface is: a URL or a Unix socket, as on the command line.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ureq::http::Uri;

/// Bytes of a socket's path that every system allows.
const LONGEST_SOCKET: usize = 103;

/// `http://host:port`, `https://host:port` or `unix:/path`. `unix:///path` is the same socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// Without a slash at its end.
    Url(String),
    Socket(PathBuf),
}

/// An address that cannot be meant.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadAddress {
    #[error(
        "invalid URL {given:?}: expected http://HOST:PORT, https://HOST:PORT or unix:/path{}",
        .meant.as_ref().map(|meant| format!("; did you mean {meant}?")).unwrap_or_default()
    )]
    Url { given: String, meant: Option<String> },
    #[error("invalid socket {given:?}: expected unix:/path with at most {LONGEST_SOCKET} bytes in its path")]
    Socket { given: String },
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(given: &str) -> Result<Self, BadAddress> {
        if let Some(path) = given.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            let is_usable = !path.is_empty() && !path.ends_with('/') && path.len() <= LONGEST_SOCKET;
            let socket = is_usable.then(|| Self::Socket(path.into()));
            return socket.ok_or_else(|| BadAddress::Socket { given: given.to_owned() });
        }
        if is_url(given) {
            return Ok(Self::Url(given.trim_end_matches('/').to_owned()));
        }
        let rest = given.split_once("://").map_or(given, |(_, rest)| rest);
        let meant = format!("http://{rest}");
        let has_place = rest.contains(':') || rest.contains('.');
        Err(BadAddress::Url {
            given: given.to_owned(),
            meant: Some(meant).filter(|it| has_place && is_url(it)),
        })
    }
}

fn is_url(text: &str) -> bool {
    let Ok(url) = text.parse::<Uri>() else { return false };
    let Some(authority) = url.authority() else { return false };
    // The parser accepts ports that are not numbers, or too large.
    let behind_host = authority.as_str().rsplit_once(authority.host()).map_or("", |(_, behind)| behind);
    let has_good_port = match behind_host.strip_prefix(':') {
        Some(port) => port.parse::<u16>().is_ok_and(|port| port > 0),
        None => behind_host.is_empty(),
    };
    matches!(url.scheme_str(), Some("http" | "https"))
        && !authority.host().is_empty()
        && has_good_port
        && url.query().is_none()
}

impl Address {
    /// The URL of a request for `path`.
    pub(crate) fn url(&self, path: &str) -> String {
        match self {
            Self::Url(base) => format!("{base}{path}"),
            Self::Socket(_) => format!("http://localhost{path}"),
        }
    }

    /// As [`Self::url`], for people.
    pub(crate) fn shown(&self, path: &str) -> String {
        match self {
            Self::Url(_) => self.url(path),
            Self::Socket(_) => format!("{path} at {self}"),
        }
    }

    pub(crate) fn is_https(&self) -> bool {
        matches!(self, Self::Url(base) if base.starts_with("https://"))
    }

    pub(crate) fn socket(&self) -> Option<&Path> {
        match self {
            Self::Url(_) => None,
            Self::Socket(path) => Some(path),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(base) => f.write_str(base),
            Self::Socket(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_urls_or_sockets_and_an_error_shows_the_right_form() {
        for (given, url, shown) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/readyz", "http://127.0.0.1:8080/readyz"),
            ("https://[::1]:8443/", "https://[::1]:8443/readyz", "https://[::1]:8443/readyz"),
            ("http://limits/tollgate", "http://limits/tollgate/readyz", "http://limits/tollgate/readyz"),
            ("unix:/run/http.sock", "http://localhost/readyz", "/readyz at unix:/run/http.sock"),
            ("unix:///run/http.sock", "http://localhost/readyz", "/readyz at unix:/run/http.sock"),
        ] {
            let address: Address = given.parse().expect(given);
            assert_eq!((address.url("/readyz"), address.shown("/readyz")), (url.into(), shown.into()));
        }
        for (given, meant) in [
            ("localhost:8080", Some("http://localhost:8080")),
            ("htp://127.0.0.1:8080", Some("http://127.0.0.1:8080")),
            ("limits.internal", Some("http://limits.internal")),
            ("8080", None),
            ("", None),
            ("http://", None),
            ("http://:8080", None),
            ("http://a:", None),
            ("http://a:b", None),
            ("http://a:0", None),
            ("http://a:99999", None),
            ("http://a:80?b", None),
            ("http://a b:80", None),
        ] {
            let error = given.parse::<Address>().expect_err(given).to_string();
            assert!(error.contains("expected http://HOST:PORT, https://HOST:PORT or unix:/path"), "{error}");
            assert_eq!(
                error.split_once("did you mean ").map(|(_, it)| it.trim_end_matches('?')),
                meant,
                "{error}"
            );
        }
        for given in ["unix:", "unix://", "unix:/run/", &format!("unix:/{}", "x".repeat(LONGEST_SOCKET))] {
            let error = given.parse::<Address>().expect_err(given).to_string();
            assert!(error.contains("expected unix:/path with at most 103 bytes"), "{error}");
        }
    }
}
