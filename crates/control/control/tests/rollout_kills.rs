//! The process is killed at any write of a rollout: each move is there with its entry of the audit, or
//! neither is, and the next process carries on.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use tollgate_control::app_settings::AppInput;
use tollgate_control::audit::AuditEntry;
use tollgate_control::rollout::{Ask, Plan, PlanInput, State};
use tollgate_control::rollouts::{self, Rollout};
use tollgate_control::{
    Actor, AppDocuments, Claim, Control, KnownNodes, NodeApp, NodeState, Role, Roller, apps, versions,
};
use tollgate_db::TimeSource;
use tollgate_harness::rules::{limit, set_app, write_rule};
use tollgate_harness::{block_on, held, kills, live_node, open_with};

const CHILD: &str = "rollouts_until_it_is_killed";
const NODES: [&str; 3] = ["n1", "n2", "n3"];

async fn open(folder: &Path) -> (Control, Arc<KnownNodes>) {
    let nodes = Arc::new(KnownNodes::default());
    let shown = Arc::<KnownNodes>::clone(&nodes);
    (open_with(folder, TimeSource::Database, shown).await, nodes)
}

fn plan() -> Plan {
    let steps = "1 node\n50 %\nall".to_owned();
    let soak_s = "0".to_owned();
    PlanInput { steps, soak_s, ..PlanInput::default() }.check().expect("a plan")
}

async fn rollout(control: &Control) -> Option<Rollout> {
    control.read(|tx| rollouts::get(tx, &Actor::system(), "shop")).await.ok()
}

fn published(control: &Control) -> AppDocuments {
    control.published().borrow().apps[0].clone()
}

/// Nodes take what they should have; one of them rejects every third candidate.
fn take(control: &Control, nodes: &KnownNodes) {
    let app = published(control);
    for id in NODES {
        let candidate = app.candidate.as_ref().filter(|it| it.reach.includes(id, []));
        let wanted = candidate.map_or(app.version, |it| it.version);
        let rejects = candidate.is_some() && wanted.is_multiple_of(3);
        let acked = if rejects { app.version } else { wanted };
        let fault = rejects.then(|| "is bad".to_owned());
        let fault_version = if rejects { wanted } else { 0 };
        let apps = vec![NodeApp { fault, fault_version, ..held("shop", wanted, acked) }];
        nodes.report(NodeState { apps, ..live_node(id, i64::MAX) });
    }
}

#[test]
#[ignore = "its parent test runs it and kills it: it never ends by itself"]
fn rollouts_until_it_is_killed() {
    let Some(folder) = kills::folder() else { return };
    block_on(async {
        let (control, nodes) = open(&folder).await;
        let mut roller = Roller::take_over(&control).await.expect("taken over");
        for n in 0.. {
            match rollout(&control).await.filter(|it| it.progress.state.is_open()) {
                None => {
                    drop(write_rule(&control, "shop", limit("first", 1 + n % 100)).await.expect("written"))
                }
                Some(open) if n % 11 == 0 => {
                    let ask = if n % 2 == 0 { Ask::Pause } else { Ask::Withdraw("why".to_owned()) };
                    let _ = control.ask_rollout(&Claim::program("tollgate"), "shop", open.etag, ask).await; // or paused
                }
                Some(open) => {
                    let _ = control
                        .ask_rollout(&Claim::program("tollgate"), "shop", open.etag, Ask::Resume)
                        .await; // or runs
                    take(&control, &nodes);
                    roller.look(&control).await.expect("looked");
                }
            }
            println!("did {n}");
        }
    });
}

#[tokio::test]
async fn a_rollout_that_is_killed_is_before_or_after_each_move_and_carries_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (control, _) = open(folder.path()).await;
    write_rule(&control, "shop", limit("first", 1)).await.expect("written");
    set_app(&control, "shop", AppInput { rollout: Some(plan()), ..AppInput::default() }).await;
    drop(control);
    let mut states = BTreeSet::new();
    let mut highest = 0;
    for lines in (1..=24).chain([40, 60]) {
        let _ = kills::kill_after(lines, "did ", CHILD, folder.path());
        let (control, nodes) = open(folder.path()).await;
        let entries = kills::whole_audit(&control).await;
        let all = rollouts_are_whole(&control, &entries).await;
        let shown = published(&control);
        let newest = shown.candidate.as_ref().map_or(shown.version, |it| it.version);
        assert!(newest >= highest, "version {newest} after {highest}");
        highest = newest;
        states.extend(all.iter().map(|it| it.progress.state));
        carry_on(&control, &nodes, all.iter().find(|it| it.progress.state.is_open())).await;
        assert!(published(&control).candidate.is_none(), "{:?}", rollout(&control).await);
    }
    let seen = [State::Running, State::Done, State::Withdrawn].map(|state| states.contains(&state));
    assert_eq!(seen, [true; 3], "{states:?}");
}

/// Holds rollouts to the audit, and what nodes should have to the rollouts, which are returned.
async fn rollouts_are_whole(control: &Control, entries: &[AuditEntry]) -> Vec<Rollout> {
    let read = control.read(|tx| {
        let by = Actor::system();
        let all = rollouts::list(tx, &by, "shop", 500)?;
        let app = apps::get(tx, &by, Role::Viewer, "shop")?;
        Ok((all, app, versions::list(tx, &by, "shop", 500)?))
    });
    let (all, app, made) = read.await.expect("read");
    // Each move of each rollout has exactly one entry.
    let of_rollouts = entries.iter().filter(|it| it.action.starts_with("rollout.")).count() as i64;
    assert_eq!(of_rollouts, all.iter().map(|it| it.etag).sum::<i64>(), "one entry for each etag");
    // Versions have no gap, and what nodes should have is what the database says.
    assert_eq!(made.len() as i64, app.version.min(500));
    let open: Vec<_> = all.iter().filter(|it| it.progress.state.is_open()).collect();
    let shown = published(control);
    match (&*open, &shown.candidate) {
        ([], None) => assert_eq!(shown.version.cast_signed(), app.version),
        ([one], Some(candidate)) => {
            assert_eq!(candidate.version.cast_signed(), one.to_version);
            let before = (shown.version.cast_signed(), &candidate.reach);
            assert_eq!(before, (one.from_version, &one.progress.reach));
        }
        other => panic!("{other:?}"),
    }
    all
}

/// The next process carries on to an end.
async fn carry_on(control: &Control, nodes: &KnownNodes, open: Option<&Rollout>) {
    let mut roller = Roller::take_over(control).await.expect("taken over");
    if let Some(open) = open {
        let program = Claim::program("tollgate");
        let _ = control.ask_rollout(&program, "shop", open.etag, Ask::Resume).await; // or runs
    }
    for _ in 0..12 {
        take(control, nodes);
        roller.look(control).await.expect("looked");
    }
}
