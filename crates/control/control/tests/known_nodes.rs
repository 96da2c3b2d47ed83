//! Nodes are kept over restarts of the control plane until somebody removes them.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use tollgate_control::{Claim, ControlError, Health, InForce, NodeState, Nodes as _, Role};
use tollgate_harness::people::user;
use tollgate_harness::{ControlPlane, NOW_MS as NOW};

const DAY_MS: i64 = 24 * 3_600_000;

fn node(id: &str, last_seen_ms: i64) -> NodeState {
    NodeState {
        id: id.to_owned(),
        name: format!("name of {id}"),
        address: "10.0.0.1".to_owned(),
        software: "tollgate 0.1.0".to_owned(),
        labels: vec![("zone".to_owned(), "a".to_owned())],
        language: 9,
        local_domains: vec!["own".to_owned()],
        is_connected: true,
        last_seen_ms,
        ..NodeState::default()
    }
}

async fn keep(process: &ControlPlane) {
    process.write_nodes_once().await.expect("written");
}

#[tokio::test]
async fn a_node_is_known_over_restarts_until_it_is_removed_or_silent_for_thirty_days() {
    let process = ControlPlane::start().await;
    process.nodes.report(node("a", NOW));
    process.nodes.report(node("b", NOW));
    keep(&process).await;

    let process = process.restart().await;
    let known = process.nodes.nodes();
    assert_eq!(known, ["a", "b"].map(|id| NodeState { is_connected: false, ..node(id, NOW) }));
    process.pass(60_000);
    process.nodes.report(node("a", NOW + 60_000));
    let now_ms = process.now_ms();
    let health = process.nodes.nodes().into_iter().map(|it| it.health(now_ms));
    assert_eq!(health.collect::<Vec<_>>(), [Health::Live, Health::Lost]);
    let found = InForce::of(&process.nodes.nodes(), now_ms, |_| true);
    assert_eq!(found, InForce { have: 1, live: 1, offline: 1 });
    assert!(!found.is_everywhere(), "what an offline node has in force is not known");

    let editor = Claim::assumed(&user("eve", Role::Editor, "*"));
    let refused = process.remove_node(&editor, "b").await;
    assert!(matches!(refused, Err(ControlError::NoRight { need: Role::Admin, .. })), "{refused:?}");
    let program = Claim::program("tollgate");
    let live = process.remove_node(&program, "a").await;
    assert!(matches!(live, Err(ControlError::NodeLive { .. })), "{live:?}");
    assert_eq!(process.node_ids(), ["a", "b"]);
    let removed = process.remove_node(&program, "b").await.expect("removed");
    assert_eq!(removed.name, "name of b");
    let again = process.remove_node(&program, "b").await;
    assert!(matches!(again, Err(ControlError::NotFound { .. })), "{again:?}");
    keep(&process).await;
    let process = process.restart().await;
    assert_eq!(process.node_ids(), ["a"]);
    // One that attaches again is new.
    process.nodes.report(node("b", NOW + 60_000));
    keep(&process).await;

    for (after_ms, ids) in [(30 * DAY_MS, &["a", "b"][..]), (30 * DAY_MS + 1, &[])] {
        process.set_time(NOW + 60_000 + after_ms);
        let next = process.beside().await;
        next.nodes.forget("b");
        next.nodes.forget("a");
        keep(&next).await;
        assert_eq!(next.restart().await.node_ids(), ids, "after {after_ms} ms");
    }
}
