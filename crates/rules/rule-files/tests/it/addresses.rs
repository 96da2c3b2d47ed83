//! Values that are addresses: one client, one counter, whichever way its address is spelled.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use proptest::prelude::*;
use tollgate_policy::{Domain, Entry, Override, Policy, Unit};
use tollgate_rule_files::{Options, RuleFile, parse, parse_text};

fn policy(text: &str) -> Policy {
    parse_text("rules.yaml", text).unwrap_or_else(|faults| panic!("{faults}"))
}

/// The rule that a value of `key` finds, in words, and its counter.
fn found(domain: &Domain, key: &str, value: &[u8]) -> (String, String) {
    let entries = [Entry::new(key, value)];
    let Some(rule) = domain.find(&entries) else { return ("none".to_owned(), String::new()) };
    let mut counter = Vec::new();
    rule.write_key(0, "d", &entries, &mut counter);
    let what = match (rule.unlimited, rule.denies) {
        (true, _) => "allow".to_owned(),
        (_, true) => "deny".to_owned(),
        _ => rule.limits[0].requests_per_unit.to_string(),
    };
    (what, String::from_utf8(counter).expect("a text"))
}

const RULES: &str = "
domain: d
descriptors:
  - {key: by_prefix, ipv6_prefix: 64, rate: 1/h}
  - {key: by_prefix, value_cidr: 10.0.0.0/8, action: allow}
  - {key: by_prefix, value_cidr: 198.51.100.0/24, action: deny}
  - {key: beside, rate: 1/h}
  - {key: beside, value_cidr: 10.0.0.0/8, action: allow}
  - {key: beside, value_cidr: '2001:db8:bad::/48', action: deny}
  - {key: exact, rate: 1/h}
  - {key: exact, value: 203.0.113.7, rate: 2/h}
  - {key: exact, value: '2001:DB8::7', action: deny}
  - {key: exact, value: 10.0.0.1, action: allow}
  - {key: exact, value: '203.0.113.9:80', rate: 3/h}
  - {key: exact, value: '203.0.113.9:81', rate: 4/h}
  - {key: exact, value: vip, rate: 5/h}
  - {key: last, forwarded: 1, rate: 1/h}
  - {key: last, value_cidr: 10.0.0.0/8, action: allow}
  - {key: last, value_cidr: 198.51.100.0/24, action: deny}
  - {key: second, forwarded: 2, ipv6_prefix: 64, rate: 1/h}
  - {key: second, value_regex: '^$', action: deny}
  - {key: second, value: '192.168.*', rate: 2/h}
  - {key: patterns, value: '10.*', action: allow}
  - {key: patterns, value: '198.*', action: deny}
  - {key: patterns, ipv6_prefix: 128, rate: 1/h}
  - {key: exception, value_cidr: 10.0.0.0/8}
  - {key: exception, value_cidr: 0.0.0.0/0, rate: 1/h}
  - {key: text, rate: 1/h}
";

