//! Explanations of descriptors by `explain`.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use crate::common::{entries, policy};
use tollgate_limiter::Unmatched;
use tollgate_limiter::explain::{Verdict, explain};

const RULES: &str = "domain: shop
descriptors:
  - key: plan
    value: gold
    descriptors:
      - {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}
      - {key: user, value: staff*, rate_limit: {unlimited: true}}
  - {key: plan, rate_limit: {unit: hour, requests_per_unit: 100, algorithm: token_bucket}}
  - key: ip
    value_cidr: 10.0.0.0/8
    limits:
      - {name: short, unit: second, requests_per_unit: 1}
      - {name: long, unit: day, requests_per_unit: 9}
";

#[test]
fn explain_names_the_rule_that_applies_and_why_others_do_not() {
    let policy = policy(RULES);
    for (asked, want) in [
        (
            "plan=gold user=ann",
            "domain   shop
asked    plan=gold → user=ann
rule     plan=gold → user (rules.yaml:6:9)
why      plan=gold has a rule of its own
why      user=ann has no rule of its own, so that of every user applies
limit    5 per minute, fixed_window
counter  shop|plan=gold|user=ann|minute
charge   1 permit of each limit, whatever the others say
sharing  exact: with --store, every decision asks it
outage   allow
not      plan=gold → user=staff* (rules.yaml:7:9): `user=staff*` does not take user=ann
not      plan (rules.yaml:8:5): it ends after 1 of the descriptor's 2 entries
",
        ),
        (
            "plan=gold",
            "domain   shop
asked    plan=gold
rule     none: nothing limits it
why      rules go on below plan=gold, and none ends there
not      plan=gold → user (rules.yaml:6:9): it needs 2 entries, the descriptor has 1
not      plan=gold → user=staff* (rules.yaml:7:9): it needs 2 entries, the descriptor has 1
not      plan (rules.yaml:8:5): plan=gold has a level of its own, not `plan`
",
        ),
        (
            "plan=silver color=red",
            "domain   shop
asked    plan=silver → color=red
rule     none: nothing limits it
why      below plan=silver no rule takes color=red; there is no way back to another branch
not      plan (rules.yaml:8:5): it ends after 1 of the descriptor's 2 entries
not      plan=gold → user (rules.yaml:6:9): `plan=gold` does not take plan=silver
not      plan=gold → user=staff* (rules.yaml:7:9): `plan=gold` does not take plan=silver
",
        ),
        (
            "ip=10.1.2.3",
            "domain   shop
asked    ip=10.1.2.3
rule     ip in 10.0.0.0/8 (rules.yaml:9:5)
why      ip=10.1.2.3 falls to ip in 10.0.0.0/8, the narrowest network that it lies in
limit    short: 1 per second, fixed_window
counter  shop|ip@10.1.2.3|second#short
limit    long: 9 per day, fixed_window
counter  shop|ip@10.1.2.3|day#long
charge   1 permit of each limit, whatever the others say
sharing  exact: with --store, every decision asks it
outage   allow
",
        ),
        (
            "ip=192.0.2.1",
            "domain   shop
asked    ip=192.0.2.1
rule     none: nothing limits it
why      no rule begins with ip=192.0.2.1
not      ip in 10.0.0.0/8 (rules.yaml:9:5): nothing on its level takes ip=192.0.2.1
",
        ),
    ] {
        assert_eq!(explain(&policy, "shop", &entries(asked), Unmatched::Admit).to_string(), want, "{asked}");
    }
    let strict = crate::common::policy(
        "{domain: s, unmatched: deny, descriptors: [{key: user, value: operator}, {key: user, value: ann}]}",
    );
    for (asked, want) in [
        (
            "user=bob",
            "domain   s
asked    user=bob
rule     none: no rule matches, which denies it
why      no rule begins with user=bob
",
        ),
        (
            "user=operator",
            "domain   s
asked    user=operator
rule     none: nothing limits it
why      the rules have user=operator without a limit, which makes it an exception
",
        ),
    ] {
        assert_eq!(explain(&strict, "s", &entries(asked), Unmatched::Admit).to_string(), want, "{asked}");
    }
    // What the domain says comes before the setting, which is for domains that do not say it.
    let told = |policy, domain, asked, setting| {
        let explanation = explain(policy, domain, &entries(asked), setting);
        (explanation.unmatched, explanation.to_string().lines().nth(2).map(str::to_owned))
    };
    let denied = Some("rule     none: no rule matches, which denies it".to_owned());
    let free = Some("rule     none: nothing limits it".to_owned());
    for (policy, domain, asked, setting, want) in [
        (&strict, "s", "user=bob", Unmatched::Admit, (Some(Unmatched::Deny), denied.clone())),
        (&policy, "shop", "user=bob", Unmatched::Deny, (Some(Unmatched::Deny), denied)),
        (&policy, "shop", "user=bob", Unmatched::Admit, (Some(Unmatched::Admit), free.clone())),
        (&strict, "s", "user=operator", Unmatched::Deny, (None, free)),
    ] {
        assert_eq!(told(policy, domain, asked, setting), want, "{domain} {asked} {setting:?}");
    }
    for (setting, verb) in [(Unmatched::Admit, "admits"), (Unmatched::Deny, "denies")] {
        let line = format!("rule     none: there is no such domain, so --unmatched {verb} it");
        assert_eq!(told(&policy, "elsewhere", "a=b", setting), (Some(setting), Some(line)));
    }
    assert_eq!(told(&policy, "shop", "plan=tin", Unmatched::Deny).0, None, "a rule applies");
    let elsewhere = explain(&policy, "elsewhere", &entries("a=b"), Unmatched::Admit);
    let Verdict::UnknownDomain(domains) = &elsewhere.verdict else { panic!("{elsewhere:?}") };
    assert_eq!(domains.names, ["shop"]);
}

