//! Reports of nodes, on pages and in the API.

use tollgate_fleet_proto::{Report, RuleCounts, TopKey};
use tollgate_harness::console::{ConsoleClient, ConsoleServer};

const RULE: &str = "app=SIP_HOTEL&key=pushGeo&max_permits=100&rate=5&terms=yes&action=save";

/// Stores 40 reports of ten seconds each, which ended up to 400 s ago: 20 admitted and 10 denied a second.
async fn reported(server: &ConsoleServer) {
    for sequence in 1..=40_u64 {
        let of = |domain: &str, rule: &str, admitted, denied| RuleCounts {
            domain: domain.to_owned(),
            rule: rule.to_owned(),
            admitted,
            denied,
            ..RuleCounts::default()
        };
        let rules = vec![
            of("SIP_HOTEL", "key=pushGeo", 200, 100),
            of("SIP_HOTEL", "(unmatched)", 7, 0),
            of("files", "path", 1, 0),
            of("", "(unknown domain)", 3, 0),
        ];
        let domain = "SIP_HOTEL".to_owned();
        let rule = "key=pushGeo".to_owned();
        let key = "<b>push".to_owned();
        let report = Report {
            sequence,
            age_ms: (41 - sequence) * 10_000,
            span_ms: 10_000,
            rules,
            top: vec![TopKey { domain, rule, key, denied: 100 }],
            rules_error: "shop.yaml:3:1: bad".to_owned(),
            unknown_domains: vec!["typo".to_owned()],
            ..Report::default()
        };
        server.store("n1", 1, report).await.expect("stored");
    }
}

