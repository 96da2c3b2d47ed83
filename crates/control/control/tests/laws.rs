//! Laws over several calls: rights, the audit chain, versions, kills.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use proptest::prelude::*;
use tollgate_control::audit::{self, Chain};
use tollgate_control::table_rule::{TableRule, Trial};
use tollgate_control::{
    Actor, Claim, Committed, ControlError, Held, Origin, Role, Settings, Who, app_settings, apps, compile,
    rules, settings, trials, users, versions,
};
use tollgate_core::Algorithm;
use tollgate_db::Tx;
use tollgate_harness::people::{PASSWORD, stranger, user};
use tollgate_harness::rules::{create_rule, limit};
use tollgate_harness::{ControlPlane, block_on, kills, open};
use tollgate_policy::{Entry, Rule};

/// An operation: its name, the least role in the app, whether that must be over all apps, and the call.
type Operation = (&'static str, Role, bool, fn(&mut dyn Tx, &Actor) -> Result<(), ControlError>);

const OPERATIONS: &[Operation] = &[
    ("app", Role::Viewer, false, |tx, by| apps::get(tx, by, Role::Viewer, "shop").map(drop)),
    ("rule", Role::Viewer, false, |tx, by| rules::get(tx, by, "shop", "a").map(drop)),
    ("versions", Role::Viewer, false, |tx, by| versions::list(tx, by, "shop", 10).map(drop)),
    ("documents", Role::Viewer, false, |tx, by| versions::documents(tx, by, "shop", 1).map(drop)),
    ("audit of app", Role::Viewer, false, |tx, by| audit::list(tx, by, "shop", "", 0, 10).map(drop)),
    ("create rule", Role::Editor, false, |tx, by| rules::create(tx, by, "shop", &limit("b", 1)).map(drop)),
    ("update rule", Role::Editor, false, |tx, by| rules::update(tx, by, "shop", 1, &limit("a", 2)).map(drop)),
    ("delete rule", Role::Editor, false, |tx, by| rules::delete(tx, by, "shop", "a", 1).map(drop)),
    ("trial", Role::Editor, false, |tx, by| {
        let rate = "5".to_owned();
        let max_permits = "100".to_owned();
        trials::change(tx, by, ("shop", "a"), 1, &trials::TrialStep::Start { rate, max_permits }).map(drop)
    }),
    ("compare trial", Role::Viewer, false, |tx, by| trials::compared(tx, by, "shop", "a").map(drop)),
    ("roll back", Role::Editor, false, |tx, by| versions::rollback(tx, by, "shop", 2, 1, "why").map(drop)),
    ("new app by rule", Role::Editor, true, |tx, by| rules::create(tx, by, "new", &limit("a", 1)).map(drop)),
    ("update app", Role::Admin, false, |tx, by| {
        app_settings::update(tx, by, "shop", 1, &app_settings::AppInput::default()).map(drop)
    }),
    ("create app", Role::Admin, true, |tx, by| apps::create(tx, by, "new", "").map(drop)),
    ("users", Role::Admin, true, |tx, by| users::list(tx, by).map(drop)),
    ("set role", Role::Admin, true, |tx, by| {
        users::set_role(tx, by, "ann", "shop", Some(Role::Admin)).map(drop)
    }),
    ("disable user", Role::Admin, true, |tx, by| users::set_active(tx, by, "ann", false).map(drop)),
    ("one user", Role::Admin, true, |tx, by| users::get(tx, by, "ann").map(drop)),
    ("page of users", Role::Admin, true, |tx, by| users::page(tx, by, "", 10).map(drop)),
    ("export audit", Role::Admin, true, |tx, by| audit::export(tx, by, 0, 10).map(drop)),
    ("settings", Role::Admin, true, |tx, by| {
        let new = Settings { login_days: 3, ..Settings::default() };
        settings::update(tx, by, 0, &new).map(drop)
    }),
    ("keys", Role::Viewer, false, |tx, by| rules::keys(tx, by, "shop").map(drop)),
    ("whole audit", Role::Admin, true, |tx, by| audit::list(tx, by, "", "", 0, 10).map(drop)),
    ("verify audit", Role::Admin, true, |tx, by| audit::verify(tx, by).map(drop)),
];

#[tokio::test]
async fn every_operation_asks_for_its_role_whoever_calls() {
    let control = ControlPlane::in_real_time().await;
    let first = create_rule(&control, "shop", limit("a", 1)).await;
    assert_eq!(first.expect("a rule").etag, 1);
    create_rule(&control, "shop", limit("c", 1)).await.expect("a rule");
    control.create_user(&Claim::program("tollgate"), "ann", PASSWORD).await.expect("a user");
    for (name, need, is_global, call) in OPERATIONS {
        for bound in ["*", "shop", "other"] {
            for role in [None].into_iter().chain(Role::ALL.map(Some)) {
                let by = role.map_or_else(|| stranger("u"), |role| user("u", role, bound));
                let is_in_reach = bound == "*" || (bound == "shop" && !is_global);
                let want = is_in_reach && role.is_some_and(|role| role >= *need);
                // The error at the end undoes what the call did.
                let done = control.commit(move |tx| -> Result<Committed<()>, ControlError> {
                    call(tx, &by.assumed())?;
                    Err(ControlError::Hash)
                });
                match done.await.expect_err("undone") {
                    ControlError::Hash => assert!(want, "{name} by {role:?} of {bound}"),
                    ControlError::NoRight { .. } => assert!(!want, "{name} by {role:?} of {bound}"),
                    other => panic!("{name} by {role:?} of {bound}: {other}"),
                }
            }
        }
    }
}

#[tokio::test]
async fn a_list_shows_only_apps_that_the_actor_may_see() {
    let control = ControlPlane::in_real_time().await;
    for app in ["shop", "bank"] {
        create_rule(&control, app, limit("a", 1)).await.expect("a rule");
    }
    let ann = control.create_user(&Claim::program("tollgate"), "ann", PASSWORD).await.expect("a user");
    control
        .commit(|tx| users::set_role(tx, &Actor::system(), "ann", "shop", Some(Role::Viewer)))
        .await
        .expect("a role");
    let by = Who { user_id: ann.id, ..user("ann", Role::Viewer, "shop") };
    let all = rules::Query { page: 9, size: 10, ..rules::Query::default() };
    let page = control.read(move |tx| rules::list(tx, &by.assumed(), &all)).await.expect("a page");
    assert_eq!((page.rules.len(), page.total, page.page), (1, 1, 1));
    assert_eq!(page.rules[0].app, "shop");
}

#[tokio::test]
async fn the_last_admin_stays() {
    let control = ControlPlane::in_real_time().await;
    control.create_user(&Claim::program("tollgate"), "ann", PASSWORD).await.expect("a user");
    let admin = |tx: &mut dyn Tx| users::set_role(tx, &Actor::system(), "ann", "*", Some(Role::Admin));
    control.commit(admin).await.expect("a role");
    let demoted = control.commit(|tx| users::set_role(tx, &Actor::system(), "ann", "*", None)).await;
    assert!(matches!(demoted, Err(ControlError::Invalid(_))));
    let disabled = control.commit(|tx| users::set_active(tx, &Actor::system(), "ann", false)).await;
    assert!(matches!(disabled, Err(ControlError::Invalid(_))));
}

#[tokio::test]
async fn who_was_only_invited_does_not_replace_the_last_admin_with_a_password() {
    let control = ControlPlane::in_real_time().await;
    let system = Claim::program("tollgate");
    control.create_user(&system, "ann", PASSWORD).await.expect("a user");
    let role = |name: &'static str, role| {
        control.commit_as(&system, move |tx, by| users::set_role(tx, by, name, "*", role))
    };
    role("ann", Some(Role::Admin)).await.expect("a role");
    let (_, code) = control.invite(&system, "bob", "*", "admin").await.expect("invited");
    assert!(
        matches!(role("ann", Some(Role::Editor)).await, Err(ControlError::Invalid(_))),
        "bob may never come"
    );
    role("bob", None).await.expect("ann stays");
    role("bob", Some(Role::Admin)).await.expect("a role");
    let password = "another good password";
    let chosen = control.redeem_link(Origin::default(), &code, password, password, Held::Kept);
    chosen.await.expect("a password");
    role("ann", Some(Role::Editor)).await.expect("bob is there");
    let disabled = control.commit_as(&system, |tx, by| users::set_active(tx, by, "bob", false)).await;
    assert!(matches!(disabled, Err(ControlError::Invalid(_))));
}

