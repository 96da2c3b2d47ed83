//! Seals: digests, in a chain, of the rows that each transaction has changed. So a row that another program
//! has edited is found by comparing.
//!
//! Triggers of the connection that writes, which no other program has, note the key of each row with its
//! digest before and after. At the commit, the last digests become one row of `seals`. A row that differs
//! from its last seal was edited by another program: that is reported before the row is sealed again. A
//! column whose value is its default is not part of a digest, so that a migration that adds a column changes
//! no digest and no key. Not here: which rows matter, and the reaction to an edit (`control`).

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension as _};
use sha2::{Digest as _, Sha256};

use crate::difference::{Difference, Edit};
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

/// The functions by which triggers note a row: as it was, and as it is now. Their arguments are the number of
/// the table, the key and the columns.
const WAS: &str = "sealed_was";
const NOW: &str = "sealed_now";

/// A table whose rows are sealed.
#[derive(Debug)]
pub(crate) struct SealedTable {
    pub(crate) name: String,
    /// The columns of its primary key, each with its default.
    keys: Vec<(String, Option<String>)>,
    /// Sealed columns with their defaults.
    columns: Vec<(String, Value)>,
}

/// Notes that triggers took in the open transaction, oldest first.
type Notes = Arc<Mutex<Vec<Note>>>;

/// A row before or after a change.
#[derive(Clone, Debug)]
struct Note {
    /// The number of its table.
    table: usize,
    key: String,
    is_before: bool,
    digest: RowDigest,
}

/// Sealing state of the connection that writes.
#[derive(Debug)]
pub(crate) struct Seals {
    pub(crate) unsealed: Unsealed,
    tables: Arc<Vec<SealedTable>>,
    notes: Notes,
    last: Last,
}

/// The end of the chain as it was read or written last, and its digest of each row.
#[derive(Debug, Default)]
struct Last {
    seq: i64,
    hash: String,
    rows: HashMap<RowId, RowDigest>,
}

/// Part of the digest of table and key: memory is for many rows.
type RowId = [u8; 16];
type RowDigest = [u8; 16];

/// Changes of one transaction, ready to be sealed.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// One line per row: table, digest (empty if the row is gone) and key.
    lines: String,
    rows: Vec<(RowId, Option<RowDigest>)>,
    /// Rows that were not as their last seal says.
    pub(crate) edits: Vec<Difference>,
}

/// A seal that is in a transaction; it counts once that is committed.
#[derive(Debug)]
pub(crate) struct Sealed {
    seq: i64,
    hash: String,
    rows: Vec<(RowId, Option<RowDigest>)>,
}

