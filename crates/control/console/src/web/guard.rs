//! The check of where a request comes from: the names of this server, and changes from its own pages only.

use std::net::{Ipv4Addr, Ipv6Addr};

use hyper::HeaderMap;
use hyper::header::{HOST, ORIGIN};
use hyper::http::uri::Authority;

use super::failure::Failure;

/// Rejects requests under another name than this server's (DNS rebinding), and changes that a page of another
/// site asks for. `known` are the names of this server with their ports, besides this machine's.
pub(crate) fn check(fields: &HeaderMap, known: &[String], is_safe: bool) -> Result<(), Failure> {
    let mut hosts = fields.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(Failure::Foreign("expected exactly one `Host`"));
    };
    let host = host.to_str().unwrap_or_default();
    if !is_this_machine(host) && !known.iter().any(|it| it.eq_ignore_ascii_case(host)) {
        return Err(Failure::Foreign("unknown `Host`: open the console under localhost or its public URL"));
    }
    if is_safe {
        return Ok(());
    }
    // Browsers send at least one of the two with every change; other clients have no cookies to abuse.
    if let Some(site) = fields.get("sec-fetch-site") {
        return match site.as_bytes() {
            b"same-origin" | b"none" => Ok(()),
            _ => Err(Failure::Foreign("the change was asked for by another site")),
        };
    }
    match fields.get(ORIGIN).map(|it| it.to_str().unwrap_or_default()) {
        None => Ok(()),
        Some(origin) if origin.split_once("://").is_some_and(|(_, it)| it.eq_ignore_ascii_case(host)) => {
            Ok(())
        }
        Some(_) => Err(Failure::Foreign("the change was asked for by another site")),
    }
}

/// Whether a `Host` is a name of this machine alone.
fn is_this_machine(host: &str) -> bool {
    let Ok(authority) = Authority::try_from(host) else { return false };
    // A browser sends no `Host` that the parser shortens or reads otherwise.
    let name = authority.host();
    let port = authority.port();
    let written = port.as_ref().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
    if written != host || port.is_some_and(|port| port.as_u16() == 0) {
        return false;
    }
    let is_v6 = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    match is_v6 {
        Some(address) => address.parse::<Ipv6Addr>().is_ok_and(|it| it.is_loopback()),
        None => {
            name.eq_ignore_ascii_case("localhost")
                || name.parse::<Ipv4Addr>().is_ok_and(|it| it.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_let_in(fields: &[(&'static str, &str)], is_safe: bool) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(*name, value.parse().expect("a value"));
        }
        check(&map, &["limits.example:8443".to_owned()], is_safe).is_ok()
    }

    #[test]
    fn only_the_names_of_this_server_are_answered() {
        for (host, want) in [
            ("localhost:8070", true),
            ("127.0.0.1:8070", true),
            ("[::1]:8070", true),
            ("limits.example:8443", true),
            ("limits.example", false),
            ("evil.example", false),
            ("127.0.0.1.evil.example:8070", false),
            ("10.0.0.1:8070", false),
            ("localhost", true),
            ("LocalHost:8070", true),
            ("[::1]", true),
            ("127.9.9.9", true),
            ("[::1]evil.example", false),
            ("[::1]evil.example:8070", false),
            ("[::1", false),
            ("::1", false),
            ("[127.0.0.1]:8070", false),
            ("[::2]:8070", false),
            ("localhost:", false),
            ("localhost:0", false),
            ("localhost:99999", false),
            ("localhost:8070:8070", false),
            ("localhost:evil", false),
            ("evil@localhost:8070", false),
            ("localhost@evil.example", false),
            ("localhost.", false),
            ("localhost evil", false),
            ("127.1", false),
            ("0x7f.0.0.1", false),
            ("", false),
        ] {
            assert_eq!(is_let_in(&[("host", host)], true), want, "{host}");
        }
        assert!(!is_let_in(&[], true) && !is_let_in(&[("host", "localhost"), ("host", "localhost")], true));
    }

    #[test]
    fn a_change_comes_from_our_own_pages_or_from_no_browser() {
        for (fields, want) in [
            (&[("sec-fetch-site", "same-origin")][..], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("origin", "http://localhost:8070")], true),
            (&[("origin", "http://localhost:9999")], false),
            (&[("origin", "https://evil.example")], false),
            (&[("origin", "null")], false),
            (&[], true),
        ] {
            let mut all = vec![("host", "localhost:8070")];
            all.extend_from_slice(fields);
            assert_eq!(is_let_in(&all, false), want, "{fields:?}");
        }
    }
}
