//! Addresses of hosts as proxies, balancers and people spell them: with a port, in brackets or quotes, with a
//! zone, as IPv4 inside IPv6, alone or in the lists of `X-Forwarded-For` and `Forwarded` (RFC 7239).
//!
//! One reader for everything that takes an address. It allocates nothing and never panics. Not here: names of
//! hosts, networks.

use std::net::IpAddr;

/// The longest spelling of an address without port and zone, and room for the longest of a port.
const LONGEST: usize = 64;

/// An address that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAddress {
    /// The address; IPv4 is always IPv4.
    pub ip: IpAddr,
    /// It is the last of a list.
    pub is_of_list: bool,
}

/// The address that a value spells, whichever way; of a list the last, which the nearest proxy wrote.
///
/// These spell the same: `203.0.113.7`, `203.0.113.7:50001`, `::ffff:203.0.113.7`, `::ffff:cb00:7107`,
/// `[::ffff:cb00:7107]:443`, `"203.0.113.7"`, `for=203.0.113.7;proto=https`. So do `2001:db8::1`,
/// `[2001:DB8:0::1]:443` and `2001:db8::1%eth0`. Blanks around an address mean nothing.
///
/// `None` for everything else: names, `unknown`, `_hidden`, `unix:`, an IPv4 number with a leading zero,
/// which some read as octal. An IPv6 address with a port but without brackets is an address of its own where
/// it can be one: `2001:db8::1:443` is not `2001:db8::1`, while `2001:db8::1:50001` is.
///
/// # Example
/// ```
/// # use tollgate_human_text::read_address;
/// let ip = |value: &str| read_address(value.as_bytes()).map(|it| it.ip.to_string());
/// assert_eq!(ip("[2001:db8::1%eth0]:443").as_deref(), Some("2001:db8::1"));
/// assert_eq!(ip("6.6.6.6, 203.0.113.7:50001").as_deref(), Some("203.0.113.7"));
/// assert_eq!(ip("unknown"), None);
/// ```
#[inline]
#[must_use]
pub fn read_address(value: &[u8]) -> Option<ReadAddress> {
    // Nearly all values are as short and plain as this.
    if value.len() <= 45
        && let Some(ip) = plain(value)
    {
        return Some(ReadAddress { ip, is_of_list: false });
    }
    read_otherwise(value)
}

#[inline(never)]
fn read_otherwise(value: &[u8]) -> Option<ReadAddress> {
    let mut entries = FromTheRight { rest: Some(value) };
    let last = entries.next()?;
    Some(ReadAddress { ip: of_entry(last)?, is_of_list: entries.rest.is_some() })
}

/// The address in the `nth` place from the right, from 1, of a list such as those of `X-Forwarded-For` and
/// `Forwarded`. `None` if the list is shorter, or if that is not an address.
///
/// Each proxy appends the address that it was called from. So behind `nth` trusted proxies this is the
/// client, and anything that the client wrote itself comes before it.
///
/// # Example
/// ```
/// # use tollgate_human_text::forwarded_address;
/// let ip = |nth| forwarded_address(b"6.6.6.6, 203.0.113.7, 10.0.0.1", nth).map(|ip| ip.to_string());
/// assert_eq!(ip(2).as_deref(), Some("203.0.113.7"));
/// assert_eq!(ip(4), None);
/// ```
#[must_use]
pub fn forwarded_address(list: &[u8], nth: usize) -> Option<IpAddr> {
    of_entry(FromTheRight { rest: Some(list) }.nth(nth.checked_sub(1)?)?)
}

/// The address of one entry of a list, as [`FromTheRight`] yields them.
#[must_use]
pub fn address_of_entry(entry: &[u8]) -> Option<IpAddr> {
    of_entry(entry)
}

/// The entries of a list from the last to the first, as they are.
///
/// Commas between quotes belong to an entry. An entry read from the right depends on nothing further left, so
/// a client's unbalanced quote does not hide the entries that a proxy wrote behind it.
#[derive(Clone, Copy, Debug)]
pub struct FromTheRight<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> FromTheRight<'a> {
    /// The entries of `list`.
    #[must_use]
    pub const fn of(list: &'a [u8]) -> Self {
        Self { rest: Some(list) }
    }
}

