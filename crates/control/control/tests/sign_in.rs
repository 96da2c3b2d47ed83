//! Logins, while something else changes the user.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::sync::Arc;

use tollgate_control::tokens::TokenInput;
use tollgate_control::{Actor, Claim, ControlError, Held, Origin, Role, audit, users};
use tollgate_harness::ControlPlane;
use tollgate_harness::people::PASSWORD;

/// A control plane with the user `ann`.
async fn with_ann() -> ControlPlane {
    let control = ControlPlane::start().await;
    control.create_user(&Claim::program("tollgate"), "ann", PASSWORD).await.expect("a user");
    control
}

#[tokio::test]
async fn a_login_that_is_under_way_does_not_outlive_the_end_of_its_password() {
    let control = with_ann().await;
    let reset = async {
        // The login reads the user first, and then works on the password for much longer than this takes.
        for _ in 0..20 {
            control.read(|_| Ok(())).await.expect("read");
        }
        control.reset_password(&Claim::program("tollgate"), "ann", None).await.expect("a link")
    };
    let (login, _) = tokio::join!(control.log_in(Origin::default(), "ann", PASSWORD), reset);
    match login {
        Err(error) => assert!(matches!(error, ControlError::WrongLogin), "{error}"),
        Ok(cookie) => {
            let found = control.enter(&Claim::login(&cookie, Origin::default())).await.expect("looked up");
            assert!(found.is_none(), "the login outlived the password");
        }
    }
}

#[tokio::test]
async fn a_change_of_a_password_does_not_undo_its_reset() {
    let control = with_ann().await;
    let cookie = control.log_in(Origin::default(), "ann", PASSWORD).await.expect("a login");
    let ann = Claim::login(&cookie, Origin::default());
    let new = "another good password";
    let reset = async {
        // As above: the change works on the password meanwhile.
        for _ in 0..20 {
            control.read(|_| Ok(())).await.expect("read");
        }
        control.reset_password(&Claim::program("tollgate"), "ann", None).await.expect("a link")
    };
    let (changed, _) =
        tokio::join!(control.change_password(&ann, &cookie, PASSWORD, new, new, Held::Kept), reset);
    for password in [PASSWORD, new] {
        let login = control.log_in(Origin::default(), "ann", password).await;
        assert!(matches!(login, Err(ControlError::WrongLogin)), "{changed:?}");
    }
}

#[tokio::test]
async fn typing_errors_in_a_new_password_are_no_attempts_and_wrong_codes_are() {
    let control = ControlPlane::start().await;
    let code = control.setup_code().await.expect("a code").expect("no user yet");
    let from = Origin { ip: "192.0.2.1", ..Origin::default() };
    for _ in 0..30 {
        let typed = control.set_up(from, &code, "ann", PASSWORD, "something else").await;
        assert!(matches!(typed, Err(ControlError::Invalid(_))), "{typed:?}");
    }
    let elsewhere = Origin { ip: "192.0.2.2", ..from };
    for attempt in 0..20 {
        let guessed = control.set_up(elsewhere, &"0".repeat(64), "ann", PASSWORD, PASSWORD).await;
        let is_wrong = matches!(guessed, Err(ControlError::WrongCode));
        // The window of a name ends before that of an address.
        assert_eq!(is_wrong, attempt < 5, "{guessed:?}");
    }
    control.set_up(from, &code, "ann", PASSWORD, PASSWORD).await.expect("the first administrator");
}

#[tokio::test]
async fn a_login_that_is_used_every_four_minutes_stays_when_five_idle_minutes_end_it() {
    let control = with_ann().await;
    let (settings, etag) = control.read(tollgate_control::settings::get).await.expect("settings");
    let short = tollgate_control::settings::Settings { login_idle_minutes: 5, ..settings };
    control.change_settings(&Claim::program("tollgate"), etag, short).await.expect("changed");
    let cookie = control.log_in(Origin::default(), "ann", PASSWORD).await.expect("a login");
    for _ in 0..5 {
        control.pass(4 * 60_000);
        let found = control.enter(&Claim::login(&cookie, Origin::default())).await.expect("looked up");
        assert!(found.is_some(), "it was in use");
    }
    control.pass(5 * 60_000);
    let found = control.enter(&Claim::login(&cookie, Origin::default())).await.expect("looked up");
    assert!(found.is_none());
}