#[test]
fn of_many_rules_that_do_not_apply_the_nearest_come_first_and_the_others_are_counted() {
    let of = |number: usize| {
        let level = |at| {
            format!(
                "  - {{key: policy, value: p{at:02}, descriptors: [{{key: unit, value: MINUTE, rate: 5/m}}]}}\n"
            )
        };
        let text = format!("domain: w\ndescriptors:\n{}", (0..number).map(level).collect::<String>());
        crate::common::policy(&text)
    };
    for (number, asked, first, more) in [
        (12, "policy=p11 unit=HOUR", "policy=p11 → unit=MINUTE", 2),
        (12, "policy=p11 unit=MINUTE path=/", "policy=p11 → unit=MINUTE", 2),
        (12, "policy=p07", "policy=p07 → unit=MINUTE", 2),
        (12, "policy=other unit=MINUTE", "policy=p00 → unit=MINUTE", 2), // none is nearer: as in the file
        (10, "policy=p09 unit=HOUR", "policy=p09 → unit=MINUTE", 0),
        (11, "policy=p10 unit=HOUR", "policy=p10 → unit=MINUTE", 1),
        (80, "policy=p79 unit=HOUR", "policy=p79 → unit=MINUTE", 70),
    ] {
        let explanation = explain(&of(number), "w", &entries(asked), Unmatched::Admit);
        assert_eq!(explanation.others[0].path, first, "{asked}");
        assert_eq!((explanation.others.len(), explanation.more_others), (10, more), "{asked}");
        let shown = explanation.to_string();
        let last = shown.lines().last().expect("a line").to_owned();
        assert_eq!(last == format!("not      … {more} more"), more > 0, "{last}");
    }
    // Two levels in common come before one, and the same key before another.
    let policy = crate::common::policy(
        "domain: d
descriptors:
  - key: a
    value: x
    descriptors:
      - {key: b, value: y, descriptors: [{key: c, value: z, rate: 1/s}]}
      - {key: b, value: w, rate: 1/s}
      - {key: e, rate: 1/s}
  - {key: a, value: v, rate: 1/s}
",
    );
    let explanation = explain(&policy, "d", &entries("a=x b=y c=q"), Unmatched::Admit);
    let paths: Vec<&str> = explanation.others.iter().map(|other| other.path.as_str()).collect();
    assert_eq!(paths, ["a=x → b=y → c=z", "a=x → b=w", "a=x → e", "a=v"]);
}
