//! The client's address in the fields that proxies write.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName};
use tollgate_human_text::{FromTheRight, address_of_entry};

/// The address of the client behind `hops` trusted proxies: the `hops`-th from the end of `field`
/// (`X-Forwarded-For`, or `Forwarded` of RFC 7239), over all its lines. Entries that the client wrote itself
/// come before it and are ignored. `None` if there are fewer entries, or if that entry is not an address.
///
/// An address may have a port, brackets, quotes or a zone; rules read it alike (`forwarded` in rule files).
///
/// ```
/// let mut fields = http::HeaderMap::new();
/// fields.append("x-forwarded-for", "6.6.6.6, 203.0.113.7".parse()?);
/// let name = http::HeaderName::from_static("x-forwarded-for");
/// let client = tollgate_headers::forwarded_client(&fields, &name, 1);
/// assert_eq!(client.map(|it| it.to_string()).as_deref(), Some("203.0.113.7"));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[must_use]
pub fn forwarded_client(fields: &HeaderMap, field: &HeaderName, hops: usize) -> Option<IpAddr> {
    let lines = fields.get_all(field).iter();
    // The last line was written last.
    let mut entries = lines.rev().flat_map(|line| FromTheRight::of(line.as_bytes()));
    address_of_entry(entries.nth(hops.checked_sub(1)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(field: &'static str, lines: &[&str], hops: usize) -> Option<String> {
        let field = HeaderName::from_static(field);
        let mut fields = HeaderMap::new();
        for line in lines {
            fields.append(&field, line.parse().expect("a value"));
        }
        forwarded_client(&fields, &field, hops).map(|address| address.to_string())
    }

    #[test]
    fn the_address_that_the_outermost_trusted_proxy_saw_is_the_clients() {
        let x = "x-forwarded-for";
        for (lines, hops, want) in [
            (&["203.0.113.7"][..], 1, Some("203.0.113.7")),
            (&["6.6.6.6, 203.0.113.7"], 1, Some("203.0.113.7")), // the client's own claims are ignored
            (&["6.6.6.6, 203.0.113.7, 10.0.0.1"], 2, Some("203.0.113.7")),
            (&["6.6.6.6", "203.0.113.7", "10.0.0.1"], 2, Some("203.0.113.7")),
            (&["203.0.113.7"], 2, None), // it did not pass both proxies
            (&["203.0.113.7:5000"], 1, Some("203.0.113.7")),
            (&["::ffff:cb00:7107"], 1, Some("203.0.113.7")),
            (&["[2001:db8::1]:5000"], 1, Some("2001:db8::1")),
            (&["2001:db8::1%eth0"], 1, Some("2001:db8::1")),
            (&["\"6.6.6.6", "203.0.113.7"], 1, Some("203.0.113.7")),
            (&["203.0.113.7, unknown"], 1, None),
            (&[""], 1, None),
            (&[], 1, None),
            (&["203.0.113.7,"], 1, None),
            (&["203.0.113.7"], 0, None),
        ] {
            assert_eq!(found(x, lines, hops).as_deref(), want, "{lines:?}, {hops}");
        }
        let standard = [r#"for=6.6.6.6, for="[2001:db8::17]:4711";proto=https;by=10.0.0.2, For=10.0.0.1"#];
        assert_eq!(found("forwarded", &standard, 2).as_deref(), Some("2001:db8::17"));
        assert_eq!(found("forwarded", &["for=_hidden"], 1), None);
        assert_eq!(found("forwarded", &["proto=https"], 1), None);
    }
}
