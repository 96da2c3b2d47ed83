//! The process ends at every step of a publication, and the log of the database is cut at every place: what
//! is there afterwards is the state before or after, with a whole audit.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tollgate_control::app_settings::AppInput;
use tollgate_control::audit::{self, Chain, MAX_EXPORT};
use tollgate_control::changes::{self, ChangeInput};
use tollgate_control::{
    Claim, Control, OldNodes, Role, RuleKind, Steps, Who, apps, compile, publishing, reviews, rules,
    transfer, versions,
};
use tollgate_db::{kill_at_step, row, select};
use tollgate_fleet_proto::published::Published;
use tollgate_harness::people::user;
use tollgate_harness::rules::{
    all_of, change_of, create_rule, file_text, limit, put, put_file, removal, set_app,
};
use tollgate_harness::{block_on, kills, open};

/// Beside the database, once acknowledged entries are missing.
const LOST: &str = "audit-lost";
const CHILD: &str = "publishes_until_it_ends_at_a_step";

fn admin(name: &str) -> Who {
    user(name, Role::Admin, "*")
}

/// An app with three rules that needs one approval, and an approved change set: it changes a rule, deletes
/// one, and adds a rule and a file.
async fn prepared(folder: &Path) {
    let control = open(folder).await;
    for key in ["a", "b", "c"] {
        create_rule(&control, "shop", limit(key, 1)).await.expect("a rule");
    }
    let input = AppInput { approvals: "1".to_owned(), ..AppInput::default() };
    set_app(&control, "shop", input).await;
    let gone = removal(RuleKind::TableRule, "b", 2);
    let file = put_file("mail", None, &file_text("mail", 5)).expect("a file");
    let input = change_of(&[put("a", Some(1), 7), gone, put("d", None, 8), file]);
    let input = ChangeInput { title: "four".to_owned(), ..input };
    let made = control.commit(move |tx| changes::create(tx, &admin("ann").assumed(), "shop", &input)).await;
    let made = made.expect("a draft");
    let id = made.id.clone();
    let submitted =
        control.commit(move |tx| changes::submit(tx, &admin("ann").assumed(), &id, made.etag)).await;
    let submitted = submitted.expect("submitted");
    control.invite(&Claim::assumed(&admin("ann")), "bob", "shop", "approver").await.expect("a user");
    let approve = move |tx: &mut dyn tollgate_db::Tx| {
        reviews::approve(tx, &admin("bob").assumed(), &submitted.id, submitted.etag, "good")
    };
    control.commit(approve).await.expect("approved");
}

row! {
    struct Approved { id: String, etag: i64 }
}

row! {
    struct Titled { title: String, state: String }
}

/// Publishes the change set, rolls it back, and imports two documents: four publications.
async fn publish_one(control: &Control, nth: usize) {
    match nth {
        0 => {
            let publish = control.commit(|tx| {
                let approved = select!(Approved: "FROM changes WHERE state = 'approved'").first(tx, &[])?;
                let Approved { id, etag } = approved.expect("an approved change set");
                publishing::publish(tx, &admin("ann").assumed(), &id, etag)
            });
            publish.await.expect("published");
        }
        1 => {
            let back =
                control.commit(|tx| versions::rollback(tx, &admin("ann").assumed(), "shop", 4, 3, "why"));
            back.await.expect("rolled back");
        }
        _ => {
            // The second is large: it keeps a rule, changes one, removes one and adds one.
            let rules = match nth {
                2 => "w: 1, x: 2, y: 3",
                _ => "a: 4, w: 1, x: 6",
            };
            let rules: String = rules
                .split(", ")
                .filter_map(|it| it.split_once(": "))
                .map(|(key, rate)| format!("  - key: {key}\n    rate: {rate}\n    max_permits: 9\n"))
                .collect();
            let all = transfer::read(&format!("tollgate: 1\napp: other\ncar:\n{rules}")).expect("a document");
            control.set_steps(Steps { most_at_once: 5 - nth, of_one: 2 });
            let claim = Claim::assumed(&admin("ann"));
            control.import(&claim, OldNodes::Reject, all).await.expect("imported");
        }
    }
}

