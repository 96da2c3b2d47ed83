//! Acknowledged changes that are missing: after a copy is restored, a log is damaged, or a file is taken
//! away.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tollgate_control::audit::Chain;
use tollgate_control::{Claim, Control, ControlError, KnownNodes, Lost, problems};
use tollgate_db::{DbError, TimeSource};
use tollgate_harness::open;
use tollgate_harness::rules::{create_rule, limit};

async fn create_some(control: &Control, keys: std::ops::Range<u32>) {
    for key in keys {
        create_rule(control, "shop", limit(&format!("key-{key}"), 1)).await.expect("made");
    }
}

/// The files as a kill leaves them.
fn copy_of(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a folder");
    for file in fs::read_dir(folder).expect("read") {
        let file = file.expect("read");
        if file.file_name() != "control.db-shm" {
            fs::copy(file.path(), copy.path().join(file.file_name())).expect("copied");
        }
    }
    copy
}

async fn verify(control: &Control) -> Chain {
    control.verify_audit(&Claim::program("tollgate"), |_, _| ()).await.expect("walked")
}

#[tokio::test]
async fn a_log_that_was_cut_or_damaged_is_found_at_the_start_and_by_verify_until_somebody_accepts_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = open(folder.path()).await;
    create_some(&control, 0..30).await;
    let (last, _) = control.audit_head().await.expect("read").expect("an entry");
    let log = fs::read(folder.path().join("control.db-wal")).expect("a log");
    for (what, damaged) in [
        ("nothing", log.clone()),
        ("cut to half", log[..log.len() / 2].to_vec()),
        ("gone", Vec::new()),
        ("a bit of the first half", flipped(&log, log.len() / 3)),
        ("a bit near the end", flipped(&log, log.len() - 5_000)),
    ] {
        let copy = copy_of(folder.path());
        fs::write(copy.path().join("control.db-wal"), damaged).expect("written");
        if what == "gone" {
            // Nothing was in the file itself yet: that is no new installation.
            let nodes = Arc::new(KnownNodes::default());
            let opened = Control::open(copy.path(), TimeSource::Database, nodes).await;
            assert!(matches!(opened, Err(ControlError::Emptied { acknowledged }) if acknowledged == last));
            continue;
        }
        let control = open(copy.path()).await;
        let found = control.audit_head().await.expect("read").map_or(0, |(seq, _)| seq);
        if what == "nothing" {
            assert_eq!(
                (found, control.audit_lost(), verify(&control).await),
                (last, None, Chain::Whole(last))
            );
            continue;
        }
        assert!(found < last, "{what}: {found} of {last}");
        let lost = control.audit_lost().expect(what);
        assert_eq!((lost.seq, lost.found), (last, found), "{what}");
        assert_eq!(verify(&control).await, Chain::Cut(found, last), "{what}");
        let shown = control.problems(&Claim::program("tollgate")).await.expect("read");
        assert!(shown.iter().any(|it| it.kind == problems::ProblemKind::AuditCut), "{what}");
        // Neither a restart nor changes make it forgotten.
        create_some(&control, 100..103).await;
        drop(control);
        let control = open(copy.path()).await;
        assert!(matches!(verify(&control).await, Chain::Cut(..)), "{what}");
        let accepted: Lost =
            control.accept_lost(&Claim::program("tollgate"), "the disk failed").await.expect("accepted");
        assert_eq!(accepted, lost);
        assert!(matches!(verify(&control).await, Chain::Whole(_)), "{what}");
        let again = control.accept_lost(&Claim::program("tollgate"), "").await;
        assert!(matches!(again, Err(ControlError::NotFound { .. })));
    }
}

fn flipped(log: &[u8], at: usize) -> Vec<u8> {
    let mut log = log.to_vec();
    log[at] ^= 1;
    log
}

#[tokio::test]
async fn a_cut_end_with_the_counter_set_back_and_a_chain_written_anew_are_found_by_a_head_kept_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = open(folder.path()).await;
    create_some(&control, 0..10).await;
    let (seq, hash) = control.audit_head().await.expect("read").expect("an entry");
    drop(control);
    let raw = rusqlite::Connection::open(folder.path().join("control.db")).expect("the file");
    raw.execute_batch("DROP TRIGGER audit_is_never_removed; DELETE FROM audit WHERE seq > 5").expect("cut");
    raw.execute_batch("UPDATE sequences SET value = 5 WHERE name = 'audit'").expect("set back");
    drop(raw);
    let control = open(folder.path()).await;
    assert_eq!(verify(&control).await, Chain::Cut(5, seq));
    drop(control);
    // Who can write the folder removes the file too. The head that was kept elsewhere is still missing.
    for name in ["audit-head", "audit-lost"] {
        fs::remove_file(folder.path().join(name)).expect("removed");
    }
    let control = open(folder.path()).await;
    assert_eq!(verify(&control).await, Chain::Whole(5));
    assert!(!control.audit_has(seq, &hash).await.expect("read"));
}

#[tokio::test]
async fn a_database_that_is_taken_away_takes_no_change_and_publishes_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = open(folder.path()).await;
    create_some(&control, 0..3).await;
    let file = folder.path().join("control.db");
    let aside = folder.path().join("aside");
    fs::rename(&file, &aside).expect("renamed");
    let gone = create_rule(&control, "shop", limit("late", 1)).await.expect_err("rejected");
    assert!(matches!(gone, ControlError::Db(DbError::Gone { .. })), "{gone}");
    assert_eq!(control.published().borrow().apps[0].version, 3);
    let is_gone = async || {
        let found = control.problems(&Claim::program("tollgate")).await.expect("pages are still read");
        found.iter().any(|it| it.kind == problems::ProblemKind::DatabaseGone)
    };
    assert!(is_gone().await);
    fs::rename(&aside, &file).expect("put back");
    assert!(!is_gone().await);
    create_rule(&control, "shop", limit("late", 1)).await.expect("made");
}
