//! Rules with the suggested numbers, as a rule file.

use std::fmt::Write as _;

use tollgate_core::Algorithm;
use tollgate_limiter::Policy;
use tollgate_policy::{Limit, PATH_SEPARATOR, Unit};

use crate::report::SideReport;

/// A level of descriptors.
#[derive(Default)]
struct Level {
    children: Vec<(String, Level)>,
    limit: Option<String>,
}

/// A rule file with a limit for each rule that has one, large enough for the share of the keys in `report`.
/// Buckets keep their rate and get a burst, all else keeps its algorithm and period and gets a limit.
pub(crate) fn yaml(policy: &Policy, report: &SideReport) -> String {
    let mut root = Level::default();
    let mut left_out = Vec::new();
    for rule in policy.domain(&report.domain).map_or(&[][..], |domain| domain.rules()) {
        let found = report.rules.iter().find(|it| it.path == rule.path).map(|it| it.suggested.as_slice());
        let (Some([suggested]), [limit]) = (found, rule.limits.as_slice()) else {
            left_out.push(rule.path.as_str());
            continue;
        };
        let levels = rule.path.split(PATH_SEPARATOR).fold(&mut root, |level, name| {
            let place = level.children.iter().position(|(known, _)| known == name);
            let place = place.unwrap_or_else(|| {
                level.children.push((name.to_owned(), Level::default()));
                level.children.len() - 1
            });
            &mut level.children[place].1
        });
        levels.limit = Some(limit_text(limit, suggested.limit, suggested.burst));
    }
    let percentile = report.rules.iter().flat_map(|rule| &rule.suggested).map(|it| it.percentile).next();
    let mut text = String::new();
    let _ = writeln!(text, "# Enough for {} % of the keys of the trace.", percentile.unwrap_or_default());
    for path in left_out {
        let _ = writeln!(text, "# Left out, without one limit that the trace asked for: {path}");
    }
    let _ = writeln!(text, "domain: {}", quoted(&report.domain));
    let _ = writeln!(text, "descriptors:{}", if root.children.is_empty() { " []" } else { "" });
    write(&root, 1, &mut text);
    text
}

fn write(level: &Level, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    for (name, child) in &level.children {
        let (key, value) =
            name.split_once('=').map_or((name.as_str(), None), |(key, value)| (key, Some(value)));
        let _ = writeln!(text, "{indent}- key: {}", quoted(key));
        if let Some(value) = value {
            let _ = writeln!(text, "{indent}  value: {}", quoted(value));
        }
        if let Some(limit) = &child.limit {
            let _ = writeln!(text, "{indent}  rate_limit: {limit}");
        }
        if !child.children.is_empty() {
            let _ = writeln!(text, "{indent}  descriptors:");
            write(child, depth + 2, text);
        }
    }
}

fn limit_text(limit: &Limit, permits: u64, burst: u64) -> String {
    let algorithm = limit.quota.algorithm();
    let unit = limit.unit.map_or_else(
        || format!("period: {}", tollgate_human_text::show_duration(limit.period)),
        |unit: Unit| format!("unit: {}", unit.name()),
    );
    let mut text = format!("{{{unit}, algorithm: {}", algorithm.name());
    let _ = match algorithm {
        Algorithm::TokenBucket { .. } => {
            write!(text, ", requests_per_unit: {}, burst: {}", limit.requests_per_unit, burst.max(1))
        }
        Algorithm::LeakyBucket { .. } => {
            write!(text, ", requests_per_unit: {}, capacity: {}", limit.requests_per_unit, burst.max(1))
        }
        Algorithm::SlidingWindow { cells } => write!(text, ", requests_per_unit: {permits}, cells: {cells}"),
        _ => write!(text, ", requests_per_unit: {permits}"),
    };
    text.push('}');
    text
}

/// A string of JSON, which is one of YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
