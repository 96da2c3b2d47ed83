//! Change sets over pages and API: approvals, conflicts, files, differences.

use crate::server::{Client, Reply, Server};

const GOOD: &str =
    "app=SIP_HOTEL&key=pushGeo&max_permits=100&rate=5&description=hotels&terms=yes&action=save";

/// A user with one role in SIP_HOTEL, logged in.
async fn user(server: &Server, admin: &mut Client, name: &str, role: &str) -> Client {
    let form = format!("name={name}&password=another+good+password&role={role}&app=SIP_HOTEL");
    assert_eq!(admin.post("/users", &form).await.status, 303);
    let mut client = Client::new(server);
    let login = format!("name={name}&password=another+good+password");
    assert_eq!(client.post("/login", &login).await.status, 303);
    client
}

fn etag(reply: &Reply) -> String {
    reply.field("etag").expect("an etag").to_owned()
}

/// The value of a member that is a text, the first of that name.
fn member<'r>(reply: &'r Reply, name: &str) -> &'r str {
    let start = format!("\"{name}\":\"");
    reply.body.split(&start).nth(1).and_then(|rest| rest.split('"').next()).expect("a member")
}

#[tokio::test]
async fn a_change_is_approved_by_another_and_then_published() {
    let server = Server::start().await;
    let mut ann = Client::admin(&server).await;
    ann.post("/rules/new", GOOD).await;
    let app = "/api/v1/apps/SIP_HOTEL";
    let now = ann.get(app).await;
    let set = ann.json("PUT", app, Some(&etag(&now)), r#"{"approvals": 1}"#).await;
    assert!(set.status == 200 && set.body.contains("\"approvals\":1"), "{}", set.body);
    assert_eq!(ann.json("PUT", app, Some(&etag(&set)), r#"{"approvals": 3}"#).await.status, 422);

    // The same button now makes a change set that waits.
    let form = "max_permits=100&rate=8&etag=1&action=save";
    let waits = ann.post("/apps/SIP_HOTEL/rules/pushGeo", form).await;
    let place = waits.place().to_owned();
    assert!(waits.status == 303 && place.starts_with("/changes/"), "{place}");
    let shown = ann.get(&place).await.body;
    assert!(
        shown.contains("waiting for approval") && shown.contains("<del>5</del> → <ins>8</ins>"),
        "{shown}"
    );
    let approve = |etag: &str| format!("action=approve&etag={etag}");
    assert_eq!(ann.post(&place, &approve("2")).await.status, 403, "her own");
    assert_eq!(ann.post(&place, "action=publish&etag=2").await.status, 409);

    let mut vic = user(&server, &mut ann, "vic", "viewer").await;
    let seen = vic.get(&place).await;
    assert!(seen.status == 200 && !seen.body.contains("name=\"action\""), "a viewer has no button");
    assert_eq!(vic.post(&place, &approve("2")).await.status, 403);
    let mut bob = user(&server, &mut ann, "bob", "approver").await;
    assert_eq!(bob.post(&place, &approve("1")).await.status, 412, "before the submission");
    let wordless = bob.post(&place, "action=reject&etag=2&comment=").await;
    assert!(wordless.status == 422 && wordless.faults() == ["Required"]);
    assert_eq!(bob.post(&place, &approve("2")).await.place(), place);
    assert_eq!(ann.post(&place, "action=publish&etag=3").await.place(), place);
    let list = ann.get("/changes?state=all").await.body;
    assert!(list.contains("published") && list.contains(&place));
    assert!(ann.get("/rules").await.body.contains("8 / s"));
    let path = "/apps/SIP_HOTEL/versions/2/diff?against=1";
    assert!(ann.get(path).await.body.contains("<del>5</del> → <ins>8</ins>"));
    for view in ["unified", "split"] {
        let body = ann.get(&format!("{path}&view={view}")).await.body;
        assert!(body.contains("rate: 5") && body.contains("rate: 8"), "{view}: {body}");
    }
}

#[tokio::test]
async fn a_conflict_shows_three_sides_and_is_resolved() {
    let server = Server::start().await;
    let mut ann = Client::admin(&server).await;
    ann.post("/rules/new", GOOD).await;
    let body = r#"{"app": "SIP_HOTEL", "title": "faster", "ops":
        [{"op": "put", "key": "pushGeo", "base": 1, "rule": {"max_permits": 100, "rate": 50}}]}"#;
    let made = ann.json("POST", "/api/v1/changes", None, body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let (id, first) = (member(&made, "id").to_owned(), etag(&made));
    let rule = "/api/v1/apps/SIP_HOTEL/rules/pushGeo";
    ann.json("PUT", rule, Some("\"1\""), r#"{"max_permits": 100, "rate": 7}"#).await;

    let path = format!("/api/v1/changes/{id}");
    let publish = format!("{path}/publish");
    assert_eq!(ann.json("POST", &publish, None, "").await.status, 428);
    let conflict = ann.json("POST", &publish, Some(&first), "").await;
    assert_eq!(conflict.status, 409);
    for part in [r#""theirs":{"#, r#""rate":7"#, r#""rate":50"#, r#""rate":5,"#, "/problems/conflict"] {
        assert!(conflict.body.contains(part), "{part}: {}", conflict.body);
    }
    let shown = ann.get(&format!("/changes/{id}")).await.body;
    assert!(shown.contains("Others changed these rules meanwhile") && shown.contains("keep:car/pushGeo"));
    let checked = ann.json("POST", &format!("{path}/check"), None, "").await;
    assert!(checked.body.contains("\"ok\":false"), "{}", checked.body);
    let form = "action=resolve&etag=1&keep:car%2FpushGeo=yours";
    assert_eq!(ann.post(&format!("/changes/{id}"), form).await.status, 303);
    let stale = ann.json("POST", &publish, Some(&first), "").await;
    assert_eq!((stale.status, etag(&stale)), (412, "\"2\"".to_owned()));
    let published = ann.json("POST", &publish, Some("\"2\""), "").await;
    assert!(
        published.status == 200 && published.body.contains("\"published_version\":3"),
        "{}",
        published.body
    );
    assert_eq!(ann.json("POST", &publish, Some(&etag(&published)), "").await.status, 409);
    assert!(ann.get("/api/v1/apps/SIP_HOTEL/versions/3/diff").await.body.contains(r#""after":"50""#));
}

#[tokio::test]
async fn operations_are_checked_with_line_and_column_before_anything_is_written() {
    let server = Server::start().await;
    let mut ann = Client::admin(&server).await;
    ann.post("/rules/new", GOOD).await;
    let text = r"domain: web\ndescriptors:\n  - key: user\n    ratelimit: {unit: minute}\n";
    let body = |op: &str| format!(r#"{{"app": "SIP_HOTEL", "ops": [{op}]}}"#);
    let faulty = format!(r#"{{"op": "put", "key": "web", "file": {{"text": "{text}"}}}}"#);
    for (op, part) in [
        (faulty.as_str(), r#""column":5,"domain":"web","line":4"#),
        (r#"{"op": "put", "key": "pushGeo", "base": 1, "yaml": "key: pushGeo\nrat: 1\n"}"#, r#""line":2"#),
        (r#"{"op": "put", "key": "pushGeo", "base": 1, "rule": {"max_permits": 0}}"#, "/max_permits"),
        (r#"{"op": "put", "key": "pushGeo", "rule": {"max_permits": 1}}"#, r#""conflicts":[{"base":null"#),
        (r#"{"op": "delete", "key": "pushGeo", "base": 1}"#, r#""ok":true"#),
    ] {
        let checked = ann.json("POST", "/api/v1/check", None, &body(op)).await;
        assert!(checked.status == 200 && checked.body.contains(part), "{op}: {}", checked.body);
    }
    let good = faulty.replace("ratelimit: {unit: minute}", "rate_limit: {rate: 5/minute}");
    let preview = ann.json("POST", "/api/v1/preview", None, &body(&good)).await;
    assert!(
        preview.body.contains(r#""domain":"web""#) && preview.body.contains("SIP_HOTEL"),
        "{}",
        preview.body
    );
    for (op, status) in [
        (r#"{"op": "put", "key": "x"}"#, 400),
        (r#"{"op": "shake", "key": "x"}"#, 400),
        (r#"{"op": "delete", "key": "x", "kind": "regex"}"#, 400),
        (r#"{"op": "delete", "key": "x", "because": 1}"#, 400),
        (r#"{"op": "delete", "key": "x", "base": 99}"#, 404),
    ] {
        let reply = ann.json("POST", "/api/v1/changes", None, &body(op)).await;
        assert_eq!(reply.status, status, "{op}: {}", reply.body);
    }
    let changes = ann.get("/api/v1/changes?state=open").await;
    assert!(changes.body.contains("\"changes\":[]"), "{}", changes.body);
    let all = ann.get("/api/v1/changes?limit=1").await;
    assert!(all.body.contains("\"state\":\"published\""), "the form was a change set too: {}", all.body);
}

#[tokio::test]
async fn rule_files_are_kept_byte_for_byte_and_explain_a_request() {
    let server = Server::start().await;
    let mut ann = Client::admin(&server).await;
    ann.post("/rules/new", GOOD).await;
    let files = "/api/v1/apps/SIP_HOTEL/files";
    let text = "domain: web # ours\\ndescriptors:\\n  - {key: user, rate_limit: {rate: 5/minute}}\\n";
    let body = |text: &str| format!(r#"{{"text": "{text}"}}"#);
    let made = ann.json("POST", files, None, &body(text)).await;
    assert!(made.status == 201 && made.body.contains(text), "{}", made.body);
    assert_eq!(ann.json("POST", files, None, &body(text)).await.status, 422, "it is there");
    let file = format!("{files}/web");
    assert_eq!(ann.json("PUT", &file, None, &body(text)).await.status, 428);
    assert_eq!(ann.json("PUT", &file, Some("\"1\""), &body(text)).await.status, 412);
    let moved = ann.json("PUT", &file, Some("\"2\""), &body("domain: other\\ndescriptors: []\\n")).await;
    assert!(moved.status == 422 && moved.body.contains("keeps its domain"), "{}", moved.body);
    let six = text.replace("5/minute", "6/minute");
    assert_eq!(etag(&ann.json("PUT", &file, Some("\"2\""), &body(&six)).await), "\"3\"");
    let explained = ann.get("/api/v1/explain?app=SIP_HOTEL&domain=web&entry=user%3Dann").await;
    assert!(explained.body.contains("6 per minute"), "{}", explained.body);
    assert_eq!(ann.get("/api/v1/explain?app=SIP_HOTEL&domain=web&entry=user").await.status, 422);
    let back = ann
        .json("POST", "/api/v1/apps/SIP_HOTEL/versions/2/rollback", Some("\"3\""), r#"{"reason": "worse"}"#)
        .await;
    assert_eq!(back.status, 200, "{}", back.body);
    assert!(ann.get(&file).await.body.contains("5/minute"));
    assert_eq!(ann.json("DELETE", &file, Some("\"4\""), "").await.status, 200);
    assert_eq!(ann.get(&file).await.status, 404);
}
