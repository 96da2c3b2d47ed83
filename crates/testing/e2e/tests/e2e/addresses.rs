//! Addresses in any spelling, and lists of them: one client has one limit on every surface.

use crate::any_bytes::{All, WAYS, Way};

const RULES: &str = "
domain: d
descriptors:
  - {key: address, ipv6_prefix: 64, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: address, value_cidr: 10.0.0.0/8, action: allow}
  - {key: address, value_cidr: 198.51.100.0/24, action: deny}
  - {key: list, forwarded: 2, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: list, value_cidr: 10.0.0.0/8, action: allow}
  - {key: list, value_cidr: 198.51.100.0/24, action: deny}
";

/// Number of admitted requests with these values, each sent in another way.
async fn admitted(all: &mut All, key: &str, values: &[&str], first: usize) -> usize {
    let mut count = 0;
    for (turn, value) in values.iter().enumerate() {
        let way = WAYS[(first + turn) % WAYS.len()];
        count += usize::from(all.ask(way, key, value.as_bytes()).await.0);
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_has_one_limit_whichever_way_its_address_is_spelled_on_every_surface() {
    for first in 0..WAYS.len() {
        let mut all = All::start(RULES).await;
        for (key, values, want) in [
            // Values from a gateway that gives each connection a port of its own.
            (
                "address",
                &[
                    "203.0.113.7:50001",
                    "203.0.113.7:50002",
                    "[::ffff:203.0.113.7]:1",
                    "::ffff:cb00:7107",
                    "203.0.113.7",
                ][..],
                3,
            ),
            (
                "address",
                &[
                    "2001:db8::1",
                    "[2001:db8::2]:4711",
                    "2001:db8::5%eth0",
                    "[2001:db8::4]",
                    "\"[2001:db8::3]:4712\"",
                ],
                3,
            ),
            (
                "address",
                &["198.51.100.9:1234", "198.51.100.9", "[::ffff:198.51.100.9]:1", "1.2.3.4, 198.51.100.9"],
                0,
            ),
            ("address", &["10.1.2.3:8080", "10.1.2.3:8081", "10.1.2.3", "[::ffff:10.1.2.3]", "10.1.2.3"], 5),
            // A list of which no rule says which address counts: the last, and no allowance.
            (
                "address",
                &["10.1.2.3, 203.0.113.8", "10.9.9.9, 203.0.113.8:1", "x, 203.0.113.8", "203.0.113.8"],
                3,
            ),
            (
                "address",
                &["203.0.113.9, 10.0.0.1", "203.0.113.8, 10.0.0.1", "1.1.1.1, 10.0.0.1", "9.9.9.9, 10.0.0.1"],
                3,
            ),
            // A list whose second from the right counts, whatever is in front of it.
            (
                "list",
                &[
                    "203.0.113.7, 192.0.2.1",
                    "10.1.2.3, 203.0.113.7:5, 192.0.2.2",
                    "for=203.0.113.7, for=unknown",
                    "\", 203.0.113.7,x",
                ],
                3,
            ),
            (
                "list",
                &["203.0.113.8, 198.51.100.9:1, 10.0.0.1", "for=\"[::ffff:198.51.100.9]\", 10.0.0.1"],
                0,
            ),
            (
                "list",
                &[
                    "198.51.100.9, 10.0.0.1, 203.0.113.9",
                    "for=10.0.0.2;proto=http, x",
                    "10.1.1.1:1,",
                    "10.1.1.1,",
                ],
                4,
            ),
            // Too short, or no address there: one limit for all of them.
            ("list", &["203.0.113.9", "10.1.2.3", "unknown, 10.0.0.1", "", "_hidden, 10.0.0.1"], 3),
        ] {
            assert_eq!(admitted(&mut all, key, values, first).await, want, "{key}: {values:?}, from {first}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_lines_of_a_field_are_one_list_and_ten_kilobytes_are_a_value_like_any_other() {
    let mut all = All::start(RULES).await;
    let query = "entry_header=list=X-Forwarded-For";
    for (lines, want) in [
        (&b"203.0.113.7, 192.0.2.1"[..], (true, 2)),
        (b"6.6.6.6\r\nx-forwarded-for: 203.0.113.7:1\r\nx-forwarded-for: 192.0.2.1", (true, 1)),
        (b"10.1.2.3, 203.0.113.7\r\nX-Forwarded-For: 192.0.2.1", (true, 0)),
        (b"\r\nx-forwarded-for: 203.0.113.7\r\nx-forwarded-for: 192.0.2.1", (false, 0)),
    ] {
        assert_eq!(all.get(query, "x-forwarded-for", lines).await, want, "{}", lines.escape_ascii());
    }
    let long = |bytes: usize| {
        [
            "203.0.113.20, 192.0.2.1".to_owned(),
            format!("{}203.0.113.20, 192.0.2.1", "6.6.6.6, ".repeat(bytes / 9)),
            format!("\"{}, 203.0.113.20:1, 192.0.2.1", "x".repeat(bytes)),
            format!("{}, [::ffff:203.0.113.20], 192.0.2.1", ",".repeat(bytes)),
        ]
    };
    for (value, want) in long(10_240).iter().zip([(true, 2), (true, 1), (true, 0), (false, 0)]) {
        assert_eq!(all.ask(Way::Grpc, "list", value.as_bytes()).await, want, "{} bytes", value.len());
    }
    for way in WAYS {
        // A byte of a URL takes three.
        for value in long(if way == Way::Query { 3_400 } else { 10_240 }) {
            assert!(!all.ask(way, "list", value.as_bytes()).await.0, "{way:?}: {} bytes", value.len());
        }
    }
}