#[tokio::test]
async fn a_rollback_is_a_new_version_with_the_old_content() {
    let control = ControlPlane::in_real_time().await;
    let by = Who::system;
    create_rule(&control, "shop", limit("a", 1)).await.expect("version 1");
    create_rule(&control, "shop", limit("b", 2)).await.expect("version 2");
    let two = control.published().borrow().apps[0].documents.clone();
    control
        .commit(move |tx| rules::update(tx, &by().assumed(), "shop", 1, &limit("a", 7)))
        .await
        .expect("version 3");
    control.commit(move |tx| rules::delete(tx, &by().assumed(), "shop", "b", 2)).await.expect("version 4");
    create_rule(&control, "shop", limit("b", 9)).await.expect("version 5");
    control
        .commit(move |tx| versions::rollback(tx, &by().assumed(), "shop", 5, 2, "worse"))
        .await
        .expect("version 6");
    let now = control.published().borrow().apps[0].clone();
    assert_eq!((now.version, &now.documents), (6, &two));
    // An etag of before the deletion is not that of the row that came back.
    let old = control.commit(move |tx| rules::delete(tx, &by().assumed(), "shop", "b", 2)).await;
    assert!(matches!(old, Err(ControlError::Stale { expected: 2, now: 6 })));
    let stale = control.commit(move |tx| versions::rollback(tx, &by().assumed(), "shop", 5, 1, "late")).await;
    assert!(matches!(stale, Err(ControlError::Stale { .. })));
    // A restart publishes the same.
    assert_eq!(control.restart().await.published().borrow().apps, [now]);
}