impl<'a> Iterator for FromTheRight<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let (before, entry) = match last_outside_quotes(rest, b',') {
            Some(at) => (Some(&rest[..at]), &rest[at + 1..]),
            None => (None, rest),
        };
        self.rest = before;
        Some(entry)
    }
}

/// The place of the last `wanted` that is not between quotes.
fn last_outside_quotes(text: &[u8], wanted: u8) -> Option<usize> {
    let mut is_quoted = false;
    for (at, byte) in text.iter().enumerate().rev() {
        match byte {
            b'"' => {
                let before = text[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
                is_quoted ^= before % 2 == 0; // not one that a backslash makes part of the text
            }
            byte if *byte == wanted && !is_quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// `203.0.113.7:50001`, or `for=203.0.113.7;proto=https`.
fn of_entry(entry: &[u8]) -> Option<IpAddr> {
    if !entry.contains(&b'=') {
        return of_node(entry);
    }
    let mut found = None;
    let mut rest = Some(entry);
    while let Some(text) = rest {
        let pair = match last_outside_quotes(text, b';') {
            Some(at) => {
                rest = Some(&text[..at]);
                &text[at + 1..]
            }
            None => {
                rest = None;
                text
            }
        };
        let at = pair.iter().position(|byte| *byte == b'=');
        let Some((name, value)) = at.map(|at| (&pair[..at], &pair[at + 1..])) else { continue };
        if name.trim_ascii().eq_ignore_ascii_case(b"for") {
            // One of two `for` pairs is not the proxy's.
            if found.is_some() {
                return None;
            }
            found = Some(value);
        }
    }
    of_node(found?)
}

/// An address with or without quotes, brackets, zone and port.
fn of_node(node: &[u8]) -> Option<IpAddr> {
    let mut text = node.trim_ascii();
    if let Some(quoted) = text.strip_prefix(b"\"") {
        text = quoted.strip_suffix(b"\"")?.trim_ascii();
    }
    if let Some(bracketed) = text.strip_prefix(b"[") {
        let end = bracketed.iter().position(|byte| *byte == b']')?;
        let (inside, behind) = bracketed.split_at(end);
        let address = inside.split(|byte| *byte == b'%').next()?;
        let has_zone = address.len() < inside.len();
        return plain(address).filter(|ip| is_port(&behind[1..]) && (!has_zone || ip.is_ipv6()));
    }
    if let Some(at) = text.iter().position(|byte| *byte == b'%') {
        // A zone such as %eth0 means something to its own host only.
        return plain(&text[..at]).filter(IpAddr::is_ipv6);
    }
    plain(text).or_else(|| {
        let at = text.iter().rposition(|byte| *byte == b':')?;
        let (address, port) = text.split_at(at);
        plain(address).filter(|_| is_port(port))
    })
}

/// Nothing, or a colon and a port, which may be hidden as `_name`.
fn is_port(text: &[u8]) -> bool {
    match text {
        [] => true,
        [b':', b'_', name @ ..] => {
            name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte))
        }
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// An address and nothing else.
#[inline]
fn plain(text: &[u8]) -> Option<IpAddr> {
    if text.len() > LONGEST {
        return None;
    }
    let ip: IpAddr = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn ip(value: &str) -> Option<String> {
        read_address(value.as_bytes()).map(|it| it.ip.to_string())
    }

    #[test]
    fn every_spelling_of_an_address_is_that_address() {
        for (value, want) in [
            ("203.0.113.7", "203.0.113.7"),
            (" 203.0.113.7\t", "203.0.113.7"),
            ("203.0.113.7:50001", "203.0.113.7"),
            ("203.0.113.7:", "203.0.113.7"),
            ("203.0.113.7:_port-1", "203.0.113.7"),
            ("\"203.0.113.7:80\"", "203.0.113.7"),
            ("[203.0.113.7]:80", "203.0.113.7"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("::ffff:cb00:7107", "203.0.113.7"),
            ("0:0:0:0:0:FFFF:CB00:7107", "203.0.113.7"),
            ("[::ffff:cb00:7107]:443", "203.0.113.7"),
            ("::ffff:203.0.113.7:443", "203.0.113.7"),
            ("2001:DB8:0::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            (" \"[2001:db8::1%25eth0]:4711\" ", "2001:db8::1"),
            ("2001:db8::1%eth0", "2001:db8::1"),
            ("2001:db8::1%", "2001:db8::1"),
            ("2001:db8:0:0:0:0:0:1:443", "2001:db8::1"), // a ninth number is a port
            ("2001:db8::1:50001", "2001:db8::1"),        // five digits are
            ("2001:db8::1:443", "2001:db8::1:443"),      // four may be a part of the address
            ("for=203.0.113.7", "203.0.113.7"),
            ("proto=https; For = \"[2001:db8::1]:4711\";by=10.0.0.1", "2001:db8::1"),
            ("6.6.6.6, 203.0.113.7:1", "203.0.113.7"),
            ("for=6.6.6.6, for=203.0.113.7;host=\"a,for=7.7.7.7\"", "203.0.113.7"),
        ] {
            assert_eq!(ip(value).as_deref(), Some(want), "{value}");
        }
        let long_zone = format!("2001:db8::1%{}", "z".repeat(10_000));
        assert_eq!(ip(&long_zone).as_deref(), Some("2001:db8::1"));
    }

    #[test]
    fn what_is_not_an_address_is_none() {
        let long =
            ["1.2.3.4:".to_owned() + &"_".repeat(10_000) + " ", "x".repeat(10_240), ",".repeat(10_240)];
        for value in [
            "",
            " ",
            "unknown",
            "_hidden",
            "unix:",
            "unix:/tmp/socket",
            "localhost",
            "example.com:80",
            "203.0.113",
            "203.0.113.256",
            "203.0.113.07",
            "010.0.0.1",
            "203.0.113.7%eth0",
            "203.0.113.7 80",
            "203.0.113.7/24",
            "203.0.113.7:http",
            "203.0.113.7:80:80",
            "[203.0.113.7",
            "203.0.113.7]",
            "[2001:db8::1]80",
            "[]",
            "[]:80",
            "\"203.0.113.7",
            "203.0.113.7\"",
            "\"",
            ":",
            "%eth0",
            "%",
            "203.0.113.7,",
            "203.0.113.7, unknown",
            "for=",
            "for=unknown",
            "by=203.0.113.7",
            "for=1.2.3.4;for=5.6.7.8",
            "1.2.3.4;proto=http",
            "0x7f.1",
            "2130706433",
            "2001:db8::g",
        ]
        .into_iter()
        // The first of `long` is an address with a hidden port; it is checked below.
        .chain(long[1..].iter().map(String::as_str))
        {
            assert_eq!(ip(value), None, "{value:?}");
        }
        assert_eq!(ip(&long[0]).as_deref(), Some("1.2.3.4"), "a hidden port of any length");
        for bytes in [&b"\xff"[..], b"1.2.3.4\xff", b"\xe9:80", b"1.2.3.4\0"] {
            assert_eq!(read_address(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn the_nth_from_the_right_is_what_the_outermost_trusted_proxy_saw() {
        for (list, nth, want) in [
            ("203.0.113.7", 1, Some("203.0.113.7")),
            ("6.6.6.6, 203.0.113.7:5000", 1, Some("203.0.113.7")),
            ("6.6.6.6,203.0.113.7 ,10.0.0.1", 2, Some("203.0.113.7")),
            ("203.0.113.7", 2, None),
            ("203.0.113.7", 0, None),
            ("203.0.113.7", usize::MAX, None),
            ("203.0.113.7, unknown", 1, None),
            ("203.0.113.7, unknown", 2, Some("203.0.113.7")),
            ("203.0.113.7,", 1, None),
            ("203.0.113.7,", 2, Some("203.0.113.7")),
            ("", 1, None),
            // An odd quote of the client's hides nothing.
            ("\"6.6.6.6, 203.0.113.7", 1, Some("203.0.113.7")),
            ("for=\"6.6.6.6, for=203.0.113.7", 1, Some("203.0.113.7")),
            (r#"for=6.6.6.6, for=203.0.113.7;host="x,for=6.6.6.6;y", for=10.0.0.1"#, 2, Some("203.0.113.7")),
            (r#"for=203.0.113.7;host="x\",for=6.6.6.6""#, 1, Some("203.0.113.7")),
        ] {
            let found = forwarded_address(list.as_bytes(), nth).map(|ip| ip.to_string());
            assert_eq!(found.as_deref(), want, "{list}, {nth}");
        }
    }

    /// Spellings of one address.
    fn spellings(ip: IpAddr) -> impl Strategy<Value = String> {
        let bare = match ip {
            IpAddr::V4(four) => {
                let [a, b, c, d] = four.octets();
                let mapped = four.to_ipv6_mapped();
                prop_oneof![
                    Just(four.to_string()),
                    Just(format!("[{mapped}]")),
                    Just(format!("[::FFFF:{a:02x}{b:02x}:{c:02x}{d:02x}]")),
                    Just(format!("[0:0:0:0:0:ffff:{:x}:{:x}]", mapped.segments()[6], mapped.segments()[7])),
                ]
                .boxed()
            }
            IpAddr::V6(six) => {
                let full: Vec<String> = six.segments().iter().map(|it| format!("{it:04X}")).collect();
                let zone = prop_oneof![Just(String::new()), "%[a-z0-9:._-]{0,12}"];
                zone.prop_flat_map(move |zone| {
                    prop_oneof![Just(format!("[{six}{zone}]")), Just(format!("[{}{zone}]", full.join(":")))]
                })
                .boxed()
            }
        };
        let port = prop_oneof![Just(String::new()), ":[0-9]{1,5}", ":_[a-zA-Z0-9._-]{1,6}"];
        let around = prop_oneof![Just(("", "")), Just(("\"", "\"")), Just((" ", "\t")), Just((" \"", "\" "))];
        let front = prop_oneof![
            Just(""),
            Just("for="),
            Just("6.6.6.6, "),
            Just("\", "),
            Just("proto=http;FOR="),
            Just("for=\"x, for="),
        ];
        (bare, port, around, front)
            .prop_map(|(bare, port, (before, behind), front)| format!("{front}{before}{bare}{port}{behind}"))
    }

    fn any_ip() -> impl Strategy<Value = IpAddr> {
        let near = |bits: u128| IpAddr::V6(Ipv6Addr::from(bits)).to_canonical();
        prop_oneof![
            any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from(bits))),
            any::<u128>().prop_map(near),
            (0..64_u128).prop_map(near),
            (0..64_u128).prop_map(move |low| near((0x2001_0db8_u128 << 96) | low)),
        ]
    }

    proptest! {
        #[test]
        fn any_spelling_is_its_address_and_no_other(
            ((one, first), (other, second)) in (any_ip(), any_ip())
                .prop_flat_map(|(a, b)| ((Just(a), spellings(a)), (Just(b), spellings(b)))),
        ) {
            let read = |text: &String| read_address(text.as_bytes()).map(|it| it.ip);
            prop_assert_eq!(read(&first), Some(one), "{}", first);
            prop_assert_eq!(read(&second), Some(other), "{}", second);
            prop_assert_eq!(one == other, read(&first) == read(&second));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic_and_the_same_as_the_last_of_a_list(
            bytes in proptest::collection::vec(
                prop_oneof![any::<u8>(), proptest::sample::select(&b"\"\\,;:=[]%.0123456789abcdefor "[..])], 0..80),
            nth in 0_usize..4,
        ) {
            let alone = read_address(&bytes).map(|it| it.ip);
            let list = [b"10.0.0.1, ".as_slice(), &bytes].concat();
            if !bytes.contains(&b',') {
                prop_assert_eq!(alone, forwarded_address(&bytes, 1));
            }
            let _ = (read_address(&list), forwarded_address(&list, nth));
        }
    }
}
