//! What those who do not see every app do not see of nodes, on pages as in the API.

use tollgate_control::{NodeApp, NodeState};

use crate::server::{Client, Server};

/// What may name machines, domains and files of others.
const HIDDEN: [&str; 4] = ["10.9.8.7", "payroll-domain", "payroll-app", "no room on /secret/disk"];

#[tokio::test]
async fn addresses_and_domains_of_nodes_are_for_those_who_see_every_app() {
    let server = Server::start().await;
    let mut ann = Client::admin(&server).await;
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
    let mut bob = Client::user(&server, "bob", "viewer", "shop").await;
    let mut shown = [false; 4];
    for path in ["/", "/nodes", "/nodes/edge-1", "/api/v1/nodes", "/api/v1/nodes/edge-1", "/api/v1/problems"]
    {
        let (all, some) = (ann.get(path).await, bob.get(path).await);
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