#[test]
#[ignore = "its parent test runs it, and it ends at a step"]
fn publishes_until_it_ends_at_a_step() {
    let Some(folder) = kills::folder() else { return };
    let step = std::env::var("TOLLGATE_TEST_STEP").expect("a step").parse().expect("a number");
    let nth = std::env::var("TOLLGATE_TEST_NTH").expect("which").parse().expect("a number");
    block_on(async {
        let control = open(&folder).await;
        kill_at_step(step);
        publish_one(&control, nth).await;
    });
}

/// All that a publication changes, without ids and times; and what nodes get.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    apps: Vec<(String, i64, String)>,
    changes: Vec<(String, String)>,
    actions: Vec<String>,
    published: Published,
}

/// The current state. Holds the audit to its chain, and what is published to the rules.
async fn seen(folder: &Path) -> Seen {
    let control = open(folder).await;
    let by = admin("ann");
    let chain = control.verify_audit(&Claim::assumed(&by), |_, _| {}).await.expect("walked");
    let read = control.read(move |tx| {
        let entries = audit::export(tx, &by.assumed(), 0, MAX_EXPORT)?;
        let mut all = Vec::new();
        for app in apps::list(tx, &by.assumed())? {
            let text = transfer::export(tx, &by.assumed(), &app.name)?;
            let listed = rules::list(tx, &by.assumed(), &all_of(&app.name))?.rules;
            let table_rules = listed.into_iter().map(|it| it.row).collect::<Vec<_>>();
            all.push((app.name, app.version, text, table_rules));
        }
        let changes = select!(Titled: "FROM changes ORDER BY id").all(tx, &[])?;
        let changes = changes.into_iter().map(|it| (it.title, it.state)).collect::<Vec<_>>();
        Ok::<_, tollgate_control::ControlError>((entries, all, changes))
    });
    let (entries, all, changes) = read.await.expect("read");
    let rows = control.compare_rows(&Claim::assumed(&admin("ann"))).await.expect("compared");
    assert!(rows.is_whole() && rows.rows > 0, "each change seals what it leaves: {rows:?}");
    let whole = entries.len() as i64;
    assert!(
        chain == Chain::Whole(whole) || matches!(chain, Chain::Cut(found, _) if found == whole),
        "{chain:?}"
    );
    let published = Published::clone(&control.published().borrow());
    for (name, version, _, table_rules) in &all {
        let of = published.apps.iter().find(|it| it.app == *name).expect("published");
        assert_eq!(of.version.cast_signed(), *version, "{name}");
        let compiled = compile::documents(name, table_rules).expect("compiled");
        assert!(compiled.iter().all(|it| of.documents.contains(it)), "{name}");
    }
    Seen {
        apps: all.into_iter().map(|(name, version, text, _)| (name, version, text)).collect(),
        changes,
        actions: entries.into_iter().map(|it| it.action).collect(),
        published,
    }
}

/// A copy of a database, which threads of this process may still be closing.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    let file = rusqlite::Connection::open(from.join("control.db")).expect("the database");
    let to = to.join("control.db").display().to_string();
    file.execute("VACUUM INTO ?1", [to]).expect("copied");
}

/// The files of a database as they are, its log apart.
fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for file in fs::read_dir(from).expect("the folder") {
        let file = file.expect("a file");
        fs::copy(file.path(), to.join(file.file_name())).expect("copied");
    }
}

#[tokio::test]
async fn ended_at_any_step_of_a_publication_the_state_is_that_before_or_after() {
    let folder = tempfile::tempdir().expect("a folder");
    let base = folder.path().join("base");
    fs::create_dir_all(&base).expect("a folder");
    prepared(&base).await;
    ended_at_any_step(folder.path(), base, &[(0, 30), (1, 20), (2, 20)]).await;
}

#[tokio::test]
async fn ended_at_any_step_of_a_large_change_the_state_is_that_before_or_after() {
    let folder = tempfile::tempdir().expect("a folder");
    let base = folder.path().join("base");
    fs::create_dir_all(&base).expect("a folder");
    publish_one(&open(&base).await, 2).await;
    ended_at_any_step(folder.path(), base, &[(3, 50)]).await;
}