#[tokio::test]
async fn an_altered_audit_entry_breaks_the_chain_and_the_table_rejects_it() {
    let control = ControlPlane::in_real_time().await;
    for key in ["a", "b", "c"] {
        create_rule(&control, "shop", limit(key, 1)).await.expect("made");
    }
    let verify = || control.read(|tx| audit::verify(tx, &Actor::system()));
    assert_eq!(verify().await.expect("read"), Chain::Whole(4));
    let raw = control.file();
    for statement in ["UPDATE audit SET actor = 'eve' WHERE seq = 2", "DELETE FROM audit WHERE seq = 2"] {
        let rejected = raw.execute(statement, []).expect_err("append-only").to_string();
        assert!(rejected.contains("audit entries are never"), "{rejected}");
    }
    raw.execute_batch("DROP TRIGGER audit_is_never_changed; DROP TRIGGER audit_is_never_removed;")
        .expect("dropped");
    raw.execute_batch("CREATE TABLE copy AS SELECT * FROM audit WHERE seq = 1; UPDATE copy SET seq = 0")
        .expect("a forged entry");
    for (alter, undo, broken) in [
        ("UPDATE audit SET actor = 'eve' WHERE seq = 2", "UPDATE audit SET actor = 'tollgate'", 2),
        ("UPDATE audit SET at = at + 1 WHERE seq = 3", "UPDATE audit SET at = at - 1 WHERE seq = 3", 3),
        ("UPDATE audit SET app = NULL WHERE seq = 1", "UPDATE audit SET app = 'shop' WHERE seq = 1", 1),
        ("UPDATE audit SET seq = 9 WHERE seq = 4", "UPDATE audit SET seq = 4 WHERE seq = 9", 4),
        ("UPDATE audit SET reason = X'00' WHERE seq = 2", "UPDATE audit SET reason = ''", 2),
        (
            "UPDATE audit SET at = X'00' WHERE seq = 1",
            "UPDATE audit SET at = (SELECT at FROM copy) WHERE seq = 1",
            1,
        ),
        ("UPDATE audit SET seq = 'x' WHERE seq = 4", "UPDATE audit SET seq = 4 WHERE seq = 'x'", 0),
        ("UPDATE audit SET seq = 4.5 WHERE seq = 4", "UPDATE audit SET seq = 4 WHERE seq = 4.5", 4),
        ("INSERT INTO audit SELECT * FROM copy", "DELETE FROM audit WHERE seq = 0", 0),
        (
            "UPDATE copy SET seq = -7; INSERT INTO audit SELECT * FROM copy",
            "DELETE FROM audit WHERE seq < 0",
            0,
        ),
        ("DELETE FROM audit WHERE seq = 4", "", 4),
    ] {
        raw.execute_batch(alter).expect("altered");
        assert_eq!(verify().await.expect("read"), Chain::BrokenAt(broken), "{alter}");
        if !undo.is_empty() {
            raw.execute_batch(undo).expect("undone");
            assert_eq!(verify().await.expect("read"), Chain::Whole(4), "{undo}");
        }
    }
}

