//! Every column of every table is edited by another program: the comparison with the seals finds it.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use tollgate_control::problems::ProblemKind;
use tollgate_control::{Claim, Control, MIGRATIONS, Recorded, UNSEALED};
use tollgate_db::{
    Comparison, Db, DbError, Difference, Edit, Migration, OnEdits, Options, TimeSource, Tx, Unsealed,
};
use tollgate_harness::ControlPlane;
use tollgate_harness::rules::{create_rule, limit, write_rule};

/// Values that columns are set to; those that a column takes and does not have already are edits.
const VALUES: [&str; 5] = ["'edited'", "2", "X'01'", "NULL", "''"];

fn opened(folder: &Path) -> Db {
    opened_by(folder, MIGRATIONS, UNSEALED)
}

/// As a program with these changes of the schema opens it.
fn opened_by(folder: &Path, migrations: &[Migration], unsealed: Unsealed) -> Db {
    let options = Options { unsealed: Some(unsealed), ..Options::default() };
    Db::open_with(&folder.join("control.db"), migrations, TimeSource::Database, options).expect("opened")
}

fn raw(folder: &Path) -> Connection {
    let raw = Connection::open(folder.join("control.db")).expect("the file");
    raw.pragma_update(None, "foreign_keys", false).expect("set");
    raw
}

fn texts(raw: &Connection, statement: &str) -> Vec<String> {
    let mut prepared = raw.prepare(statement).expect("a statement");
    let rows = prepared.query_map([], |row| row.get(0)).expect("read");
    rows.collect::<Result<_, _>>().expect("texts")
}

/// All tables except those of the seals and of the migrations.
fn tables(raw: &Connection) -> Vec<String> {
    texts(
        raw,
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('seals', 'schema_history')",
    )
}

fn columns(raw: &Connection, table: &str) -> Vec<String> {
    texts(raw, &format!("SELECT name FROM pragma_table_info('{table}')"))
}

/// A row in each table, in one transaction: every text is `x` and every number 1, so that all refer to each
/// other.
async fn filled(db: &Db, raw: &Connection) -> usize {
    let mut inserts: Vec<&'static str> = vec!["DELETE FROM sequences"];
    let sealed = |table: &String| !UNSEALED.iter().any(|it| it.0 == table && it.1.is_empty());
    let mut count = 0;
    for table in tables(raw) {
        count += usize::from(sealed(&table));
        let types = texts(raw, &format!("SELECT type FROM pragma_table_info('{table}')"));
        let values: Vec<_> = types.iter().map(|it| if it == "TEXT" { "'x'" } else { "1" }).collect();
        inserts.push(format!("INSERT INTO {table} VALUES ({})", values.join(", ")).leak());
    }
    let work = move |tx: &mut dyn Tx| {
        let mut left = inserts.clone();
        while !left.is_empty() {
            let before = left.len();
            // Those whose parents are there already.
            left.retain(|insert| tx.execute(insert, &[]).is_err());
            assert!(left.len() < before, "{left:?}");
        }
        Ok::<_, DbError>(())
    };
    db.write(work).await.expect("filled");
    count
}

fn edits(found: &Comparison, table: &str) -> Vec<Edit> {
    assert_eq!(found.broken_at, None);
    assert!(found.differences.iter().all(|it| it.table == table), "{table}: {:?}", found.differences);
    found.differences.iter().map(|it| it.what).collect()
}

