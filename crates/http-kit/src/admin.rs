//! Who may call the operations that are marked as admin's.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{AUTHORIZATION, HOST};
use hyper::{HeaderMap, StatusCode};

use crate::problem::Problem;
use crate::token::Token;

/// Who may call the operations that are marked as admin's: the holder of the token; without one, callers on
/// this machine.
#[derive(Clone, Debug, Default)]
pub struct AdminAccess {
    /// What they ask for as `Authorization: Bearer …`.
    pub token: Option<Token>,
    /// Only this machine can reach the port. Without this and without a token they are disabled.
    pub is_loopback: bool,
}

impl AdminAccess {
    /// Whether a request with these fields may pass.
    pub(crate) fn check(&self, fields: &HeaderMap) -> Result<(), Problem> {
        match &self.token {
            Some(token) => match bearer(fields) {
                Some(guess) if token.is(guess) => Ok(()),
                Some(_) => Err(Problem::new(StatusCode::UNAUTHORIZED, "wrong admin token")),
                None => {
                    let detail = "this operation needs the admin token: send `Authorization: Bearer TOKEN`";
                    Err(Problem::new(StatusCode::UNAUTHORIZED, detail))
                }
            },
            None if !self.is_loopback => {
                let detail = "this operation needs an admin token, and the server has none: start it with \
                          --admin-token-file or TOLLGATE_ADMIN_TOKEN, or listen on 127.0.0.1";
                Err(Problem::new(StatusCode::FORBIDDEN, detail))
            }
            // DNS rebinding: a web page under a name of its own must not reach what only this machine may.
            None if fields.get(HOST).is_some_and(|host| !is_this_machine(host.as_bytes())) => {
                let detail = "without an admin token this operation answers only requests for an IP address or localhost";
                Err(Problem::new(StatusCode::FORBIDDEN, detail))
            }
            None => Ok(()),
        }
    }
}

/// The token after `Bearer `.
fn bearer(fields: &HeaderMap) -> Option<&[u8]> {
    let value = fields.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Whether a `Host` is `localhost` or an address, and so not the name of somebody else's page.
fn is_this_machine(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
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
            ("", false),
        ] {
            assert_eq!(is_this_machine(host.as_bytes()), want, "{host}");
        }
    }
}
