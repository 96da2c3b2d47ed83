//! Facts about nodes that are hidden from users without rights on every app, on pages as in the API.

use tollgate_control::{NodeApp, NodeState};
use tollgate_fleet_proto::{Report, Store};
use tollgate_harness::console::{ConsoleClient, ConsoleServer};
use tollgate_harness::live_node;

/// Texts that name machines, domains and files of other apps.
const HIDDEN: [&str; 4] = ["10.9.8.7", "payroll-domain", "payroll-app", "no room on /secret/disk"];

#[tokio::test]
async fn addresses_and_domains_of_nodes_are_for_those_who_see_every_app() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    for app in ["shop", "payroll-app"] {
        let form = format!("app={app}&key=push&max_permits=100&rate=5&terms=yes&action=save");
        assert_eq!(ann.post("/rules/new", &form).await.status, 303);
    }
    let app = |app: &str| NodeApp {
        app: app.to_owned(),
        wanted: 1,
        acked: 0,
        fault: Some(HIDDEN[3].to_owned()),
        fault_version: 1,
        ..NodeApp::default()
    };
    let node = NodeState {
        id: "edge-1".to_owned(),
        name: "edge-one".to_owned(),
        address: HIDDEN[0].to_owned(),
        labels: vec![("zone".to_owned(), "zone-a".to_owned())],
        language: 9,
        local_domains: vec![HIDDEN[1].to_owned()],
        is_connected: true,
        last_seen_ms: server.now_ms(),
        claim: Some((HIDDEN[0].to_owned(), server.now_ms())),
        apps: vec![app("payroll-app")],
        ..NodeState::default()
    };
    assert!(server.nodes.report(node));
    let mut bob = ConsoleClient::user(&server, "bob", "viewer", "shop").await;
    let mut shown = [false; 4];
    for path in ["/", "/nodes", "/nodes/edge-1", "/api/v1/nodes", "/api/v1/nodes/edge-1", "/api/v1/problems"]
    {
        let all = ann.get(path).await;
        let some = bob.get(path).await;
        assert_eq!(all.status, some.status, "{path}");
        for (hidden, shown) in HIDDEN.iter().zip(&mut shown) {
            *shown |= all.body.contains(hidden);
            assert!(!some.body.contains(hidden), "{path} shows {hidden}: {}", some.body);
        }
        if path.contains("nodes") {
            assert!(some.body.contains("edge-one") && some.body.contains("zone-a"), "{path}: {}", some.body);
        }
    }
    assert_eq!(shown, [true; 4], "an admin sees them");
}

#[tokio::test]
async fn the_store_of_a_node_is_for_those_with_a_role_somewhere() {
    const STORE: &str = "redis://payroll-store:6379";
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.post("/rules/new", crate::GOOD).await;
    let name = "edge-one".to_owned();
    assert!(server.nodes.report(NodeState { name, ..live_node("edge-1", server.now_ms()) }));
    let mut vic = ConsoleClient::user(&server, "vic", "viewer", "SIP_HOTEL").await;
    let mut nob = ConsoleClient::user(&server, "nob", "viewer", "SIP_HOTEL").await;
    let taken = ann.post("/users/nob/roles/remove", "app=SIP_HOTEL&role=viewer").await;
    assert_eq!(taken.status, 303, "{}", taken.body);
    for available in [true, false] {
        let store = Some(Store { name: STORE.to_owned(), available });
        server.report("edge-1", Report { span_ms: 5_000, store, ..Report::default() }).await;
        let pages = ["/nodes", "/nodes/edge-1", "/api/v1/nodes", "/api/v1/nodes/edge-1"];
        for path in pages.iter().chain(&["/", "/api/v1/problems", "/top", "/rules"]) {
            let replies = [ann.get(path).await, vic.get(path).await, nob.get(path).await];
            let shown = replies.each_ref().map(|it| it.body.contains("payroll-store"));
            assert!(!shown[2], "{path} shows the store to a user without a role: {}", replies[2].body);
            if pages.contains(path) {
                assert_eq!((shown[0], shown[1]), (true, true), "{path}, available: {available}");
                assert!(replies[2].body.contains("edge-one"), "{path}: the node itself is shown");
            }
        }
    }
}