#[tokio::test]
async fn an_edit_of_any_column_of_any_table_is_found_except_of_those_that_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = opened(folder.path());
    let raw = raw(folder.path());
    let sealed = filled(&db, &raw).await;
    let whole = db.compare().await.expect("compared");
    assert!(whole.is_whole() && whole.rows == sealed as u64 && sealed >= 18, "{whole:?}, {sealed} tables");
    let mut left_out = Vec::new();
    for table in tables(&raw) {
        if table == "audit" {
            continue; // has a chain and triggers of its own
        }
        let except = UNSEALED.iter().find(|it| it.0 == table);
        let is_whole_table = except.is_some_and(|it| it.1.is_empty());
        for column in columns(&raw, &table) {
            let is_listed = is_whole_table || except.is_some_and(|it| it.1.contains(&&*column));
            let mut edited = 0;
            for value in VALUES {
                let set = raw.execute(&format!("UPDATE {table} SET {column} = {value}"), []);
                // It may not be absent, or must be unique.
                let is_set = set.is_ok_and(|rows| rows == 1);
                if !is_set {
                    continue;
                }
                edited += 1;
                let found = edits(&db.compare().await.expect("compared"), &table);
                let place = format!("{table}.{column} = {value}");
                match &found[..] {
                    [] => assert!(is_listed, "{place} is not found"),
                    [Edit::Changed] | [Edit::Added, Edit::Removed] => assert!(!is_listed, "{place}"),
                    other => panic!("{place}: {other:?}"),
                }
                let types = format!("SELECT type FROM pragma_table_info('{table}') WHERE name = '{column}'");
                let before = if texts(&raw, &types)[0] == "TEXT" { "'x'" } else { "1" };
                raw.execute(&format!("UPDATE {table} SET {column} = {before}"), []).expect("put back");
            }
            assert!(edited > 0, "{table}.{column} was never edited");
            if is_listed {
                left_out.push(format!("{table}.{column}"));
            }
        }
        let after = db.compare().await.expect("compared");
        assert!(after.is_whole(), "{table} is as it was: {after:?}");
        if is_whole_table {
            continue;
        }
        let row = format!("CREATE TEMP TABLE kept AS SELECT * FROM {table}; DELETE FROM {table}");
        raw.execute_batch(&row).expect("removed");
        assert_eq!(edits(&db.compare().await.expect("compared"), &table), [Edit::Removed], "{table}");
        raw.execute_batch(&format!("INSERT INTO {table} SELECT * FROM kept; DROP TABLE temp.kept"))
            .expect("back");
    }
    assert!(db.compare().await.expect("compared").is_whole());
    let whole_tables = UNSEALED.iter().filter(|it| it.1.is_empty() && it.0 != "audit");
    let listed = whole_tables.map(|it| columns(&raw, it.0).len()).sum::<usize>()
        + UNSEALED.iter().map(|it| it.1.len()).sum::<usize>();
    assert_eq!(left_out.len(), listed, "each exception is a column that is there: {left_out:?}");
}

#[tokio::test]
async fn a_seal_that_is_edited_removed_or_written_anew_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = opened(folder.path());
    let raw = raw(folder.path());
    filled(&db, &raw).await;
    for name in ["a", "b", "c"] {
        let insert: &'static str = format!("INSERT INTO settings VALUES ('{name}', '1', 1)").leak();
        db.write(move |tx| tx.execute(insert, &[])).await.expect("written");
    }
    raw.execute_batch("DROP TRIGGER seals_are_never_changed; DROP TRIGGER seals_are_never_removed")
        .expect("gone");
    for (edit, broken_at) in [
        ("UPDATE seals SET rows = rows || 'x' WHERE seq = 2", Some(2)),
        ("UPDATE seals SET rows = X'00' WHERE seq = 2", Some(2)),
        ("UPDATE seals SET head = '7:x' WHERE seq = 3", Some(3)),
        ("UPDATE seals SET hash = 'x' WHERE seq = 4", Some(4)),
        ("DELETE FROM seals WHERE seq = 1", Some(1)),
        ("DELETE FROM seals WHERE seq = 3", Some(3)),
        ("DROP TABLE seals", Some(1)),
        ("DELETE FROM seals WHERE seq = 4", None), // the row of the last one is then one that nobody has made
    ] {
        let copy = tempfile::tempdir().expect("a folder");
        let path = copy.path().join("control.db").display().to_string();
        raw.execute("VACUUM INTO ?1", [path]).expect("copied");
        let copied = opened(copy.path());
        let edited = self::raw(copy.path());
        assert!(
            edited.execute_batch(edit).is_err() || edit.starts_with("DROP"),
            "{edit}: triggers reject it"
        );
        let drop =
            "DROP TRIGGER IF EXISTS seals_are_never_changed; DROP TRIGGER IF EXISTS seals_are_never_removed";
        edited.execute_batch(drop).expect("gone");
        edited.execute_batch(&edit.replace("DROP TABLE", "DROP TABLE IF EXISTS")).expect("edited");
        let found = copied.compare().await.expect("compared");
        assert_eq!(found.broken_at, broken_at, "{edit}");
        assert!(!found.is_whole(), "{edit}");
    }
}

