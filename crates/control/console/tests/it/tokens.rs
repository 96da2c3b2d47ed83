//! Tokens over real sockets: what they may, when they end, and that they are never mixed with cookies.

use tollgate_harness::console::{ConsoleClient, ConsoleServer};

/// A token that the client makes: its id and its text.
async fn make(client: &mut ConsoleClient, body: &str) -> (String, String) {
    let made = client.json("POST", "/api/v1/tokens", None, body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let made = made.value();
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    (text(&made["token"]["id"]), text(&made["secret"]))
}

const EDITOR: &str = r#"{"name": "ci", "rights": [{"app": "SIP_HOTEL", "role": "editor"}]}"#;
const RULE: &str = r#"{"key": "a", "max_permits": 10}"#;

#[tokio::test]
async fn a_token_may_what_it_names_and_its_changes_are_in_the_audit_under_its_name() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.json("POST", "/api/v1/apps", None, r#"{"app": "SIP_HOTEL"}"#).await;
    ann.json("POST", "/api/v1/apps", None, r#"{"app": "OTHER"}"#).await;
    let (_, secret) = make(&mut ann, EDITOR).await;
    let mut program = ConsoleClient::new(&server);
    let bearer = format!("Authorization: Bearer {secret}");
    // No browser sends a token: neither another site's page nor another name of the host matters.
    for more in ["Sec-Fetch-Site: cross-site", "Origin: https://evil.example"] {
        let fields = [&*bearer, more, "Content-Type: application/json"];
        let body = RULE.replace("\"a\"", &format!("\"k{}\"", more.len()));
        let made = program.send("POST", "/api/v1/apps/SIP_HOTEL/rules", &fields, &body).await;
        assert_eq!(made.status, 201, "{}", made.body);
    }
    for (method, path, body, status) in [
        ("POST", "/api/v1/apps/OTHER/rules", RULE, 403),
        ("GET", "/api/v1/apps/OTHER", "", 403),
        ("GET", "/api/v1/users", "", 403),
        ("PUT", "/api/v1/apps/SIP_HOTEL", "{}", 428),
        ("POST", "/api/v1/tokens", EDITOR, 403),
        ("POST", "/api/v1/me/password", r#"{"current": "x", "password": "y"}"#, 403),
        ("GET", "/api/v1/me", "", 200),
        ("GET", "/api/v1/rules", "", 200),
    ] {
        let fields = [&*bearer, "Content-Type: application/json"];
        let reply = program.send(method, path, &fields, body).await;
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.body);
    }
    let seen = program.send("GET", "/api/v1/rules", &[&bearer], "").await.value();
    assert_eq!(seen["total"], 2);
    let apps = program.send("GET", "/api/v1/apps", &[&bearer], "").await.value();
    assert_eq!(apps["total"], 1, "{apps}");
    // A page takes no token.
    assert_eq!(program.send("GET", "/rules", &[&bearer], "").await.status, 303);
    let entries = ann.get("/api/v1/audit?actor=ann&action=rule.create").await.value();
    for entry in entries["entries"].as_array().expect("entries") {
        assert_eq!((&entry["actor_kind"], &entry["actor"]), (&"token".into(), &"ann".into()));
        assert!(entry["via"].as_str().is_some_and(|it| it.starts_with("ci (tgl_")), "{entry}");
    }
    assert_eq!(entries["entries"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_token_that_is_wrong_is_not_helped_by_a_cookie() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let (_, secret) = make(&mut ann, r#"{"name": "all", "rights": [{"app": "*", "role": "admin"}]}"#).await;
    assert_eq!(ann.get("/api/v1/apps").await.status, 200);
    let mut changed = secret.clone().into_bytes();
    changed[20] = if changed[20] == b'A' { b'B' } else { b'A' };
    let changed = String::from_utf8(changed).expect("ASCII");
    for wrong in ["", "Bearer", "Bearer ", "Basic YTpi", &format!("Bearer {changed}"), "Bearer tgl_"] {
        let reply = ann.send("GET", "/api/v1/apps", &[&format!("Authorization: {wrong}")], "").await;
        assert_eq!(reply.status, 401, "{wrong:?}");
        assert!(reply.field("www-authenticate").is_some_and(|it| it.starts_with("Bearer")));
    }
    let twice = format!("Authorization: Bearer {secret}");
    assert_eq!(ann.send("GET", "/api/v1/apps", &[&twice, &twice], "").await.status, 401);
    // With a cookie of a viewer and a token of an admin, the token counts, and the other way round.
    let mut vic = ConsoleClient::user(&server, "vic", "viewer", "*").await;
    let fields = [&*twice, "Content-Type: application/json"];
    assert_eq!(vic.send("POST", "/api/v1/apps", &fields, r#"{"app": "A"}"#).await.status, 201);
    let (_, viewer) = make(&mut vic, r#"{"name": "v", "rights": [{"app": "*", "role": "viewer"}]}"#).await;
    let viewer = format!("Authorization: Bearer {viewer}");
    let fields = [&*viewer, "Content-Type: application/json"];
    assert_eq!(ann.send("POST", "/api/v1/apps", &fields, r#"{"app": "B"}"#).await.status, 403);
}

#[tokio::test]
async fn a_token_ends_when_it_is_revoked_when_it_expires_and_with_its_owner() {
    let server = ConsoleServer::start().await;
    ConsoleClient::admin(&server).await;
    let mut bob = ConsoleClient::user(&server, "bob", "editor", "*").await;
    let rights = r#""rights": [{"app": "*", "role": "editor"}]"#;
    let (id, first) = make(&mut bob, &format!(r#"{{"name": "one", {rights}}}"#)).await;
    let (_, second) = make(&mut bob, &format!(r#"{{"name": "two", {rights}, "days": 1}}"#)).await;
    let (_, third) = make(&mut bob, &format!(r#"{{"name": "three", {rights}, "days": 365}}"#)).await;
    let mut program = ConsoleClient::new(&server);
    let mut status = async |secret: &str| {
        let bearer = format!("Authorization: Bearer {secret}");
        program.send("GET", "/api/v1/rules", &[&bearer], "").await.status
    };
    assert_eq!([status(&first).await, status(&second).await, status(&third).await], [200; 3]);
    let revoked = bob.json("DELETE", &format!("/api/v1/tokens/{id}"), None, "").await;
    assert_eq!((revoked.status, &revoked.value()["is_valid"]), (200, &false.into()));
    assert_eq!(status(&first).await, 401);
    // The last millisecond of a token, and the one after it.
    let day = 24 * 3_600_000;
    server.set_time(server.now_ms() + day - 1);
    assert_eq!(status(&second).await, 200);
    server.set_time(server.now_ms() + 1);
    assert_eq!([status(&second).await, status(&third).await], [401, 200]);
    // A role that the owner loses is lost to the token.
    let mut ann = ConsoleClient::again(&server).await; // the first login has ended meanwhile
    let user = ann.get("/api/v1/users/bob").await;
    let etag = user.field("etag").expect("an etag").to_owned();
    let path = "/api/v1/users/bob/roles/%2A";
    assert_eq!(ann.json("DELETE", path, None, "").await.status, 428);
    let removed = ann.json("DELETE", path, Some(&etag), "").await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    let bearer = format!("Authorization: Bearer {third}");
    let mut program = ConsoleClient::new(&server);
    let fields = [&*bearer, "Content-Type: application/json"];
    assert_eq!(program.send("POST", "/api/v1/apps/X/rules", &fields, RULE).await.status, 403);
    assert_eq!(program.send("GET", "/api/v1/rules", &[&bearer], "").await.status, 200);
    // A disabled owner, also after being enabled again.
    let etag = removed.field("etag").expect("an etag").to_owned();
    let path = "/api/v1/users/bob";
    let disabled = ann.json("PATCH", path, Some(&etag), r#"{"state": "disabled"}"#).await;
    assert_eq!(disabled.status, 200, "{}", disabled.body);
    assert_eq!(program.send("GET", "/api/v1/rules", &[&bearer], "").await.status, 401);
    let etag = disabled.field("etag").expect("an etag").to_owned();
    assert_eq!(ann.json("PATCH", path, Some(&etag), r#"{"state": "active"}"#).await.status, 200);
    assert_eq!(program.send("GET", "/api/v1/rules", &[&bearer], "").await.status, 401);
}

#[tokio::test]
async fn a_token_of_nodes_may_attach_and_nothing_else() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let (id, secret) = make(&mut ann, r#"{"name": "fleet", "kind": "node"}"#).await;
    let mut program = ConsoleClient::new(&server);
    let bearer = format!("Authorization: Bearer {secret}");
    assert_eq!(program.send("GET", "/api/v1/me", &[&bearer], "").await.status, 401);
    let tokens = server.control.node_tokens();
    let now = server.now_ms();
    assert!(tokens.borrow().admits(Some(&secret), now));
    for wrong in [None, Some(""), Some("tgl_"), Some(&secret[..52])] {
        assert!(!tokens.borrow().admits(wrong, now), "{wrong:?}");
    }
    let (_, api) = make(&mut ann, r#"{"name": "all", "rights": [{"app": "*", "role": "admin"}]}"#).await;
    assert!(!tokens.borrow().admits(Some(&api), now), "a token of the API is not one of nodes");
    server.control.read_node_tokens().await.expect("recorded");
    let token = ann.get(&format!("/api/v1/tokens/{id}")).await.value();
    assert_eq!(token["last_used_at"], now);
    assert_eq!(token["expires_at"], serde_json::Value::Null);
    ann.json("DELETE", &format!("/api/v1/tokens/{id}"), None, "").await;
    assert!(!tokens.borrow().admits(Some(&secret), now), "revoked at once");
    let mut bob = ConsoleClient::user(&server, "bob", "editor", "*").await;
    for (body, status) in [
        (r#"{"name": "n", "kind": "node"}"#, 403),
        (r#"{"name": "n", "rights": [{"app": "*", "role": "admin"}]}"#, 403),
        (r#"{"name": "n", "rights": []}"#, 422),
        (r#"{"name": "n"}"#, 422),
        (r#"{"name": "", "rights": [{"app": "*", "role": "viewer"}]}"#, 422),
        (r#"{"name": "n", "rights": [{"app": "*", "role": "god"}]}"#, 422),
        (r#"{"name": "n", "rights": [{"app": "a b", "role": "viewer"}]}"#, 422),
        (r#"{"name": "n", "days": 366, "rights": [{"app": "*", "role": "viewer"}]}"#, 422),
        (r#"{"name": "n", "days": 0, "rights": [{"app": "*", "role": "viewer"}]}"#, 422),
        (r#"{"name": "n", "days": 1.5, "rights": [{"app": "*", "role": "viewer"}]}"#, 422),
        (r#"{"name": "n", "days": 365, "rights": [{"app": "*", "role": "viewer"}]}"#, 201),
    ] {
        let reply = bob.json("POST", "/api/v1/tokens", None, body).await;
        assert_eq!(reply.status, status, "{body}: {}", reply.body);
    }
    let rights = ann.json(
        "POST",
        "/api/v1/tokens",
        None,
        r#"{"name": "n", "kind": "node", "rights": [{"app": "*", "role": "viewer"}]}"#,
    );
    assert_eq!(rights.await.status, 422, "tokens of nodes have no rights");
    // Of others' tokens only admins know.
    let tokens = bob.get("/api/v1/tokens").await.value();
    assert_eq!(tokens["tokens"].as_array().map(Vec::len), Some(1));
    assert_eq!(bob.json("DELETE", &format!("/api/v1/tokens/{id}"), None, "").await.status, 404);
}

#[tokio::test]
async fn a_token_for_joining_ends_and_still_admits_the_nodes_that_have_joined_until_it_is_revoked() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    for (days, status) in [("0", 422), ("1", 201), ("30", 201), ("31", 422)] {
        let body = format!(r#"{{"name": "n", "kind": "join", "days": {days}}}"#);
        assert_eq!(ann.json("POST", "/api/v1/tokens", None, &body).await.status, status, "{days}");
    }
    let with_rights = r#"{"name": "n", "kind": "join", "rights": [{"app": "*", "role": "viewer"}]}"#;
    assert_eq!(ann.json("POST", "/api/v1/tokens", None, with_rights).await.status, 422);
    let body = r#"{"name": "rack 7", "kind": "join"}"#;
    let mut bob = ConsoleClient::user(&server, "bob", "editor", "*").await;
    assert_eq!(bob.json("POST", "/api/v1/tokens", None, body).await.status, 403);
    let (id, secret) = make(&mut ann, body).await;
    let path = format!("/api/v1/tokens/{id}");
    let day = 24 * 3_600_000;
    let tokens = server.control.node_tokens();
    let made_at = server.now_ms();
    assert_eq!(ann.get(&path).await.value()["expires_at"], made_at + day, "a day by default");
    let admits =
        |now| [tokens.borrow().admits(Some(&secret), now), tokens.borrow().admits_known(Some(&secret), now)];
    assert_eq!([admits(made_at + day - 1), admits(made_at + day)], [[true, true], [false, true]]);
    // It is listed, and can be revoked, as long as a node uses it.
    for weeks in [1, 10, 20] {
        server.set_time(made_at + weeks * 7 * day);
        let mut ann = ConsoleClient::again(&server).await;
        assert!(admits(server.now_ms())[1]);
        server.control.read_node_tokens().await.expect("recorded");
        make(&mut ann, r#"{"name": "other", "kind": "join"}"#).await;
        let token = ann.get(&path).await.value();
        assert_eq!((&token["is_valid"], &token["kind"]), (&false.into(), &"join".into()), "week {weeks}");
        let page = ann.get("/tokens").await.body;
        assert!(page.contains(&format!("/tokens/{id}/revoke")), "week {weeks}");
    }
    let mut ann = ConsoleClient::again(&server).await;
    ann.json("DELETE", &path, None, "").await;
    assert_eq!(admits(server.now_ms()), [false, false], "revoked at once");
    // Unused for 90 days after its end, it is gone.
    server.set_time(server.now_ms() + 92 * day);
    let mut ann = ConsoleClient::again(&server).await;
    make(&mut ann, r#"{"name": "other", "kind": "join"}"#).await;
    assert_eq!(ann.get("/api/v1/tokens").await.value()["tokens"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_token_is_shown_once_and_the_page_makes_and_revokes_it() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let made = ann.post("/tokens", "name=ci&kind=api&role=editor&apps=A%2C+B&days=30").await;
    assert_eq!(made.status, 201);
    let at = made.body.find("tgl_").expect("the token");
    let secret = made.body[made.body.rfind("tabindex=\"0\">tgl_").expect("shown") + 13..][..53].to_owned();
    assert!(at > 0 && secret.starts_with("tgl_"));
    let list = ann.get("/tokens").await.body;
    assert!(
        !list.contains(&secret) && list.contains(&secret[..12]) && list.contains("A – Editor · B – Editor")
    );
    let bad = ann.post("/tokens", "name=ci&kind=api&role=editor&apps=A+B&days=0").await;
    assert_eq!((bad.status, bad.faults().len()), (422, 2), "{:?}", bad.faults());
    assert!(bad.body.contains("value=\"A B\""), "what was entered is kept");
    let mut program = ConsoleClient::new(&server);
    let bearer = format!("Authorization: Bearer {secret}");
    assert_eq!(program.send("GET", "/api/v1/me", &[&bearer], "").await.status, 200);
    let id = list.split("/tokens/").nth(1).and_then(|it| it.split('/').next()).expect("a button").to_owned();
    assert_eq!(ann.post(&format!("/tokens/{id}/revoke"), "").await.place(), "/tokens");
    assert_eq!(program.send("GET", "/api/v1/me", &[&bearer], "").await.status, 401);
    assert!(ann.get("/tokens").await.body.contains("revoked"));
}