#[test]
fn each_value_finds_its_rule_and_its_counter() {
    let policy = policy(RULES);
    let rows: &[(&str, &str, &str, &str)] = &[
        ("by_prefix", "203.0.113.7", "1", "d|by_prefix@203.0.113.7|hour"),
        ("by_prefix", "203.0.113.7:50001", "1", "d|by_prefix@203.0.113.7|hour"),
        ("by_prefix", " \"::ffff:cb00:7107\" ", "1", "d|by_prefix@203.0.113.7|hour"),
        ("by_prefix", "[2001:db8::2]:4711", "1", "d|by_prefix@2001:db8::/64|hour"),
        ("by_prefix", "2001:db8::5%eth0", "1", "d|by_prefix@2001:db8::/64|hour"),
        ("by_prefix", "2001:db8::1:8080", "1", "d|by_prefix@2001:db8::/64|hour"), // or a port: the same network
        ("by_prefix", "198.51.100.9:1234", "deny", ""),
        ("by_prefix", "[::ffff:198.51.100.9]:1234", "deny", ""),
        ("by_prefix", "10.1.2.3:8080", "allow", ""),
        // Not addresses: texts.
        ("by_prefix", "unknown", "1", "d|by_prefix=unknown|hour"),
        ("by_prefix", "_hidden", "1", "d|by_prefix=_hidden|hour"),
        ("by_prefix", "unix:", "1", "d|by_prefix=unix:|hour"),
        ("by_prefix", "010.1.2.3", "1", "d|by_prefix=010.1.2.3|hour"),
        ("by_prefix", "198.051.100.009", "1", "d|by_prefix=198.051.100.009|hour"),
        ("by_prefix", "", "1", "d|by_prefix=|hour"),
        // Lists of which no rule says which address counts: the last, and nothing is lifted for it.
        ("by_prefix", "203.0.113.8, 203.0.113.7", "1", "d|by_prefix@203.0.113.7|hour"),
        ("by_prefix", "10.1.2.3, 203.0.113.7", "1", "d|by_prefix@203.0.113.7|hour"),
        ("by_prefix", "203.0.113.8, 10.1.2.3", "1", "d|by_prefix@10.1.2.3|hour"),
        ("by_prefix", "203.0.113.8, 198.51.100.9:1", "deny", ""),
        ("by_prefix", "203.0.113.8, unknown", "1", "d|by_prefix=203.0.113.8, unknown|hour"),
        // A limit beside networks keeps its counters, and has one for each address.
        ("beside", "203.0.113.7", "1", "d|beside=203.0.113.7|hour"),
        ("beside", "203.0.113.7:50001", "1", "d|beside=203.0.113.7|hour"),
        ("beside", "[2001:DB8::1]", "1", "d|beside=2001:db8::1|hour"),
        ("beside", "10.9.9.9:1", "allow", ""),
        ("beside", "x, 10.9.9.9", "1", "d|beside=10.9.9.9|hour"),
        ("beside", "[2001:db8:bad::1]:443", "deny", ""),
        ("exact", "203.0.113.7:1", "2", "d|exact=203.0.113.7|hour"),
        ("exact", "203.0.113.8:1", "1", "d|exact=203.0.113.8|hour"),
        ("exact", "2001:db8::7%1", "deny", ""),
        ("exact", "10.0.0.1:1", "allow", ""),
        ("exact", "x, 10.0.0.1", "1", "d|exact=10.0.0.1|hour"),
        ("exact", "203.0.113.9:80", "3", "d|exact=203.0.113.9:80|hour"), // as the rules say, and apart
        ("exact", "203.0.113.9:81", "4", "d|exact=203.0.113.9:81|hour"),
        ("exact", "203.0.113.9:82", "1", "d|exact=203.0.113.9|hour"),
        ("exact", "vip", "5", "d|exact=vip|hour"),
        // The place that a rule names.
        ("last", "10.1.2.3, 203.0.113.7:50001", "1", "d|last=203.0.113.7|hour"),
        ("last", "203.0.113.7, 10.1.2.3", "allow", ""),
        ("last", "for=10.1.2.3, for=\"[::ffff:198.51.100.9]:1\";proto=https", "deny", ""),
        ("last", "203.0.113.7", "1", "d|last=203.0.113.7|hour"),
        ("last", "unknown", "1", "d|last=|hour"),
        ("last", "10.1.2.3,", "1", "d|last=|hour"),
        ("last", "", "1", "d|last=|hour"),
        ("second", "10.1.2.3, 2001:db8::9, 192.0.2.1", "1", "d|second@2001:db8::/64|hour"),
        ("second", "2001:db8::9", "deny", ""), // it did not pass both proxies, and a rule says what then
        ("second", "192.168.1.1, 203.0.113.7, 192.0.2.1", "1", "d|second@203.0.113.7|hour"),
        ("second", "1.1.1.1, 192.168.1.1:5, 192.0.2.1", "2", "d|second=192.168.1.1|hour"),
        ("patterns", "10.1.2.3:1", "allow", ""),
        ("patterns", "10.1.2.3, 203.0.113.7", "1", "d|patterns@203.0.113.7|hour"),
        ("patterns", "203.0.113.7, 10.1.2.3", "1", "d|patterns@10.1.2.3|hour"),
        ("patterns", "203.0.113.7, 198.51.100.1", "deny", ""),
        ("exception", "10.1.2.3:1", "none", ""),
        ("exception", "203.0.113.7, 10.1.2.3", "1", "d|exception@10.1.2.3|hour"),
        // Where nothing takes addresses, values are texts.
        ("text", "203.0.113.7:50001", "1", "d|text=203.0.113.7:50001|hour"),
    ];
    for (key, value, what, counter) in rows {
        let came = found(&policy.domains()[0], key, value.as_bytes());
        let counter = if counter.is_empty() { came.1.clone() } else { (*counter).to_owned() };
        assert_eq!(came, ((*what).to_owned(), counter), "{key}={value}");
    }
}

