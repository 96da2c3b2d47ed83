//! Rule files that change while the process runs.

use super::*;

#[test]
fn sighup_puts_new_rules_into_force_and_keeps_the_count() {
    let folder = rules(RULES);
    let server = ServerProcess::start(folder.path(), &[]);
    for want in [200, 200, 429] {
        assert_eq!(server.post("/json", ALICE).0, want);
    }
    let before = server.wait_ready(|status, _| status == 200)["rules"]["version"].clone();
    std::fs::write(
        folder.path().join("shop.yaml"),
        RULES.replace("requests_per_unit: 2", "requests_per_unit: 4"),
    )
    .expect("written");
    server.signal("HUP");
    server.wait_ready(|_, body| body["rules"]["version"] != before);
    // Three were counted: the denied one too, as fixed windows do.
    for want in [200, 429] {
        assert_eq!(server.post("/json", ALICE).0, want);
    }
}

#[test]
fn an_invalid_reload_is_reported_and_changes_nothing() {
    let folder = rules(RULES);
    let server = ServerProcess::start(folder.path(), &["--log-format", "json"]);
    let before = server.wait_ready(|status, _| status == 200);
    std::fs::write(folder.path().join("shop.yaml"), RULES.replace("unit: year", "unit: yaer"))
        .expect("written");
    server.signal("HUP");
    let after = server.wait_ready(|_, body| body["rules"]["last_error"].is_string());
    assert_eq!(
        (&after["ready"], &after["rules"]["version"]),
        (&before["ready"], &before["rules"]["version"])
    );
    assert!(
        after["rules"]["last_error"].as_str().is_some_and(|error| error.contains("shop.yaml:4:")),
        "{after}"
    );
    assert_eq!(server.post("/json", ALICE).0, 200);
    std::fs::write(folder.path().join("shop.yaml"), RULES).expect("written");
    server.wait_ready(|_, body| body["rules"]["last_error"].is_null());
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    for line in said.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("each line is JSON");
        assert!(line["level"].is_string() && line["timestamp"].is_string(), "{line}");
    }
    assert!(said.contains("shop.yaml:4:"), "{said}");
}

#[test]
fn rules_and_domains_that_a_reload_removes_are_logged_by_name() {
    let app = "domain: app\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 1}}\n";
    let plan = "  - key: plan\n    rate_limit: {unit: year, requests_per_unit: 2}\n";
    let folder = rules(&format!("{RULES}{plan}"));
    std::fs::write(folder.path().join("app.yaml"), app).expect("written");
    let server = ServerProcess::start(folder.path(), &["--log-format", "json"]);
    let before = server.wait_ready(|status, _| status == 200)["rules"]["version"].clone();
    std::fs::remove_file(folder.path().join("app.yaml")).expect("removed");
    let half = server.wait_ready(|_, body| body["rules"]["version"] != before)["rules"]["version"].clone();
    std::fs::write(folder.path().join("shop.yaml"), RULES).expect("written");
    server.wait_ready(|_, body| body["rules"]["version"] != half);
    server.signal("TERM");
    let (_, said) = server.ended();
    let lines: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let removed: Vec<String> = lines
        .iter()
        .filter(|line| line["message"].as_str().is_some_and(|text| text.contains("removed by the reload")))
        .map(|line| {
            format!(
                "{} {} {} {} {}",
                line["level"], line["message"], line["domain"], line["rule"], line["rules"]
            )
        })
        .collect();
    let want = [
        r#""WARN" "domain removed by the reload" "app" null 1"#,
        r#""WARN" "rule removed by the reload" "shop" "plan" null"#,
    ];
    assert_eq!(removed, want, "{said}");
}

#[test]
fn a_reload_that_drops_too_many_rules_changes_nothing_and_says_the_way_out() {
    let plan = "  - key: plan\n    rate_limit: {unit: year, requests_per_unit: 2}\n";
    let folder = rules(&format!("{RULES}{plan}"));
    let server = ServerProcess::start(folder.path(), &["--max-rules-dropped", "40%"]);
    let before = server.wait_ready(|status, _| status == 200)["rules"]["version"].clone();
    std::fs::write(folder.path().join("shop.yaml"), RULES).expect("written");
    let after = server.wait_ready(|_, body| body["rules"]["last_error"].is_string());
    assert_eq!(after["rules"]["version"], before);
    let error = after["rules"]["last_error"].as_str().unwrap_or_default();
    for part in ["1 of the 2 rules in force (shop: plan)", "40 % of max-rules-dropped", "restart the server"]
    {
        assert!(error.contains(part), "{part} in {error}");
    }
    server.signal("TERM");
    let (_, said) = server.ended();
    assert!(said.contains("rule reload failed") && said.contains("max-rules-dropped"), "{said}");
    // A restart loads the files as they are.
    let again = ServerProcess::start(folder.path(), &["--max-rules-dropped", "40%"]);
    assert_ne!(again.wait_ready(|status, _| status == 200)["rules"]["version"], before);
}

#[test]
fn a_folder_that_is_emptied_lifts_no_limit() {
    let folder = rules(RULES);
    let server = ServerProcess::start(folder.path(), &[]);
    std::fs::remove_file(folder.path().join("shop.yaml")).expect("removed");
    server.signal("HUP");
    let said = server.wait_ready(|_, body| body["rules"]["last_error"].is_string());
    assert_eq!((&said["ready"], &said["rules"]["rules"]), (&true.into(), &1.into()), "{said}");
    for want in [200, 200, 429] {
        assert_eq!(server.post("/json", ALICE).0, want);
    }
}