impl Seals {
    /// Begins to note changed rows. Where there are no seals yet, all rows are sealed as they are.
    pub(crate) fn begin(connection: &Connection, unsealed: Unsealed) -> Result<Self, DbError> {
        connection.execute_batch(TABLE)?;
        let tables = Arc::new(tables(connection, unsealed)?);
        let notes = Notes::default();
        for (name, is_before) in [(WAS, true), (NOW, false)] {
            take_notes(connection, name, is_before, &tables, &notes)?;
        }
        for (nth, table) in tables.iter().enumerate() {
            connection.execute_batch(&table.triggers(nth))?;
        }
        let mut seals = Self { unsealed, tables, notes, last: Last::default() };
        let is_first =
            connection.query_row("SELECT 1 FROM seals LIMIT 1", [], |_| Ok(())).optional()?.is_none();
        if is_first {
            connection.execute_batch("BEGIN IMMEDIATE")?;
            let sealed = seals.note_all(connection).and_then(|()| {
                let noted = seals.noted(connection)?;
                seals.seal(connection, None, noted)
            });
            connection.execute_batch(if sealed.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
            sealed?.into_iter().for_each(|it| seals.committed(it));
        } else if !seals.last.follow(connection)? {
            // Each comparison reports this too. The readable seals still reveal later edits.
            tracing::error!("seals were changed or are missing; `tollgate control audit compare` says which");
        }
        Ok(seals)
    }

    /// Notes all rows, so that they are sealed as they are.
    pub(crate) fn note_all(&self, connection: &Connection) -> Result<(), DbError> {
        self.tables
            .iter()
            .enumerate()
            .try_for_each(|(nth, table)| Ok(connection.execute_batch(&table.all(nth))?))
    }

    /// The number of notes so far, for [`forget`](Self::forget) after a statement that failed.
    pub(crate) fn mark(&self) -> usize {
        self.notes.lock().len()
    }

    /// Forgets the notes after `mark`; 0 for a new transaction.
    pub(crate) fn forget(&self, mark: usize) {
        self.notes.lock().truncate(mark);
    }

    /// Before a commit: the changes of the transaction, and those of the changed rows that another program
    /// has edited since they were sealed.
    pub(crate) fn noted(&mut self, connection: &Connection) -> Result<Noted, DbError> {
        let mut noted = Noted::default();
        let rows = folded(&self.notes.lock());
        if rows.is_empty() {
            return Ok(noted);
        }
        let known = self.last.seq;
        if !self.last.follow(connection)? {
            let key = (known.min(self.last.seq) + 1).to_string();
            noted.edits.push(Difference { table: "seals".to_owned(), key, ..Difference::default() });
        }
        for ((nth, key), (was, now)) in rows {
            let Some(table) = self.tables.get(nth).map(|it| &it.name) else { continue };
            let _ = writeln!(noted.lines, "{table} {} {key}", shown(now));
            let id = row_id(table, &key);
            noted.rows.push((id, now));
            let sealed = self.last.rows.get(&id).copied();
            if sealed != was {
                let what = match (sealed, was) {
                    (Some(_), Some(_)) => Edit::Changed,
                    (None, _) => Edit::Added,
                    (_, None) => Edit::Removed,
                };
                let table = table.clone();
                let sealed = shown(sealed);
                let found = shown(was);
                noted.edits.push(Difference { table, key, what, sealed, found });
            }
        }
        Ok(noted)
    }

    /// Before a commit: seals the noted rows. `None` if there are none.
    pub(crate) fn seal(
        &self,
        connection: &Connection,
        head: Option<&Head>,
        Noted { lines, rows, .. }: Noted,
    ) -> Result<Option<Sealed>, DbError> {
        if lines.is_empty() {
            return Ok(None);
        }
        self.forget(0);
        let Last { seq: before, hash: hash_before, .. } = &self.last;
        let head = head.map_or_else(String::new, |(seq, hash)| format!("{seq}:{hash}"));
        let seq = before + 1;
        let hash = hash(hash_before, seq, &head, &lines);
        let mut insert = connection.prepare_cached("INSERT INTO seals VALUES (?1, ?2, ?3, ?4)")?;
        insert.execute((seq, head, lines, &hash))?;
        Ok(Some(Sealed { seq, hash, rows }))
    }

    /// After a commit.
    pub(crate) fn committed(&mut self, Sealed { seq, hash, rows }: Sealed) {
        (self.last.seq, self.last.hash) = (seq, hash);
        rows.into_iter().for_each(|(id, digest)| self.last.take(id, digest));
    }
}

impl Noted {
    /// Adds the rows that another program has removed, which no trigger notes; for sealing all rows as they
    /// are.
    pub(crate) fn and_removed(self, removed: impl Iterator<Item = (String, String)>) -> Self {
        let mut all = Self { edits: Vec::new(), ..self };
        for (table, key) in removed {
            let _ = writeln!(all.lines, "{table}  {key}");
            all.rows.push((row_id(&table, &key), None));
        }
        all
    }
}

impl Last {
    fn take(&mut self, id: RowId, digest: Option<RowDigest>) {
        match digest {
            Some(digest) => self.rows.insert(id, digest),
            None => self.rows.remove(&id),
        };
    }

