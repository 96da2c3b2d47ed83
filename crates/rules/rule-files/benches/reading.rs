//! Cost of reading rule files; the variable is the number of rules.

#![allow(clippy::expect_used, reason = "a bench")]

use std::fmt::Write as _;

use criterion::{Criterion, criterion_group, criterion_main};
use tollgate_rule_files::parse_text;

/// A file of about `rules` rules: by key, by value, nested, and by network.
fn text(rules: usize) -> String {
    let mut text = "domain: d\ndescriptors:\n".to_owned();
    let limit = "rate_limit: {unit: minute, requests_per_unit: 9}";
    let quarter = (rules / 4).max(1);
    for i in 0..quarter {
        let _ = writeln!(text, "  - {{key: key_{i:05}, {limit}}}");
        let _ = writeln!(text, "  - {{key: user, value: user_{i:05}, {limit}}}");
        let _ = writeln!(text, "  - {{key: ip, value_cidr: '10.{}.{}.0/24', {limit}}}", i / 256, i % 256);
    }
    text += "  - key: path\n    descriptors:\n";
    for i in 0..quarter {
        let _ = writeln!(text, "      - {{key: method, value: method_{i:05}, {limit}}}");
    }
    text
}

fn reading(c: &mut Criterion) {
    for rules in [1_000, 10_000] {
        let text = text(rules);
        c.bench_function(&format!("rule-files/parse/{rules}_rules"), |b| {
            b.iter(|| parse_text("bench.yaml", text.as_str()).expect("loads"));
        });
    }
}

criterion_group!(benches, reading);
criterion_main!(benches);
