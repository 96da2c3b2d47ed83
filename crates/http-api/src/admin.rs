//! Who may use admin routes.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{AUTHORIZATION, HOST};
use hyper::{HeaderMap, StatusCode};

use crate::answer::Refusal;
use crate::settings::HttpSettings;

/// Lets the holder of the token pass; without one, whoever asks on this machine.
pub(crate) fn check(fields: &HeaderMap, settings: &HttpSettings) -> Result<(), Refusal> {
    match &settings.admin_token {
        Some(token) => match bearer(fields) {
            Some(guess) if token.is(guess) => Ok(()),
            Some(_) => Err(Refusal::new(StatusCode::UNAUTHORIZED, "the admin token is another one")),
            None => {
                let detail = "this route needs the admin token, as `Authorization: Bearer TOKEN`";
                Err(Refusal::new(StatusCode::UNAUTHORIZED, detail))
            }
        },
        None if !settings.is_loopback => {
            let detail = "this route answers only with an admin token, and this server has none: start it with \
                          --admin-token-file or TOLLGATE_ADMIN_TOKEN, or let the HTTP port listen on 127.0.0.1";
            Err(Refusal::new(StatusCode::FORBIDDEN, detail))
        }
        // A page that a browser was led to under another name must not reach what only this machine may.
        None if fields.get(HOST).is_some_and(|host| !is_this_machine(host.as_bytes())) => {
            let detail =
                "without an admin token this route answers only to requests for an IP address or localhost";
            Err(Refusal::new(StatusCode::FORBIDDEN, detail))
        }
        None => Ok(()),
    }
}

/// What follows `Bearer `.
fn bearer(fields: &HeaderMap) -> Option<&[u8]> {
    let value = fields.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Whether a `Host` is `localhost` or an address, which no name of somebody else's can be.
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
