//! What nodes report, on pages and in the API.

use tollgate_fleet_proto::{Report, RuleCounts, TopKey};

use crate::server::{Client, Server};

const RULE: &str = "app=SIP_HOTEL&key=pushGeo&max_permits=100&rate=5&terms=yes&action=save";

/// Stores 40 reports of ten seconds each, which ended up to 400 s ago: 20 admitted and 10 denied a second.
async fn reported(server: &Server) {
    let now_ms = server.control.read(|tx| Ok(tx.now_ms())).await.expect("the time");
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
        let (domain, rule, key) = ("SIP_HOTEL".to_owned(), "key=pushGeo".to_owned(), "<b>push".to_owned());
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
        let stored = server.control.store_report("n1", 1, report, now_ms);
        let (stored, written) = tokio::join!(stored, server.control.write_reports());
        stored.expect("stored");
        written.expect("written");
    }
}

#[tokio::test]
async fn reports_are_on_the_overview_the_top_keys_and_the_rule_and_in_the_api() {
    let server = Server::start().await;
    let mut ann = Client::admin(&server).await;
    let before = ann.get("/").await;
    assert!(before.body.contains("No traffic yet") && before.body.contains("No node is connected"));
    ann.post("/rules/new", RULE).await;
    reported(&server).await;

    let overview = ann.get("/").await;
    assert_eq!(overview.status, 200, "{}", overview.body);
    for part in ["No problems", "33.", "denied 4,000 times", "&#60;b&#62;push", "<path class=\"line bad\""] {
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
    let server = Server::start().await;
    let mut ann = Client::admin(&server).await;
    ann.post("/rules/new", RULE).await;
    ann.post("/rules/new", &RULE.replace("SIP_HOTEL", "BANK")).await;
    ann.post("/users", "name=vic&password=another+good+password&role=viewer&app=BANK").await;
    reported(&server).await;
    let mut vic = Client::new(&server);
    vic.post("/login", "name=vic&password=another+good+password").await;
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
    let mut nobody = Client::new(&server);
    for path in ["/api/v1/history", "/api/v1/events", "/api/v1/problems"] {
        assert_eq!(nobody.get(path).await.status, 401, "{path}");
    }
}

#[tokio::test]
async fn a_reader_of_events_gets_what_changed_since_its_last_one() {
    let server = Server::start().await;
    let mut ann = Client::admin(&server).await;
    let first = ann.get("/api/v1/events?topics=history,changes").await;
    assert_eq!(first.field("content-type"), Some("text/event-stream"));
    assert!(!first.body.contains("event:") && first.body.contains("retry: 1000"), "{}", first.body);
    let id = |body: &str| -> String {
        let line = body.lines().rev().find_map(|it| it.strip_prefix("id: "));
        line.expect("an id").to_owned()
    };
    let seen = format!("Last-Event-ID: {}", id(&first.body));
    let path = "/api/v1/events?topics=history";
    let mut reader = Client::new(&server);
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
    ann.post("/users", "name=vic&password=another+good+password&role=viewer&app=*").await;
    let mut vic = Client::new(&server);
    vic.post("/login", "name=vic&password=another+good+password").await;
    assert_eq!(vic.get("/api/v1/events?topics=changes&after=x").await.status, 200);
    ann.post("/users/vic/state", "state=disabled").await;
    assert_eq!(vic.get("/api/v1/events?topics=changes&after=x").await.status, 401);
}
