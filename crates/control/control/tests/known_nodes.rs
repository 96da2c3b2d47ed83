//! Nodes are kept over restarts of the control plane until somebody removes them.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use tollgate_control::{
    Claim, Control, ControlError, Health, InForce, KnownNodes, NodeState, Nodes as _, Role, Who,
};
use tollgate_db::TimeSource;

const NOW: i64 = 1_700_000_000_000;
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

struct Process {
    control: Control,
    nodes: Arc<KnownNodes>,
}

impl Process {
    /// One that knows what the database knows, as the program does it.
    async fn start(folder: &Path, time: &Arc<AtomicI64>) -> Self {
        let nodes = Arc::new(KnownNodes::default());
        let source = TimeSource::Manual(Arc::clone(time));
        let control = Control::open(folder, source, Arc::<KnownNodes>::clone(&nodes)).await.expect("opened");
        for known in control.known_nodes().await.expect("known") {
            assert!(nodes.report(known), "there is room");
        }
        Self { control, nodes }
    }

    async fn keep(&self) {
        self.control.write_nodes_once().await.expect("written");
    }

    fn ids(&self) -> Vec<String> {
        self.nodes.nodes().into_iter().map(|it| it.id).collect()
    }
}

#[tokio::test]
async fn a_node_is_known_over_restarts_until_it_is_removed_or_silent_for_thirty_days() {
    let folder = tempfile::tempdir().expect("a folder");
    let time = Arc::new(AtomicI64::new(NOW));
    let before = Process::start(folder.path(), &time).await;
    before.nodes.report(node("a", NOW));
    before.nodes.report(node("b", NOW));
    before.keep().await;
    drop(before);

    let process = Process::start(folder.path(), &time).await;
    let known = process.nodes.nodes();
    assert_eq!(known, ["a", "b"].map(|id| NodeState { is_connected: false, ..node(id, NOW) }));
    time.store(NOW + 60_000, Relaxed);
    process.nodes.report(node("a", NOW + 60_000));
    let now_ms = time.load(Relaxed);
    let health = process.nodes.nodes().into_iter().map(|it| it.health(now_ms));
    assert_eq!(health.collect::<Vec<_>>(), [Health::Live, Health::Lost]);
    let found = InForce::of(&process.nodes.nodes(), now_ms, |_| true);
    assert_eq!(found, InForce { have: 1, live: 1, offline: 1 });
    assert!(!found.is_everywhere(), "what an offline node has in force is not known");

    let roles = vec![("*".to_owned(), Role::Editor)];
    let editor = Claim::assumed(&Who { name: "eve".to_owned(), roles, ..Who::system() });
    let refused = process.control.remove_node(&editor, "b").await;
    assert!(matches!(refused, Err(ControlError::NoRight { need: Role::Admin, .. })), "{refused:?}");
    let program = Claim::program("tollgate");
    let live = process.control.remove_node(&program, "a").await;
    assert!(matches!(live, Err(ControlError::NodeLive { .. })), "{live:?}");
    assert_eq!(process.ids(), ["a", "b"]);
    let removed = process.control.remove_node(&program, "b").await.expect("removed");
    assert_eq!(removed.name, "name of b");
    let again = process.control.remove_node(&program, "b").await;
    assert!(matches!(again, Err(ControlError::NotFound { .. })), "{again:?}");
    process.keep().await;
    drop(process);
    let process = Process::start(folder.path(), &time).await;
    assert_eq!(process.ids(), ["a"]);
    // One that attaches again is new.
    process.nodes.report(node("b", NOW + 60_000));
    process.keep().await;
    drop(process);

    for (after_ms, ids) in [(30 * DAY_MS, &["a", "b"][..]), (30 * DAY_MS + 1, &[])] {
        time.store(NOW + 60_000 + after_ms, Relaxed);
        let process = Process::start(folder.path(), &time).await;
        process.nodes.forget("b");
        process.nodes.forget("a");
        process.keep().await;
        drop(process);
        assert_eq!(Process::start(folder.path(), &time).await.ids(), ids, "after {after_ms} ms");
    }
}
