//! Every route but `/v1/check`, and what is said where there is none.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

mod degraded;

use std::io::Read as _;
use std::time::Duration;

use crate::common::{RULES, Server, api_over, loopback, one, policy};
use serde_json::{Value, json};
use tollgate_http_api::{HttpSettings, NodeState};
use tollgate_http_kit::{AdminAccess, SurfaceSettings, Token};
use tollgate_limiter::{Limiter, LimiterSettings};
use tollgate_store_memory::{MemoryConfig, MemoryStore};

#[tokio::test]
async fn probes_say_how_the_process_is() {
    let server = Server::plain().await;
    for (state, ready, peer) in [
        (NodeState { is_ready: true, ..NodeState::default() }, 200, 200),
        (NodeState { is_draining: true, ..NodeState::default() }, 503, 500),
        (NodeState { last_error: Some("shop.yaml:1:1: bad".into()), ..NodeState::default() }, 503, 500),
    ] {
        *server.node.0.lock() = state.clone();
        // One connection each: while the process drains, every reply is the last of its connection.
        let get = async |path| server.client().await.get(path).await;
        let health = get("/healthz").await;
        assert_eq!(health.header("connection"), state.is_draining.then_some("close"));
        assert_eq!((health.status, get("/healthcheck").await.status), (200, peer));
        let reply = get("/readyz").await;
        assert_eq!(reply.status, ready);
        let json = reply.json();
        assert_eq!((&json["ready"], &json["draining"]), (&json!(state.is_ready), &json!(state.is_draining)));
        assert_eq!((&json["rules"]["loaded"], &json["rules"]["rules"]), (&json!(true), &json!(10)));
        assert_eq!(json["rules"]["last_error"], json!(state.last_error.as_deref()));
    }
}

#[tokio::test]
async fn a_reservation_is_committed_or_cancelled_once() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let body = |hits: u64| {
        let mut body: Value = serde_json::from_str(&one("tokens", "x")).unwrap();
        body["hits"] = json!(hits);
        body["ttl_ms"] = json!(1_000);
        body.to_string()
    };
    let reserved = client.post("/v1/reserve", &body(6)).await;
    let json = reserved.json();
    assert_eq!((&json["wait_ms"], &json["expires_in_ms"]), (&json!(0), &json!(1_000)));
    assert_eq!((&json["decision"]["outcome"], &json["decision"]["remaining"]), (&json!("admit"), &json!(4)));
    assert_eq!(reserved.header("x-ratelimit-remaining"), Some("4"));
    let id = json["id"].as_str().expect("an id").to_owned();

    let denied = client.post("/v1/reserve", &body(5)).await.json();
    assert_eq!((&denied["id"], &denied["decision"]["outcome"]), (&Value::Null, &json!("deny")));
    assert_eq!(denied["expires_in_ms"], 0);

    let commit = json!({"id": id, "actual": 2}).to_string();
    for _ in 0..2 {
        let settled = client.post("/v1/commit", &commit).await;
        let want = json!({"ending": "committed", "reserved": 6, "used": 2, "returned": 4, "owed": 0, "degraded": false});
        assert_eq!((settled.status, settled.json()), (200, want));
    }
    assert_eq!(client.post("/v1/check", &one("tokens", "x")).await.json()["remaining"], 7);

    let other = client.post("/v1/reserve", &body(1)).await.json()["id"].as_str().unwrap().to_owned();
    let cancelled = client.post("/v1/cancel", &json!({"id": other}).to_string()).await.json();
    assert_eq!((&cancelled["ending"], &cancelled["returned"]), (&json!("cancelled"), &json!(1)));
}

