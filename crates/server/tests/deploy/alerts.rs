//! `deploy/alerts.yml` by Prometheus' own tool: every alert fires when it should, and no single event fires
//! one.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::*;

/// Success and output of `promtool` with these arguments, if it is on this machine.
fn promtool(args: &[&str]) -> Option<(bool, String)> {
    let Ok(ran) = Command::new("promtool").args(args).current_dir(root()).output() else {
        println!(
            "SKIPPED promtool {args:?}: there is no promtool on this machine; Debian has it in `prometheus`"
        );
        return None;
    };
    Some((ran.status.success(), String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned()))
}

/// The alerts of all groups.
fn alerts() -> Vec<Value> {
    let groups = yaml::read(&root().join("deploy/alerts.yml"))["groups"].clone();
    let groups = groups.as_array().expect("groups").iter();
    groups.flat_map(|group| group["rules"].as_array().expect("rules").clone()).collect()
}

/// The alerts of the problems that a control plane reports, which all have one form.
fn of_problems() -> Vec<(String, String, String)> {
    let text = |alert: &Value, name: &str| alert[name].as_str().unwrap_or_default().to_owned();
    let kind = |expr: &str| {
        Some(expr.strip_prefix("tollgate_control_problems{kind=\"")?.split('"').next()?.to_owned())
    };
    let found = alerts().into_iter();
    found.filter_map(|it| Some((text(&it, "alert"), kind(&text(&it, "expr"))?, text(&it, "for")))).collect()
}

#[test]
fn prometheus_accepts_its_composed_files() {
    for args in [["check", "rules", "deploy/alerts.yml"], ["check", "config", "deploy/prometheus.yml"]] {
        if let Some((is_valid, said)) = promtool(&args) {
            assert!(is_valid, "{said}");
        }
    }
    let prometheus = yaml::read(&root().join("deploy/prometheus.yml"));
    let [scraped, evaluated] = ["scrape_interval", "evaluation_interval"].map(|it| &prometheus["global"][it]);
    assert!(
        scraped.is_string() && scraped == evaluated,
        "{scraped} {evaluated}: without it `for` means minutes more"
    );
}

#[test]
fn every_alert_fires_when_it_should_and_is_silent_just_below_its_bound() {
    let tests = "crates/server/tests/deploy/alerts.yml";
    let mut fires = BTreeSet::new();
    let mut stays_silent = BTreeSet::new();
    for test in yaml::read(&root().join(tests))["tests"].as_array().expect("tests") {
        let series = test["input_series"].as_array().expect("series").len();
        for check in test["alert_rule_test"].as_array().expect("checks") {
            let name = check["alertname"].as_str().expect("a name").to_owned();
            let expected = check["exp_alerts"].as_array().map_or(0, Vec::len);
            // A series for which the alert stays silent, beside those for which it fires.
            if expected < series {
                stays_silent.insert(name.clone());
            }
            if expected > 0 {
                fires.insert(name);
            }
        }
    }
    let problems: BTreeSet<String> = of_problems().into_iter().map(|(name, ..)| name).collect();
    for alert in alerts() {
        let name = alert["alert"].as_str().expect("a name");
        let is_tested = fires.contains(name) && stays_silent.contains(name);
        assert!(is_tested || problems.contains(name), "{tests} does not show both sides of {name}");
    }
    // The page lists them in the same order, with their severities. Those of the control plane are its
    // problems.
    let page = read("docs/operating.md");
    let row = |alert: &Value| {
        let name = alert["alert"].as_str().filter(|name| !name.starts_with("TollgateControl"))?;
        Some(format!("| `{name}` | {} |", alert["labels"]["severity"].as_str().expect("a severity")))
    };
    let rows: Vec<String> = alerts().iter().filter_map(row).collect();
    let places: Vec<_> = rows.iter().map(|row| page.find(row.as_str()).ok_or(row)).collect();
    assert!(places.iter().all(Result::is_ok) && places.is_sorted(), "docs/operating.md: {places:?}");
    if let Some((passed, said)) = promtool(&["test", "rules", tests]) {
        assert!(passed, "{said}");
    }
}

#[test]
fn every_problem_of_the_control_plane_fires_its_own_alert_after_its_time_and_no_other() {
    let problems = of_problems();
    assert!(problems.len() > 10, "{problems:?}");
    let summaries = alerts();
    let mut text = format!(
        "rule_files: [{}]\nevaluation_interval: 15s\ntests:\n",
        root().join("deploy/alerts.yml").display()
    );
    for (name, kind, _) in &problems {
        text += "  - interval: 15s\n    input_series:\n";
        for (_, other, _) in &problems {
            let value = u8::from(other == kind);
            let series = format!("tollgate_control_problems{{kind=\"{other}\", instance=\"c\"}}");
            writeln!(text, "      - {{series: '{series}', values: '0x3 {value}x60'}}").expect("a text");
        }
        text += "    alert_rule_test:\n";
        for (other, ..) in &problems {
            let alert = summaries.iter().find(|it| it["alert"] == **other).expect("it is one of them");
            let [severity, summary] = [&alert["labels"]["severity"], &alert["annotations"]["summary"]];
            let summary = summary.as_str().expect("text").replace("{{ $labels.instance }}", "c");
            let fired = match other == name {
                true => format!(
                    "[{{exp_labels: {{severity: {severity}, kind: {kind}, instance: c}}, exp_annotations: {{summary: {summary:?}}}}}]"
                ),
                false => "[]".to_owned(),
            };
            writeln!(text, "      - {{eval_time: 45s, alertname: {other}, exp_alerts: []}}").expect("a text");
            writeln!(text, "      - {{eval_time: 10m, alertname: {other}, exp_alerts: {fired}}}")
                .expect("a text");
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("problems.yml");
    std::fs::write(&file, &text).expect("written");
    if let Some((passed, said)) = promtool(&["test", "rules", &file.display().to_string()]) {
        assert!(passed, "{said}\n{text}");
    }
}
