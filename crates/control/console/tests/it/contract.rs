//! The description of the API, the router and the replies agree.

use std::collections::BTreeSet;

use serde_json::Value;
use tollgate_console::Console;
use tollgate_harness::console::{ConsoleClient, ConsoleReply, ConsoleServer};
use tollgate_http_kit::Api as _;

use crate::operations::{API, LOOSE, ONCE, Operation, PAGES, TWINS};
use crate::schema::fault;

/// Method and path of every operation of the router, except what pages load and what there is not.
pub(crate) fn routed() -> BTreeSet<String> {
    let rows = Console::operations()
        .iter()
        .filter(|it| !it.path.ends_with("{*}") && !it.path.starts_with("/assets"));
    rows.map(|it| format!("{} {}", it.method, it.path)).collect()
}

#[test]
fn every_operation_of_the_router_is_known_to_the_tests() {
    let known: BTreeSet<String> = API
        .iter()
        .chain(PAGES)
        .chain(LOOSE)
        .map(|it| it.name)
        .chain(ONCE.iter().copied())
        .map(str::to_owned)
        .collect();
    let routed = routed();
    let missing: Vec<_> = routed.difference(&known).collect();
    assert!(missing.is_empty(), "say in operations.rs how these are called, and who may: {missing:#?}");
    let gone: Vec<_> = known.difference(&routed).collect();
    assert!(gone.is_empty(), "no such operations: {gone:#?}");
}

#[test]
fn what_the_console_can_do_the_api_can() {
    let routed = routed();
    let forms: BTreeSet<&str> = routed
        .iter()
        .map(|it| &**it)
        .filter(|it| it.starts_with("POST /") && !it.contains("/api/"))
        .collect();
    let named: BTreeSet<&str> = TWINS.iter().map(|(form, _)| *form).collect();
    assert_eq!(forms, named, "each form of a page has operations of the API that do the same");
    for (form, operations) in TWINS {
        assert!(!operations.is_empty(), "{form}");
        for operation in *operations {
            assert!(routed.contains(*operation), "{form}: there is no {operation}");
        }
    }
    // What pages read, the API returns.
    for object in
        ["apps", "rules", "changes", "users", "roles", "tokens", "audit", "settings", "keys", "keys/top"]
    {
        assert!(routed.contains(&format!("GET /api/v1/{object}")), "{object}");
    }
    for object in
        ["overrides", "nodes", "problems", "history", "unlimited", "events", "export", "explain", "me"]
    {
        assert!(routed.contains(&format!("GET /api/v1/{object}")), "{object}");
    }
}

/// Fills in the ids of the client's own token and login.
pub(crate) async fn target(client: &mut ConsoleClient, target: &str) -> String {
    let mut target = target.to_owned();
    if target.contains("{change}") {
        let drafts = client.get("/api/v1/changes?state=draft").await.value();
        let mut one = drafts["changes"][0]["id"].clone();
        if one.is_null() {
            let draft = LOOSE.iter().find(|it| it.name == "POST /api/v1/changes").expect("a draft");
            one = client.json("POST", "/api/v1/changes", None, draft.body).await.value()["id"].clone();
        }
        target = target.replace("{change}", one.as_str().expect("an id"));
    }
    if target.contains("{token}") {
        let tokens = client.get("/api/v1/tokens").await.value();
        target = target.replace("{token}", tokens["tokens"][0]["id"].as_str().unwrap_or("none"));
    }
    if target.contains("{override}") {
        let overrides = client.get("/api/v1/overrides").await.value();
        let mut one = overrides["overrides"][0]["id"].clone();
        if one.is_null() {
            let body =
                r#"{"domain":"SIP_HOTEL","entries":["key=x"],"action":"block","minutes":9,"reason":"x"}"#;
            one = client.json("POST", "/api/v1/overrides", None, body).await.value()["id"].clone();
        }
        target = target.replace("{override}", one.as_str().unwrap_or("none"));
    }
    if target.contains("{login}") {
        let logins = client.get("/api/v1/me/logins").await.value();
        let logins = logins["logins"].as_array().cloned().unwrap_or_default();
        let other = logins.iter().find(|it| it["is_this"] == false).expect("another login");
        target = target.replace("{login}", other["id"].as_str().unwrap_or("none"));
    }
    target
}