#[tokio::test]
async fn one_client_cannot_exhaust_the_reservations_and_learns_why_it_gets_no_more() {
    let settings = LimiterSettings { max_reservations: 4, ..LimiterSettings::default() };
    let limiter = Limiter::new(policy(RULES), MemoryStore::new(MemoryConfig::default()), settings);
    let server = Server::serve(api_over(limiter, HttpSettings::default()), loopback()).await;
    let mut client = server.client().await;
    // A request that no rule matches, that no limit counts or that costs nothing takes no place.
    let nowhere = one("user", "x").replace("shop", "nowhere");
    let nothing = one("tokens", "x").replacen('{', r#"{"hits":0,"#, 1);
    for body in [&nowhere, &one("unknown", "x"), &one("free", "x"), &nothing] {
        for _ in 0..10 {
            let reserved = client.post("/v1/reserve", body).await;
            let id = reserved.json()["id"].as_str().expect("an id").to_owned();
            assert_eq!(reserved.status, 200, "{body}");
            assert_eq!(client.post("/v1/cancel", &json!({"id": id}).to_string()).await.status, 200, "{body}");
        }
    }
    let zero = client.post("/v1/reserve", &nothing).await.json()["id"].clone();
    let detail = client.post("/v1/commit", &json!({"id": zero, "actual": 3}).to_string()).await.problem(400);
    assert!(detail.contains("so that 3 cannot be charged to it"), "{detail}");
    // Half of the places are one caller's.
    let first = client.post("/v1/reserve", &one("tokens", "x")).await.json();
    assert_eq!(client.post("/v1/reserve", &one("tokens", "x")).await.status, 200);
    let detail = client.post("/v1/reserve", &one("tokens", "x")).await.problem(429);
    assert!(detail.starts_with("this domain and first entry has 2 open reservations"), "{detail}");
    assert!(detail.ends_with("commit or cancel some; no permit was taken"), "{detail}");
    for other in ["y", "z"] {
        assert_eq!(client.post("/v1/reserve", &one("tokens", other)).await.status, 200);
    }
    for no_room in
        [one("tokens", "w"), one("tokens", &"w".repeat(9_000)), one("tokens", &"w".repeat(5 << 20))]
    {
        let reply = client.post("/v1/reserve", &no_room).await.json();
        let decision = &reply["decision"];
        assert_eq!((&reply["id"], &decision["outcome"]), (&json!(null), &json!("deny")));
        assert!(
            ["overload", "too_large"].contains(&decision["undecided"].as_str().expect("why")),
            "{decision}"
        );
    }
    let cancel = json!({"id": first["id"]}).to_string();
    assert_eq!(client.post("/v1/cancel", &cancel).await.status, 200);
    assert_eq!(client.post("/v1/reserve", &one("tokens", "w")).await.status, 200);
    let metrics = String::from_utf8(client.get("/metrics").await.body).expect("text");
    for line in [r#"{event="over_caller_share"} 1"#, r#"{event="refused"} 1"#, r#"{event="made"} 5"#] {
        let line = format!("tollgate_reservation_events_total{line}");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn what_cannot_be_reserved_or_settled_is_reported() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let nobody = "0".repeat(32);
    let ask = |more: &str| format!(r#"{{"domain":"shop","descriptors":[[{{"key":"tokens"}}]]{more}}}"#);
    for (path, body, status, want) in [
        ("/v1/commit", json!({"id": nobody}).to_string(), 404, "no such open reservation"),
        ("/v1/cancel", json!({"id": nobody}).to_string(), 404, "no such open reservation"),
        ("/v1/commit", json!({"id": "7"}).to_string(), 400, "32 hexadecimal digits"),
        ("/v1/cancel", json!({"id": nobody, "actual": 1}).to_string(), 400, "unknown field `actual`"),
        ("/v1/commit", json!({"id": nobody, "actual": u64::MAX}).to_string(), 400, "more than can be meant"),
        ("/v1/commit", json!({"id": nobody, "actual": -1}).to_string(), 400, "expected u64"),
        ("/v1/commit", "{".into(), 400, "invalid request body: EOF"),
        ("/v1/reserve", ask(r#","ttl_ms":0"#), 400, "lives for more than nothing"),
        ("/v1/reserve", ask(r#","ttl_ms":99999999999"#), 400, "at most"),
        ("/v1/reserve", ask(r#","requests":[]"#), 400, "unknown field `requests`"),
        ("/v1/reserve", ask(r#","ttl_ms":1,"ttl_ms":1"#), 400, "duplicate field `ttl_ms`"),
        ("/v1/reserve", ask(r#","max_wait_ms":"1""#), 400, "expected a whole number"),
    ] {
        let detail = client.post(path, &body).await.problem(status);
        assert!(detail.contains(want), "{path} {body}: {detail:?} lacks {want:?}");
    }
}

#[tokio::test]
async fn a_counter_is_looked_at_and_forgotten() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let key = "/v1/keys?domain=shop&entry=user=ann";
    let fresh = client.get(key).await.json()["counters"][0].clone();
    assert_eq!(
        (&fresh["is_tracked"], &fresh["remaining"], &fresh["rule"]),
        (&json!(false), &json!(2), &json!("user"))
    );
    for _ in 0..3 {
        client.post("/v1/check", &one("user", "ann")).await;
    }
    let reply = client.get(key).await.json();
    assert!(reply["note"].as_str().is_some_and(|note| note.contains("cannot be listed")), "{reply}");
    let used = reply["counters"][0].clone();
    assert_eq!(
        (&used["is_tracked"], &used["remaining"], &used["reset_after_ms"]),
        (&json!(true), &json!(0), &json!(40_000))
    );
    let forgotten = client.ask("DELETE", key, "", "").await.json()["counters"][0].clone();
    assert_eq!((&forgotten["is_tracked"], &forgotten["remaining"]), (&json!(true), &json!(2)));
    assert_eq!(client.post("/v1/check", &one("user", "ann")).await.json()["outcome"], "admit");

    for (query, status, want) in [
        ("domain=nowhere&entry=user=ann", 404, "there is no domain"),
        ("domain=shop&entry=nobody=x", 404, "no rule of domain"),
        ("domain=shop&entry=free=x", 404, "unlimited"),
        ("domain=shop", 400, "has no `entry`"),
        ("entry=user=ann", 400, "has no `domain`"),
        ("", 400, "the keys of all counters cannot be listed"),
    ] {
        let detail = client.get(&format!("/v1/keys?{query}")).await.problem(status);
        assert!(detail.contains(want), "{query}: {detail}");
    }
}

#[tokio::test]
async fn the_rules_report_how_they_were_loaded() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    for _ in 0..3 {
        client.post("/v1/check", &one("user", "ann")).await;
    }
    let json = client.get("/v1/rules").await.json();
    assert_eq!(json["version"].as_str().map(str::len), Some(12));
    let rule = &json["domains"][0]["rules"][0];
    assert_eq!(
        (&rule["rule"], &rule["name"], &rule["limits"]),
        (&json!("user"), &json!("per_user"), &json!(["per_user: 2 per minute, fixed_window"]))
    );
    assert_eq!(
        (&rule["admitted"], &rule["denied"], &rule["shadow_denied"]),
        (&json!(2), &json!(1), &json!(0))
    );
    assert_eq!(rule["top_limited"][0]["key"], "ann");

    let metrics = client.get("/metrics").await;
    let count = "tollgate_decision_latency_seconds_count{surface=\"http\"} 3\n";
    assert!(metrics.text().contains(count), "{}", metrics.text());
    for path in ["/rlconfig", "/debug/rlconfig"] {
        let dump = client.get(path).await;
        assert!(dump.text().starts_with("shop.user: unit=MINUTE requests_per_unit=2, shadow_mode: false"));
        assert!(dump.text().contains("\nshop.never: unit=UNKNOWN requests_per_unit=5,"), "{}", dump.text());
    }
}

#[tokio::test]
async fn usage_is_a_row_for_each_rule_since_the_start() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    for _ in 0..3 {
        client.post("/v1/check", &one("user", "ann")).await;
    }
    client.post("/v1/throttle", r#"{"key":"ann","limit":1,"period_ms":1000}"#).await;
    server.clock.advance(Duration::from_secs(60));
    let reply = client.get("/v1/usage").await;
    assert_eq!(reply.header("content-type"), Some("text/csv; charset=utf-8; header=present"));
    let rows: Vec<&str> = reply.text().split_terminator("\r\n").collect();
    assert_eq!(rows.len(), 1 + 10 + 1, "{rows:?}");
    assert_eq!(rows[0], "from,to,domain,rule,name,admitted,denied,shadow_denied,degraded");
    let span = "2023-11-14T22:13:20.000Z,2023-11-14T22:14:20.000Z";
    assert_eq!(rows[1], format!("{span},shop,user,per_user,2,1,0,0"));
    assert_eq!(rows[10], format!("{span},shop,\"quo\"\"te\",,0,0,0,0"));
    assert_eq!(rows[11], format!("{span},,(throttle),,1,0,0,0"));
}

#[tokio::test]
async fn metrics_come_as_the_scraper_asks_for_them() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let text = client.get("/metrics").await;
    assert_eq!(text.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(
        (text.header("content-encoding"), text.header("vary")),
        (None, Some("accept, accept-encoding"))
    );
    assert!(text.text().contains("# TYPE tollgate_decisions_total counter\n"), "{}", text.text());
    let fields = "accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;q=0.3\r\n";
    let open = client.ask("GET", "/metrics", fields, "").await;
    assert_eq!(
        open.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(open.text().contains("# TYPE tollgate_decisions counter\n") && open.text().ends_with("# EOF\n"));
    let fields = format!("{fields}accept-encoding: deflate, gzip\r\n");
    let zipped = client.ask("GET", "/metrics", &fields, "").await;
    assert_eq!(zipped.header("content-encoding"), Some("gzip"));
    assert!(zipped.body.len() * 3 < open.body.len(), "{} of {} bytes", zipped.body.len(), open.body.len());
    let mut unzipped = String::new();
    flate2::read::GzDecoder::new(&zipped.body[..]).read_to_string(&mut unzipped).expect("gzip");
    assert_eq!(unzipped, open.text());
}

#[tokio::test]
async fn json_answers_as_envoyproxy_ratelimit_does() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    let body = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#;
    for (asked, (status, code)) in [(200, "OK"), (200, "OK"), (429, "OVER_LIMIT")].into_iter().enumerate() {
        // Also from a client that says it sends a form, as curl does.
        let form = "content-type: application/x-www-form-urlencoded\r\n";
        let reply = client.ask("POST", "/json", form, body).await;
        assert_eq!((reply.status, &reply.json()["overallCode"]), (status, &json!(code)));
        let left = ["1", "0", "0"][asked];
        let fields = ["x-ratelimit-limit", "x-ratelimit-remaining"].map(|name| reply.header(name));
        assert_eq!(fields, [Some("2"), Some(left)]);
        let wait = (status == 429).then_some("40");
        let fields = ["retry-after", "x-ratelimit-retry-after"].map(|name| reply.header(name));
        assert_eq!(fields, [wait; 2]);
    }
    let faulty = client.post("/json", "{").await;
    assert_eq!((faulty.status, faulty.header("content-type")), (400, Some("text/plain; charset=utf-8")));
}

#[tokio::test]
async fn wrong_paths_and_methods_get_a_list_of_what_there_is() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    for (method, path, status, want) in [
        ("GET", "/v1/chek", 404, "did you mean /v1/check?"),
        ("GET", "/v1/check/", 404, "did you mean /v1/check?"),
        ("GET", "/V1/CHECK", 404, "unknown path /V1/CHECK; "),
        ("GET", "/favicon.ico", 404, "/ and /openapi.json list all paths"),
        ("PUT", "/v1/check", 405, "/v1/check takes POST, GET, HEAD, OPTIONS"),
        ("GET", "/v1/reserve", 405, "/v1/reserve takes POST, OPTIONS"),
        ("POST", "/v1/keys", 405, "/v1/keys takes GET, HEAD, DELETE, OPTIONS"),
        ("GET", "/json", 405, "/json takes POST, OPTIONS"),
        ("BREW", "/metrics", 405, "/metrics takes GET, HEAD, OPTIONS"),
    ] {
        let reply = client.ask(method, path, "", "").await;
        let detail = reply.problem(status);
        assert!(detail.contains(want), "{method} {path}: {detail}");
        assert_eq!(reply.header("allow").is_some(), status == 405);
    }
    for (path, want) in [
        ("/v1/keys", "GET, HEAD, DELETE, OPTIONS"),
        ("/v1/check", "POST, GET, HEAD, OPTIONS"),
        ("*", "POST, GET, HEAD, DELETE, OPTIONS"),
    ] {
        let reply = client.ask("OPTIONS", path, "", "").await;
        assert_eq!((reply.status, reply.header("allow")), (204, Some(want)), "{path}");
        assert_eq!(reply.header("access-control-allow-origin"), None, "no other site's page may ask");
    }
    for path in ["/", "/metrics", "/readyz", "/openapi.json", "/v1/check?domain=shop&entry=api_key=k"] {
        let head = client.ask("HEAD", path, "", "").await;
        let get = client.get(path).await;
        assert_eq!((head.status, head.body.len()), (get.status, 0), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
    }
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let server = Server::plain().await;
    *server.node.0.lock() =
        NodeState { last_error: Some("<script>bad</script>".into()), ..NodeState::default() };
    let page = server.client().await.get("/").await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    let text = page.text();
    assert!(
        text.contains("/openapi.json") && text.contains("not ready") && text.contains("10 in 1 domains"),
        "{text}"
    );
    assert!(!text.contains("<script") && !text.contains("http:") && !text.contains("https:"), "{text}");
}

#[tokio::test]
async fn the_start_page_helps_to_choose_an_algorithm() {
    let page = Server::plain().await.client().await.get("/").await;
    let table = page.text().split_once("<td>what you want").expect("a table").1;
    let table = table.split_once("</table>").expect("its end").0;
    for name in [
        "fixed_window",
        "sliding_window",
        "sliding_window_counter",
        "sliding_window_log",
        "token_bucket",
        "leaky_bucket",
        "total",
    ] {
        let rows = table.lines().filter(|row| row.contains(&format!("<code>{name}</code>"))).count();
        assert!(rows > 0, "nothing advises {name}: {table}");
    }
}

#[tokio::test]
async fn admin_routes_ask_for_the_token() {
    let token = Token::new("s3cret").expect("a token");
    let admin = AdminAccess { token: Some(token), is_loopback: true };
    let guarded = SurfaceSettings { admin, ..SurfaceSettings::default() };
    let outside = SurfaceSettings::default();
    let key = "/v1/keys?domain=shop&entry=user=ann";
    for (settings, fields, status, want) in [
        (guarded.clone(), "", 401, "needs the admin token"),
        (guarded.clone(), "authorization: Basic czNjcmV0\r\n", 401, "needs the admin token"),
        (guarded.clone(), "authorization: Bearer s3cre\r\n", 401, "wrong admin token"),
        (guarded.clone(), "authorization: Bearer s3cret2\r\n", 401, "wrong admin token"),
        (guarded.clone(), "authorization: Bearer \r\n", 401, "needs the admin token"),
        (guarded.clone(), "authorization: Bearer s3cret\r\n", 200, ""),
        (guarded, "authorization: bearer  s3cret \r\n", 200, ""),
        (outside.clone(), "", 403, "TOLLGATE_ADMIN_TOKEN"),
        (outside, "authorization: Bearer s3cret\r\n", 403, "TOLLGATE_ADMIN_TOKEN"),
        (loopback(), "", 200, ""),
    ] {
        let server = Server::with(settings).await;
        let mut client = server.client().await;
        for (method, path) in [
            ("GET", "/v1/rules"),
            ("GET", "/v1/usage"),
            ("GET", "/rlconfig"),
            ("GET", "/debug/rlconfig"),
            ("HEAD", "/v1/rules"),
            ("GET", key),
            ("DELETE", key),
        ] {
            let reply = client.ask(method, path, fields, "").await;
            assert_eq!(reply.status, status, "{method} {path} with {fields:?}");
            assert_eq!(reply.header("www-authenticate").is_some(), status == 401);
            if status != 200 && method != "HEAD" {
                let detail = reply.problem(status);
                assert!(detail.contains(want), "{detail}");
            }
        }
        for path in
            ["/metrics", "/healthz", "/readyz", "/openapi.json", "/", "/v1/explain?domain=shop&entry=user=x"]
        {
            assert_eq!(client.get(path).await.status, 200, "{path} is open");
        }
    }
}

#[tokio::test]
async fn admin_routes_need_one_well_formed_host() {
    let token = AdminAccess { token: Token::new("s3cret"), is_loopback: false };
    let guarded = SurfaceSettings { admin: token, ..SurfaceSettings::default() };
    let fields = "authorization: Bearer s3cret\r\n";
    for settings in [guarded, loopback()] {
        let server = Server::with(settings).await;
        for (hosts, status) in [
            ("", 400),
            ("host: localhost\r\nhost: localhost\r\n", 400),
            ("host: localhost\r\nhost: evil.example\r\n", 400),
            ("host: localhost:x\r\n", 400),
            ("host: [::1\r\n", 400),
            ("host: a b\r\n", 400),
            ("host:\r\n", 400),
            ("host: localhost:8080\r\n", 200),
        ] {
            for version in ["1.0", "1.1"] {
                let mut client = server.client().await;
                client.send(format!("GET /v1/rules HTTP/{version}\r\n{hosts}{fields}\r\n")).await;
                let reply = client.reply().await.expect("an answer");
                assert_eq!(reply.status, status, "{hosts:?} {version}");
                if status == 400 {
                    assert!(reply.problem(400).contains("`Host`"), "{hosts:?}: {reply:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn strangers_from_elsewhere_see_no_paths_and_lines_of_rule_files() {
    let secret = "/etc/tollgate/shop.yaml:7:9: bad";
    let token = Token::new("s3cret");
    let with_token = "authorization: Bearer s3cret\r\n";
    for (token, is_loopback, fields, sees_all) in [
        (token.clone(), false, "", false),
        (token.clone(), false, "authorization: Bearer wrong\r\n", false),
        (token.clone(), false, with_token, true),
        (None, false, with_token, false),
        (None, true, "", true),
        (token, true, "", true),
    ] {
        let admin = AdminAccess { token, is_loopback };
        let server = Server::with(SurfaceSettings { admin, ..SurfaceSettings::default() }).await;
        *server.node.0.lock() = NodeState { last_error: Some(secret.into()), ..NodeState::default() };
        let mut client = server.client().await;
        let ready = client.ask("GET", "/readyz", fields, "").await;
        assert_eq!(ready.status, 503);
        let error = ready.json()["rules"]["last_error"].as_str().expect("that there is one").to_owned();
        assert_eq!(error == secret, sees_all, "{fields:?}, loopback {is_loopback}: {error}");
        let page = client.ask("GET", "/", fields, "").await;
        assert_eq!(page.text().contains(secret), sees_all, "{fields:?}, loopback {is_loopback}");
        assert_eq!(ready.text().contains("shop.yaml"), sees_all);
    }
    // A page under a name of its own reaches this machine's port, and is a stranger.
    let server = Server::plain().await;
    *server.node.0.lock() = NodeState { last_error: Some(secret.into()), ..NodeState::default() };
    let mut client = server.client().await;
    client.send("GET /readyz HTTP/1.1\r\nhost: evil.example\r\n\r\n").await;
    assert!(!client.reply().await.expect("an answer").text().contains("shop.yaml"));
}

#[tokio::test]
async fn a_page_that_was_led_here_under_another_name_reaches_no_admin_route() {
    let server = Server::plain().await;
    let mut client = server.client().await;
    for (host, status) in [("evil.example:8080", 403), ("localhost:8080", 200), ("[::1]", 200)] {
        client.send(format!("GET /v1/rules HTTP/1.1\r\nhost: {host}\r\n\r\n")).await;
        assert_eq!(client.reply().await.expect("an answer").status, status, "{host}");
    }
}

#[tokio::test]
async fn a_drain_lets_requests_finish_and_closes() {
    let server = Server::plain().await;
    let mut idle = server.client().await;
    let mut busy = server.client().await;
    assert_eq!(idle.get("/healthz").await.status, 200);
    let body = one("user", "ann");
    busy.send(format!(
        "POST /v1/check HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    ))
    .await;
    assert_eq!(busy.reply().await.expect("go on").status, 100);
    server.drain.send_replace(true);
    assert!(idle.is_closed().await);
    busy.send(body).await;
    let reply = busy.reply().await.expect("it had begun");
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
    assert!(busy.is_closed().await);
    server.ended.await.expect("the loop ends");
}

#[tokio::test]
async fn a_connection_is_closed_after_as_many_requests_as_it_may_have() {
    let settings =
        SurfaceSettings { max_requests: Some(2), idle_timeout: Duration::from_secs(600), ..loopback() };
    let server = Server::with(settings).await;
    let mut client = server.client().await;
    assert_eq!(client.get("/healthz").await.header("connection"), None);
    assert_eq!(client.get("/healthz").await.header("connection"), Some("close"));
    assert!(client.is_closed().await);
}
