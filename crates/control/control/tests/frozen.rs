//! The database is an old copy: apps that nodes hold in a newer version are frozen until an admin decides.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tollgate_control::app_settings::{self, AppInput};
use tollgate_control::changes::ChangeInput;
use tollgate_control::publishing::{self, Intent};
use tollgate_control::table_rule::TableRuleInput;
use tollgate_control::{
    Actor, Claim, Control, ControlError, Document, NodeApp, NodeState, Nodes, Role, Steps, Who, audit,
    problems, rules, thaw, versions,
};
use tollgate_db::TimeSource;
use tollgate_harness::people::user;
use tollgate_harness::rules::{create_rule, file_text, limit, publish, put_file, write_rule};
use tollgate_harness::{held, live_node, open_with};

/// Nodes that say what they hold, truly or not.
#[derive(Default)]
struct Told {
    nodes: Mutex<Vec<NodeState>>,
    documents: Mutex<Vec<Document>>,
    /// The number of times that it was asked for the nodes.
    asked: watch::Sender<usize>,
}

impl Told {
    /// `count` nodes hold these versions and are ahead with them; `others` hold nothing.
    fn hold(&self, count: usize, apps: &[(&str, u64, u64)], others: usize) {
        let app = |(app, wanted, acked): &(&str, u64, u64)| NodeApp {
            is_ahead: true,
            ..held(app, *wanted, *acked)
        };
        let node = |n: usize| NodeState {
            name: format!("node-{n}"),
            apps: if n < count { apps.iter().map(app).collect() } else { Vec::new() },
            ..live_node(&n.to_string(), i64::MAX)
        };
        *self.nodes.lock() = (0..count + others).map(node).collect();
    }
}

impl Nodes for Told {
    fn nodes(&self) -> Vec<NodeState> {
        self.asked.send_modify(|asked| *asked += 1);
        self.nodes.lock().clone()
    }