#[tokio::test]
async fn rows_from_before_there_were_seals_are_sealed_as_they_are_and_migrations_change_no_seal() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control.db");
    let before = Db::open(&path, &MIGRATIONS[..5], TimeSource::Database).expect("opened");
    let insert = "INSERT INTO users (id, name, display, state, etag, created_at) VALUES ('x', 'ann', '', 'active', 1, 1)";
    before.write(move |tx| tx.execute(insert, &[])).await.expect("written");
    drop(before);
    // Sealed by a version with fewer columns than the next one.
    let options = || Options { unsealed: Some(UNSEALED), ..Options::default() };
    let old = Db::open_with(&path, &MIGRATIONS[..5], TimeSource::Database, options()).expect("opened");
    let table_rule = "INSERT INTO apps (id, name, description, version, state, source, approvals, etag, created_at, updated_at) \
               VALUES ('a', 'shop', '', 1, 'active', 'ui', 0, 1, 1, 1)";
    old.write(move |tx| tx.execute(table_rule, &[])).await.expect("written");
    drop(old);
    let new = Db::open_with(&path, MIGRATIONS, TimeSource::Database, options()).expect("opened");
    let found = new.compare().await.expect("compared");
    assert!(found.is_whole() && found.rows >= 2, "{found:?}");
    raw(folder.path()).execute_batch("UPDATE users SET name = 'eve'").expect("edited");
    assert_eq!(edits(&new.compare().await.expect("compared"), "users"), [Edit::Changed]);
}

#[tokio::test]
async fn edited_rows_are_named_until_an_administrator_accepts_them_and_the_audit_says_so() {
    let control = ControlPlane::in_real_time().await;
    for key in ["a", "b"] {
        create_rule(&control, "shop", limit(key, 1)).await.expect("made");
    }
    let by = Claim::program("tollgate");
    assert!(control.compare_rows(&by).await.expect("compared").is_whole());
    let file = raw(control.folder());
    file.execute_batch(
        "UPDATE car SET max_permits = 1000000 WHERE key = 'a'; DELETE FROM car WHERE key = 'b'",
    )
    .expect("edited");
    file.execute_batch("INSERT INTO role_bindings VALUES ('nobody', '*', 'admin')").expect("added");
    let found = control.compare_rows(&by).await.expect("compared");
    let mut whats: Vec<_> = found.differences.iter().map(|it| (&*it.table, it.what)).collect();
    whats.sort_by_key(|it| format!("{it:?}"));
    assert_eq!(whats, [("car", Edit::Changed), ("car", Edit::Removed), ("role_bindings", Edit::Added)]);
    let accepted = control.accept_edits(&by, "the disk was repaired by hand").await.expect("accepted");
    assert_eq!(accepted, found);
    assert!(control.compare_rows(&by).await.expect("compared").is_whole());
    assert!(control.accept_edits(&by, "").await.is_err(), "nothing is left to accept");
    let entry = "SELECT after FROM audit WHERE action = 'audit.accept_edits'";
    assert!(texts(&file, entry)[0].contains("role_bindings 'nobody' '*'"));
}

