//! A visitor that floods the console takes neither work, places nor memory from the others.

use std::time::Duration;

use serde_json::Value;
use tollgate_harness::console::{ConsoleClient, ConsoleServer};

/// A document with as many faulty rules of this app.
fn faulty(app: &str, rules: usize) -> String {
    format!("tollgate: 1\napp: {app}\ncar:\n{}", "- key: a b\n".repeat(rules))
}

const YAML: &[&str] = &["Content-Type: application/yaml"];

#[tokio::test]
async fn nothing_is_read_for_those_who_may_not_and_faults_end_at_a_hundred() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.post("/rules/new", crate::GOOD).await;
    let mut viewer = ConsoleClient::user(&server, "vic", "viewer", "SIP_HOTEL").await;
    let mut nobody = ConsoleClient::user(&server, "nob", "viewer", "SIP_HOTEL").await;
    let taken = ann.post("/users/nob/roles/remove", "app=SIP_HOTEL&role=viewer").await;
    assert_eq!(taken.status, 303, "{}", taken.body);
    for (rules, path) in [(1, "/api/v1/import?dry_run=true"), (30_000, "/api/v1/import?dry_run=true")] {
        let clients = [&mut nobody, &mut viewer, &mut ann];
        for (client, app, status) in
            [(0, "SIP_HOTEL", 403), (1, "other", 403), (1, "SIP_HOTEL", 200), (2, "other", 200)]
        {
            let reply = clients[client].send("POST", path, YAML, &faulty(app, rules)).await;
            assert_eq!(reply.status, status, "{rules} rules of {app}: {}", reply.body);
            assert!(reply.body.len() < 64_000, "{} bytes", reply.body.len());
        }
    }
    // From both sides of the cap.
    for (rules, errors) in [(1, 2), (49, 98), (50, 100), (51, 100), (19_999, 100)] {
        let reply = ann.send("POST", "/api/v1/import?dry_run=true", YAML, &faulty("shop", rules)).await;
        assert_eq!(reply.value()["errors"].as_array().map(Vec::len), Some(errors), "{rules} rules");
    }
    let reply = ann.send("POST", "/api/v1/import", YAML, &faulty("shop", 5_000)).await;
    assert_eq!((reply.status, reply.value()["errors"].as_array().map(Vec::len)), (422, Some(100)));
}

#[tokio::test]
async fn readers_of_events_have_a_share_and_a_place_is_free_when_its_client_has_left() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.post("/rules/new", crate::GOOD).await;
    let mut viewer = ConsoleClient::user(&server, "vic", "viewer", "SIP_HOTEL").await;
    let mut other = ConsoleClient::user(&server, "bob", "viewer", "SIP_HOTEL").await;
    let first = viewer.get("/api/v1/events").await;
    let id = first.body.lines().find_map(|line| line.strip_prefix("id: ")).expect("an id").to_owned();
    let path = format!("/api/v1/events?topics=rollouts&after={id}");
    let mut waiting = Vec::new();
    for _ in 0..300 {
        waiting.push(viewer.open(&path).await);
    }
    until("the viewer has its share", async || viewer.get(&path).await.status == 429).await;
    let now = "/api/v1/events?topics=rollouts";
    assert_eq!((other.get(now).await.status, ann.get(now).await.status), (200, 200));
    drop(waiting);
    // Not when the replies end, after 10 s.
    let free = until("the places are free", async || viewer.get(now).await.status == 200);
    tokio::time::timeout(Duration::from_secs(8), free).await.expect("at once");
}

async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let becomes = async {
        while !is().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), becomes).await.expect(what);
}

#[tokio::test]
async fn bodies_that_hang_leave_room_for_those_of_others() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.post("/rules/new", crate::GOOD).await;
    let mut viewer = ConsoleClient::user(&server, "vic", "viewer", "SIP_HOTEL").await;
    // Two of 64 MiB find room in a user's share, and no third.
    let mut hanging = Vec::new();
    for _ in 0..3 {
        hanging.push(viewer.open_body("/api/v1/import", (64 << 20) - 1).await);
    }
    until("the viewer has its share", async || {
        viewer.send("POST", "/api/v1/import?dry_run=true", YAML, &faulty("SIP_HOTEL", 1)).await.status == 429
    })
    .await;
    let mut rule = ConsoleClient::again(&server).await;
    let reply = rule.send("POST", "/api/v1/import?dry_run=true", YAML, &faulty("shop", 40_000 / 11)).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let login = ConsoleClient::again(&server).await;
    assert!(login.cookie.is_some());
    drop(hanging);
}

#[tokio::test]
async fn the_description_of_the_api_is_made_once_and_sent_compressed() {
    let server = ConsoleServer::start().await;
    let client = ConsoleClient::new(&server);
    let (plain, text) = client.bytes("/openapi.json", "Accept-Encoding: identity").await;
    let (short, gzip) = client.bytes("/openapi.json", "Accept-Encoding: gzip").await;
    assert!(!plain.to_lowercase().contains("content-encoding"), "{plain}");
    assert!(short.to_lowercase().contains("content-encoding: gzip"), "{short}");
    assert!(gzip.len() * 5 < text.len(), "{} of {} bytes", gzip.len(), text.len());
    assert!(serde_json::from_slice::<Value>(&text).is_ok());
}
