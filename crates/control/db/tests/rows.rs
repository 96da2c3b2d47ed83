//! Rows with named columns: reading them, and rejected types.

use tollgate_db::{
    Columns, Db, DbError, Migration, Select, TimeSource, columns, insert, query_any, query_int, query_value,
    query_values, row, select, sql,
};

row! {
    /// Where a stone lies.
    #[derive(Debug, PartialEq, Eq)]
    struct Place { x: i64, y: Option<i64> = "stones.y" }
}

#[derive(Debug, PartialEq, Eq)]
struct Stone {
    name: String,
    place: Place,
    is_high: bool,
    note: String,
    seen: usize,
}

fn without_absence(note: Option<String>) -> String {
    note.unwrap_or_else(|| "none".to_owned())
}

columns! {
    Stone {
        name,
        place = Place::COLUMNS,
        is_high = "COALESCE(y, 0) > 5",
        note => without_absence,
    } and {
        seen: 0,
    }
}

row! {
    struct Misread { name: i64 }
}

row! {
    #[derive(Debug, PartialEq, Eq)]
    struct Total { sum: i64 = "(SELECT total FROM sums)" }
}

const BY_NAME: Select<Stone> = select!(Stone: "FROM stones WHERE x >= $1 ORDER BY name");

fn stones() -> Result<(tempfile::TempDir, Db), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let sql = "CREATE TABLE stones (name TEXT NOT NULL PRIMARY KEY, x BIGINT NOT NULL, y BIGINT, note TEXT)";
    let db = Db::open(
        &folder.path().join("stones.db"),
        &[Migration { number: 1, name: "stones", sql }],
        TimeSource::Database,
    )?;
    db.write_blocking(|tx| {
        insert!(tx, "stones" { name: "amber", x: 1, y: 9, note: "warm" })?;
        insert!(tx, "stones" { note: None::<String>, y: 5, x: 2, name: "basalt" })?;
        insert!(tx, "stones" { name: "chalk", x: 3, y: None::<i64>, note: "" })
    })?;
    Ok((folder, db))
}

#[test]
fn a_statement_selects_the_columns_of_its_row_in_their_order() {
    assert_eq!(Stone::COLUMNS, "name, x, stones.y, COALESCE(y, 0) > 5, note");
    assert_eq!(
        BY_NAME.statement(),
        "SELECT name, x, stones.y, COALESCE(y, 0) > 5, note FROM stones WHERE x >= $1 ORDER BY name"
    );
    assert_eq!(sql!("a", "é", ""), "aé");
}

#[test]
fn a_row_has_the_values_of_its_columns_also_of_a_row_within() -> Result<(), Box<dyn std::error::Error>> {
    let (_folder, db) = stones()?;
    let stone = |name: &str, place, is_high, note: &str| Stone {
        name: name.to_owned(),
        place,
        is_high,
        note: note.to_owned(),
        seen: 0,
    };
    let found: Vec<Stone> =
        db.read_blocking(|tx| BY_NAME.all(tx, &[1.into()]))?.into_iter().take(2).collect();
    assert_eq!(
        found,
        [
            stone("amber", Place { x: 1, y: Some(9) }, true, "warm"),
            stone("basalt", Place { x: 2, y: Some(5) }, false, "none"),
        ]
    );
    let first = db.read_blocking(|tx| BY_NAME.first(tx, &[2.into()]))?;
    assert_eq!(first.map(|it| it.name).as_deref(), Some("basalt"));
    assert_eq!(db.read_blocking(|tx| BY_NAME.first(tx, &[4.into()]))?, None);
    Ok(())
}

#[test]
fn a_statement_may_begin_with_a_table_of_its_own() -> Result<(), Box<dyn std::error::Error>> {
    let (_folder, db) = stones()?;
    let total = select!("WITH sums AS (SELECT SUM(x) AS total FROM stones) ", Total: "FROM sums");
    assert_eq!(db.read_blocking(move |tx| total.all(tx, &[]))?, [Total { sum: 6 }]);
    Ok(())
}

#[test]
fn a_row_that_is_there_is_changed_as_its_statement_says() -> Result<(), Box<dyn std::error::Error>> {
    let (_folder, db) = stones()?;
    let taken = db.write_blocking(|tx| insert!(tx, "stones" { name: "amber", x: 7 }));
    assert!(matches!(taken, Err(DbError::Constraint(_))), "{taken:?}");
    let changed = db.write_blocking(
        |tx| insert!(tx, "stones" { name: "amber", x: 7 }, "ON CONFLICT (name) DO UPDATE SET x = excluded.x"),
    );
    assert_eq!(changed?, 1);
    let x = db.read_blocking(|tx| query_int(tx, "SELECT x FROM stones WHERE name = 'amber'", &[]))?;
    assert_eq!(x, 7);
    Ok(())
}

#[test]
fn one_column_is_read_without_a_row_type() -> Result<(), Box<dyn std::error::Error>> {
    let (_folder, db) = stones()?;
    let highest = "SELECT x FROM stones WHERE x > $1 ORDER BY x DESC";
    for (above, all, first, number, is_any) in
        [(0, vec![3, 2, 1], Some(3), 3, true), (2, vec![3], Some(3), 3, true), (3, vec![], None, 0, false)]
    {
        let read = move |tx: &mut dyn tollgate_db::Tx| {
            let values = [above.into()];
            Ok::<_, DbError>((
                query_values::<i64>(tx, highest, &values)?,
                query_value::<i64>(tx, highest, &values)?,
                query_int(tx, highest, &values)?,
                query_any(tx, highest, &values)?,
            ))
        };
        assert_eq!(db.read_blocking(read)?, (all, first, number, is_any), "above {above}");
    }
    Ok(())
}

#[test]
fn another_type_or_number_of_columns_is_an_error() -> Result<(), Box<dyn std::error::Error>> {
    let (_folder, db) = stones()?;
    let misread = db.read_blocking(|tx| select!(Misread: "FROM stones").first(tx, &[]).map(drop));
    assert!(matches!(misread, Err(DbError::Shape { column: 0, wanted: "a number" })), "{misread:?}");
    let absent = db.read_blocking(|tx| {
        query_values::<String>(tx, "SELECT note FROM stones WHERE note IS NULL", &[]).map(drop)
    });
    assert!(matches!(absent, Err(DbError::Shape { column: 0, wanted: "a text" })), "{absent:?}");
    let more = db.read_blocking(|tx| query_int(tx, "SELECT x, y FROM stones", &[]));
    assert!(matches!(more, Err(DbError::Shape { column: 1, .. })), "{more:?}");
    let fewer = db.read_blocking(|tx| query_value::<Place>(tx, "SELECT x FROM stones", &[]));
    assert!(matches!(fewer, Err(DbError::Shape { column: 1, wanted: "a number" })), "{fewer:?}");
    Ok(())
}
