//! Seals: what each transaction has left of the rows that it changed, as digests in a chain. So a row that
//! another program has edited is found by comparing.
//!
//! Triggers of the connection that writes, which no other program has, note the keys of rows; before the
//! commit their digests become one row of `seals`. A column whose value is its default is not part of a
//! digest, so that a migration that adds a column changes none, also to a key. Not here: which rows matter
//! (`control`).

use std::fmt::Write as _;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row};
use sha2::{Digest as _, Sha256};

use crate::error::DbError;
use crate::watch::Head;

/// Tables and columns that are not sealed; a table without columns is left out as a whole.
pub type Unsealed = &'static [(&'static str, &'static [&'static str])];

/// Most columns of a primary key.
const MOST_KEYS: usize = 3;

const TABLE: &str = "
CREATE TABLE IF NOT EXISTS seals (
    seq INTEGER PRIMARY KEY, head TEXT NOT NULL, rows TEXT NOT NULL, hash TEXT NOT NULL UNIQUE);
CREATE TRIGGER IF NOT EXISTS seals_are_never_changed BEFORE UPDATE ON seals
    BEGIN SELECT RAISE(ABORT, 'seals are never changed'); END;
CREATE TRIGGER IF NOT EXISTS seals_are_never_removed BEFORE DELETE ON seals
    BEGIN SELECT RAISE(ABORT, 'seals are never removed'); END;";

const TOUCHED: &str = "
PRAGMA temp_store = MEMORY;
CREATE TEMP TABLE touched (tbl, k1, k2, k3);
CREATE INDEX temp.touched_by_table ON touched (tbl, k1, k2, k3);";

/// A table whose rows are sealed.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    /// The columns of its primary key, each with its default.
    keys: Vec<(String, Option<String>)>,
    /// Sealed columns with their defaults.
    columns: Vec<(String, Value)>,
    /// Reads the rows that were noted.
    changed: String,
}

/// What the connection that writes seals.
#[derive(Debug)]
pub(crate) struct Seals {
    pub(crate) unsealed: Unsealed,
    tables: Vec<Table>,
}

