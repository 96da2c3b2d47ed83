//! Rules with the suggested numbers, as a rule file.

use std::fmt::Write as _;

use tollgate_core::{Algorithm, LeavingCell};
use tollgate_limiter::Policy;
use tollgate_policy::{Limit, OnStoreFailure, PATH_SEPARATOR, Rule, Unit};
use tollgate_store::Sharing;

use crate::report::{SideReport, Suggested};

/// A level of descriptors.
#[derive(Default)]
struct DescriptorLevel {
    children: Vec<(String, DescriptorLevel)>,
    /// The lines of the rule that ends here, with its limit.
    rule: Vec<String>,
}

/// A rule file with a limit for each rule that has one, large enough for the share of the keys in `report`.
/// Buckets keep their rate and get a burst, all else keeps its algorithm and period and gets a limit.
pub(crate) fn yaml(policy: &Policy, report: &SideReport) -> String {
    let mut root = DescriptorLevel::default();
    let mut left_out = Vec::new();
    let mut not_said = Vec::new();
    for rule in policy.domain(&report.domain).map_or(&[][..], |domain| domain.rules()) {
        let found = report.rules.iter().find(|it| it.path == rule.path).map(|it| it.suggested.as_slice());
        let (Some([suggested]), [limit]) = (found, rule.limits.as_slice()) else {
            left_out.push(rule.path.as_str());
            continue;
        };
        let lines = rule_lines(rule, limit, suggested);
        let mut alone = DescriptorLevel::default();
        alone.at(&rule.path).rule.clone_from(&lines);
        if limit.bucket.is_some() || !reads_back(&file(&report.domain, &alone), rule, limit) {
            not_said.push(rule.path.as_str());
            continue;
        }
        root.at(&rule.path).rule = lines;
    }
    let percentile = report.rules.iter().flat_map(|rule| &rule.suggested).map(|it| it.percentile).next();
    let mut text = String::new();
    let _ = writeln!(text, "# Enough for {} % of the keys of the trace.", percentile.unwrap_or_default());
    let _ = writeln!(
        text,
        "# Not repeated here: responses, metadata, replaces, excess, and how values are grouped."
    );
    for path in left_out {
        let _ = writeln!(text, "# Left out, without one limit that the trace asked for: {path}");
    }
    for path in not_said {
        let _ = writeln!(text, "# Left out, change it in your own file: {path}");
    }
    text + &file(&report.domain, &root)
}

impl DescriptorLevel {
    /// The level of a path.
    fn at(&mut self, path: &str) -> &mut Self {
        path.split(PATH_SEPARATOR).fold(self, |level, name| {
            let place = level.children.iter().position(|(known, _)| known == name);
            let place = place.unwrap_or_else(|| {
                level.children.push((name.to_owned(), Self::default()));
                level.children.len() - 1
            });
            &mut level.children[place].1
        })
    }
}

fn file(domain: &str, root: &DescriptorLevel) -> String {
    let mut text = format!("domain: {}\n", quoted(domain));
    let _ = writeln!(text, "descriptors:{}", if root.children.is_empty() { " []" } else { "" });
    write(root, 1, &mut text);
    text
}

/// Whether a file says the same rule, up to the numbers that are suggested.
fn reads_back(file: &str, rule: &Rule, limit: &Limit) -> bool {
    let Ok(policy) = tollgate_rule_files::parse_text("suggested", file) else { return false };
    let of = |limit: &Limit| (without_numbers(limit.quota.algorithm()), limit.quota.period().clone());
    policy.rules().any(|it| {
        let [read] = it.limits.as_slice() else { return false };
        it.identity() == rule.identity() && of(read) == of(limit) && read.cost == limit.cost
    })
}

fn without_numbers(algorithm: &Algorithm) -> Algorithm {
    let mut algorithm = algorithm.clone();
    match &mut algorithm {
        Algorithm::TokenBucket { burst, .. } => *burst = None,
        Algorithm::LeakyBucket { capacity, .. } => *capacity = None,
        _ => {}
    }
    algorithm
}

fn write(level: &DescriptorLevel, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    for (name, child) in &level.children {
        let (key, value) =
            name.split_once('=').map_or((name.as_str(), None), |(key, value)| (key, Some(value)));
        let _ = writeln!(text, "{indent}- key: {}", quoted(key));
        if let Some(value) = value {
            let _ = writeln!(text, "{indent}  value: {}", quoted(value));
        }
        for line in &child.rule {
            let _ = writeln!(text, "{indent}  {line}");
        }
        if !child.children.is_empty() {
            let _ = writeln!(text, "{indent}  descriptors:");
            write(child, depth + 2, text);
        }
    }
}

/// The lines of a descriptor for a rule, with the suggested numbers.
fn rule_lines(rule: &Rule, limit: &Limit, suggested: &Suggested) -> Vec<String> {
    let mut lines = Vec::new();
    for (is_so, line) in [(rule.shadow_mode, "shadow_mode: true"), (rule.quota_mode, "quota_mode: true")] {
        lines.extend(is_so.then(|| line.to_owned()));
    }
    if let Some(wait) = rule.max_wait {
        lines.push("on_limit: queue".to_owned());
        lines.push(format!("max_wait: {}", tollgate_human_text::show_duration(wait)));
    }
    let mut text = limit_text(limit, suggested.limit, suggested.burst);
    if !rule.name.is_empty() {
        let _ = write!(text, ", name: {}", quoted(&rule.name));
    }
    if let Some(bucket) = &limit.bucket {
        let _ = write!(text, ", bucket: {}", quoted(bucket));
    }
    if limit.cost > 1 {
        let _ = write!(text, ", cost: {}", limit.cost);
    }
    if rule.sharing != Sharing::default() {
        let _ = write!(text, ", sharing: {}", rule.sharing.name());
    }
    if rule.on_store_failure != OnStoreFailure::default() {
        let _ = write!(text, ", on_store_failure: {}", rule.on_store_failure.name());
    }
    lines.push(format!("rate_limit: {{{text}}}"));
    lines
}

fn limit_text(limit: &Limit, permits: u64, burst: u64) -> String {
    let algorithm = limit.quota.algorithm();
    let unit = limit.unit.map_or_else(
        || format!("period: {}", tollgate_human_text::show_duration(limit.period)),
        |unit: Unit| format!("unit: {}", unit.name()),
    );
    let mut text = format!("{unit}, algorithm: {}", algorithm.name());
    let _ = match algorithm {
        Algorithm::TokenBucket { overdraft, .. } => {
            let _ = write!(text, ", requests_per_unit: {}, burst: {}", limit.requests_per_unit, burst.max(1));
            if *overdraft > 0 { write!(text, ", overdraft: {overdraft}") } else { Ok(()) }
        }
        Algorithm::LeakyBucket { .. } => {
            write!(text, ", requests_per_unit: {}, capacity: {}", limit.requests_per_unit, burst.max(1))
        }
        Algorithm::SlidingWindow { cells, leaving } => {
            let _ = write!(text, ", requests_per_unit: {permits}, cells: {cells}");
            if *leaving == LeavingCell::Drops { write!(text, ", leaving_cell: drop") } else { Ok(()) }
        }
        _ => write!(text, ", requests_per_unit: {permits}"),
    };
    text
}

/// A string of JSON, which is one of YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
