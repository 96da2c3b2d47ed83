//! Access control for the operations that are marked as admin's.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{AUTHORIZATION, HOST};
use hyper::{HeaderMap, StatusCode};
use tollgate_net::Guess;

use crate::problem::Problem;
use crate::shared::Shared;
use crate::token::Token;

/// Access control for the operations that are marked as admin's: for holders of the token; without a token,
/// for callers on this machine.
#[derive(Clone, Debug, Default)]
pub struct AdminAccess {
    /// Token that they must send as `Authorization: Bearer …`.
    pub token: Option<Token>,
    /// Only this machine can reach the port. Without this and without a token they are disabled.
    pub is_loopback: bool,
}

/// The client whose request is checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'c> {
    pub(crate) peer: Option<IpAddr>,
    /// Counts of guesses at the token.
    pub(crate) shared: &'c Shared,
}

impl AdminAccess {
    /// Whether a request of `caller` with these fields may pass.
    pub(crate) fn check(&self, fields: &HeaderMap, caller: Caller<'_>) -> Result<(), Problem> {
        if self.token.is_none() && !self.is_loopback {
            let detail = "this operation needs an admin token, and the server has none: start it with \
                          --admin-token-file or TOLLGATE_ADMIN_TOKEN, or listen on 127.0.0.1";
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        }
        let host = host(fields)?;
        match &self.token {
            Some(token) => match bearer(fields) {
                Some(guess) => caller.guess(token, guess),
                None => {
                    let detail = "this operation needs the admin token: send `Authorization: Bearer TOKEN`";
                    Err(Problem::new(StatusCode::UNAUTHORIZED, detail))
                }
            },
            // Against DNS rebinding: a web page under its own name must not reach operations for this machine
            // only.
            None if !is_this_machine(host) => {
                let detail = "without an admin token this operation answers only requests for an IP address or localhost";
                Err(Problem::new(StatusCode::FORBIDDEN, detail))
            }
            None => Ok(()),
        }
    }

    /// Whether a public reply may name this machine's files: for callers on this machine, and for the holder
    /// of the token.
    pub(crate) fn may_see_files(&self, fields: &HeaderMap, caller: Caller<'_>) -> bool {
        (self.is_loopback && host(fields).is_ok_and(is_this_machine))
            || (bearer(fields).is_some() && self.check(fields, caller).is_ok())
    }
}

impl Caller<'_> {
    fn guess(self, token: &Token, guess: &[u8]) -> Result<(), Problem> {
        let now = self.shared.now();
        match self.shared.guesses.judge(self.peer, now, guess, || token.is(guess)) {
            Guess::Right => Ok(()),
            Guess::Wrong => Err(Problem::new(StatusCode::UNAUTHORIZED, "wrong admin token")),
            Guess::Slowed { seconds } => {
                let detail = format!(
                    "too many wrong admin tokens from this address; the token was not compared: try again in {seconds} s"
                );
                Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, detail).retry_after(seconds))
            }
        }
    }
}

/// The token after `Bearer `.
fn bearer(fields: &HeaderMap) -> Option<&[u8]> {
    let value = fields.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// The one `Host` of a request.
fn host(fields: &HeaderMap) -> Result<&str, Problem> {
    let mut hosts = fields.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        let detail = "this operation needs exactly one `Host`: the name or address that you connect to";
        return Err(Problem::bad(detail));
    };
    let host = host.to_str().ok().filter(|host| is_host(host));
    host.ok_or_else(|| Problem::bad("malformed `Host`: expected a name or an address, and perhaps a port"))
}

/// Whether `host` is a name or an address, and perhaps a port.
fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let is_name = match name.strip_prefix('[') {
        Some(address) => address.strip_suffix(']').is_some_and(|it| it.parse::<std::net::Ipv6Addr>().is_ok()),
        None => !name.is_empty() && name.bytes().all(|it| it.is_ascii_alphanumeric() || b"-._".contains(&it)),
    };
    is_port && is_name
}

/// Whether a `Host` is `localhost` or an address, and so not the name of a foreign page.
fn is_this_machine(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name.eq_ignore_ascii_case("localhost")
        || host.parse::<SocketAddr>().is_ok()
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_this_machine_only_as_localhost_or_an_address() {
        for (host, want) in [
            ("localhost", true),
            ("LocalHost:8080", true),
            ("127.0.0.1:8080", true),
            ("127.0.0.1", true),
            ("[::1]:8080", true),
            ("[::1]", true),
            ("10.0.0.7:80", true),
            ("evil.example", false),
            ("evil.example:8080", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
        ] {
            assert!(is_host(host), "{host}");
            assert_eq!(is_this_machine(host), want, "{host}");
        }
    }

    #[test]
    fn a_malformed_host_is_not_a_host() {
        for host in [
            "",
            ":80",
            "localhost:",
            "localhost:x",
            "localhost:65536",
            "localhost:80:80",
            "::1",
            "[::1",
            "[::1]x",
            "[localhost]",
            "[]",
            "a b",
            "ann@localhost",
            "localhost/",
            "localhost, evil.example",
        ] {
            assert!(!is_host(host), "{host:?}");
        }
        assert!(is_host("xn--bcher-kva.example.:65535") && is_host("[2001:db8::7]:1"));
    }
}
