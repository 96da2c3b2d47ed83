//! Rows agree with their seals, whatever the outcome of a statement or a transaction.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use tollgate_db::{Db, DbError, Migration, Options, TimeSource, Tx};

const TABLE: &str = "CREATE TABLE steps (name TEXT PRIMARY KEY, place BIGINT NOT NULL UNIQUE)";
const MIGRATIONS: [Migration; 1] = [Migration { number: 1, name: "steps", sql: TABLE }];

/// Statements of one transaction. A statement that breaks a constraint is left out, as by a caller that
/// ignores the error.
type Statements = &'static [&'static str];

const FIRST: Statements = &["INSERT INTO steps VALUES ('a', 1), ('b', 2), ('c', 4)"];

async fn write(db: &Db, statements: Statements, is_kept: bool) -> Result<usize, DbError> {
    db.write(move |tx: &mut dyn Tx| {
        let mut broken = 0;
        for statement in statements {
            match tx.execute(statement, &[]) {
                Ok(_) => {}
                Err(DbError::Constraint(_)) => broken += 1,
                Err(error) => return Err(error),
            }
        }
        if is_kept { Ok(broken) } else { Err(DbError::Closed) }
    })
    .await
}

#[tokio::test]
async fn a_row_is_as_its_seal_says_also_after_statements_that_were_undone() {
    let rows: [(Statements, usize, u64); 7] = [
        (&["UPDATE steps SET place = place + 1 WHERE name <> 'b'"], 1, 3), // 'a' is changed, then undone
        (&["INSERT INTO steps VALUES ('d', 8), ('e', 4)"], 1, 3),          // so is 'd'
        (&["INSERT INTO steps VALUES ('d', 8), ('e', 4)", "INSERT INTO steps VALUES ('d', 9)"], 1, 4),
        (&["DELETE FROM steps WHERE name = 'a'", "INSERT INTO steps VALUES ('a', 7)"], 0, 3),
        (&["INSERT INTO steps VALUES ('d', 8)", "DELETE FROM steps WHERE name = 'd'"], 0, 3),
        (
            &["UPDATE steps SET name = 'f' WHERE name = 'a'", "UPDATE steps SET place = 3 WHERE name = 'f'"],
            0,
            3,
        ),
        (
            &["UPDATE steps SET place = 9 WHERE name = 'a'", "UPDATE steps SET place = 1 WHERE name = 'a'"],
            0,
            3,
        ),
    ];
    for (statements, breaks, left) in rows {
        for is_kept in [true, false] {
            let folder = tempfile::tempdir().expect("a folder");
            let options = Options { unsealed: Some(&[]), ..Options::default() };
            let path = folder.path().join("control.db");
            let db = Db::open_with(&path, &MIGRATIONS, TimeSource::Database, options).expect("opened");
            write(&db, FIRST, true).await.expect("written");
            match write(&db, statements, is_kept).await {
                Ok(broken) => assert_eq!((broken, is_kept), (breaks, true), "{statements:?}"),
                Err(error) => assert!(!is_kept, "{statements:?}: {error}"),
            }
            // A change that was undone would be sealed with this one, were it still noted.
            write(&db, &["UPDATE steps SET place = 20 WHERE name = 'b'"], true).await.expect("written");
            let found = db.compare().await.expect("compared");
            let left = if is_kept { left } else { 3 };
            assert_eq!(
                (found.rows, found.differ, found.broken_at),
                (left, 0, None),
                "{statements:?} {is_kept}"
            );
        }
    }
}

#[tokio::test]
async fn a_trigger_that_another_program_put_into_the_file_cannot_seal_a_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { unsealed: Some(&[]), ..Options::default() };
    let path = folder.path().join("control.db");
    let db = Db::open_with(&path, &MIGRATIONS, TimeSource::Database, options).expect("opened");
    write(&db, FIRST, true).await.expect("written");
    let other = rusqlite::Connection::open(&path).expect("opened");
    other.execute("UPDATE steps SET place = 30 WHERE name = 'c'", []).expect("edited");
    let seals_c =
        "CREATE TRIGGER sly AFTER INSERT ON steps BEGIN SELECT sealed_now(0, '''c''', 'c', 30); END";
    other.execute(seals_c, []).expect("made");
    let refused = write(&db, &["INSERT INTO steps VALUES ('d', 8)"], true).await.expect_err("unsafe");
    assert!(refused.to_string().contains("unsafe use of sealed_now"), "{refused}");
    let found = db.compare().await.expect("compared");
    assert_eq!((found.rows, found.differ), (3, 1), "the edit is still seen");
}