    fn command<'a>(
        &'a self,
        node: &'a str,
        kind: &'static str,
        body: String,
        _: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<String, String>> + Send + 'a>> {
        Box::pin(async move {
            assert_eq!((kind, &*body), ("documents", r#"{"app":"shop"}"#));
            if node != "0" {
                return Err("the node is not connected".to_owned());
            }
            let documents = self.documents.lock();
            let documents: Vec<_> =
                documents.iter().map(|it| json!({"domain": it.domain(), "yaml": it.yaml()})).collect();
            Ok(json!({"version": 5, "documents": documents}).to_string())
        })
    }
}

async fn open(folder: &Path, nodes: &Arc<Told>) -> Control {
    let control = open_with(folder, TimeSource::Database, Arc::clone(nodes) as _).await;
    control.set_steps(Steps { most_at_once: 0, of_one: 1 }); // every change is a large one
    control
}

fn row(key: &str, rate: &str, description: &str) -> TableRuleInput {
    let [rate, description] = [rate, description].map(str::to_owned);
    TableRuleInput { rate, description, pre_permits: "3".to_owned(), ..limit(key, 1) }
}

/// An old copy of a database, and what the real one had later.
async fn old_copy(nodes: &Arc<Told>) -> (tempfile::TempDir, Vec<Document>) {
    let real = tempfile::tempdir().expect("a folder");
    let copy = tempfile::tempdir().expect("a folder");
    let control = open(real.path(), nodes).await;
    create_rule(&control, "shop", row("push", "5", "kept")).await.expect("version 1");
    create_rule(&control, "shop", row("gone", "5", "")).await.expect("version 2");
    create_rule(&control, "bank", row("pay", "5", "")).await.expect("another app");
    let file = rusqlite::Connection::open(real.path().join("control.db")).expect("the database");
    let to = copy.path().join("control.db").display().to_string();
    file.execute("VACUUM INTO ?1", [to]).expect("a copy");
    let trial_rate = "9".to_owned();
    let trial_max_permits = "30".to_owned();
    let tried = TableRuleInput { trial_rate, trial_max_permits, ..row("push", "7", "changed") };
    write_rule(&control, "shop", tried).await.expect("version 3");
    let gone = control.commit(|tx| rules::delete(tx, &Actor::system(), "shop", "gone", 2));
    gone.await.expect("version 4");
    let [per, need_permits, bucket, post_paid] = ["user", "2", "pool", "true"].map(str::to_owned);
    let state = "shadow".to_owned();
    let per = TableRuleInput { per, need_permits, bucket, post_paid, state, ..row("per", "9", "") };
    create_rule(&control, "shop", per).await.expect("version 5");
    let file = put_file("web", None, &file_text("web", 5)).expect("a file");
    publish(&control, "shop", &[file]).await.expect("version 6");
    let held =
        control.read(|tx| versions::documents(tx, &Actor::system(), "shop", 6)).await.expect("documents");
    (copy, held)
}

async fn frozen_apps(control: &Control) -> Vec<String> {
    let found = control.problems(&Claim::program("tollgate")).await.expect("read");
    let frozen =
        found.into_iter().filter(|it| it.kind == problems::ProblemKind::FrozenApp && it.node.is_empty());
    frozen.map(|it| it.app).collect()
}

#[tokio::test]
async fn a_frozen_app_takes_no_change_and_the_others_do_until_it_is_taken_over_from_a_node() {
    let nodes = Arc::<Told>::default();
    let (folder, real) = old_copy(&nodes).await;
    let control = open(folder.path(), &nodes).await;
    create_rule(&control, "shop", row("before", "1", "")).await.expect("not frozen yet");
    nodes.hold(3, &[("shop", 3, 6)], 2);
    (*nodes.documents.lock()).clone_from(&real);
    // Nobody has looked for problems yet: the nodes are asked within the change.
    let asked = create_rule(&control, "shop", row("silent", "1", "")).await.expect_err("frozen");
    assert!(matches!(asked, ControlError::Frozen { held: 6, version: 3, .. }), "{asked}");
    assert_eq!(frozen_apps(&control).await, ["shop"]);
    let is_frozen = |error: &ControlError| matches!(error, ControlError::Frozen { held: 6, version: 3, .. });
    assert!(is_frozen(&create_rule(&control, "shop", row("more", "1", "")).await.expect_err("frozen")));
    let rolled = control.commit(|tx| versions::rollback(tx, &Actor::system(), "shop", 3, 1, "why")).await;
    assert!(is_frozen(&rolled.expect_err("frozen")));
    let off = AppInput { state: "disabled".to_owned(), ..AppInput::default() };
    let disabled =
        control.commit(move |tx| app_settings::update(tx, &Actor::system(), "shop", 1, &off)).await;
    assert!(is_frozen(&disabled.expect_err("frozen")));
    create_rule(&control, "bank", row("more", "1", "")).await.expect("of another app");
    // It stays frozen when the nodes are away, and after a restart.
    nodes.hold(0, &[], 0);
    drop(control);
    let control = open(folder.path(), &nodes).await;
    assert_eq!(frozen_apps(&control).await, ["shop"]);
    assert!(create_rule(&control, "shop", row("more", "1", "")).await.is_err());

    let by = Who::system();
    let silent = control.take_over(&Claim::assumed(&by), "shop", "1", "why").await;
    assert!(matches!(silent, Err(ControlError::Unanswered { .. })), "{silent:?}");
    assert!(matches!(
        control.take_over(&Claim::assumed(&by), "shop", "0", " ").await,
        Err(ControlError::Invalid(_))
    ));
    let approver = user("bob", Role::Approver, "shop");
    let denied = control.take_over(&Claim::assumed(&approver), "shop", "0", "why").await;
    assert!(matches!(denied, Err(ControlError::NoRight { need: Role::Admin, .. })));
    assert_eq!(
        control.take_over(&Claim::assumed(&by), "shop", "0", "the copy is old").await.expect("taken over"),
        7
    );
    let published = control.published().borrow().clone();
    let shop = published.apps.iter().find(|it| it.app == "shop").expect("published");
    let documents = |list: &[Document]| {
        let mut list: Vec<_> = list.iter().map(|it| (it.domain().to_owned(), it.yaml().to_owned())).collect();
        list.sort();
        list
    };
    assert_eq!((shop.version, documents(&shop.documents)), (7, documents(&real)));
    let of =
        |key: &'static str| control.read(move |tx| Ok(rules::get(tx, &Actor::system(), "shop", key)?.row));
    let push = of("push").await.expect("there");
    assert_eq!(
        (push.rate, push.pre_permits, &*push.description),
        (7, 3, "kept"),
        "nodes have no descriptions"
    );
    let per = of("per").await.expect("there");
    assert_eq!((per.rate, &*per.per, &*per.state), (9, "user", "shadow"));
    assert_eq!((per.need_permits, &*per.bucket, per.post_paid), (2, "pool", true));
    for switched_off in ["gone", "before"] {
        assert_eq!(of(switched_off).await.expect("there").state, "off", "{switched_off}");
    }
    assert!(frozen_apps(&control).await.is_empty());
    create_rule(&control, "shop", row("more", "1", "")).await.expect("not frozen any more");
    let again = control.commit(|tx| thaw::force(tx, &Actor::system(), "shop", "why")).await;
    assert!(matches!(again, Err(ControlError::NotFound { what: "frozen app", .. })));
    let chain = control.read(|tx| audit::verify(tx, &Actor::system())).await.expect("walked");
    assert!(matches!(chain, audit::Chain::Whole(_)));
}

#[tokio::test]
async fn what_the_database_has_is_forced_as_a_version_above_all_that_nodes_hold() {
    let nodes = Arc::<Told>::default();
    let (folder, _) = old_copy(&nodes).await;
    let control = open(folder.path(), &nodes).await;
    // `new` was made after the copy: this database does not know it.
    nodes.hold(1, &[("shop", 2, 6), ("new", 0, 4)], 0);
    assert_eq!(frozen_apps(&control).await, ["new", "shop"]);
    let before =
        control.published().borrow().apps.iter().find(|it| it.app == "shop").cloned().expect("there");
    for (app, version) in [("shop", 7), ("new", 5)] {
        let forced = control.commit(move |tx| thaw::force(tx, &Actor::system(), app, "the copy counts"));
        assert_eq!(forced.await.expect("forced"), version);
    }
    let published = control.published().borrow().clone();
    let of = |app: &str| published.apps.iter().find(|it| it.app == app).cloned().expect("published");
    assert_eq!((of("shop").version, of("shop").documents), (7, before.documents));
    assert_eq!((of("new").version, of("new").documents.len()), (5, 0), "the nodes drop its rules");
    nodes.hold(1, &[], 0);
    assert!(frozen_apps(&control).await.is_empty());
    create_rule(&control, "new", row("a", "1", "")).await.expect("an app like others");
    let listed = control.read(|tx| versions::list(tx, &Actor::system(), "shop", 9)).await.expect("versions");
    let listed: Vec<_> = listed.iter().map(|it| (it.version, &*it.kind)).collect();
    assert_eq!(listed, [(7, "force"), (2, "publish"), (1, "publish")]);
    // A later roll back across the gap works.
    let rolled = control.commit(|tx| versions::rollback(tx, &Actor::system(), "shop", 7, 1, "why"));
    assert_eq!(rolled.await.expect("rolled back"), 8);
}

#[tokio::test]
async fn one_node_that_lies_freezes_nothing() {
    let nodes = Arc::<Told>::default();
    let (folder, _) = old_copy(&nodes).await;
    let control = open(folder.path(), &nodes).await;
    for (holders, apps, others) in [
        (1, ("shop", 2, 6), 1),                // one of two is no majority
        (2, ("shop", 2, u64::MAX), 0),         // no version that there could be
        (2, ("shop", 2, 2_000_000), 0),        // nor one so far away
        (2, ("no app of this kind", 0, 3), 0), // nor a name
        (0, ("shop", 2, 6), 3),
    ] {
        nodes.hold(holders, &[apps], others);
        assert!(frozen_apps(&control).await.is_empty(), "{holders} {apps:?} {others}");
    }
    create_rule(&control, "shop", row("more", "1", "")).await.expect("a change");
}

#[tokio::test]
async fn an_admin_decides_also_about_what_few_nodes_hold() {
    let nodes = Arc::<Told>::default();
    let (folder, _) = old_copy(&nodes).await;
    let control = open(folder.path(), &nodes).await;
    nodes.hold(1, &[("shop", 2, 6)], 3);
    assert!(frozen_apps(&control).await.is_empty(), "one of four");
    create_rule(&control, "shop", row("more", "1", ""))
        .await
        .expect("a change, which that node does not get");
    let forced = control.commit(|tx| thaw::force(tx, &Actor::system(), "shop", "the database counts"));
    assert_eq!(forced.await.expect("forced"), 7);
    let published = control.published().borrow().clone();
    let shop = published.apps.iter().find(|it| it.app == "shop").expect("there");
    assert_eq!((shop.version, shop.forced), (7, 7), "nodes may replace what they hold below this version");
    // Before the nodes have it, they still say that they are ahead.
    create_rule(&control, "shop", row("next", "1", "")).await.expect("a change right after the decision");
    drop(control);
    let control = open(folder.path(), &nodes).await;
    let published = control.published().borrow().clone();
    let shop = published.apps.iter().find(|it| it.app == "shop").expect("there");
    assert_eq!((shop.version, shop.forced), (8, 7), "the decision outlives a restart");
    let past = control.past().await.expect("read");
    let of_shop = past.iter().find(|it| it.app == "shop").expect("there");
    let versions: Vec<_> = of_shop.versions.iter().map(|(version, _)| *version).collect();
    assert_eq!((versions, of_shop.from), (vec![8, 7, 3, 2, 1], 0));
}

#[tokio::test]
async fn changes_wait_for_the_nodes_that_were_there_and_no_longer_than_they_are_told() {
    let there = &["0", "1"][..];
    for (reported, attached, after_ms, is_done) in [
        (&[][..], 0, 0, true), // a first installation
        (there, 2, 0, true),   // an ordinary restart
        (there, 1, 0, false),
        (there, 1, 2_999, false),
        (there, 1, 3_000, true), // one does not come back
        (there, 0, 2_999, false),
        (there, 0, 3_000, true),
        (there, 0, -1, true), // the clock was set back
    ] {
        let nodes = Arc::<Told>::default();
        let (folder, _) = old_copy(&nodes).await;
        let now = Arc::new(AtomicI64::new(1_000_000));
        let time = TimeSource::Manual(Arc::clone(&now));
        let control = Arc::new(open_with(folder.path(), time, Arc::clone(&nodes) as _).await);
        let file = rusqlite::Connection::open(folder.path().join("control.db")).expect("the database");
        let gone = (!reported.is_empty()).then_some(("gone", 840_000));
        for (node, at) in reported.iter().map(|node| (*node, 900_000)).chain(gone) {
            let values = (node, 1, 1, at);
            file.execute("INSERT INTO reported VALUES (?1, ?2, ?3, ?4)", values).expect("a report");
        }
        control.wait_for_nodes(Duration::from_secs(3)).await.expect("read");
        nodes.hold(0, &[], attached);
        now.fetch_add(after_ms, Relaxed);
        let making = Arc::clone(&control);
        let tries = Arc::new(AtomicI64::new(0));
        let tried = Arc::clone(&tries);
        let change = tokio::spawn(async move {
            let work = move |tx: &mut dyn tollgate_db::Tx| {
                tried.fetch_add(1, Relaxed);
                rules::create(tx, &Actor::system(), "shop", &row("more", "1", ""))
            };
            making.commit(work).await
        });
        if !is_done {
            // What publishes nothing does not wait; it comes after the change in the queue of the database.
            let draft = ChangeInput { title: "later".to_owned(), ..ChangeInput::default() };
            let draft = control
                .commit(move |tx| publishing::propose(tx, &Actor::system(), "shop", &draft, Intent::Draft));
            draft.await.expect("a draft");
            let awaited = control.awaited(1_000_000 + after_ms).expect("nodes are missing");
            assert_eq!((awaited.missing, awaited.of), (2 - attached, 2));
            assert_eq!(awaited.left_ms, 3_000 - after_ms);
            let found = control.problems(&Claim::program("tollgate")).await.expect("read");
            let shown =
                found.iter().find(|it| it.kind == problems::ProblemKind::AwaitedNodes).expect("shown");
            assert_eq!(shown.value, (awaited.left_ms + 999) / 1_000, "seconds");
            let mut asked = nodes.asked.subscribe();
            let looks = *asked.borrow() + 5;
            asked.wait_for(|asked| *asked >= looks).await.expect("the change looks again and again");
            assert!(!change.is_finished(), "{attached} after {after_ms} ms");
            assert_eq!(tries.load(Relaxed), 1, "a large change would keep all others waiting each time");
            nodes.hold(0, &[], 2);
        }
        change.await.expect("ended").expect("changed");
        assert_eq!(tries.load(Relaxed), 1 + i64::from(!is_done));
        assert!(control.awaited(1_000_000).is_none(), "never again");
    }
}
