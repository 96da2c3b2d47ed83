//! The console over real sockets: from the setup code to a rule on the watch, and what is rejected.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

mod changes;
mod contract;
mod docs;
mod errors;
mod examples;
mod floods;
mod hidden;
mod history;
mod old_nodes;
mod operations;
mod replay;
mod rights;
mod rights_end;
mod rollouts;
mod rude;
mod schema;
mod secrets;
mod states;
mod tokens;
mod users;

use std::io::Read as _;

use tollgate_harness::console::{ConsoleClient, ConsoleServer};

const GOOD: &str =
    "app=SIP_HOTEL&key=pushGeo&max_permits=100&rate=5&description=hotels&terms=yes&action=save";

#[tokio::test]
async fn from_the_setup_code_to_a_rule_that_nodes_get() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::new(&server);
    assert_eq!(ann.get("/rules").await.place(), "/setup");
    let wrong = ann.post("/setup", &server.setup("0".repeat(64).as_str())).await;
    assert_eq!(wrong.status, 403);
    let made = ann.post("/setup", &server.setup(&server.code)).await;
    assert_eq!((made.status, made.place()), (303, "/rules"));
    assert!(ann.get("/rules").await.body.contains("No rate limits yet"));

    let mut published = server.control.published();
    published.mark_unchanged();
    let saved = ann.post("/rules/new", GOOD).await;
    assert_eq!((saved.status, saved.place()), (303, "/rules?saved=SIP_HOTEL&version=1"));
    assert!(published.has_changed().expect("open"));
    let now = published.borrow_and_update().clone();
    assert_eq!((&*now.apps[0].app, now.apps[0].version), ("SIP_HOTEL", 1));
    let yaml = now.apps[0].documents[0].yaml();
    let policy = tollgate_rule_files::parse_text("SIP_HOTEL", yaml).expect("a rule file");
    assert_eq!(policy.rules().next().map(|rule| rule.limits[0].requests_per_unit), Some(5));

    let list = ann.get(saved.place()).await.body;
    let rule = ann.get("/api/v1/apps/SIP_HOTEL/rules/pushGeo").await.value();
    assert_eq!(rule["description"], "hotels", "{rule}");
    assert!(
        list.contains("pushGeo") && list.contains("hotels") && list.contains("Showing 1 to 1 of 1 entry"),
        "{list}"
    );
    assert_eq!(ann.post("/rules/new", GOOD).await.faults(), ["Exists already"]);

    // Delete asks first, names app and key, and a rollback brings the rule back.
    let ask = ann.get("/apps/SIP_HOTEL/rules/pushGeo/delete").await.body;
    assert!(ask.contains("SIP_HOTEL") && ask.contains("pushGeo"));
    assert_eq!(ann.post("/apps/SIP_HOTEL/rules/pushGeo/delete", "etag=1").await.status, 303);
    assert!(published.borrow_and_update().apps[0].documents.is_empty());
    let back = ann.post("/apps/SIP_HOTEL/versions/1/rollback", "etag=2&reason=mistake").await;
    assert_eq!(back.place(), "/rules?saved=SIP_HOTEL&version=3");
    assert_eq!(published.borrow_and_update().apps[0].documents, now.apps[0].documents);
}

#[tokio::test]
async fn logins_begin_with_a_password_and_end() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let again = ConsoleClient::new(&server).post("/setup", &server.setup(&server.code)).await;
    assert_eq!(again.status, 403, "a code works once");
    let cookie = ann.cookie.clone().expect("a login");
    assert_eq!(ann.post("/logout", "").await.place(), "/login");
    ann.cookie = Some(cookie);
    assert_eq!(ann.get("/rules").await.place(), "/login?back=%2Frules", "ended on the server too");
    ann.cookie = None;
    for (name, password) in [("ann", "wrong horse battery"), ("bob", "correct horse battery"), ("", "")] {
        let failed =
            ann.post("/login", &format!("name={name}&password={}", password.replace(' ', "+"))).await;
        assert_eq!(failed.status, 401, "{name}");
        assert!(failed.body.contains("Wrong user name or password"));
    }
    let login = ann.post("/login?back=%2Fnodes", "name=Ann&password=correct+horse+battery").await;
    assert_eq!((login.status, login.place()), (303, "/nodes"));
    for n in 0..8 {
        let status = ConsoleClient::new(&server).post("/login", "name=eve&password=x").await.status;
        assert_eq!(status, if n < 5 { 401 } else { 429 }, "attempt {n}");
    }
}