#[test]
fn lists_of_values_and_networks_of_rules_are_read_in_any_spelling_too() {
    let file = |name: &str, text: &str| RuleFile { name: name.into(), text: text.to_owned() };
    let rules = "domain: d\ndescriptors:
  - {key: a, rate: 1/h}
  - {key: a, value_file: blocked.values, action: deny}
  - {key: a, value_cidr: '::ffff:10.0.0.0/104', action: allow}
";
    let values = "192.0.2.1\n[2001:db8::1]:443\n::ffff:192.0.2.2\n203.0.113.0/24\nann\n";
    let files = [file("rules.yaml", rules), file("blocked.values", values)];
    let policy = parse(&files, &Options::default()).unwrap_or_else(|faults| panic!("{faults}")).policy;
    for (value, want) in [
        ("192.0.2.1:1", "deny"),
        ("192.0.2.2", "deny"),
        ("[::ffff:c000:202]:1", "deny"),
        ("2001:db8::1", "deny"),
        ("203.0.113.77:65535", "deny"),
        ("ann", "deny"),
        ("ann:1", "1"),
        ("192.0.2.3", "1"),
        ("10.1.2.3:1", "allow"),
        ("::ffff:10.1.2.3", "allow"),
        ("11.1.2.3", "1"),
    ] {
        assert_eq!(found(&policy.domains()[0], "a", value.as_bytes()).0, want, "{value}");
    }
}

#[test]
fn limits_of_the_request_and_statistics_see_the_same_value() {
    let policy = policy(
        "domain: d\ndescriptors:\n  - {key: a, forwarded: 1, value_to_metric: true, rate: 1/h}\n  - {key: b, ipv6_prefix: \
         64, detailed_metric: true, rate: 1/h}\n",
    );
    let domain = &policy.domains()[0];
    for (key, value, counter, stat) in [
        ("a", "6.6.6.6, 192.0.2.1:5", "d|a=192.0.2.1|hour", "a_192_0_2_1"),
        ("b", "[2001:db8::1]:443", "d|b@2001:db8::/64|hour", "b_2001_db8__1"),
    ] {
        let entries = [Entry::new(key, value)];
        let rule = domain.find(&entries).expect("a rule");
        let mut bytes = Vec::new();
        let mut path = String::new();
        Override::new(5, Unit::Hour).expect("a quota").write_key(Some(rule), "d", &entries, &mut bytes);
        rule.write_stat(&entries, &mut path);
        assert_eq!((bytes.as_slice(), path.as_str()), (counter.as_bytes(), stat));
    }
}

