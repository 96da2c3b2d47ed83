//! The process is killed at any write: each change is there with its entry in the audit, or neither is.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::collections::HashMap;

use tollgate_control::tokens::TokenInput;
use tollgate_control::{Claim, Control, Role, Settings, Who, compile, rules, settings, tokens, users};
use tollgate_db::Tx;
use tollgate_harness::people::PASSWORD;
use tollgate_harness::rules::{all_of, create_rule, limit, write_rule};
use tollgate_harness::{block_on, kills, open};

const CHILD: &str = "writes_of_every_kind_until_it_is_killed";

/// One write of each kind, and what it is called.
async fn write(control: &Control, n: usize, of: u32) -> &'static str {
    let by = Who::system();
    let key = format!("k{of}-{n}");
    match n % 7 {
        0 => {
            create_rule(control, "shop", limit(&key, 1)).await.expect("a rule");
            "rule.create"
        }
        1 => {
            let rate = i64::from(of) * 100 + n as i64;
            write_rule(control, "shop", limit("first", rate)).await.expect("a rule");
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
            control.commit(set).await.expect("a role");
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
            let delete = control.commit(move |tx| {
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
    let Some(folder) = kills::folder() else { return };
    block_on(async {
        let control = open(&folder).await;
        for n in 0.. {
            println!("did {}", write(&control, n, std::process::id()).await);
        }
    });
}

#[tokio::test]
async fn each_change_is_there_with_its_entry_or_neither_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = open(folder.path()).await;
    create_rule(&control, "shop", limit("first", 1)).await.expect("made");
    control.create_user(&Claim::program("tollgate"), "ann", PASSWORD).await.expect("a user");
    drop(control);
    let mut done: HashMap<String, i64> =
        HashMap::from([("rule.create".into(), 1), ("user.create".into(), 1)]);
    // Each round ends within another of the seven kinds, right after the line of the one before.
    for lines in (1..=14).chain([3, 8, 20]) {
        for kind in kills::kill_after(lines, "did ", CHILD, folder.path()) {
            *done.entry(kind).or_default() += 1;
        }
        let control = open(folder.path()).await;
        let entries = kills::whole_audit(&control).await;
        let by = Who::system();
        let read = control.read(move |tx| {
            let table_rules = rules::list(tx, &by.assumed(), &all_of("shop"))?;
            let of_first = rules::get(tx, &by.assumed(), "shop", "first")?;
            let people = users::list(tx, &by.assumed())?;
            let issued = tokens::list(tx, &by.assumed(), "", 500)?;
            let (_, etag) = settings::get(tx)?;
            Ok((table_rules.rules, of_first, people, issued, etag))
        });
        let (table_rules, of_first, people, issued, etag) = read.await.expect("read");
        let count = |action: &str| entries.iter().filter(|it| it.action == action).count() as i64;
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