/// Statements by which the program could change each row of a table.
fn changes(raw: &Connection, table: &str) -> Vec<String> {
    let types = texts(raw, &format!("SELECT type FROM pragma_table_info('{table}')"));
    let value = |it: &String| if it == "TEXT" { "'x'" } else { "1" };
    let values: Vec<_> = types.iter().map(value).collect();
    let insert = format!("INSERT INTO {table} VALUES ({})", values.join(", "));
    let mut changes = vec![format!("DELETE FROM {table}"), insert];
    for (column, of) in columns(raw, table).iter().zip(&types) {
        let value = if of == "TEXT" { "'new'" } else { "7" };
        changes.push(format!("UPDATE {table} SET {column} = {value}"));
    }
    changes
}

/// A copy of the database, and what its changes find of edits.
fn copied(raw: &Connection) -> (tempfile::TempDir, Db, Arc<Mutex<Vec<Difference>>>) {
    let copy = tempfile::tempdir().expect("a folder");
    raw.execute("VACUUM INTO ?1", [copy.path().join("control.db").display().to_string()]).expect("copied");
    let found = Arc::<Mutex<Vec<Difference>>>::default();
    let kept = Arc::clone(&found);
    let on_edits: OnEdits = Arc::new(move |_, edits| {
        kept.lock().extend_from_slice(edits);
        Ok(())
    });
    let options = Options { unsealed: Some(UNSEALED), on_edits: Some(on_edits), ..Options::default() };
    let path = copy.path().join("control.db");
    (copy, Db::open_with(&path, MIGRATIONS, TimeSource::Database, options).expect("opened"), found)
}

#[tokio::test]
async fn an_edit_is_found_also_after_any_change_of_the_same_row_and_no_change_is_taken_for_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = opened(folder.path());
    let raw = raw(folder.path());
    filled(&db, &raw).await;
    let mut seen = 0;
    for table in tables(&raw) {
        let except = UNSEALED.iter().find(|it| it.0 == table).map(|it| it.1);
        if except.is_some_and(<[_]>::is_empty) {
            continue;
        }
        let except = except.unwrap_or_default();
        let (copy, db, found) = copied(&raw);
        let file = self::raw(copy.path());
        let row = format!("CREATE TEMP TABLE kept AS SELECT * FROM {table}");
        file.execute_batch(&row).expect("kept");
        // Another program's edit: of each column, of the whole row, and another row.
        let sealed = columns(&raw, &table).into_iter().filter(|it| !except.contains(&&**it));
        let mut edits: Vec<_> =
            sealed.map(|it| format!("UPDATE {table} SET {it} = COALESCE({it}, '') || 'x'")).collect();
        edits.push(format!("DELETE FROM {table}"));
        let changes = changes(&raw, &table);
        // Each edit before some change, and each change after some edit.
        for nth in 0..edits.len().max(changes.len()) {
            let edit = &edits[nth % edits.len()];
            let change = &changes[nth % changes.len()];
            file.execute_batch(&format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept"))
                .expect("as it was");
            db.write_sealing_all(|_| Ok::<_, DbError>(())).await.expect("sealed as it is");
            found.lock().clear();
            let what = format!("{edit}; then {change}");
            let is_edited = file.execute(edit, []).is_ok_and(|rows| rows == 1);
            let work: &'static str = change.clone().leak();
            let changed = db.write(move |tx| tx.execute(work, &[])).await;
            let whole = db.compare().await.expect("compared").is_whole();
            let noticed = found.lock().len();
            if !is_edited {
                assert!(whole && noticed == 0, "{what}: nothing was edited, {noticed} found");
                continue;
            }
            assert!(!whole || noticed > 0, "{what}: the edit is lost");
            assert!(changed.is_ok() || noticed == 0, "{what}: undone, and found all the same");
            assert!(found.lock().iter().all(|it| it.table == table && it.sealed != it.found), "{what}");
            seen += noticed;
        }
    }
    assert!(seen > 50, "edits are found by the change that overwrites them: {seen}");
}