#[tokio::test]
async fn every_rejection_is_beside_its_field() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let long = "k".repeat(200);
    let cases = [
        ("app", vec!["", "*", "a b", "%E9%85%92", "a%00", "a%0a", "..", &long, "<b>", "{{a}}"]),
        ("key", vec!["", "*", "a*b", "a b", "%E9%85%92", "a%00", "..", &long, "<b>", "{{a}}"]),
        ("max_permits", vec!["", "0", "-1", "1.5", "1e30", "1000000000000000000000000000000", "x", "%00"]),
        ("rate", vec!["0", "-1", "1.5", "1e30", "1000000000000000000000000000000", "<b>", "{{1}}"]),
        ("need_permits", vec!["0", "-1", "1.5", "101", "1e30"]),
        ("pre_permits", vec!["-1", "1.5", "101", "1e30"]),
        ("post_paid", vec!["perhaps", "1", "True"]),
        ("g", vec!["-1", "1001", "1e3", "0.0000001"]),
        ("u", vec!["-1", "1001", "NaN"]),
        ("extras", vec!["[1]", "{", "{{}}"]),
        ("description", vec!["a%00b", "a%1bb"]),
        ("per", vec!["*", "a b", "<b>"]),
        ("bucket", vec!["*", "a b", "<b>", "a/b"]),
        ("sharing", vec!["perhaps"]),
        ("on_store_failure", vec!["perhaps"]),
        ("state", vec!["perhaps"]),
        ("terms", vec!["", "no"]),
    ];
    for (field, values) in cases {
        for value in values {
            let mut form: Vec<(&str, &str)> = GOOD
                .split('&')
                .filter_map(|pair| pair.split_once('='))
                .filter(|(name, _)| *name != field)
                .collect();
            form.push((field, value));
            let form: Vec<String> = form.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let reply = ann.post("/rules/new", &form.join("&")).await;
            assert_eq!(reply.status, 422, "{field} = {value:?}");
            assert_eq!(reply.faults().len(), 1, "{field} = {value:?}: {:?}", reply.faults());
            let place = format!("id=\"{field}-hint\"><span class=\"fault\"");
            assert!(reply.body.contains(&place), "{field} = {value:?}");
            assert!(!reply.body.contains("<b>"), "escaped: {field} = {value:?}");
        }
    }
    assert!(server.control.published().borrow().apps.is_empty(), "nothing was published");
    // Several at once, and what was entered is kept.
    let several = ann.post("/rules/new", "app=&key=&max_permits=0&rate=7&description=kept").await;
    assert_eq!(several.faults().len(), 4);
    assert!(several.body.contains("value=\"kept\""));
    // The preset fills both fields without JavaScript.
    let filled = ann.post("/rules/new", "app=A&key=k&preset=250&action=preset").await;
    assert_eq!((filled.status, filled.body.matches("value=\"250\"").count()), (200, 3));
}

#[tokio::test]
async fn of_two_editors_the_second_sees_the_change_of_the_first() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.post("/rules/new", GOOD).await;
    let path = "/apps/SIP_HOTEL/rules/pushGeo";
    let form = |rate: &str, etag: &str| format!("max_permits=100&rate={rate}&etag={etag}&action=save");
    assert_eq!(ann.post(path, &form("8", "1")).await.status, 303);
    let late = ann.post(path, &form("9", "1")).await;
    assert_eq!(late.status, 412);
    assert!(late.body.contains("Rate per second 8") && late.body.contains("value=\"9\""));
    assert_eq!(ann.post(path, &form("9", "2")).await.status, 303);
    assert_eq!(ann.post(path, "max_permits=100&rate=9&action=save").await.status, 428);
    assert_eq!(ann.post(&format!("{path}/delete"), "etag=1").await.status, 412);

    let api = "/api/v1/apps/SIP_HOTEL/rules/pushGeo";
    let body = r#"{"max_permits": 100, "rate": 10}"#;
    assert_eq!(ann.json("PUT", api, None, body).await.status, 428);
    let stale = ann.json("PUT", api, Some("\"1\""), body).await;
    assert_eq!((stale.status, stale.field("etag")), (412, Some("\"3\"")));
    assert!(stale.body.contains("\"rate\":9"));
    let changed = ann.json("PUT", api, Some("\"3\""), body).await;
    assert_eq!((changed.status, changed.field("etag")), (200, Some("\"4\"")));
    // A reply can be sent back as it is; nothing changes then.
    let same = ann.json("PUT", api, Some("\"4\""), &changed.body).await;
    assert_eq!((same.status, same.field("etag")), (200, Some("\"4\"")), "{}", same.body);
    assert_eq!(ann.json("DELETE", api, None, "").await.status, 428);
    assert_eq!(ann.json("DELETE", api, Some("\"4\""), "").await.status, 200);
    assert_eq!(ann.get(api).await.status, 404);
}

