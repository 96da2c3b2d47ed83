//! Warnings of a kind that occurs often, and of addresses that are read as texts.

use tollgate_rule_files::{Options, RuleFile, RuleSet, parse};

fn file(name: &str, text: impl Into<String>) -> RuleFile {
    RuleFile { name: name.into(), text: text.into() }
}

fn read(files: &[RuleFile]) -> (RuleSet, Vec<String>) {
    let rules = parse(files, &Options::default()).unwrap_or_else(|faults| panic!("{faults}"));
    let shown = rules.warnings.iter().map(ToString::to_string).collect();
    (rules, shown)
}

/// Tenants with a limit, below which other paths are not limited.
fn tenants(domain: &str, number: usize) -> String {
    let tenant = |at| {
        format!(
            "  - {{key: tenant, value: t{at}, rate: 5/m, descriptors: [{{key: path, value: /api/*, rate: 5/s}}]}}\n"
        )
    };
    format!("domain: {domain}\ndescriptors:\n") + &(0..number).map(tenant).collect::<String>()
}

#[test]
fn up_to_three_warnings_of_a_kind_are_shown_and_of_more_the_first_with_their_number() {
    for number in [1, 2, 3] {
        let (rules, shown) = read(&[file("d.yaml", tenants("d", number))]);
        assert_eq!((shown.len(), rules.warned), (number, number), "{shown:?}");
        assert!(shown.iter().all(|it| it.ends_with("with key: path and no value")), "{shown:?}");
    }
    for (number, more) in [(4, 3), (1_001, 1_000), (5_000, 4_999)] {
        let (rules, shown) = read(&[file("d.yaml", tenants("d", number))]);
        let want = format!(
            "d.yaml:3:62: descriptors[0].descriptors[0]: other values of path match no rule here, so they are not \
             limited; add a descriptor with key: path and no value; {more} more warnings of this kind follow, the next \
             in line 4"
        );
        // The column is that of the first; it does not matter here.
        let without_column = |text: &str| text.split(' ').skip(1).collect::<Vec<_>>().join(" ");
        assert_eq!(shown.len(), 1, "{shown:?}");
        assert_eq!(without_column(&shown[0]), without_column(&want));
        assert!(shown[0].starts_with("d.yaml:3:"), "{shown:?}");
        assert_eq!(rules.warned, number);
    }
}

#[test]
fn a_frequent_kind_hides_no_other_and_counts_over_all_files() {
    let files: Vec<RuleFile> = ["a", "b", "c", "d", "e"]
        .iter()
        .map(|name| {
            let empty = if *name == "c" { "  - {key: x, rate_limit: }\n" } else { "" };
            file(&format!("{name}.yaml"), tenants(name, 1) + empty)
        })
        .collect();
    let (rules, shown) = read(&files);
    assert_eq!((shown.len(), rules.warned), (2, 6), "{shown:?}");
    assert!(shown[0].starts_with("a.yaml:3:"), "{shown:?}");
    assert!(shown[0].ends_with("; 4 more warnings of this kind follow, the next in b.yaml:3"), "{shown:?}");
    assert!(shown[1].starts_with("c.yaml:4:") && shown[1].contains("limits nothing"), "{shown:?}");
}

#[test]
fn a_key_that_is_named_as_an_address_and_read_as_a_text_is_warned_of() {
    let texts = Some("write ipv6_prefix: 64, or 128 for single addresses");
    let lists = Some("or the number of the proxies that you trust");
    for (descriptors, want) in [
        ("{key: remote_address, rate: 5/m}", texts),
        ("{key: X-Real-IP, rate: 5/m}", texts),
        ("{key: client_ip, value: '10.*', rate: 5/m}", texts),
        ("{key: a, descriptors: [{key: ip, rate: 5/m}]}", texts),
        ("{key: remote_address, ipv6_prefix: 128, rate: 5/m}", None),
        ("{key: remote_address, rate: 5/m}, {key: remote_address, value: 10.0.0.1, action: deny}", None),
        (
            "{key: remote_address, rate: 5/m}, {key: remote_address, value_cidr: 10.0.0.0/8, action: deny}",
            None,
        ),
        ("{key: x-forwarded-for, rate: 5/m}", lists),
        ("{key: x-forwarded-for, ipv6_prefix: 64, rate: 5/m}", lists),
        ("{key: x-forwarded-for, forwarded: 1, rate: 5/m}", None),
        ("{key: client_ip, forwarded: 2, rate: 5/m}", None),
        ("{key: masked_remote_address, rate: 5/m}", None), // Envoy's are networks
        ("{key: ship, rate: 5/m}", None),
        ("{key: user, value: ip, rate: 5/m}", None),
    ] {
        let (_, shown) = read(&[file("d.yaml", format!("domain: d\ndescriptors: [{descriptors}]\n"))]);
        match want {
            Some(end) => assert!(shown.len() == 1 && shown[0].ends_with(end), "{descriptors}: {shown:?}"),
            None => assert!(shown.is_empty(), "{descriptors}: {shown:?}"),
        }
    }
}