    /// Reads seals that were written since, as by a command beside this process. Returns whether the chain is
    /// whole; if it is not, it is followed from its end.
    fn follow(&mut self, connection: &Connection) -> Result<bool, DbError> {
        let mut last = connection.prepare_cached("SELECT seq, hash FROM seals ORDER BY seq DESC LIMIT 1")?;
        let last = last.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let last: (i64, String) = last.unwrap_or_default();
        if (self.seq, &self.hash) == (last.0, &last.1) {
            return Ok(true);
        }
        let mut is_whole = true;
        let mut newer = connection
            .prepare_cached("SELECT seq, head, rows, hash FROM seals WHERE seq > ?1 ORDER BY seq")?;
        let mut newer = newer.query([self.seq])?;
        while let Some(row) = newer.next()? {
            let read = || Ok::<_, rusqlite::Error>((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
            let read: Option<(i64, String, String, String)> = read().ok(); // another type is an edit too
            let Some((seq, head, rows, own)) = read else {
                is_whole = false;
                continue;
            };
            is_whole &= seq == self.seq + 1 && own == hash(&self.hash, seq, &head, &rows);
            for line in rows.lines() {
                match lined(line) {
                    Some((table, digest, key)) => self.take(row_id(table, key), digest),
                    None => is_whole = false,
                }
            }
            (self.seq, self.hash) = (seq, own);
        }
        // Its end was removed, or is another one.
        is_whole &= (self.seq, &self.hash) == (last.0, &last.1);
        (self.seq, self.hash) = last;
        Ok(is_whole)
    }
}

/// Table, digest and key of a line of a seal.
fn lined(line: &str) -> Option<(&str, Option<RowDigest>, &str)> {
    let mut parts = line.splitn(3, ' ');
    let table = parts.next()?;
    let digest = parts.next()?;
    let key = parts.next()?;
    if digest.is_empty() {
        return Some((table, None, key));
    }
    let mut bytes = RowDigest::default();
    if digest.len() != 2 * bytes.len() {
        return None;
    }
    for (nth, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digest.get(2 * nth..2 * nth + 2)?, 16).ok()?;
    }
    Some((table, Some(bytes), key))
}

fn row_id(table: &str, key: &str) -> RowId {
    let mut id = Sha256::new();
    id.update(table);
    id.update(" ");
    id.update(key);
    shortened(id)
}

fn shortened(digest: Sha256) -> [u8; 16] {
    let mut short = [0; 16];
    short.copy_from_slice(&digest.finalize()[..16]);
    short
}

/// Makes a function that triggers call.
fn take_notes(
    connection: &Connection,
    name: &str,
    is_before: bool,
    tables: &Arc<Vec<SealedTable>>,
    notes: &Notes,
) -> Result<(), DbError> {
    let tables = Arc::clone(tables);
    let notes = Arc::clone(notes);
    // Not innocuous: nothing in the file may call it. Triggers of this connection are not in the file.
    connection.create_scalar_function(name, -1, FunctionFlags::SQLITE_UTF8, move |call| {
        let nth = usize::try_from(call.get::<i64>(0)?).unwrap_or(usize::MAX);
        let table = tables.get(nth).filter(|it| it.columns.len() + 2 == call.len());
        let table = table.ok_or_else(|| rusqlite::Error::InvalidParameterCount(call.len(), 0))?;
        let digest = table.digest(|nth| Ok(call.get_raw(2 + nth)))?;
        notes.lock().push(Note { table: nth, key: in_line(call.get_raw(1)), is_before, digest });
        Ok(rusqlite::types::Null)
    })?;
    Ok(())
}

/// By table and key, the digest before the first change and after the last; none where there was no row.
fn folded(notes: &[Note]) -> BTreeMap<(usize, String), (Option<RowDigest>, Option<RowDigest>)> {
    let mut rows = BTreeMap::new();
    for Note { table, key, is_before, digest } in notes.iter().cloned() {
        let first = if is_before { Some(digest) } else { None };
        let (_, now) = rows.entry((table, key)).or_insert((first, None));
        *now = if is_before { None } else { Some(digest) };
    }
    rows
}

fn shown(digest: Option<RowDigest>) -> String {
    digest.map_or_else(String::new, |it| hex(&it))
}

/// Digest of a seal.
pub(crate) fn hash(before: &str, seq: i64, head: &str, rows: &str) -> String {
    hex(&Sha256::digest(format!("{before}\n{seq}\n{head}\n{rows}")))
}

/// The tables of the database that are sealed.
pub(crate) fn tables(connection: &Connection, unsealed: Unsealed) -> Result<Vec<SealedTable>, DbError> {
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
        let mut keys = Vec::new();
        let mut columns = Vec::new();
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
        tables.push(SealedTable { name, keys, columns });
    }
    Ok(tables)
}

impl SealedTable {
    fn keys_of(&self, of: &str) -> Vec<String> {
        self.keys.iter().map(|(key, _)| format!("{of}\"{key}\"")).collect()
    }