#[tokio::test]
async fn the_audit_stays_broken_after_its_last_entries_were_removed_and_more_follow() {
    let control = with_ann().await;
    control.create_user(&Claim::program("tollgate"), "bob", PASSWORD).await.expect("a user");
    let file = control.file();
    let triggers: Vec<String> = file
        .prepare("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'audit'")
        .and_then(|mut it| it.query_map([], |row| row.get(0))?.collect())
        .expect("triggers");
    for trigger in triggers {
        file.execute(&format!("DROP TRIGGER {trigger}"), []).expect("dropped");
    }
    let removed = file.execute("DELETE FROM audit WHERE seq = (SELECT MAX(seq) FROM audit)", []);
    assert_eq!(removed.expect("removed"), 1);
    for name in ["eve", "kim"] {
        control.create_user(&Claim::program("tollgate"), name, PASSWORD).await.expect("a user");
        let chain = control.read(|tx| audit::verify(tx, &Actor::system())).await.expect("walked");
        assert!(matches!(chain, audit::Chain::BrokenAt(_)), "{chain:?}");
    }
}

#[tokio::test]
async fn a_new_password_ends_the_tokens_of_the_api_if_its_owner_says_so() {
    let new = "another good password";
    for (held, is_link) in
        [(Held::Kept, true), (Held::Ended, true), (Held::Kept, false), (Held::Ended, false)]
    {
        let control = with_ann().await;
        let cookie = control.log_in(Origin::default(), "ann", PASSWORD).await.expect("a login");
        let ann = Claim::login(&cookie, Origin::default());
        let system = Claim::program("tollgate");
        let granted =
            control.commit_as(&system, |tx, by| users::set_role(tx, by, "ann", "*", Some(Role::Admin))).await;
        granted.expect("a role");
        let rights = vec![("*".to_owned(), "admin".to_owned())];
        let api = TokenInput { name: "ci".to_owned(), rights, ..TokenInput::default() };
        let (_, api) = control.create_token(&ann, api).await.expect("a token");
        let node = TokenInput { kind: "node".to_owned(), name: "n".to_owned(), ..TokenInput::default() };
        let (_, node) = control.create_token(&ann, node).await.expect("a token");
        if is_link {
            let (_, code) = control.reset_password(&system, "ann", None).await.expect("a link");
            control.redeem_link(Origin::default(), &code, new, new, held).await.expect("a password");
        } else {
            control.change_password(&ann, &cookie, PASSWORD, new, new, held).await.expect("changed");
        }
        let entered = control.enter(&Claim::token(&api, Origin::default())).await.expect("looked up");
        assert_eq!(entered.is_some(), held == Held::Kept, "{held:?}, by link: {is_link}");
        let said =
            control.read(|tx| audit::list(tx, &Actor::system(), "", "", 0, 10)).await.expect("the audit");
        let changed = said.iter().find(|it| it.action == "user.password").expect("an entry");
        assert_eq!(changed.after.as_deref(), (held == Held::Ended).then_some("{\"tokens_ended\":1}"));
        assert!(control.node_tokens().borrow().admits(Some(&node), 0), "those of nodes belong to the fleet");
    }
}

#[tokio::test]
async fn blanks_and_capitals_make_no_other_name_to_attempts() {
    let control = with_ann().await;
    let from = Origin { ip: "192.0.2.1", ..Origin::default() };
    let mut tried = 0;
    for name in ["ann", " ann", "ANN  ", "   Ann", "aNN ", "  ann  ", "anN", " ANN"] {
        let failed = control.log_in(from, name, "wrong").await.expect_err("a wrong password");
        tried += usize::from(matches!(failed, ControlError::WrongLogin));
    }
    assert_eq!(tried, 5);
    // What can be no name counts as one.
    let mut tried = 0;
    for name in ["\u{ff41}nn", "ann\u{200b}", "\u{a0}ann", "a nn", "", "*", "ann\n"] {
        let elsewhere = Origin { ip: "192.0.2.2", ..from };
        let failed = control.log_in(elsewhere, name, "wrong").await.expect_err("no such name");
        tried += usize::from(matches!(failed, ControlError::WrongLogin));
    }
    assert_eq!(tried, 5);
}

#[tokio::test]
async fn a_burst_of_wrong_passwords_tries_five() {
    let control = with_ann().await;
    let from = Origin { ip: "192.0.2.1", ..Origin::default() };
    let control = Arc::clone(&control.control);
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let control = Arc::clone(&control);
        all.spawn(async move { control.log_in(from, "ann", "wrong").await.expect_err("a wrong password") });
    }
    let failed = all.join_all().await;
    assert_eq!(failed.iter().filter(|it| matches!(it, ControlError::WrongLogin)).count(), 5);
}