impl Seals {
    /// Begins to note changed rows. Where there are no seals yet, all rows are sealed as they are.
    pub(crate) fn begin(connection: &Connection, unsealed: Unsealed) -> Result<Self, DbError> {
        connection.execute_batch(TABLE)?;
        connection.execute_batch(TOUCHED)?;
        let tables = tables(connection, unsealed)?;
        for table in &tables {
            connection.execute_batch(&table.triggers())?;
        }
        let seals = Self { unsealed, tables };
        let is_first =
            connection.query_row("SELECT 1 FROM seals LIMIT 1", [], |_| Ok(())).optional()?.is_none();
        if is_first {
            connection.execute_batch("BEGIN IMMEDIATE")?;
            for table in &seals.tables {
                connection.execute_batch(&table.all())?;
            }
            let sealed = seals.seal(connection, None);
            connection.execute_batch(if sealed.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
            sealed?;
        }
        Ok(seals)
    }

    /// Before a commit: seals the rows that the transaction has changed. Returns whether there are any.
    pub(crate) fn seal(&self, connection: &Connection, head: Option<&Head>) -> Result<bool, DbError> {
        self.seal_with(connection, head, String::new())
    }

    /// Before a commit: seals all rows as they are, also those that another program has edited. `removed` are
    /// table and key of those that it has removed.
    pub(crate) fn seal_all(
        &self,
        connection: &Connection,
        head: Option<&Head>,
        removed: impl Iterator<Item = (String, String)>,
    ) -> Result<bool, DbError> {
        let removed = removed.map(|(table, key)| format!("{table}  {key}\n")).collect();
        for table in &self.tables {
            connection.execute_batch(&table.all())?;
        }
        self.seal_with(connection, head, removed)
    }

    fn seal_with(
        &self,
        connection: &Connection,
        head: Option<&Head>,
        mut rows: String,
    ) -> Result<bool, DbError> {
        let mut touched = connection.prepare_cached("SELECT DISTINCT tbl FROM temp.touched")?;
        let touched = touched.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        for table in self.tables.iter().filter(|it| touched.contains(&it.name)) {
            let mut changed = connection.prepare_cached(&table.changed)?;
            let mut found = changed.query([&table.name])?;
            while let Some(row) = found.next()? {
                let digest = match row.get_ref(1)? {
                    ValueRef::Null => String::new(), // it is gone
                    _ => table.digest(row, 2)?,
                };
                let _ = writeln!(rows, "{} {digest} {}", table.name, in_line(row, 0)?);
            }
        }
        if rows.is_empty() {
            return Ok(false);
        }
        connection.prepare_cached("DELETE FROM temp.touched")?.execute([])?;
        let mut last = connection.prepare_cached("SELECT seq, hash FROM seals ORDER BY seq DESC LIMIT 1")?;
        let last = last.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let (last, before): (i64, String) = last.unwrap_or_default();
        let head = head.map_or_else(String::new, |(seq, hash)| format!("{seq}:{hash}"));
        let hash = hash(&before, last + 1, &head, &rows);
        let mut insert = connection.prepare_cached("INSERT INTO seals VALUES (?1, ?2, ?3, ?4)")?;
        insert.execute((last + 1, head, rows, hash))?;
        Ok(true)
    }
}

/// Digest of a seal.
pub(crate) fn hash(before: &str, seq: i64, head: &str, rows: &str) -> String {
    hex(&Sha256::digest(format!("{before}\n{seq}\n{head}\n{rows}")))
}

/// The tables of the database that are sealed.
pub(crate) fn tables(connection: &Connection, unsealed: Unsealed) -> Result<Vec<Table>, DbError> {
    let mut names = connection.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' \
         AND name NOT IN ('seals', 'schema_history') ORDER BY name",
    )?;
    let names = names.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    let mut tables = Vec::new();
    for name in names {
        let except = unsealed.iter().find(|(table, _)| *table == name).map(|(_, columns)| *columns);
        if except.is_some_and(<[_]>::is_empty) {
            continue;
        }
        let mut read =
            connection.prepare("SELECT name, dflt_value, pk FROM pragma_table_info(?1) ORDER BY cid")?;
        let read = read.query_map([&name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let (mut keys, mut columns) = (Vec::new(), Vec::new());
        for column in read {
            let (column, default, place): (String, Option<String>, i64) = column?;
            if place > 0 {
                keys.push((place, column.clone(), default.clone()));
            }
            if !except.unwrap_or_default().contains(&&*column) {
                let default = default.unwrap_or_else(|| "NULL".to_owned());
                let default = connection.query_row(&format!("SELECT {default}"), [], |row| row.get(0))?;
                columns.push((column, default));
            }
        }
        keys.sort();
        let keys: Vec<_> = keys.into_iter().map(|(_, column, default)| (column, default)).collect();
        if keys.is_empty() || keys.len() > MOST_KEYS {
            return Err(DbError::Unsealed { table: name });
        }
        let mut table = Table { name, keys, columns, changed: String::new() };
        table.changed = table.read_changed();
        tables.push(table);
    }
    Ok(tables)
}

impl Table {
    fn keys_of(&self, of: &str) -> Vec<String> {
        self.keys.iter().map(|(key, _)| format!("{of}\"{key}\"")).collect()
    }

    /// Columns of `touched`.
    fn places(&self) -> String {
        (1..=self.keys.len()).map(|nth| format!(", k{nth}")).collect()
    }

    fn triggers(&self) -> String {
        let (name, places) = (&self.name, self.places());
        let sealed: Vec<String> = self.columns.iter().map(|(column, _)| format!("\"{column}\"")).collect();
        let note = |of: &str| {
            let keys = self.keys_of(of).join(", ");
            format!("INSERT INTO touched (tbl{places}) VALUES ('{name}', {keys});")
        };
        let [new, old] = [note("NEW."), note("OLD.")];
        let trigger = |what: &str, event: &str, note: &str| {
            format!("CREATE TEMP TRIGGER \"sealed_{what}_{name}\" AFTER {event} BEGIN {note} END;")
        };
        let on = |event: &str| format!("{event} ON main.\"{name}\"");
        // Statements also write again what is there.
        let differs = sealed.iter().map(|column| format!("OLD.{column} IS NOT NEW.{column}"));
        let differs = differs.collect::<Vec<_>>().join(" OR ");
        let update = format!("{} WHEN {differs}", on(&format!("UPDATE OF {}", sealed.join(", "))));
        trigger("insert", &on("INSERT"), &new)
            + &trigger("delete", &on("DELETE"), &old)
            + &trigger("update", &update, &(old + &new))
    }

    /// Notes all rows.
    fn all(&self) -> String {
        let (name, places, keys) = (&self.name, self.places(), self.keys_of("").join(", "));
        format!("INSERT INTO temp.touched (tbl{places}) SELECT '{name}', {keys} FROM main.\"{name}\"")
    }

    /// A key as SQL. Of its columns behind the first, those whose value is their default are not part of it.
    fn quoted(&self, keys: &[String]) -> String {
        let column = |(key, (_, default)): (&String, &(String, Option<String>))| match default {
            Some(default) => format!("CASE {key} WHEN {default} THEN '' ELSE ' ' || quote({key}) END"),
            None => format!("' ' || quote({key})"),
        };
        let behind = keys.iter().zip(&self.keys).skip(1).map(|pair| format!(" || {}", column(pair)));
        keys.iter().take(1).map(|first| format!("quote({first})")).chain(behind).collect()
    }

    fn sealed(&self) -> String {
        self.columns.iter().map(|(column, _)| format!(", t.\"{column}\"")).collect()
    }

    /// Key, whether there is a row, and its columns, for each key that was noted.
    fn read_changed(&self) -> String {
        let noted: Vec<String> = (1..=self.keys.len()).map(|nth| format!("w.k{nth}")).collect();
        let pairs = self.keys_of("t.").into_iter().zip(&noted).map(|(key, noted)| format!("{key} = {noted}"));
        format!(
            "SELECT {}, t.\"{}\" {} FROM (SELECT DISTINCT k1, k2, k3 FROM temp.touched WHERE tbl = ?1) AS w \
             LEFT JOIN main.\"{}\" AS t ON {}",
            self.quoted(&noted),
            self.keys[0].0,
            self.sealed(),
            self.name,
            pairs.collect::<Vec<_>>().join(" AND "),
        )
    }

    /// Key and columns of each row.
    pub(crate) fn scan(&self) -> String {
        format!(
            "SELECT {} {} FROM main.\"{}\" AS t",
            self.quoted(&self.keys_of("t.")),
            self.sealed(),
            self.name
        )
    }

    /// Digest of a row whose sealed columns begin at `from`: names, types and values that are not defaults.
    pub(crate) fn digest(&self, row: &Row<'_>, from: usize) -> Result<String, DbError> {
        let mut digest = Sha256::new();
        for (nth, (column, default)) in self.columns.iter().enumerate() {
            let value = row.get_ref(from + nth)?;
            if value == ValueRef::from(default) {
                continue;
            }
            let number;
            let (kind, bytes): (u8, &[u8]) = match value {
                ValueRef::Null => (0, &[]),
                ValueRef::Integer(value) => {
                    number = value.to_be_bytes();
                    (1, &number)
                }
                ValueRef::Real(value) => {
                    number = value.to_bits().to_be_bytes();
                    (2, &number)
                }
                ValueRef::Text(text) => (3, text),
                ValueRef::Blob(bytes) => (4, bytes),
            };
            digest.update([kind]);
            digest.update((column.len() as u64).to_be_bytes());
            digest.update(column);
            digest.update((bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        }
        Ok(hex(&digest.finalize()[..16]))
    }
}

/// A key as part of a line.
pub(crate) fn in_line(row: &Row<'_>, column: usize) -> Result<String, DbError> {
    let key = row.get_ref(column)?;
    let key = key.as_bytes().map_or_else(|_| "NULL".into(), String::from_utf8_lossy);
    Ok(key.replace('\\', "\\\\").replace('\n', "\\n"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
