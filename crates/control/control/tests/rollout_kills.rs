//! The process is killed at any write of a rollout: each move is there with its entry of the audit, or
//! neither is, and the next process carries on.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use tollgate_control::app_settings::{self, AppInput};
use tollgate_control::audit::{Chain, MAX_EXPORT};
use tollgate_control::rollout::{Ask, Plan, PlanInput, State};
use tollgate_control::rollouts::{self, Rollout};
use tollgate_control::table_rule::TableRuleInput;
use tollgate_control::{
    Actor, AppDocuments, Claim, Control, KnownNodes, NodeApp, NodeState, Role, Roller, Who, apps, audit,
    rules, versions,
};
use tollgate_db::TimeSource;

const CHILD: &str = "rollouts_until_it_is_killed";
const NODES: [&str; 3] = ["n1", "n2", "n3"];

async fn open(folder: &Path) -> (Control, Arc<KnownNodes>) {
    let nodes = Arc::new(KnownNodes::default());
    let shown = Arc::<KnownNodes>::clone(&nodes);
    (Control::open(folder, TimeSource::Database, shown).await.expect("a database"), nodes)
}

fn plan() -> Plan {
    let steps = "1 node\n50 %\nall".to_owned();
    let soak_s = "0".to_owned();
    PlanInput { steps, soak_s, ..PlanInput::default() }.check().expect("a plan")
}

async fn write(control: &Control, rate: i64) {
    let key = "first".to_owned();
    let rate = rate.to_string();
    let input = TableRuleInput { key, rate, max_permits: "100".to_owned(), ..TableRuleInput::default() };
    let write = control.change(move |tx| match rules::get(tx, &Actor::system(), "shop", "first") {
        Ok(now) => rules::update(tx, &Actor::system(), "shop", now.etag, &input),
        Err(_) => rules::create(tx, &Actor::system(), "shop", &input),
    });
    write.await.expect("written");
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
        nodes.report(NodeState {
            id: id.to_owned(),
            is_connected: true,
            last_seen_ms: i64::MAX,
            apps: vec![NodeApp {
                app: "shop".to_owned(),
                wanted,
                acked,
                fault: rejects.then(|| "is bad".to_owned()),
                fault_version: if rejects { wanted } else { 0 },
                ..NodeApp::default()
            }],
            ..NodeState::default()
        });
    }
}

#[test]
#[ignore = "its parent test runs it and kills it: it never ends by itself"]
fn rollouts_until_it_is_killed() {
    let Ok(folder) = std::env::var("TOLLGATE_TEST_FOLDER") else { return }; // not by its parent
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let (control, nodes) = open(Path::new(&folder)).await;
        let mut roller = Roller::take_over(&control).await.expect("taken over");
        for n in 0.. {
            match rollout(&control).await.filter(|it| it.progress.state.is_open()) {
                None => write(&control, 1 + n % 100).await,
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
    write(&control, 1).await;
    let set = control.change(|tx| {
        let etag = apps::get(tx, &Actor::system(), Role::Admin, "shop")?.etag;
        let input = AppInput { rollout: Some(plan()), ..AppInput::default() };
        app_settings::update(tx, &Actor::system(), "shop", etag, &input)
    });
    set.await.expect("a plan");
    drop(control);
    let mut states = std::collections::BTreeSet::new();
    let mut highest = 0;
    for lines in (1..=24).chain([40, 60]) {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--ignored", "--exact", "--nocapture", CHILD])
            .env("TOLLGATE_TEST_FOLDER", folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let did = output.lines().map_while(Result::ok).filter(|line| line.contains("did ")).take(lines);
        assert_eq!(did.count(), lines);
        child.kill().expect("killed");
        child.wait().expect("ended");

        let (control, nodes) = open(folder.path()).await;
        let by = Who::system();
        let chain = control.verify_audit(&Claim::assumed(&by), |_, _| {}).await.expect("walked");
        assert!(control.compare_rows(&Claim::assumed(&by)).await.expect("compared").is_whole());
        let read = control.read(move |tx| {
            let mut entries = Vec::new();
            let mut after = 0;
            loop {
                let part = audit::export(tx, &by.assumed(), after, MAX_EXPORT)?;
                let Some(last) = part.last() else { break };
                after = last.seq;
                entries.extend(part);
            }
            let all = rollouts::list(tx, &by.assumed(), "shop", 500)?;
            let app = apps::get(tx, &by.assumed(), Role::Viewer, "shop")?;
            let made = versions::list(tx, &by.assumed(), "shop", 500)?;
            Ok((entries, all, app, made))
        });
        let (entries, all, app, made) = read.await.expect("read");
        assert_eq!(chain, Chain::Whole(entries.len() as i64));
        // Each move of each rollout has exactly one entry.
        let of_rollouts = entries.iter().filter(|it| it.action.starts_with("rollout.")).count() as i64;
        assert_eq!(of_rollouts, all.iter().map(|it| it.etag).sum::<i64>(), "one entry for each etag");
        // Versions have no gap, and what nodes should have is what the database says.
        assert_eq!(made.len() as i64, app.version.min(500));
        let open: Vec<_> = all.iter().filter(|it| it.progress.state.is_open()).collect();
        let shown = published(&control);
        match (&*open, &shown.candidate) {
            ([], None) => assert_eq!(shown.version.cast_signed(), app.version),
            ([one], Some(candidate)) => {
                assert_eq!(candidate.version.cast_signed(), one.to_version);
                assert_eq!(
                    (shown.version.cast_signed(), &candidate.reach),
                    (one.from_version, &one.progress.reach)
                );
            }
            other => panic!("{other:?}"),
        }
        let newest = shown.candidate.as_ref().map_or(shown.version, |it| it.version);
        assert!(newest >= highest, "version {newest} after {highest}");
        highest = newest;
        states.extend(all.iter().map(|it| it.progress.state));
        // The next process carries on to an end.
        let mut roller = Roller::take_over(&control).await.expect("taken over");
        if let Some(open) = open.first() {
            let _ = control.ask_rollout(&Claim::program("tollgate"), "shop", open.etag, Ask::Resume).await; // or runs
        }
        for _ in 0..12 {
            take(&control, &nodes);
            roller.look(&control).await.expect("looked");
        }
        assert!(published(&control).candidate.is_none(), "{:?}", rollout(&control).await);
    }
    let seen = [State::Running, State::Done, State::Withdrawn].map(|state| states.contains(&state));
    assert_eq!(seen, [true; 3], "{states:?}");
}
