//! Logins, while something else changes the user.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use tollgate_control::{Actor, Control, ControlError, KnownNodes, Origin, audit};
use tollgate_db::TimeSource;

const PASSWORD: &str = "correct horse battery";

async fn open(folder: &std::path::Path, time: &Arc<AtomicI64>) -> Control {
    let source = TimeSource::Manual(Arc::clone(time));
    let control = Control::open(folder, source, Arc::new(KnownNodes::default())).await.expect("a database");
    control.create_user(&Actor::system(), "ann", PASSWORD).await.expect("a user");
    control
}

#[tokio::test]
async fn a_login_that_is_under_way_does_not_outlive_the_end_of_its_password() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = open(folder.path(), &Arc::new(AtomicI64::new(1_524_494_484_445))).await;
    let reset = async {
        // The login reads the user first, and then works on the password for much longer than this takes.
        for _ in 0..20 {
            control.read(|_| Ok(())).await.expect("read");
        }
        control.reset_password(&Actor::system(), "ann", None).await.expect("a link")
    };
    let (login, _) = tokio::join!(control.log_in(Origin::default(), "ann", PASSWORD), reset);
    match login {
        Err(error) => assert!(matches!(error, ControlError::WrongLogin), "{error}"),
        Ok(cookie) => {
            let actor = control.actor(&cookie, Origin::default()).await.expect("looked up");
            assert!(actor.is_none(), "the login outlived the password");
        }
    }
}

#[tokio::test]
async fn a_change_of_a_password_does_not_undo_its_reset() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = open(folder.path(), &Arc::new(AtomicI64::new(1_524_494_484_445))).await;
    let cookie = control.log_in(Origin::default(), "ann", PASSWORD).await.expect("a login");
    let ann = control.actor(&cookie, Origin::default()).await.expect("looked up").expect("a login").0;
    let new = "another good password";
    let reset = async {
        // As above: the change works on the password meanwhile.
        for _ in 0..20 {
            control.read(|_| Ok(())).await.expect("read");
        }
        control.reset_password(&Actor::system(), "ann", None).await.expect("a link")
    };
    let (changed, _) = tokio::join!(control.change_password(&ann, &cookie, PASSWORD, new, new), reset);
    for password in [PASSWORD, new] {
        let login = control.log_in(Origin::default(), "ann", password).await;
        assert!(matches!(login, Err(ControlError::WrongLogin)), "{changed:?}");
    }
}

#[tokio::test]
async fn typing_errors_in_a_new_password_are_no_attempts_and_wrong_codes_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = TimeSource::Manual(Arc::new(AtomicI64::new(1_524_494_484_445)));
    let nodes = Arc::new(KnownNodes::default());
    let control = Control::open(folder.path(), source, nodes).await.expect("a database");
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
    let folder = tempfile::tempdir().expect("a folder");
    let time = Arc::new(AtomicI64::new(1_524_494_484_445));
    let control = open(folder.path(), &time).await;
    let (settings, etag) = control.read(tollgate_control::settings::get).await.expect("settings");
    let short = tollgate_control::settings::Settings { login_idle_minutes: 5, ..settings };
    control.change_settings(&Actor::system(), etag, short).await.expect("changed");
    let cookie = control.log_in(Origin::default(), "ann", PASSWORD).await.expect("a login");
    for _ in 0..5 {
        time.fetch_add(4 * 60_000, Relaxed);
        let actor = control.actor(&cookie, Origin::default()).await.expect("looked up");
        assert!(actor.is_some(), "it was in use");
    }
    time.fetch_add(5 * 60_000, Relaxed);
    assert!(control.actor(&cookie, Origin::default()).await.expect("looked up").is_none());
}

#[tokio::test]
async fn the_audit_stays_broken_after_its_last_entries_were_removed_and_more_follow() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = open(folder.path(), &Arc::new(AtomicI64::new(1_524_494_484_445))).await;
    control.create_user(&Actor::system(), "bob", PASSWORD).await.expect("a user");
    let file = rusqlite::Connection::open(folder.path().join("control.db")).expect("the database");
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
        control.create_user(&Actor::system(), name, PASSWORD).await.expect("a user");
        let chain = control.read(|tx| audit::verify(tx, &Actor::system())).await.expect("walked");
        assert!(matches!(chain, audit::Chain::BrokenAt(_)), "{chain:?}");
    }
}