#[tokio::test]
async fn reports_are_on_the_overview_the_top_keys_and_the_rule_and_in_the_api() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let before = ann.get("/").await;
    assert!(before.body.contains("No traffic yet") && before.body.contains("No node is connected"));
    ann.post("/rules/new", RULE).await;
    reported(&server).await;

    let overview = ann.get("/").await;
    assert_eq!(overview.status, 200, "{}", overview.body);
    for part in ["33.", "denied 4,000 times", "&#60;b&#62;push", "<path class=\"line bad\""] {
        assert!(overview.body.contains(part), "{part}: {}", overview.body);
    }
    assert!(!overview.body.contains("<b>push") && !overview.body.contains("style="));
    let top = ann.get("/top?span=24h&search=PUSH").await.body;
    for part in
        ["4,000", "matched no rule", "280", "unknown domain", "typo", "/keys?domain=SIP_HOTEL&#38;entry=key"]
    {
        assert!(top.contains(part), "{part}: {top}");
    }
    assert!(ann.get("/top?search=nothing").await.body.contains("No key was limited in this time"));
    for span in ["15m", "1h", "6h", "24h", "7d", "30d", "90d", "nonsense"] {
        let page = ann.get(&format!("/apps/SIP_HOTEL/rules/pushGeo/history?span={span}")).await;
        assert_eq!(page.status, 200, "{span}");
        for part in ["12,000", "8,000", "4,000", "33.3 %", "As a table"] {
            assert!(page.body.contains(part), "{span} {part}: {}", page.body);
        }
    }
    // 30 a second and half as much again; the burst stays, since it is larger.
    let page = ann.get("/apps/SIP_HOTEL/rules/pushGeo/history").await.body;
    assert!(page.contains("/apps/SIP_HOTEL/rules/pushGeo?rate=45&#38;max_permits=100"), "{page}");
    let form = ann.get("/apps/SIP_HOTEL/rules/pushGeo?rate=45&max_permits=100").await.body;
    assert!(form.contains("value=\"45\"") && form.contains("value=\"100\""));
    assert_eq!(ann.get("/apps/SIP_HOTEL/rules/none/history").await.status, 404);

    for (path, part) in [
        (
            "/api/v1/apps/SIP_HOTEL/rules/pushGeo/suggestion",
            r#""max_permits":100,"peak_per_second":"30.0","rate":45"#,
        ),
        ("/api/v1/history?app=SIP_HOTEL&rule=key%3DpushGeo&step=3600000", r#""admitted":8000"#),
        ("/api/v1/history", r#""admitted":8040"#),
        ("/api/v1/history?domain=files&rule=path", r#""admitted":40"#),
        ("/api/v1/keys/top?app=SIP_HOTEL", r#""denied":4000"#),
        ("/api/v1/problems", r#""total":0"#),
        ("/api/v1/unlimited", r#""admitted":280"#),
        ("/api/v1/unlimited", r#""unknown_domains":["typo"]"#),
        ("/api/v1/unlimited", r#""fault":"shop.yaml:3:1: bad""#),
    ] {
        let reply = ann.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        assert!(reply.body.contains(part), "{path}: {}", reply.body);
    }
    for path in [
        "/api/v1/history?from=-1",
        "/api/v1/history?from=x",
        "/api/v1/history?app=SIP_HOTEL&domain=files",
        "/api/v1/history?rule=key%3DpushGeo",
        "/api/v1/keys/top?limit=0",
        "/api/v1/keys/top?limit=501",
        "/api/v1/events?topics=nope",
    ] {
        assert_eq!(ann.get(path).await.status, 400, "{path}");
    }
    for path in ["/api/v1/history?from=5&to=5", "/api/v1/history?from=0&to=9223372036854775807"] {
        assert_eq!(ann.get(path).await.status, 422, "{path}");
    }
}

#[tokio::test]
async fn a_viewer_of_another_app_sees_nothing_of_this_one() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.post("/rules/new", RULE).await;
    ann.post("/rules/new", &RULE.replace("SIP_HOTEL", "BANK")).await;
    let mut vic = ConsoleClient::user(&server, "vic", "viewer", "BANK").await;
    reported(&server).await;
    for path in [
        "/",
        "/top",
        "/top?span=7d",
        "/api/v1/history",
        "/api/v1/keys/top",
        "/api/v1/unlimited",
        "/api/v1/problems",
    ] {
        let reply = vic.get(path).await;
        assert_eq!(reply.status, 200, "{path}");
        for secret in ["SIP_HOTEL", "pushGeo", "&#60;b&#62;push", "typo", "shop.yaml", "8040", "8,040"] {
            assert!(!reply.body.contains(secret), "{path}: {secret}");
        }
    }
    for path in [
        "/api/v1/history?app=SIP_HOTEL",
        "/api/v1/history?domain=files",
        "/api/v1/keys/top?app=SIP_HOTEL",
        "/api/v1/apps/SIP_HOTEL/rules/pushGeo/suggestion",
        "/apps/SIP_HOTEL/rules/pushGeo/history",
        "/top?app=SIP_HOTEL",
    ] {
        assert_eq!(vic.get(path).await.status, 403, "{path}");
    }
    let mut nobody = ConsoleClient::new(&server);
    for path in ["/api/v1/history", "/api/v1/events", "/api/v1/problems"] {
        assert_eq!(nobody.get(path).await.status, 401, "{path}");
    }
}

#[tokio::test]
async fn a_reader_of_events_gets_what_changed_since_its_last_one() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let first = ann.get("/api/v1/events?topics=history,changes").await;
    assert_eq!(first.field("content-type"), Some("text/event-stream"));
    assert!(!first.body.contains("event:") && first.body.contains("retry: 1000"), "{}", first.body);
    let id = |body: &str| -> String {
        let line = body.lines().rev().find_map(|it| it.strip_prefix("id: "));
        line.expect("an id").to_owned()
    };
    let seen = format!("Last-Event-ID: {}", id(&first.body));
    let path = "/api/v1/events?topics=history";
    let mut reader = ConsoleClient::new(&server);
    reader.cookie.clone_from(&ann.cookie);
    // It waits until something comes.
    let waits = tokio::spawn(async move { reader.send("GET", path, &[&seen], "").await });
    ann.post("/rules/new", RULE).await;
    reported(&server).await;
    let got = waits.await.expect("a reply");
    assert!(got.body.contains("event: history\ndata: {\"admitted\":"), "{}", got.body);
    assert!(!got.body.contains("event: changes"));
    // The change came before, and is not lost for a reader that had only seen the beginning.
    let both = ann.get(&format!("/api/v1/events?topics=changes,history&after={}", id(&first.body))).await;
    assert!(both.body.contains("event: changes") && both.body.contains("event: history"), "{}", both.body);
    // An id of another process counts as nothing seen.
    assert!(ann.get("/api/v1/events?topics=changes&after=x-9.9.9.9.9").await.body.contains("event: changes"));
    // A disabled user gets nothing more.
    let mut vic = ConsoleClient::user(&server, "vic", "viewer", "*").await;
    assert_eq!(vic.get("/api/v1/events?topics=changes&after=x").await.status, 200);
    ann.post("/users/vic/state", "state=disabled").await;
    assert_eq!(vic.get("/api/v1/events?topics=changes&after=x").await.status, 401);
}

const TRIAL_PAGE: &str = "/apps/SIP_HOTEL/rules/pushGeo";
const TRIAL_FORM: &str = "/apps/SIP_HOTEL/rules/pushGeo/trial";
const TRIAL_RULE: &str = "/api/v1/apps/SIP_HOTEL/rules/pushGeo";

fn contains_all(page: &str, parts: &[&str]) {
    for part in parts {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[tokio::test]
async fn a_trial_is_started_compared_adopted_and_dropped_on_the_page_of_its_rule() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.post("/rules/new", RULE).await;
    reported(&server).await;
    start_trial(&server, &mut ann).await;
    compare_trial(&server, &mut ann).await;
    adopt_and_drop_trials(&mut ann).await;
    // A rule that is not on shows why nothing can be tried.
    ann.post(&format!("{TRIAL_PAGE}/state"), "state=off&etag=6").await;
    assert!(ann.get(TRIAL_PAGE).await.body.contains("Other numbers can be tried while the rule is on."));
}

async fn start_trial(server: &ConsoleServer, ann: &mut ConsoleClient) {
    // Filled in with the suggestion: 30 a second and half as much again, in the burst of now.
    let form = ann.get(TRIAL_PAGE).await.body;
    let rate = "id=\"try_rate\" name=\"try_rate\" value=\"45\"";
    contains_all(&form, &["Try other numbers", rate, "value=\"100\""]);
    for (fields, fault) in [
        ("try_rate=45&try_max_permits=", "Required"),
        ("try_rate=0&try_max_permits=9", "Expected a whole number from 1 to 1000000000"),
        ("try_rate=%3Cb%3E&try_max_permits=1.5", "Expected a whole number from 1 to 1000000000"),
    ] {
        let reply = ann.post(TRIAL_FORM, &format!("action=start&etag=1&{fields}")).await;
        assert_eq!(reply.status, 422, "{}", reply.body);
        contains_all(&reply.body, &[fault, "<details class=\"card\" id=\"trial\" open"]);
        assert!(!reply.body.contains("value=\"<b>"), "what was entered is escaped");
    }
    assert_eq!(ann.post(TRIAL_FORM, "action=nonsense&etag=1").await.status, 400);
    let nothing = ann.post(TRIAL_FORM, "action=adopt&etag=1").await;
    assert_eq!(nothing.place(), TRIAL_PAGE, "there is nothing to adopt");
    let started = ann.post(TRIAL_FORM, "action=start&etag=1&try_rate=45&try_max_permits=150").await;
    assert_eq!(started.place(), format!("{TRIAL_PAGE}?saved=SIP_HOTEL&version=2"));
    let shown = ann.get(TRIAL_PAGE).await.body;
    let yaml = "name: trial, shadow: true";
    contains_all(&shown, &["running", "45 / s", "150", "No complete report", yaml, "Adopt", "Drop"]);
    let read = ann.get(TRIAL_RULE).await.value();
    assert_eq!((&read["trial_rate"], &read["trial_max_permits"]), (&45.into(), &150.into()));
    let compared = ann.get(&format!("{TRIAL_RULE}/trial")).await.value();
    let began = compared["trial"]["since"].as_i64().expect("a time");
    assert_eq!((compared["trial"]["offered"].as_i64(), began), (Some(0), server.now_ms()));
}

/// What is counted after it began: 100 denied in force, 40 by the trial, of which 30 are the same.
async fn compare_trial(server: &ConsoleServer, ann: &mut ConsoleClient) {
    server.pass(60_000);
    let counts = RuleCounts {
        domain: "SIP_HOTEL".to_owned(),
        rule: "key=pushGeo".to_owned(),
        admitted: 890,
        denied: 100,
        shadow_denied: 10,
        both_denied: 30,
        ..RuleCounts::default()
    };
    let report =
        Report { sequence: 41, age_ms: 15_000, span_ms: 20_000, rules: vec![counts], ..Report::default() };
    server.store("n1", 1, report).await.expect("stored");
    let shown = ann.get(TRIAL_PAGE).await.body;
    let both = "Both would have denied 30";
    contains_all(&shown, &["100 · 10.0 %", "40 · 4.0 %", "70 · 7.0 %", "10 · 1.0 %", both]);
    let compared = ann.get(&format!("{TRIAL_RULE}/trial")).await.value();
    for (name, count) in [("offered", 1_000), ("denied", 100), ("trial_denied", 40), ("both_denied", 30)] {
        assert_eq!(compared["trial"][name], count, "{name}: {compared}");
    }
    let history = ann.get(&format!("{TRIAL_PAGE}/history?span=1h")).await.body;
    contains_all(&history, &["Trial: Denials per second", "Trial would deny"]);
}

async fn adopt_and_drop_trials(ann: &mut ConsoleClient) {
    // The form keeps a trial that it does not change, and a stale page changes nothing.
    let same = "max_permits=100&rate=5&trial_rate=45&trial_max_permits=150&description=x&action=save&etag=2";
    ann.post(TRIAL_PAGE, same).await;
    assert_eq!(ann.get(TRIAL_RULE).await.value()["trial_rate"], 45);
    let stale = ann.post(TRIAL_FORM, "action=adopt&etag=2").await;
    assert_eq!(stale.place(), TRIAL_PAGE, "it has changed since");
    assert_eq!(ann.get(TRIAL_RULE).await.value()["rate"], 5);
    ann.post(TRIAL_FORM, "action=adopt&etag=3").await;
    let read = ann.get(TRIAL_RULE).await.value();
    assert_eq!(
        (&read["rate"], &read["max_permits"], &read["trial_rate"]),
        (&45.into(), &150.into(), &().into())
    );
    let compared = ann.get(&format!("{TRIAL_RULE}/trial")).await.value();
    assert_eq!(compared["trial"], serde_json::Value::Null);
    ann.post(TRIAL_FORM, "action=start&etag=4&try_rate=9&try_max_permits=9").await;
    ann.post(TRIAL_FORM, "action=end&etag=5").await;
    assert_eq!(ann.get(TRIAL_RULE).await.value()["trial_rate"], serde_json::Value::Null);
}