/// Ends the process at any step of each publication, which has at least this number of steps.
async fn ended_at_any_step(folder: &Path, mut base: PathBuf, publications: &[(usize, u64)]) {
    for (nth, least_steps) in publications.iter().copied() {
        let before = seen(&base).await;
        let after_folder = folder.join(format!("after{nth}"));
        copy(&base, &after_folder);
        publish_one(&open(&after_folder).await, nth).await;
        let after = seen(&after_folder).await;
        assert_ne!(before, after);
        let mut kept = 0;
        let mut steps = 0;
        for step in 1_u64.. {
            let at = folder.join(format!("{nth}-{step}"));
            copy(&base, &at);
            let status = kills::process(CHILD, &at)
                .env("TOLLGATE_TEST_STEP", step.to_string())
                .env("TOLLGATE_TEST_NTH", nth.to_string())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .expect("a process");
            let now = seen(&at).await;
            let is_kept = now == after;
            assert!(is_kept || now == before, "publication {nth}, step {step}: {now:#?}");
            assert!(is_kept || kept == 0, "publication {nth}: kept at an earlier step than {step}");
            assert!(
                !at.join(LOST).exists(),
                "publication {nth}, step {step}: what was not acknowledged is not lost"
            );
            kept += u64::from(is_kept);
            // Whoever comes next can publish, or has nothing left to publish.
            if !is_kept && step % 16 == 1 {
                publish_one(&open(&at).await, nth).await;
                assert_eq!(seen(&at).await, after, "publication {nth}, step {step}: done again");
            }
            if status.success() {
                break;
            }
            steps = step;
        }
        // Before and after each statement, before and after the commit: all but the last are undone.
        assert!(steps >= least_steps, "publication {nth} has {steps} steps only");
        let is_large = nth == 3; // then the rows of before are removed
        assert!(
            kept == 2 || is_large && kept > 2,
            "publication {nth}: the step after the commit, and the run without an end"
        );
        base = after_folder;
    }
}

/// Bytes of the head of the log, of the head of a page in it, and of a page.
const LOG: (usize, usize, usize) = (32, 24, 4096);

#[tokio::test]
async fn a_log_that_is_cut_anywhere_leaves_the_state_before_or_after_a_publication() {
    let folder = tempfile::tempdir().expect("a folder");
    let base = folder.path().join("base");
    fs::create_dir_all(&base).expect("a folder");
    prepared(&base).await;
    let before = seen(&base).await;
    // The log of this publication alone: it is copied while the database is open, as a power cut leaves it.
    let file = rusqlite::Connection::open(base.join("control.db")).expect("the database");
    for left in (0..100).rev() {
        let empty = file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        if empty.is_ok_and(|busy| busy == 0) {
            break;
        }
        assert!(left > 0, "the log is in use");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    drop(file);
    let control = open(&base).await;
    publish_one(&control, 0).await;
    let torn = folder.path().join("torn");
    copy_files(&base, &torn);
    drop(control);
    let log = fs::read(torn.join("control.db-wal")).expect("a log");
    let after = seen(&base).await;
    let (head, page_head, page) = LOG;
    let pages = (log.len() - head) / (page_head + page);
    assert!(pages >= 5, "{pages} pages");
    let ends = (0..=pages).map(|nth| head + nth * (page_head + page));
    let mut cuts: Vec<usize> = ends.flat_map(|end| [end, end + 1, end + 24, end + 1_000]).collect();
    cuts.extend([0, 1, head - 1]);
    let mut kept = 0;
    for cut in cuts.into_iter().filter(|cut| *cut <= log.len()) {
        let at = folder.path().join(format!("cut{cut}"));
        copy_files(&torn, &at);
        fs::write(at.join("control.db-wal"), &log[..cut]).expect("cut");
        fs::remove_file(at.join("control.db-shm")).ok();
        let now = seen(&at).await;
        assert!(now == before || now == after, "cut at {cut} of {}: {now:#?}", log.len());
        assert_eq!(at.join(LOST).exists(), now == before, "cut at {cut}: what was acknowledged is missed");
        kept += u32::from(now == after);
    }
    assert!(kept >= 1, "the whole log has the publication");
}
