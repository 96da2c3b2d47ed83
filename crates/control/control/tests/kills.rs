//! The process is killed at any write: each change is there with its entry in the audit, or neither is.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use tollgate_control::audit::{Chain, MAX_EXPORT};
use tollgate_control::table_rule::TableRuleInput;
use tollgate_control::tokens::TokenInput;
use tollgate_control::{
    Actor, Claim, Control, KnownNodes, Role, Settings, Who, audit, compile, rules, settings, tokens, users,
};
use tollgate_db::{TimeSource, Tx};

const CHILD: &str = "writes_of_every_kind_until_it_is_killed";

async fn open(folder: &Path) -> Control {
    let nodes = Arc::new(KnownNodes::default());
    Control::open(folder, TimeSource::Database, nodes).await.expect("a database")
}

fn input(key: &str, rate: usize) -> TableRuleInput {
    let key = key.to_owned();
    let rate = rate.to_string();
    TableRuleInput { key, rate, max_permits: "100".to_owned(), ..TableRuleInput::default() }
}

/// One write of each kind, and what it is called.
async fn write(control: &Control, n: usize, of: u32) -> &'static str {
    let by = Who::system();
    let key = format!("k{of}-{n}");
    match n % 7 {
        0 => {
            let create = control.change(move |tx| rules::create(tx, &by.assumed(), "shop", &input(&key, 1)));
            create.await.expect("a rule");
            "rule.create"
        }
        1 => {
            let update = control.change(move |tx| {
                let etag = rules::get(tx, &by.assumed(), "shop", "first")?.etag;
                rules::update(tx, &by.assumed(), "shop", etag, &input("first", of as usize * 100 + n))
            });
            update.await.expect("a rule");
            "rule.update"
        }
        2 => {
            control.invite(&Claim::assumed(&by), &key, "*", "viewer").await.expect("a user");
            "user.create"
        }
        3 => {
            let role = Role::ALL[n % 4];
            let app = format!("a{of}-{n}");
            let set = move |tx: &mut dyn Tx| users::set_role(tx, &by.assumed(), "ann", &app, Some(role));
            control.change(set).await.expect("a role");
            "user.role"
        }
        4 => {
            let kind = "node".to_owned();
            let name = key;
            let made = control
                .create_token(&Claim::assumed(&by), TokenInput { kind, name, ..TokenInput::default() })
                .await;
            let (token, _) = made.expect("a token");
            control.revoke_token(&Claim::assumed(&by), &token.id).await.expect("revoked");
            "token.revoke"
        }
        5 => {
            let (now, etag) = control.read(settings::get).await.expect("settings");
            let new = Settings { login_days: 1 + now.login_days % 30, ..now };
            control.change_settings(&Claim::assumed(&by), etag, new).await.expect("changed");
            "settings.update"
        }
        _ => {
            let left = format!("k{of}-{}", n - 6);
            let delete = control.change(move |tx| {
                let etag = rules::get(tx, &by.assumed(), "shop", &left)?.etag;
                rules::delete(tx, &by.assumed(), "shop", &left, etag)
            });
            delete.await.expect("gone");
            "rule.delete"
        }
    }
}

#[test]
#[ignore = "its parent test runs it and kills it: it never ends by itself"]
fn writes_of_every_kind_until_it_is_killed() {
    let Ok(folder) = std::env::var("TOLLGATE_TEST_FOLDER") else { return }; // not by its parent
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let control = open(Path::new(&folder)).await;
        for n in 0.. {
            println!("did {}", write(&control, n, std::process::id()).await);
        }
    });
}

#[tokio::test]
async fn each_change_is_there_with_its_entry_or_neither_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = open(folder.path()).await;
    control.change(|tx| rules::create(tx, &Actor::system(), "shop", &input("first", 1))).await.expect("made");
    control.create_user(&Claim::program("tollgate"), "ann", "correct horse battery").await.expect("a user");
    drop(control);
    let mut done: HashMap<String, i64> =
        HashMap::from([("rule.create".into(), 1), ("user.create".into(), 1)]);
    // Each round ends within another of the seven kinds, right after the line of the one before.
    for lines in (1..=14).chain([3, 8, 20]) {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--ignored", "--exact", "--nocapture", CHILD])
            .env("TOLLGATE_TEST_FOLDER", folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let kinds = output.lines().map_while(Result::ok);
        let kinds = kinds.filter_map(|line| Some(line.split_once("did ")?.1.to_owned()));
        for kind in kinds.take(lines) {
            *done.entry(kind).or_default() += 1;
        }
        child.kill().expect("killed");
        child.wait().expect("ended");

        let control = open(folder.path()).await;
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
            let table_rules = rules::list(
                tx,
                &by.assumed(),
                &rules::Query { app: "shop".into(), page: 1, size: 500, ..rules::Query::default() },
            )?;
            let of_first = rules::get(tx, &by.assumed(), "shop", "first")?;
            let people = users::list(tx, &by.assumed())?;
            let issued = tokens::list(tx, &by.assumed(), "", 500)?;
            let (_, etag) = settings::get(tx)?;
            Ok((entries, table_rules.rules, of_first, people, issued, etag))
        });
        let (entries, table_rules, of_first, people, issued, etag) = read.await.expect("read");
        let count = |action: &str| entries.iter().filter(|it| it.action == action).count() as i64;
        assert_eq!(chain, Chain::Whole(entries.len() as i64));
        // What the process reported is there.
        for (kind, at_least) in &done {
            assert!(count(kind) >= *at_least, "{kind}: {} of {at_least}", count(kind));
        }
        // What is there has exactly one entry.
        assert_eq!(table_rules.len() as i64, count("rule.create") - count("rule.delete"));
        assert_eq!(of_first.version, count("rule.create") + count("rule.update") + count("rule.delete"));
        assert_eq!((people.len() as i64, etag), (count("user.create"), count("settings.update")));
        let bound: usize = people.iter().map(|it| it.roles.len()).sum();
        assert_eq!(bound as i64, count("user.role"));
        assert_eq!(issued.len() as i64, count("token.create"));
        let revoked = issued.iter().filter(|it| it.revoked_at.is_some()).count();
        assert_eq!(revoked as i64, count("token.revoke"));
        let published = control.published().borrow().apps[0].clone();
        let rows: Vec<_> = table_rules.into_iter().map(|it| it.row).collect();
        assert_eq!(published.version.cast_signed(), of_first.version);
        assert_eq!(compile::documents("shop", &rows).expect("compiled"), published.documents);
        done = done.into_keys().map(|kind| (kind.clone(), count(&kind))).collect();
    }
}