#[tokio::test]
async fn an_edit_that_a_change_overwrites_is_in_the_audit_and_a_problem_until_it_is_accepted() {
    let control = ControlPlane::in_real_time().await;
    let save = async |control: &Control, rate: i64| {
        write_rule(control, "shop", limit("a", rate)).await.expect("saved");
    };
    save(&control, 20).await;
    save(&control, 30).await;
    let by = Claim::program("tollgate");
    let shown = async |control: &Control| {
        let problems = control.problems(&by).await.expect("problems");
        problems.into_iter().find(|it| it.kind == ProblemKind::EditedRows).map(|it| (it.value, it.detail))
    };
    assert_eq!(shown(&control).await, None);
    let file = raw(control.folder());
    file.execute_batch("UPDATE apps SET description = 'edited'; UPDATE car SET max_permits = 1")
        .expect("edited");
    assert_eq!(shown(&control).await, None, "nothing has looked yet");
    assert_eq!(control.compare_rows_now().await.0.expect("compared").differ, 2);
    assert_eq!(shown(&control).await.expect("a problem").0, 2);
    // The change makes the app's next version and overwrites both rows.
    save(&control, 40).await;
    let (rows, detail) = shown(&control).await.expect("a problem");
    assert!(rows >= 2 && detail.contains("apps"), "{rows}: {detail}");
    assert!(control.compare_rows_now().await.0.expect("compared").is_whole(), "sealed anew");
    let again = control.beside().await;
    for control in [&control, &again] {
        assert_eq!(shown(control).await.expect("a problem").0, 2, "also after a start");
    }
    let entries = texts(&file, "SELECT actor || ' ' || after FROM audit WHERE action = 'database.edited'");
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert!(entries[0].starts_with("another program {"), "{entries:?}");
    for part in ["\"apps\"", "\"car\"", "\"sealed\"", "\"found\"", "\"changed\""] {
        assert!(entries[0].contains(part), "{part}: {entries:?}");
    }
    let control = control.restart().await;
    let recorded = control.recorded_edits().await.expect("read");
    assert_eq!((recorded.entries, recorded.open), (1, 1));
    control.accept_edits(&by, "the disk was repaired by hand").await.expect("accepted");
    assert_eq!(shown(&control).await, None);
    let recorded = control.recorded_edits().await.expect("read");
    assert_eq!((recorded.entries, recorded.open), (1, 0), "the audit keeps it");
}

#[tokio::test]
async fn changes_by_a_command_beside_the_control_plane_are_no_edits() {
    let here = ControlPlane::in_real_time().await;
    let beside = here.beside().await;
    let by = Claim::program("tollgate");
    for name in ["ann", "bob", "cleo"] {
        beside.invite(&by, name, "*", "admin").await.expect("invited");
        here.reset_password(&by, name, None).await.expect("reset here");
        beside.reset_password(&by, name, None).await.expect("and there");
    }
    assert!(here.compare_rows(&by).await.expect("compared").is_whole());
    assert_eq!(here.recorded_edits().await.expect("read"), Recorded::default());
}

#[tokio::test]
async fn rows_that_an_older_program_has_sealed_are_found_whole_or_edited_after_the_migrations() {
    // That program sealed the tables that are not there any more.
    let unsealed: Vec<_> = UNSEALED.iter().copied().filter(|it| it.0 != "rules").collect();
    let unsealed: Unsealed = unsealed.leak();
    for known in 10..=MIGRATIONS.len() {
        for is_edited in [false, true] {
            let folder = tempfile::tempdir().expect("a folder");
            let db = opened_by(folder.path(), &MIGRATIONS[..known], unsealed);
            let raw = raw(folder.path());
            filled(&db, &raw).await;
            drop(db);
            if is_edited {
                raw.execute_batch("UPDATE car SET rate = 7; DELETE FROM change_ops").expect("edited");
            }
            let found = opened(folder.path()).compare().await.expect("compared");
            let what: Vec<_> = found.differences.iter().map(|it| (&*it.table, it.what)).collect();
            let edits = [("car", Edit::Changed), ("change_ops", Edit::Removed)];
            assert_eq!(what, edits[..2 * usize::from(is_edited)], "{known} migrations: {found:?}");
        }
    }
}