    /// `nth`: its number among all tables.
    fn triggers(&self, nth: usize) -> String {
        let name = &self.name;
        let sealed: Vec<String> = self.columns.iter().map(|(column, _)| format!("\"{column}\"")).collect();
        let was = format!("SELECT {};", self.noted(WAS, nth, "OLD."));
        let now = format!("SELECT {};", self.noted(NOW, nth, "NEW."));
        let trigger = |what: &str, event: &str, note: &str| {
            format!("CREATE TEMP TRIGGER \"sealed_{what}_{name}\" AFTER {event} BEGIN {note} END;")
        };
        let on = |event: &str| format!("{event} ON main.\"{name}\"");
        // Some statements write a value that is already there.
        let differs = sealed.iter().map(|column| format!("OLD.{column} IS NOT NEW.{column}"));
        let differs = differs.collect::<Vec<_>>().join(" OR ");
        let update = format!("{} WHEN {differs}", on(&format!("UPDATE OF {}", sealed.join(", "))));
        trigger("insert", &on("INSERT"), &now)
            + &trigger("delete", &on("DELETE"), &was)
            + &trigger("update", &update, &(was + &now))
    }

    /// Notes all rows.
    fn all(&self, nth: usize) -> String {
        format!("SELECT COUNT({}) FROM main.\"{}\" AS t", self.noted(NOW, nth, "t."), self.name)
    }

    /// Calls a function that notes a row, which is named `of`.
    fn noted(&self, function: &str, nth: usize, of: &str) -> String {
        let columns: String = self.columns.iter().map(|(column, _)| format!(", {of}\"{column}\"")).collect();
        format!("{function}({nth}, {}{columns})", self.quoted(&self.keys_of(of)))
    }

    /// A key as SQL. Columns after the first are left out if their value is their default.
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

    /// Key and columns of each row.
    pub(crate) fn scan(&self) -> String {
        format!(
            "SELECT {} {} FROM main.\"{}\" AS t",
            self.quoted(&self.keys_of("t.")),
            self.sealed(),
            self.name
        )
    }

    /// Digest of a row with these columns: names, types and values that are not defaults.
    pub(crate) fn digest<'r>(
        &self,
        value: impl Fn(usize) -> rusqlite::Result<ValueRef<'r>>,
    ) -> rusqlite::Result<RowDigest> {
        let mut digest = Sha256::new();
        for (nth, (column, default)) in self.columns.iter().enumerate() {
            let value = value(nth)?;
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
        Ok(shortened(digest))
    }
}

/// A key as part of a line.
pub(crate) fn in_line(key: ValueRef<'_>) -> String {
    let key = key.as_bytes().map_or_else(|_| "NULL".into(), String::from_utf8_lossy);
    key.replace('\\', "\\\\").replace('\n', "\\n")
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
