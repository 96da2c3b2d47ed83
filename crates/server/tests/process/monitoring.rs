//! The dashboard and the alerts ask for metrics that the server has.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;
use tollgate_testkit::certificates::Authority;
use tollgate_testkit::yaml;

use super::*;

fn deploy(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

/// The names of all series that `/metrics` can have, by the kinds that it declares.
fn series(metrics: &str) -> BTreeSet<String> {
    let declared = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    declared
        .flat_map(|(name, kind)| {
            let endings: &[&str] = match kind {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            endings.iter().map(move |ending| format!("{name}{ending}"))
        })
        .collect()
}

/// The names in an expression that look like our metrics.
fn names(expression: &str) -> Vec<&str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| ["tollgate_", "process_", "ratelimit_"].iter().any(|it| word.starts_with(it)))
        .collect()
}

/// Whether `rate` or `increase` is applied to the metric; both are meaningful for counters only.
fn is_rated(expression: &str, name: &str) -> bool {
    ["rate", "increase"].iter().any(|function| expression.contains(&format!("{function}({name}")))
}

#[test]
fn the_dashboard_and_the_alerts_know_every_metric_that_they_ask_for() {
    let folder = rules(RULES);
    let (cert, key) = Authority::new().issue("server", 2060).write(folder.path());
    let [cert, key] = [cert, key].map(|path| path.display().to_string());
    // With all that has metrics of its own: a shared store, though none is running, and TLS.
    let with = ["--store", "redis://127.0.0.1:1", "--tls", "grpc", "--tls-cert", &cert, "--tls-key", &key];
    let server = ServerProcess::start(folder.path(), &with);
    let (_, metrics) = server.get("/metrics");
    let known = series(&metrics);
    assert!(known.len() > 40, "{known:?}");

    let mut asked: Vec<(String, String)> = Vec::new();
    let dashboard = std::fs::read_to_string(deploy("grafana/tollgate.json")).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    let variables: Vec<_> =
        dashboard["templating"]["list"].as_array().expect("variables").iter().map(|it| &it["name"]).collect();
    assert_eq!(variables, ["datasource", "namespace", "job", "instance"]);
    let mut ids = BTreeSet::new();
    let mut places = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        assert!(ids.insert(panel["id"].as_u64()), "two panels have one id: {panel}");
        let [x, y, width] = ["x", "y", "w"].map(|name| panel["gridPos"][name].as_u64().expect("a number"));
        assert!(x + width <= 24 && places.insert((x, y)), "{panel}");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().expect("an expression");
            assert_eq!(panel["datasource"]["uid"], "${datasource}");
            assert!(!target["legendFormat"].as_str().expect("a legend").is_empty(), "{panel}");
            // Several fleets may be in one Prometheus: each series is selected by the chosen one.
            let chosen = r#"{namespace=~"$namespace", job=~"$job", instance=~"$instance""#;
            assert_eq!(expression.matches(chosen).count(), names(expression).len(), "{expression}");
            asked.push((format!("panel {}", panel["title"]), expression.to_owned()));
        }
    }
    for variable in dashboard["templating"]["list"].as_array().expect("variables").iter().skip(1) {
        let query = variable["query"]["query"].as_str().expect("a query");
        asked.push((format!("variable {}", variable["name"]), query.to_owned()));
    }
    let alerts = yaml::read(&deploy("alerts.yml"));
    for alert in alerts["groups"][0]["rules"].as_array().expect("alerts") {
        let [name, expression, summary] = [&alert["alert"], &alert["expr"], &alert["annotations"]["summary"]]
            .map(|it| it.as_str().expect("text"));
        assert!(matches!(alert["labels"]["severity"].as_str(), Some("page" | "ticket")), "{name}");
        for label in summary.split("$labels.").skip(1).filter_map(|it| it.split(' ').next()) {
            let is_grouped = expression.contains(" by (");
            assert!(!is_grouped || expression.contains(label), "{name}: {label} is not in the result");
        }
        asked.push((format!("alert {name}"), expression.to_owned()));
    }
    for (place, expression) in asked {
        let names = names(&expression);
        // `up` is Prometheus' own, of every job.
        assert!(!names.is_empty() || expression.contains("up{job="), "{place}: {expression}");
        for name in names {
            assert!(known.contains(name), "{place} asks for {name}, which is not in\n{known:#?}");
            let is_counter = ["_total", "_bucket", "_sum", "_count"].iter().any(|it| name.ends_with(it));
            assert_eq!(is_rated(&expression, name), is_counter, "{place}: {expression}");
        }
        let opened = expression.matches('(').count();
        assert_eq!(opened, expression.matches(')').count(), "{place}: {expression}");
    }
}

#[test]
fn twenty_thousand_rules_make_a_page_of_metrics_as_large_as_their_use() {
    let rule =
        |nth| format!("  - {{key: k, value: v{nth}, rate_limit: {{unit: year, requests_per_unit: 1}}}}\n");
    let text = format!("domain: shop\ndescriptors:\n{}", (0..20_000).map(rule).collect::<String>());
    let folder = rules(&text);
    let bytes_of = |server: &ServerProcess| {
        let (status, page) = server.get("/metrics");
        assert_eq!(status, 200);
        let of_rules = page.lines().filter(|line| line.contains("k=v") || line.contains("k_v")).count();
        (page.len(), of_rules)
    };
    let server = ServerProcess::start(folder.path(), &[]);
    let (idle, of_rules) = bytes_of(&server);
    assert!(idle < 64 << 10 && of_rules == 0, "{idle} bytes, {of_rules} series of rules");
    for nth in 0..20 {
        let body = format!(r#"{{"domain":"shop","descriptors":[[{{"key":"k","value":"v{nth}"}}]]}}"#);
        assert_eq!(server.post("/v1/check", &body).0, 200);
    }
    let (used, of_rules) = bytes_of(&server);
    assert_eq!(of_rules, 20 * 11);
    assert!(used < idle + (40 << 10), "{used} bytes, {idle} before");
    drop(server);
    // All of them, up to the cap on series.
    let server =
        ServerProcess::start(folder.path(), &["--metrics-detail", "all", "--metrics-max-rules", "500"]);
    assert_eq!(bytes_of(&server).1, 500 * 11);
}