#[tokio::test]
async fn the_api_names_each_member_at_fault() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let path = "/api/v1/apps/SIP_HOTEL/rules";
    for (body, status, part) in [
        ("{", 400, "invalid request body"),
        ("[]", 400, "expected a JSON object"),
        (r#"{"key": "a", "max_permits": 1, "burst": 1}"#, 400, "unknown field"),
        (r#"{"key": "a", "key": "b", "max_permits": 1}"#, 400, "duplicate field"),
        (r#"{"key": "a*", "max_permits": 1}"#, 422, r#""pointer":"/key""#),
        (r#"{"key": "a", "max_permits": "1"}"#, 422, r#""pointer":"/max_permits""#),
        (r#"{"key": "a", "max_permits": 1e30}"#, 422, r#""pointer":"/max_permits""#),
        (r#"{"key": "a", "max_permits": 1, "need_permits": 2}"#, 422, r#""pointer":"/need_permits""#),
        (r#"{"key": "a", "max_permits": 1, "rate": 3}"#, 201, r#""rate":3"#),
    ] {
        let reply = ann.json("POST", path, None, body).await;
        assert_eq!(reply.status, status, "{body}: {}", reply.body);
        assert!(reply.body.contains(part), "{body}: {}", reply.body);
    }
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(ann.json("POST", path, None, &deep).await.status, 400);
    let large = format!(r#"{{"description": "{}"}}"#, "x".repeat(1024 * 1024));
    assert_eq!(ann.json("POST", path, None, &large).await.status, 413);
    let list = ann.get("/api/v1/rules?search=HOTEL&size=1").await;
    assert!(list.body.contains(r#""matching":1"#), "{}", list.body);
    assert_eq!(ann.get("/api/v1/rules?size=501").await.status, 400);
    assert_eq!(ConsoleClient::new(&server).get("/api/v1/rules").await.status, 401);
    let described = ann.get("/openapi.json").await.body;
    assert!(described.contains("/api/v1/apps/{app}/rules/{key}") && !described.contains("/rules/new"));
}

#[tokio::test]
async fn a_viewer_sees_no_button_and_forged_posts_change_nothing() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.post("/rules/new", GOOD).await;
    let mut vic = ConsoleClient::user(&server, "vic", "viewer", "SIP_HOTEL").await;
    let list = vic.get("/rules").await;
    assert!(
        list.body.contains("pushGeo") && !list.body.contains("/rules/new") && !list.body.contains("/delete")
    );
    for path in ["/audit", "/users", "/rules/new", "/apps/SIP_HOTEL/rules/pushGeo/delete"] {
        assert_eq!(vic.get(path).await.status, 403, "{path}");
    }
    for (path, form) in [
        ("/rules/new", GOOD.replace("pushGeo", "more").as_str()),
        ("/apps/SIP_HOTEL/rules/pushGeo", "max_permits=1&etag=1&action=save"),
        ("/apps/SIP_HOTEL/rules/pushGeo/delete", "etag=1"),
        ("/apps/SIP_HOTEL/versions/1/rollback", "etag=1&reason=x"),
        ("/users", "name=eve&password=another+good+password&role=admin&app=*"),
        ("/users/ann/state", "state=disabled"),
    ] {
        assert_eq!(vic.post(path, form).await.status, 403, "{path}");
    }
    assert_eq!(server.control.published().borrow().apps[0].version, 1);
    // A disabled user is out at once.
    assert_eq!(ann.post("/users/vic/state", "state=disabled").await.status, 303);
    assert_eq!(vic.get("/rules").await.status, 303);
    assert_eq!(ann.post("/users/ann/state", "state=disabled").await.status, 422, "the last admin stays");
}

#[tokio::test]
async fn requests_from_other_sites_and_under_other_names_are_rejected() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    for header in ["Sec-Fetch-Site: cross-site", "Origin: https://evil.example", "Origin: null"] {
        let forged = ann.send("POST", "/rules/new", &[header], GOOD).await;
        assert_eq!(forged.status, 403, "{header}");
    }
    let rebound = ann.send_to("evil.example", "GET", "/rules").await;
    assert_eq!(rebound.status, 403);
    assert!(server.control.published().borrow().apps.is_empty());
    let page = ann.get("/rules").await;
    let policy = page.field("content-security-policy").expect("a policy");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"));
    assert!(!page.body.contains("style=") && !page.body.contains("onclick"), "nothing inline");
    assert_eq!(ann.get("/nope").await.status, 404);
    assert_eq!(ann.get("/assets/../Cargo.toml").await.status, 404);
}

#[tokio::test]
async fn every_page_is_in_one_language() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.post("/rules/new", GOOD).await;
    let is_chinese = |it: char| ('\u{4e00}'..='\u{9fff}').contains(&it);
    for path in [
        "/rules",
        "/rules?search=none",
        "/rules/new",
        "/apps/SIP_HOTEL/rules/pushGeo",
        "/apps/SIP_HOTEL/rules/pushGeo/delete",
        "/",
        "/top",
        "/apps/SIP_HOTEL/rules/pushGeo/history",
        "/versions",
        "/apps/SIP_HOTEL/versions",
        "/nodes",
        "/users",
        "/users/ann",
        "/audit",
        "/audit?from=x",
        "/tokens",
        "/settings",
        "/me",
        "/nope",
    ] {
        let english = ann.send("GET", path, &["Accept-Language: en-GB,en;q=0.9"], "").await.body;
        assert!(english.contains("lang=\"en\""), "{path}");
        let rest = english.replace("中文", "");
        assert!(!rest.contains(is_chinese), "{path}: {rest}");
        let chinese = ann.send("GET", path, &["Accept-Language: zh-CN,zh;q=0.9,en;q=0.8"], "").await.body;
        assert!(chinese.contains("lang=\"zh-CN\""), "{path}");
        for label in ["Burst", "Description", "Delete", "Log out", "Search", "Save", "Theme", "Nodes"] {
            assert!(!chinese.contains(&format!(">{label}<")), "{path}: {label}");
        }
    }
}

#[tokio::test]
async fn pages_and_assets_are_sent_compressed_to_those_who_accept_it() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.post("/rules/new", GOOD).await;
    let asset = {
        let page = ann.get("/rules").await.body;
        let (_, rest) = page.split_once("/assets/console.css?").expect("a style sheet");
        format!("/assets/console.css?{}", rest.split('"').next().expect("its version"))
    };
    for path in ["/rules", &asset] {
        let plain = ann.get(path).await;
        assert_eq!(plain.field("content-encoding"), None, "{path}");
        let (fields, body) = ann.bytes(path, "Accept-Encoding: br, gzip").await;
        assert!(
            fields.contains("content-encoding: gzip\r\n") && fields.contains("vary: accept-encoding"),
            "{fields}"
        );
        let mut text = String::new();
        flate2::read::GzDecoder::new(&*body).read_to_string(&mut text).expect("gzip of text");
        assert!(body.len() * 2 < plain.body.len(), "{path}: {} of {} bytes", body.len(), plain.body.len());
        assert_eq!(text.len(), plain.body.len(), "{path}");
    }
    // A reply to a post may show a secret, so its length says nothing.
    let failed = ann
        .send("POST", "/rules/new", &["Accept-Encoding: gzip", "Sec-Fetch-Site: same-origin"], "app=")
        .await;
    assert_eq!((failed.status, failed.field("content-encoding")), (422, None));
}

#[tokio::test]
async fn a_supplier_is_blocked_below_every_key_that_counts_suppliers() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    for key in ["push", "pull"] {
        let form =
            format!("app=SIP_HOTEL&key={key}&max_permits=100&rate=5&per=provider&terms=yes&action=save");
        assert_eq!(ann.post("/rules/new", &form).await.status, 303);
    }
    let form = "domain=SIP_HOTEL&entries=provider%3D9527&action=block&minutes=90&reason=floods";
    let asked = ann.post("/overrides", form).await.body;
    assert!(asked.contains("It meets no rule") && asked.contains("Below each of the 2 keys"), "{asked}");
    assert_eq!(ann.post("/overrides", &format!("{form}&across=yes")).await.status, 303);
    let list = ann.get("/overrides").await.body;
    for key in ["push", "pull"] {
        assert!(list.contains(&format!("key={key} provider=9527")), "{list}");
    }
    let audit = ann.get("/audit?action=override").await.body;
    assert_eq!(audit.matches("Block · 1 h 30 min").count(), 2, "{audit}");
}

#[tokio::test]
async fn an_app_that_is_disabled_is_shown_so_everywhere_and_asked_for_before() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    assert_eq!(ann.post("/rules/new", GOOD).await.status, 303);
    server.nodes.report(tollgate_control::NodeState {
        id: "n1".to_owned(),
        is_connected: true,
        last_seen_ms: server.now_ms(),
        apps: vec![tollgate_control::NodeApp {
            app: "SIP_HOTEL".to_owned(),
            wanted: 9,
            acked: 9,
            ..tollgate_control::NodeApp::default()
        }],
        ..tollgate_control::NodeState::default()
    });
    let rule = "/apps/SIP_HOTEL/rules/pushGeo";
    assert!(ann.get(rule).await.body.contains("live on 1 of 1 node"));
    let form = "description=&approvals=0&state=disabled&etag=1";
    let etag = ann.get("/api/v1/apps/SIP_HOTEL").await.field("etag").expect("an etag").replace('"', "");
    let form = form.replace("etag=1", &format!("etag={etag}"));
    let asked = ann.post("/apps/SIP_HOTEL/settings", &form).await;
    assert!(asked.status == 200 && asked.body.contains("Disable this app?"), "{asked:?}");
    assert!(ann.get(rule).await.body.contains("live on 1 of 1 node"), "nothing has changed yet");
    let done = ann.post("/apps/SIP_HOTEL/settings", &format!("{form}&confirmed=yes")).await;
    assert_eq!(done.status, 303, "{done:?}");
    for path in
        ["/rules", rule, "/apps/SIP_HOTEL/versions", "/rules?saved=SIP_HOTEL&version=2", "/", "/versions"]
    {
        let page = ann.get(path).await.body;
        assert!(page.contains("app disabled") || page.contains("the app is disabled"), "{path}: {page}");
        let claims = ["/rules?saved=SIP_HOTEL&version=2", rule].contains(&path)
            && page.contains("version 2 is published · live");
        assert!(!claims, "{path}: {page}");
    }
    assert!(ann.get("/api/v1/apps/SIP_HOTEL/rules/pushGeo").await.body.contains(r#""app_disabled":true"#));
}

#[tokio::test]
async fn a_rollback_shows_what_it_changes_and_brings_back_one_rule_of_several() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    for key in ["push", "pull"] {
        let form = format!("app=SIP_HOTEL&key={key}&max_permits=100&rate=5&terms=yes&action=save");
        assert_eq!(ann.post("/rules/new", &form).await.status, 303);
    }
    for (key, rate) in [("push", 7), ("pull", 9)] {
        let path = format!("/api/v1/apps/SIP_HOTEL/rules/{key}");
        let etag = ann.get(&path).await.field("etag").expect("an etag").to_owned();
        let body = format!(r#"{{"max_permits":100,"rate":{rate}}}"#);
        assert_eq!(ann.json("PUT", &path, Some(&etag), &body).await.status, 200);
    }
    let page = ann.get("/apps/SIP_HOTEL/versions/2/rollback").await.body;
    for part in ["2 rules change", "rate 7 → 5", "rate 9 → 5", "name=\"pick:push\""] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let path = "/apps/SIP_HOTEL/versions/2/rollback";
    let none = ann.post(path, "etag=4&reason=back&picks=yes").await;
    assert_eq!(none.status, 422, "no rule is picked: {none:?}");
    assert_eq!(ann.post(path, "etag=4&reason=back&picks=yes&pick:push=yes").await.status, 303);
    for (key, rate) in [("push", 5), ("pull", 9)] {
        let rule = ann.get(&format!("/api/v1/apps/SIP_HOTEL/rules/{key}")).await.body;
        assert!(rule.contains(&format!(r#""rate":{rate},"#)), "{rule}");
    }
    let audit = ann.get("/audit?target=push&action=app").await.body;
    assert!(audit.contains("push: rate 7 → 5") && !audit.contains("pull: rate"), "{audit}");
    let only = r#"{"reason":"back","rules":["pull"]}"#;
    let path = "/api/v1/apps/SIP_HOTEL/versions/2/rollback";
    assert_eq!(ann.json("POST", path, Some("\"5\""), only).await.status, 200);
    let rule = ann.get("/api/v1/apps/SIP_HOTEL/rules/pull").await.body;
    assert!(rule.contains(r#""rate":5,"#), "{rule}");
}

#[tokio::test]
async fn a_rollback_of_more_rules_than_its_page_names_one_by_one_leaves_none_out() {
    for (rules, has_boxes) in [(100, true), (101, false)] {
        let server = ConsoleServer::start().await;
        let mut ann = ConsoleClient::admin(&server).await;
        assert_eq!(ann.post("/rules/new", GOOD).await.status, 303);
        let op = |at: usize| {
            format!(r#"{{"op": "put", "key": "k{at}", "rule": {{"max_permits": 9, "rate": 1}}}}"#)
        };
        let ops = (0..rules).map(op).collect::<Vec<_>>().join(",");
        let body = format!(r#"{{"app": "SIP_HOTEL", "intent": "publish", "ops": [{ops}]}}"#);
        let made = ann.json("POST", "/api/v1/changes", None, &body).await;
        assert_eq!(made.status, 201, "{}", made.body);
        let path = "/apps/SIP_HOTEL/versions/1/rollback";
        let page = ann.get(path).await.body;
        assert!(page.contains(&format!("{rules} rules change")), "{page}");
        assert_eq!(page.contains("without a tick"), has_boxes, "{page}");
        assert_eq!(page.matches("name=\"pick:").count(), if has_boxes { rules } else { 0 });
        assert_eq!(page.contains("name=\"picks\""), has_boxes, "{page}");
        // As the page sends it, with every box that it has.
        let boxes: String = (0..rules).map(|at| format!("&pick:k{at}=yes")).collect();
        let boxes = if has_boxes { format!("&picks=yes{boxes}") } else { String::new() };
        assert_eq!(ann.post(path, &format!("etag=2&reason=back{boxes}")).await.status, 303);
        assert!(ann.get("/rules").await.body.contains("Showing 1 to 1 of 1 entry"));
    }
}

#[tokio::test]
async fn an_operator_blocks_a_caller_sees_it_in_the_list_and_ends_it() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    assert_eq!(ann.post("/rules/new", GOOD).await.status, 303);
    assert!(ann.get("/overrides").await.body.contains("Nothing is blocked or allowed"));
    let linked = ann.get("/overrides?domain=SIP_HOTEL&entries=key%3DpushGeo").await.body;
    assert!(linked.contains("value=\"SIP_HOTEL\"") && linked.contains(">key=pushGeo</textarea>"), "{linked}");
    let form = "domain=SIP_HOTEL&entries=key%3DpushGeo%0D%0Aprovider%3D%3Cb%3E&action=block&minutes=90&reason=floods";
    let bad = ann.post("/overrides", &form.replace("minutes=90", "minutes=0")).await;
    assert_eq!((bad.status, bad.faults()), (422, vec!["Expected a whole number from 1 to 43200"]));
    let mut published = server.control.overrides();
    // Below a rule without providers nothing is met, and the page says so before anything is in force.
    let asked = ann.post("/overrides", form).await;
    assert!(asked.status == 200 && asked.body.contains("It meets no rule"), "{asked:?}");
    assert!(published.borrow_and_update().overrides.is_empty(), "it is not in force yet");
    let met = ann.post("/overrides", &form.replace("%0D%0Aprovider%3D%3Cb%3E", "")).await.body;
    assert!(met.contains("Rules that it goes before</dt><dd>key=pushGeo</dd>"), "{met}");
    let whole = ann.post("/overrides", &form.replace("key%3DpushGeo%0D%0Aprovider%3D%3Cb%3E", "")).await.body;
    assert!(whole.contains("every request of the whole domain"), "{whole}");
    let unknown = ann.post("/overrides", &form.replace("SIP_HOTEL", "NONE")).await.body;
    assert!(unknown.contains("No published rule has this domain"), "{unknown}");
    let made = ann.post("/overrides", &format!("{form}&confirmed=yes")).await;
    assert_eq!((made.status, made.place()), (303, "/overrides"));
    let now = published.borrow_and_update().clone();
    assert_eq!((now.overrides.len(), now.overrides[0].entries.len()), (1, 2));
    assert_eq!(now.overrides[0].entries[1].value, "<b>");
    let list = ann.get("/overrides").await.body;
    assert!(list.contains("key=pushGeo provider=&#60;b&#62;") && list.contains("1 h 30 min"), "{list}");
    assert!(!list.contains("<b>provider"), "{list}");
    let found = ann.json("GET", "/api/v1/overrides", None, "").await;
    let json: serde_json::Value = serde_json::from_str(&found.body).expect("JSON");
    assert_eq!((&json["total"], &json["overrides"][0]["action"]), (&1.into(), &"block".into()));
    let path = format!("/overrides/{}/end", json["overrides"][0]["id"].as_str().expect("an id"));
    assert_eq!(ann.post(&path, "end=1").await.status, 303);
    assert_eq!(ann.post(&path, "end=1").await.status, 404, "it has ended");
    assert!(published.borrow_and_update().overrides.is_empty());
    let made = ann
        .json(
            "POST",
            "/api/v1/overrides",
            None,
            r#"{"domain": "SIP_HOTEL", "action": "allow", "minutes": 5, "reason": "test"}"#,
        )
        .await;
    assert!(made.status == 422 && made.body.contains("whole_domain"), "a member was forgotten: {made:?}");
    let made = ann
        .json(
            "POST",
            "/api/v1/overrides",
            None,
            r#"{"domain": "SIP_HOTEL", "whole_domain": true, "action": "allow", "minutes": 5, "reason": "test"}"#,
        )
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    assert!(made.body.contains(r#""rules":["key=pushGeo"],"rules_met":1"#), "{made:?}");
    let json: serde_json::Value = serde_json::from_str(&made.body).expect("JSON");
    let path = format!("/api/v1/overrides/{}", json["id"].as_str().expect("an id"));
    assert_eq!(ann.json("DELETE", &path, None, "").await.status, 200);
    assert_eq!(ann.json("DELETE", &path, None, "").await.status, 404);
    // Without a node nothing can be looked up, and the page says so.
    let page = ann.get("/keys?domain=SIP_HOTEL&entries=key%3DpushGeo").await;
    assert!(page.status == 200 && page.body.contains("No node is connected"), "{page:?}");
    let page = ann.get("/keys?domain=SIP_HOTEL&entries=pushGeo").await;
    assert_eq!((page.status, page.faults().len()), (422, 1));
    let found = ann.json("GET", "/api/v1/keys?domain=SIP_HOTEL&entry=key%3DpushGeo", None, "").await;
    assert!(found.status == 200 && found.body.contains("\"live_nodes\":0"), "{found:?}");
    assert_eq!(ann.json("GET", "/api/v1/apps/SIP_HOTEL/live", None, "").await.status, 400);
    assert_eq!(ann.json("GET", "/api/v1/apps/SIP_HOTEL/live?key=pushGeo", None, "").await.status, 200);
}

#[tokio::test]
async fn browsers_are_told_to_stay_with_tls_where_there_is_tls() {
    for is_secure in [true, false] {
        let plane = tollgate_harness::ControlPlane::start().await;
        let settings = tollgate_console::ConsoleSettings { is_secure, ..Default::default() };
        let console = tollgate_console::Console::new(std::sync::Arc::clone(&plane.control), settings);
        let mut fields = hyper::HeaderMap::new();
        tollgate_http_kit::Api::add_fields(&console, &mut fields);
        let said = fields.get("strict-transport-security").map(|it| it.to_str().expect("a text"));
        assert_eq!(said, is_secure.then_some("max-age=31536000"));
    }
}