#[test]
fn a_place_in_a_list_is_checked() {
    for (descriptors, want) in [
        (
            "[{key: a, forwarded: 0, rate: 1/h}]",
            "descriptors[0].forwarded: 0 is out of range; write a whole number from 1 to 32",
        ),
        ("[{key: a, forwarded: 33, rate: 1/h}]", "descriptors[0].forwarded: 33 is out of range"),
        ("[{key: a, forwarded: last, rate: 1/h}]", "descriptors[0].forwarded: last is not a whole number"),
        ("[{key: 'a*', forwarded: 1, rate: 1/h}]", "descriptors[0].forwarded: needs a key without *"),
        (
            "[{key: a, forwarded: 1, rate: 1/h}, {key: a, value_cidr: 10.0.0.0/8, forwarded: 2, action: allow}]",
            "descriptors[1].forwarded: 2 differs from the 1 of another descriptor with this key on this level",
        ),
        (
            "[{key: a, rate_limit: {rate: 1/h, forwarded: 1}}]",
            "descriptors[0].rate_limit.forwarded: is not a key of this map; it belongs in a descriptor",
        ),
    ] {
        let text = format!("domain: d\ndescriptors: {descriptors}\n");
        let faults = parse_text("f", text).expect_err(descriptors).to_string();
        assert!(faults.contains(want), "{descriptors}: {faults}");
    }
    for fine in [
        "[{key: a, forwarded: 1, rate: 1/h}, {key: a, value_cidr: 10.0.0.0/8, forwarded: 1, action: allow}]",
        "[{key: a, forwarded: 32, descriptors: [{key: a, forwarded: 1, rate: 1/h}]}]",
    ] {
        policy(&format!("domain: d\ndescriptors: {fine}\n"));
    }
}

/// Spellings of an address, alone.
fn spelled(ip: IpAddr) -> impl Strategy<Value = String> {
    let bare = match ip {
        IpAddr::V4(four) => {
            let mapped = four.to_ipv6_mapped();
            let [high, low] = [mapped.segments()[6], mapped.segments()[7]];
            vec![four.to_string(), format!("[{mapped}]"), format!("[::FFFF:{high:X}:{low:04x}]")]
        }
        IpAddr::V6(six) => {
            let all: Vec<String> = six.segments().iter().map(|it| format!("{it:04X}")).collect();
            vec![format!("[{six}]"), format!("[{}%eth0]", all.join(":")), format!("[{six}%25en1]")]
        }
    };
    let port = prop_oneof![Just(String::new()), (0..=65_535_u32).prop_map(|port| format!(":{port}"))];
    let around = prop::sample::select(vec![("", ""), ("\"", "\""), (" ", ""), ("\t\"", "\" ")]);
    let name = prop::sample::select(vec!["", "", "for=", "by=10.0.0.1;For="]);
    (prop::sample::select(bare), port, around, name)
        .prop_map(|(bare, port, (before, behind), name)| format!("{name}{before}{bare}{port}{behind}"))
}

fn ip() -> impl Strategy<Value = IpAddr> {
    let six = |bits: u128| IpAddr::V6(Ipv6Addr::from(bits)).to_canonical();
    prop_oneof![
        any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from(bits))),
        (0..4_u32).prop_map(|low| IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | low))),
        any::<u128>().prop_map(six),
        (0..4_u128, 0..4_u128).prop_map(move |(net, host)| six((0x2001_0db8 << 96) | (net << 64) | host)),
    ]
}

/// Text that clients, and proxies in between, write in front of the address that counts.
fn in_front() -> impl Strategy<Value = String> {
    let odd = prop::sample::select(vec![
        "",
        "\"",
        "for=\"",
        "unknown",
        "10.0.0.1",
        ";",
        "=",
        "\\\"",
        "for=10.0.0.1;host=\"a",
    ]);
    let entry = prop_oneof![odd.prop_map(str::to_owned), ip().prop_flat_map(spelled)];
    prop::collection::vec(entry, 0..4).prop_map(|all| all.iter().map(|it| format!("{it}, ")).collect())
}