#[test]
#[ignore = "its parent test runs it and kills it: it never ends by itself"]
fn writes_until_it_is_killed() {
    let Some(folder) = kills::folder() else { return };
    block_on(async {
        let control = open(&folder).await;
        for rate in 2.. {
            let etag = control.published().borrow().apps[0].version.cast_signed();
            let written = control
                .commit(move |tx| rules::update(tx, &Actor::system(), "shop", etag, &limit("a", rate)))
                .await;
            println!("committed {}", written.expect("written").version);
        }
    });
}

#[tokio::test]
async fn a_killed_process_leaves_the_state_before_or_after_a_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = open(folder.path()).await;
    create_rule(&control, "shop", limit("a", 1)).await.expect("made");
    drop(control);
    for lines in [1, 2, 5, 9, 14] {
        let committed = kills::kill_after(lines, "committed ", "writes_until_it_is_killed", folder.path());
        let last: u64 = committed[lines - 1].parse().expect("a version");
        let control = open(folder.path()).await;
        let published = control.published().borrow().apps[0].clone();
        assert!(published.version >= last, "{last} was committed, and {} is there", published.version);
        let (rule, chain) = control
            .read(|tx| {
                let by = Who::system();
                Ok((rules::get(tx, &by.assumed(), "shop", "a")?, audit::verify(tx, &by.assumed())?))
            })
            .await
            .expect("read");
        assert_eq!(rule.version.cast_unsigned(), published.version);
        assert_eq!(compile::documents("shop", &[rule.row]).expect("compiled"), published.documents);
        // One entry for the app, and one for each version.
        assert_eq!(chain, Chain::Whole(rule.version + 1));
    }
}

/// The key of the first counter of a rule.
fn key_of(rule: &Rule) -> Vec<u8> {
    let mut key = Vec::new();
    let entries = [Entry::new("key", "a"), Entry::new("per", "b")];
    rule.write_key(0, "SIP_HOTEL", &entries, &mut key);
    key
}

prop_compose! {
    fn row()(
        key in "[A-Za-z0-9_:/-][A-Za-z0-9_.:/-]{0,127}",
        (rate, max_permits) in (1..=1_000_000_000_i64, 1..=1_000_000_000_i64),
        (need, pre, post_paid) in (0..=100_i64, 0..=100_i64, any::<bool>()),
        per in prop_oneof![Just(String::new()), "[A-Za-z_][A-Za-z0-9_.-]{0,63}"],
        bucket in prop_oneof![Just(String::new()), "[A-Za-z_-][A-Za-z0-9_.-]{0,63}"],
        sharing in prop::sample::select(vec!["exact", "leased", "local"]),
        failure in prop::sample::select(vec!["allow", "deny", "local"]),
        state in prop::sample::select(vec!["on", "shadow", "off"]),
        trial in prop::option::of((1..=1_000_000_000_i64, 0..=100_i64)),
    ) -> TableRule {
        let pre_permits = if sharing == "leased" { 0 } else { pre * max_permits / 100 };
        let need_permits = (need * max_permits / 100).max(1);
        let least = need_permits.max(pre_permits);
        let tried = |(rate, more): (i64, i64)| Trial { rate, max_permits: (least + least * more / 100).min(1_000_000_000) };
        let trial = trial.filter(|_| bucket.is_empty()).map(tried);
        TableRule {
            key, rate, max_permits, need_permits, pre_permits, post_paid,
            g_micro: 1_000_000, u_micro: 1_000_000, extras: String::new(),
            description: "酒店 {{x}}".to_owned(), per, bucket, sharing: sharing.to_owned(),
            on_store_failure: failure.to_owned(), state: state.to_owned(), trial,
        }
    }
}