/// The reply to the operation, called as it succeeds.
pub(crate) async fn call(client: &mut ConsoleClient, operation: &Operation) -> ConsoleReply {
    let target = target(client, operation.target).await;
    let etag = match operation.etag_of {
        "" => None,
        path => client.get(path).await.field("etag").map(str::to_owned),
    };
    let method = operation.name.split(' ').next().expect("a method");
    client.json(method, &target, etag.as_deref(), operation.body).await
}

/// Holds a reply to its description.
fn must_conform(document: &Value, operation: &Value, reply: &ConsoleReply, name: &str) {
    let response = &operation["responses"][reply.status.to_string()];
    assert!(response.is_object(), "{name}: {} is not described", reply.status);
    let content_type = reply.field("content-type").expect("a content type");
    let essence = content_type.split(';').next().unwrap_or_default();
    let content = &response["content"][essence];
    assert!(content.is_object(), "{name} {}: {essence} is not described", reply.status);
    if essence.ends_with("json") && !essence.ends_with("ndjson") && name != "GET /openapi.json" {
        let found = fault(document, &content["schema"], &reply.value(), name);
        assert_eq!(found, None, "{}", reply.body);
    }
}

fn described<'d>(document: &'d Value, name: &str) -> &'d Value {
    let (method, path) = name.split_once(' ').expect("a method");
    let operation = &document["paths"][path][method.to_ascii_lowercase()];
    assert!(operation.is_object(), "{name} is not described");
    operation
}

#[tokio::test]
async fn every_operation_is_described_and_replies_as_described() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let phone = ConsoleClient::again(&server).await;
    let document = ann.get("/openapi.json").await.value();
    assert_eq!(document["openapi"], "3.1.0");
    // What is described is what is routed.
    let mut names = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let name = format!("{} {path}", method.to_ascii_uppercase());
            let is_here = !LOOSE.iter().any(|it| it.name == name);
            names.insert(name);
            let body = &operation["requestBody"]["content"]["application/json"];
            if body.is_object() && is_here {
                assert_eq!(
                    fault(&document, &body["schema"], &body["example"], path),
                    None,
                    "its own example"
                );
            }
        }
    }
    let of_api = |it: &String| it.contains(" /api/") || it.ends_with("/openapi.json");
    assert_eq!(names, routed().into_iter().filter(of_api).collect());
    let mut ids: Vec<_> =
        names.iter().map(|name| described(&document, name)["operationId"].clone()).collect();
    ids.sort_by_key(ToString::to_string);
    ids.dedup();
    assert_eq!(ids.len(), names.len(), "no id is there twice");
    prepare(&mut ann).await;
    drop(phone);
    for operation in API {
        let reply = call(&mut ann, operation).await;
        assert!(reply.status < 300, "{}: {} {}", operation.name, reply.status, reply.body);
        must_conform(&document, described(&document, operation.name), &reply, operation.name);
    }
}

/// Operations whose calls fail without a rollout, a node or a frozen app reply with a problem, as described.
#[tokio::test]
async fn change_sets_files_versions_and_their_like_reply_as_described_too() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let document = ann.get("/openapi.json").await.value();
    prepare(&mut ann).await;
    let mut done = 0;
    for operation in LOOSE.iter().filter(|it| it.name.contains(" /api/")) {
        let described = described(&document, operation.name);
        let body = &described["requestBody"]["content"]["application/json"];
        if body.is_object() {
            assert_eq!(fault(&document, &body["schema"], &body["example"], operation.name), None);
        }
        let reply = call(&mut ann, operation).await;
        must_conform(&document, described, &reply, operation.name);
        done += usize::from(reply.status < 300);
    }
    assert!(done >= 20, "only {done} succeeded");
}

