//! Keys that `geo` and `map` make.

use super::*;

/// A zone whose key is `$key`, with these tables, as a policy.
fn with(tables: &str) -> (String, Vec<String>) {
    let text = format!(
        "{tables}\nlimit_req_zone $key zone=a:1m rate=1r/m;\nserver {{ limit_req zone=a burst=1 nodelay; }}"
    );
    (rules_of(&text), left_out(&text))
}

/// The treatment of a client at `address`: `count` or `allow`, as the narrowest network of the rules says.
fn treated(rules: &str, address: &str) -> &'static str {
    let name = |text: &str| RuleFile { name: "nginx.yaml".into(), text: text.to_owned() };
    let text = format!("domain: nginx\ndescriptors:\n{rules}");
    let loaded =
        parse(&[name(&text)], &Options::default()).unwrap_or_else(|faults| panic!("{faults}\n{text}"));
    let entries =
        [tollgate_policy::Entry::new("zone", "a"), tollgate_policy::Entry::new("remote_address", address)];
    let domain = loaded.policy.domain("nginx").expect("the domain");
    let rule = domain.find(&entries).expect("a rule for every address");
    if rule.unlimited { "allow" } else { "count" }
}

#[test]
fn tables_of_the_clients_address_become_networks() {
    for (tables, clients) in [
        // An allow list, as most guides have it.
        (
            "geo $limited { default 1; 10.0.0.0/8 0; 192.168.0.0/24 0; }
             map $limited $key { 0 ''; 1 $binary_remote_addr; }",
            &[("10.1.2.3", "allow"), ("192.168.0.255", "allow"), ("192.168.1.0", "count"), ("2001:db8::1", "count")][..],
        ),
        // A list of those that are limited, an exception in it, and one in that.
        (
            "geo $remote_addr $bad { 198.51.100.0/24 1; 198.51.100.128/25 0; 198.51.100.200 1; 2001:db8::/32 1; }
             map $bad $key { 1 $remote_addr; }",
            &[
                ("198.51.100.1", "count"),
                ("198.51.100.129", "allow"),
                ("198.51.100.200", "count"),
                ("203.0.113.1", "allow"),
                ("2001:db8::1", "count"),
                ("2001:db9::1", "allow"),
            ],
        ),
        // Tables of tables, with text between them; words are compared without their case.
        (
            "geo $office { default no; 192.0.2.0/24 YES; }
             geo $partner { default no; 192.0.2.0/28 yes; 203.0.113.0/24 yes; }
             map $office-$partner $who { yes-yes both; no-yes partner; default other; }
             map $who $key { BOTH \"\"; default ${binary_remote_addr}; }",
            &[("192.0.2.3", "allow"), ("192.0.2.77", "count"), ("203.0.113.9", "count"), ("8.8.8.8", "count")],
        ),
        // Ranges: the later one counts.
        (
            "geo $free { ranges; default 0; 10.0.0.5-10.0.1.4 1; 10.0.0.250-10.0.0.251 0; }
             map $free $key { 1 \"\"; 0 $binary_remote_addr; }",
            &[
                ("10.0.0.4", "count"),
                ("10.0.0.5", "allow"),
                ("10.0.0.250", "count"),
                ("10.0.1.4", "allow"),
                ("10.0.1.5", "count"),
            ],
        ),
        // Addresses one by one, in any spelling.
        (
            "map $remote_addr $key { default $binary_remote_addr; 192.0.2.7 \"\"; 2001:db8:0::1 \"\"; localhost x; }",
            &[("192.0.2.7", "allow"), ("192.0.2.8", "count"), ("2001:db8::1", "allow"), ("::1", "count")],
        ),
        // Host bits are cut off, as nginx does.
        (
            "geo $a { default 0; 10.9.9.9/8 1; } map $a $key { 1 \"\"; 0 $remote_addr; }",
            &[("10.1.2.3", "allow"), ("11.1.2.3", "count")],
        ),
        // Only one kind of addresses.
        (
            "geo $a { default 0; ::/0 1; } map $a $key { 1 \"\"; 0 $remote_addr; }",
            &[("10.1.2.3", "count"), ("2001:db8::1", "allow")],
        ),
    ] {
        let (rules, said) = with(tables);
        assert!(said.is_empty(), "{tables}: {said:?}");
        for (address, want) in clients {
            assert_eq!(treated(&rules, address), *want, "{address} in {tables}\n{rules}");
        }
    }
}

#[test]
fn a_network_that_says_what_the_one_around_it_says_is_left_out() {
    let (rules, _) = with(
        "geo $a { default 0; 10.0.0.0/8 1; 10.1.0.0/16 1; 10.2.0.0/16 0; 192.0.2.0/24 0; }
         map $a $key { 1 ''; 0 $binary_remote_addr; }",
    );
    assert_eq!(rules.matches("value_cidr").count(), 2, "{rules}");
}

#[test]
fn a_table_that_says_more_stays_in_nginx_and_its_line_is_named() {
    for (tables, want) in [
        (
            "map $http_user_agent $key {\n default '';\n ~*(bot|crawl) $binary_remote_addr; }",
            "-:3: map $http_user_agent $key makes the key of zone a, and ~*(bot|crawl) is a regular expression",
        ),
        (
            "map $binary_remote_addr $key {\n \"~^\\x0a\" '';\n default $binary_remote_addr; }",
            "-:2: map $binary_remote_addr $key makes the key of zone a, and ~^\\x0a is a regular expression",
        ),
        (
            "map $remote_addr $key {\n default $binary_remote_addr;\n ~^10\\. ''; }",
            "-:3: map $remote_addr $key makes the key of zone a, and ~^10\\. is a regular expression",
        ),
        (
            "geo $a { default 0;\n proxy 10.0.0.1;\n 10.0.0.0/8 1; }\nmap $a $key { 0 $remote_addr; }",
            "-:2: map $a $key makes the key of zone a, and proxy 10.0.0.1 decides which address is looked up",
        ),
        (
            "geo $http_x_real_ip $a { default 0;}\nmap $a $key { 0 $remote_addr; }",
            "-:1: map $a $key makes the key of zone a, and geo $http_x_real_ip $a looks up another address",
        ),
        (
            "geo $a { default 0;\n example.com 1; }\nmap $a $key { 0 $remote_addr; }",
            "-:2: map $a $key makes the key of zone a, and example.com is not a network",
        ),
        (
            "geo $key { default 0; 10.0.0.0/8 1; }",
            "-:1: geo $key makes the key of zone a, and the key of 0.0.0.0/0 is neither the client's address nor empty",
        ),
        (
            "map $host $key {\n hostnames;\n default $remote_addr; .example.com ''; }",
            "-:2: map $host $key makes the key of zone a, and hostnames is not one value",
        ),
        (
            "map $key $key { default $remote_addr; }",
            "-:1: map $key $key makes the key of zone a, and map $key $key is made of too many tables",
        ),
        (
            "set $a 1;\nmap $a $key { 1 $remote_addr; }",
            "-:1: map $a $key makes the key of zone a, and set $a 1 makes $a",
        ),
        (
            "geo $a { default 1; }\nmap $a $key { 1 $remote_addr; }\nmap $a $key { 1 ''; }",
            "-:2: map $a $key makes the key of zone a: keep it in nginx",
        ),
        (
            "split_clients $remote_addr $key { 50% $remote_addr; * ''; }",
            "-:1: split_clients $remote_addr $key makes the key of zone a: keep it in nginx",
        ),
    ] {
        let (rules, said) = with(tables);
        assert!(matches!(&said[..], [line] if line.starts_with(want)), "{tables}: {said:#?}");
        assert!(said[0].contains("entry_header=key=X-Limit-Key"), "{said:?}");
        assert!(rules.contains("- key: key\n"), "{rules}");
    }
}

#[test]
fn tables_are_read_with_the_files_that_they_include_and_up_to_a_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("main.conf");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("office.conf", "10.0.0.0/8 0;\n192.0.2.0/24 0;\n");
    let text = "geo $a { default 1; include office.conf; }\nmap $a $key { 0 ''; 1 $remote_addr; }\nlimit_req_zone \
                $key zone=a:1m;\nlimit_req zone=a;";
    let Imported { rules, left_out } = import(Some(&path), text.to_owned(), "nginx");
    assert!(left_out.is_empty(), "{left_out:?}");
    assert_eq!(rules.expect("rules").text.matches("action: allow").count(), 2);

    // As many networks as there may be, and one more.
    for (networks, is_taken_over) in [(9_998_u32, true), (9_999, false)] {
        let lines: String = (0..networks)
            .map(|at| format!("10.{}.{}.{} 1;\n", at * 2 / 65_536, at * 2 / 256 % 256, at * 2 % 256))
            .collect();
        let (rules, said) =
            with(&format!("geo $a {{\n{lines}}}\nmap $a $key {{ 1 ''; default $remote_addr; }}"));
        assert_eq!(
            (rules.contains("value_cidr"), said.is_empty()),
            (is_taken_over, is_taken_over),
            "{said:?}"
        );
    }
}
