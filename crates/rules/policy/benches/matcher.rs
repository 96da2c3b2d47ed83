//! Cost of finding a rule and writing its counter key; the variable is the number of rules in the domain.
//!
//! `cargo bench -p tollgate-policy`. For a figure that noise does not move, count instructions: `valgrind
//! --tool=callgrind target/release/deps/matcher-* --profile RULES FINDS` for two numbers of finds of the
//! mixed requests; the difference is theirs alone.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a bench")]

use std::hint::black_box;

use criterion::Criterion;
use tollgate_policy::{
    DescriptorSpec, DomainSpec, Entry, Limit, Policy, PolicyBuilder, RuleSpec, Unit, ValueSpec,
};

/// A domain of about `rules` rules: by key, by value, nested, and by network.
fn policy(rules: usize) -> Policy {
    let limit = || RuleSpec::new(Limit::per(9, Unit::Minute).expect("a limit"));
    let of = |key: &str, value: ValueSpec| DescriptorSpec::new(key).value(value).rule(limit());
    let quarter = (rules / 4).max(1);
    let mut domain = DomainSpec::new("d");
    let mut path = DescriptorSpec::new("path");
    for i in 0..quarter {
        let network = format!("10.{}.{}.0/24", i / 256, i % 256);
        domain = domain
            .descriptor(of(&format!("key_{i:05}"), ValueSpec::any()))
            .descriptor(of("user", ValueSpec::text(format!("user_{i:05}"))))
            .descriptor(of("ip", ValueSpec::network(&network).expect("a network")));
        path = path.child(of("method", ValueSpec::text(format!("method_{i:05}"))));
    }
    PolicyBuilder::new().domain(domain.descriptor(path)).build().expect("rules without errors")
}

/// Requests that find rules in each way, spread over the domain; one in five finds no rule.
fn requests(rules: usize) -> Vec<Vec<(String, String)>> {
    let quarter = (rules / 4).max(1);
    let pair = |key: &str, value: String| (key.to_owned(), value);
    let mut requests = Vec::new();
    for i in 0..200 {
        let i = i * 7919 % quarter;
        requests.push(vec![pair(&format!("key_{i:05}"), "any".to_owned())]);
        requests.push(vec![pair("user", format!("user_{i:05}"))]);
        requests.push(vec![pair("ip", format!("10.{}.{}.7", i / 256, i % 256))]);
        requests.push(vec![pair("path", "/".to_owned()), pair("method", format!("method_{i:05}"))]);
        requests.push(vec![pair("user", format!("guest_{i:05}"))]);
    }
    requests
}

fn borrowed(requests: &[Vec<(String, String)>]) -> Vec<Vec<Entry<'_>>> {
    let mut all = Vec::with_capacity(requests.len());
    for pairs in requests {
        all.push(pairs.iter().map(|(key, value)| Entry::new(key, value)).collect());
    }
    all
}

fn matcher(c: &mut Criterion) {
    for rules in [10, 1_000, 10_000] {
        let policy = policy(rules);
        let domain = &policy.domains()[0];
        // The same few rules, whatever the number of other rules; and rules all over the domain, whose memory
        // is cold. Both find the rules of 1,000 different requests.
        for (name, owned) in [("few", requests(8)), ("all", requests(rules))] {
            let requests = borrowed(&owned);
            let mut next = 0;
            c.bench_function(&format!("policy/find/{name}_of_{rules}_rules"), |b| {
                b.iter(|| {
                    next = (next + 1) % requests.len();
                    black_box(domain.find(&requests[next]))
                });
            });
            let mut key = Vec::new();
            c.bench_function(&format!("policy/find_and_write_key/{name}_of_{rules}_rules"), |b| {
                b.iter(|| {
                    next = (next + 1) % requests.len();
                    key.clear();
                    if let Some(rule) = domain.find(&requests[next]) {
                        rule.write_key(0, "d", &requests[next], &mut key);
                    }
                    black_box(key.len())
                });
            });
        }
    }
    for rules in [1_000, 10_000] {
        c.bench_function(&format!("policy/build/{rules}_rules"), |b| b.iter(|| policy(rules)));
    }
}

/// For counting instructions: `finds` finds.
fn profile(rules: usize, finds: usize) {
    let policy = policy(rules);
    let owned = requests(rules);
    let domain = &policy.domains()[0];
    let requests = borrowed(&owned);
    let found =
        (0..finds).filter(|i| black_box(domain.find(&requests[i % requests.len()])).is_some()).count();
    println!("{found} of {finds} found a rule among {}", policy.rules().count());
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, rules, finds] = arguments.as_slice()
        && flag == "--profile"
    {
        return profile(rules.parse().expect("rules"), finds.parse().expect("finds"));
    }
    let mut c = Criterion::default().configure_from_args();
    matcher(&mut c);
    c.final_summary();
}