/// An app, a rule, a user and a token, for operations about them.
pub(crate) async fn prepare(ann: &mut ConsoleClient) {
    for (path, body) in [
        ("/api/v1/apps", r#"{"app": "SIP_HOTEL"}"#),
        ("/api/v1/apps/SIP_HOTEL/rules", r#"{"key": "pushGeo", "max_permits": 100, "rate": 5}"#),
        ("/api/v1/apps/SIP_HOTEL/rules", r#"{"key": "second", "max_permits": 100, "rate": 5}"#),
        ("/api/v1/users", r#"{"name": "bob", "app": "SIP_HOTEL", "role": "viewer"}"#),
        ("/api/v1/tokens", r#"{"name": "mine", "rights": [{"app": "*", "role": "viewer"}]}"#),
    ] {
        let made = ann.json("POST", path, None, body).await;
        assert_eq!(made.status, 201, "{path}: {}", made.body);
    }
}

#[tokio::test]
async fn failures_are_problems_as_described() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    prepare(&mut ann).await;
    let document = ann.get("/openapi.json").await.value();
    let rule = "/api/v1/apps/SIP_HOTEL/rules/pushGeo";
    let large = format!(r#"{{"description": "{}"}}"#, "x".repeat(1024 * 1024));
    for (name, path, etag, body, status, kind) in [
        ("PUT /api/v1/apps/{app}/rules/{key}", rule, None, "{}", 428, "if-match"),
        ("PUT /api/v1/apps/{app}/rules/{key}", rule, Some("\"1\""), "{", 400, "body"),
        ("PUT /api/v1/apps/{app}/rules/{key}", rule, Some("\"1\""), "{}", 422, "invalid"),
        ("PUT /api/v1/apps/{app}/rules/{key}", rule, Some("\"1\""), &*large, 413, "body"),
        ("GET /api/v1/apps/{app}/rules/{key}", "/api/v1/apps/A/rules/b", None, "", 404, "not-found"),
        ("POST /api/v1/login", "/api/v1/login", None, r#"{"name":"a","password":"b"}"#, 401, "login"),
        ("GET /api/v1/audit", "/api/v1/audit?limit=0", None, "", 400, "body"),
    ] {
        let method = name.split(' ').next().expect("a method");
        let reply = ann.json(method, path, etag, body).await;
        assert_eq!(reply.status, status, "{name}: {}", reply.body);
        must_conform(&document, described(&document, name), &reply, name);
        assert_eq!(reply.value()["type"], format!("/problems/{kind}"), "{name}");
        assert_eq!(reply.field("x-request-id"), reply.value()["request_id"].as_str());
    }
    let stale = ann.json("PUT", rule, Some("\"99\""), r#"{"max_permits": 1}"#).await;
    let name = "PUT /api/v1/apps/{app}/rules/{key}";
    assert_eq!((stale.status, stale.field("etag")), (412, Some("\"1\"")));
    must_conform(&document, described(&document, name), &stale, name);
    for (method, path, allow) in [
        ("DELETE", "/api/v1/apps", "GET, HEAD, POST, OPTIONS"),
        ("PATCH", rule, "GET, HEAD, PUT, DELETE, OPTIONS"),
        ("POST", "/api/v1/audit", "GET, HEAD, OPTIONS"),
    ] {
        let reply = ann.json(method, path, None, "").await;
        assert_eq!((reply.status, reply.field("allow")), (405, Some(allow)), "{method} {path}");
    }
    // Every kind of problem is in the page about the API.
    let page = include_str!("../../../../../docs/control-api.md");
    for kind in tollgate_console::PROBLEMS {
        assert!(page.contains(&format!("| `{kind}` |")), "{kind} is not in docs/control-api.md");
    }
}

#[tokio::test]
async fn lists_are_read_to_their_end_by_their_cursors() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    for n in 0..7 {
        let body = format!(r#"{{"name": "user{n}"}}"#);
        assert_eq!(ann.json("POST", "/api/v1/users", None, &body).await.status, 201);
    }
    for (path, member, name, want) in
        [("/api/v1/users", "users", "name", 8), ("/api/v1/audit", "entries", "seq", 3 + 7 * 2)]
    {
        let mut seen = Vec::new();
        let mut cursor = String::new();
        loop {
            let part = ann.get(&format!("{path}?limit=3&cursor={cursor}")).await.value();
            let listed = part[member].as_array().expect("a list").clone();
            assert!(listed.len() <= 3);
            seen.extend(listed.iter().map(|it| it[name].to_string()));
            match part["next"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => break,
            }
        }
        let all: BTreeSet<_> = seen.iter().collect();
        assert_eq!((seen.len(), all.len()), (want, want), "{path}: {seen:?}");
    }
}