/// Rules of every kind that take addresses, each counting every address by itself.
static EVERY_KIND: LazyLock<Policy> = LazyLock::new(|| {
    policy(
        "
domain: d
descriptors:
  - {key: prefix, ipv6_prefix: 128, rate: 1/h}
  - {key: beside, rate: 1/h}
  - {key: beside, value_cidr: 255.255.255.255/32, action: deny}
  - {key: exact, rate: 1/h}
  - {key: exact, value: 255.255.255.255, action: deny}
  - {key: networks, value_cidr: 0.0.0.0/0, rate: 1/h}
  - {key: networks, value_cidr: '::/0', rate: 1/h}
  - {key: named, forwarded: 1, rate: 1/h}
  - {key: third, forwarded: 3, rate: 1/h}
",
    )
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_spelling_of_an_address_is_one_counter_and_two_addresses_never_share_one(
        ((a, a_spelled), (b, b_spelled), (front, other_front)) in (ip(), ip()).prop_flat_map(|(a, b)| {
            ((Just(a), spelled(a)), (Just(b), spelled(b)), (in_front(), in_front()))
        }),
    ) {
        let domain = &EVERY_KIND.domains()[0];
        let broadcast = IpAddr::V4(Ipv4Addr::BROADCAST);
        prop_assume!(a != broadcast && b != broadcast);
        for key in ["prefix", "beside", "exact", "networks", "named", "third"] {
            // Also as the last of a list; or as the third from the right, behind what the client has written.
            let (front, other, behind) = match key {
                "third" => (front.as_str(), other_front.as_str(), ", 192.0.2.1, for=192.0.2.2"),
                "named" => (front.as_str(), other_front.as_str(), ""),
                _ => ("", other_front.as_str(), ""),
            };
            let first = found(domain, key, format!("{front}{a_spelled}{behind}").as_bytes());
            let second = found(domain, key, format!("{other}{b_spelled}{behind}").as_bytes());
            prop_assert_eq!(&first.0, "1", "{}: {}{}", key, front, a_spelled);
            prop_assert_eq!(&second.0, "1", "{}: {}{}", key, other, b_spelled);
            prop_assert_eq!(first.1 == second.1, a == b, "{}: {} {}", key, first.1, second.1);
            let plain = found(domain, key, format!("{a}{behind}").as_bytes());
            prop_assert_eq!(&plain, &first, "{}: {}", key, a_spelled);
        }
    }

    /// Whatever a client writes in front of what the proxies add: nothing is lifted for it.
    #[test]
    fn no_list_passes_an_allow_list_by_what_a_client_writes_in_front(
        front in in_front(), client in ip(), spelling in any::<prop::sample::Index>(),
    ) {
        static POLICY: LazyLock<Policy> = LazyLock::new(|| policy(RULES));
        let domain = &POLICY.domains()[0];
        let is_inside = matches!(client, IpAddr::V4(four) if four.octets()[0] == 10);
        let bare = [client.to_string(), format!("[{client}]:443"), format!("for=\"[{client}]\"")];
        let value = format!("{front}{}", spelling.get(&bare));
        for key in ["by_prefix", "beside", "exact", "last", "patterns", "exception"] {
            let (what, _) = found(domain, key, value.as_bytes());
            // Only the place that a rule names can lift a limit, and a value that is not a list.
            let may_be = is_inside && (key == "last" || front.is_empty());
            prop_assert!(may_be || (what != "allow" && (key != "exception" || client.is_ipv6() || what != "none")),
                "{}={}: {}", key, value, what);
        }
    }

    #[test]
    fn any_bytes_find_a_rule_and_a_counter_of_bounded_length(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&b",\";=[]:%.01a "[..])], 0..200),
        repeated in 1..60_usize,
    ) {
        let value = bytes.repeat(repeated); // up to 12 kB
        for key in ["prefix", "beside", "exact", "named", "third"] {
            let entries = [Entry::new(key, &value)];
            let rule = EVERY_KIND.domains()[0].find(&entries).expect("any value has a rule");
            let mut counter = Vec::new();
            if !rule.denies {
                rule.write_key(0, "d", &entries, &mut counter);
                prop_assert!(counter.len() <= 3 * value.len() + 100);
            }
        }
    }
}