proptest! {
    #[test]
    fn a_compiled_row_means_what_the_row_says(row in row()) {
        prop_assert_eq!(&row.to_input().check().expect("within its bounds"), &row);
        let documents = compile::documents("SIP_HOTEL", std::slice::from_ref(&row)).expect("compiled");
        if row.state == "off" {
            prop_assert!(documents.is_empty());
            return Ok(());
        }
        let yaml = documents[0].yaml();
        let policy = tollgate_rule_files::parse_text("SIP_HOTEL", yaml);
        let policy = policy.map_err(|faults| TestCaseError::fail(format!("{faults}\n{yaml}")))?;
        let rules: Vec<_> = policy.rules().filter(|rule| !rule.limits.is_empty()).collect();
        prop_assert_eq!(rules.len(), 1);
        let rule = rules[0];
        let limit = &rules[0].limits[0];
        prop_assert_eq!(limit.requests_per_unit.cast_signed(), row.rate);
        prop_assert_eq!(limit.cost.cast_signed(), row.need_permits);
        prop_assert_eq!(limit.post_paid, row.post_paid);
        prop_assert_eq!(limit.bucket.as_deref().unwrap_or_default(), &*row.bucket);
        let Algorithm::TokenBucket { overdraft, .. } = limit.quota.algorithm() else {
            return Err(TestCaseError::fail("a token bucket"));
        };
        prop_assert_eq!(limit.quota.burst().cast_signed(), row.max_permits);
        prop_assert_eq!(overdraft.cast_signed(), row.pre_permits);
        prop_assert_eq!(rule.shadow_mode, row.state == "shadow");
        // A trial is a second limit with the same cost and overdraft, which never denies.
        let trial = row.trial.filter(|_| row.state == "on");
        prop_assert_eq!(rule.limits.len(), 1 + usize::from(trial.is_some()));
        if let (Some(trial), Some(tried)) = (trial, rule.limits.get(1)) {
            prop_assert_eq!((tried.requests_per_unit.cast_signed(), tried.shadow), (trial.rate, true));
            prop_assert_eq!(tried.quota.burst().cast_signed(), trial.max_permits);
            prop_assert_eq!((tried.cost, tried.post_paid), (limit.cost, limit.post_paid));
            let Algorithm::TokenBucket { overdraft, .. } = tried.quota.algorithm() else {
                return Err(TestCaseError::fail("a token bucket"));
            };
            prop_assert_eq!(overdraft.cast_signed(), row.pre_permits);
        }
        prop_assert_eq!(rule.sharing.name(), &*row.sharing);
        prop_assert_eq!(rule.on_store_failure.name(), &*row.on_store_failure);
        // Its counter is that of the same row without a trial.
        let alone = TableRule { trial: None, ..row };
        let documents = compile::documents("SIP_HOTEL", std::slice::from_ref(&alone)).expect("compiled");
        let policy = tollgate_rule_files::parse_text("SIP_HOTEL", documents[0].yaml()).expect("valid");
        let plain = policy.rules().find(|rule| !rule.limits.is_empty()).expect("a rule");
        prop_assert_eq!((plain.identity(), key_of(plain)), (rule.identity(), key_of(rule)));
    }
}
