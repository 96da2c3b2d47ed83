//! SQLite: one file, one writer, several readers, write-ahead log.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params_from_iter};

use crate::compare::{Comparison, compare};
use crate::difference::{Difference, Edit};
use crate::error::DbError;
use crate::kill_points::STEPS;
use crate::seal::{Sealed, Seals, Unsealed};
use crate::tx::{MAX_ROWS, Tx};
use crate::value::{Row, Value};
use crate::watch::{Head, OnHead, Watch};

/// Called in a transaction that changes rows which another program has edited since they were sealed.
pub type OnEdits = Arc<dyn Fn(&mut dyn Tx, &[Difference]) -> Result<(), DbError> + Send + Sync>;

/// Longest time that a statement waits for the lock of another process.
const BUSY: Duration = Duration::from_secs(5);

/// Most rows that a comparison names.
const MOST_DIFFERENCES: usize = 100;

/// The clock behind [`Tx::now_ms`].
#[derive(Clone, Default)]
pub enum TimeSource {
    /// The clock of the database.
    #[default]
    Database,
    /// A number of milliseconds that a test sets.
    Manual(Arc<AtomicI64>),
    /// A function that is called before each transaction begins, so that a test can act at that moment.
    Asked(Arc<dyn Fn() -> i64 + Send + Sync>),
}

impl fmt::Debug for TimeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Database => "Database",
            Self::Manual(_) => "Manual",
            Self::Asked(_) => "Asked",
        })
    }
}

/// One connection, as one thread uses it.
pub(crate) struct Sqlite {
    connection: Connection,
    time: TimeSource,
    /// Statements with `?1` in place of `$1`.
    rewritten: HashMap<&'static str, Arc<str>>,
    /// Only on the connection that writes.
    watched: Option<Watched>,
}

/// Work around each transaction that writes: sealing, and watching the files.
pub(crate) struct Watched {
    pub(crate) files: Arc<Watch>,
    /// Called with each head that was committed.
    pub(crate) on_head: OnHead,
    pub(crate) on_edits: OnEdits,
    pub(crate) seals: Option<Seals>,
    /// The next transaction seals all rows.
    pub(crate) seals_all: bool,
}

impl Sqlite {
    pub(crate) fn open(path: &Path, time: TimeSource) -> Result<Self, DbError> {
        Self::open_as(path, time, OpenFlags::SQLITE_OPEN_CREATE)
    }

    /// As [`open`](Self::open), where the file must be there.
    pub(crate) fn open_existing(path: &Path, time: TimeSource) -> Result<Self, DbError> {
        Self::open_as(path, time, OpenFlags::empty())
    }

    fn open_as(path: &Path, time: TimeSource, flags: OpenFlags) -> Result<Self, DbError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY)?; // before the first statement, which may need the lock
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        // Otherwise a statement is planned anew for each value that it is run with.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_prepared_statement_cache_capacity(256);
        #[cfg(feature = "kill-points")]
        let connection = {
            let mut connection = connection;
            connection.commit_hook(Some(|| {
                STEPS.pass();
                false
            }))?;
            connection
        };
        Ok(Self { connection, time, rewritten: HashMap::new(), watched: None })
    }

    pub(crate) const fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Watches the files and the commits.
    pub(crate) fn watched(self, watched: Watched) -> Result<Self, DbError> {
        // Large changes are written in small transactions. In KiB; it is never given back.
        self.connection.pragma_update(None, "cache_size", -4_096)?;
        Ok(Self { watched: Some(watched), ..self })
    }

    /// Has the connection reject every change.
    pub(crate) fn read_only(self) -> Result<Self, DbError> {
        self.connection.pragma_update(None, "query_only", true)?;
        Ok(self)
    }

    /// Runs `work` in a transaction that begins with `begin`.
    pub(crate) fn run<T, E: From<DbError>>(
        &mut self,
        begin: &'static str,
        work: impl FnOnce(&mut dyn Tx) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut work = Some(work);
        let mut worked = None;
        self.transact(begin, &mut |tx| {
            worked = work.take().map(|work| work(tx));
            matches!(worked, Some(Ok(_)))
        })?;
        worked.unwrap_or_else(|| Err(E::from(DbError::Panicked)))
    }

    /// Runs `work` once, in a transaction that is committed if it returns true and otherwise rolled back. It
    /// knows no types of results: it would be compiled for each of some 240 transactions.
    fn transact(
        &mut self,
        begin: &'static str,
        work: &mut dyn FnMut(&mut dyn Tx) -> bool,
    ) -> Result<(), DbError> {
        let seals_all = self.watched.as_mut().is_some_and(|it| std::mem::take(&mut it.seals_all));
        let asked = if let TimeSource::Asked(ask) = &self.time { Some(ask()) } else { None };
        if let Some(watched) = &self.watched {
            watched.files.check()?;
        }
        self.execute(begin)?;
        self.seals().into_iter().for_each(|seals| seals.forget(0));
        let now_ms = asked.map_or_else(|| self.now_ms(), Ok).inspect_err(|_| self.roll_back())?;
        if !work(&mut OpenTransaction { sqlite: self, now_ms }) {
            self.roll_back();
            return Ok(());
        }
        let sealed = self.sealed(seals_all, now_ms).and_then(|sealed| {
            self.execute("COMMIT")?;
            Ok(sealed)
        });
        let (head, sealed) = sealed.inspect_err(|_| self.roll_back())?;
        STEPS.pass();
        self.committed(head, sealed)
    }

    /// As [`run`](Self::run) for the connection that writes, and seals all rows as they are.
    pub(crate) fn run_sealing_all<T, E: From<DbError>>(
        &mut self,
        work: impl FnOnce(&mut dyn Tx) -> Result<T, E>,
    ) -> Result<T, E> {
        if let Some(watched) = &mut self.watched {
            watched.seals_all = true;
        }
        self.run("BEGIN IMMEDIATE", work)
    }

    /// Compares rows with their seals.
    pub(crate) fn compare(&self, unsealed: Unsealed) -> Result<Comparison, DbError> {
        self.execute("BEGIN")?;
        let compared = compare(&self.connection, unsealed, MOST_DIFFERENCES);
        self.roll_back();
        compared
    }

    /// Seals the changes of the transaction. Returns the last row of the witness's table.
    fn sealed(&mut self, all: bool, now_ms: i64) -> Result<(Option<Head>, Option<Sealed>), DbError> {
        let Some(Watched { files, on_edits, seals, .. }) = &mut self.watched else { return Ok((None, None)) };
        let files = Arc::clone(files);
        let on_edits = Arc::clone(on_edits);
        let Some(seals) = seals else { return Ok((self.head(&files)?, None)) };
        let mut noted = if all {
            let found = compare(&self.connection, seals.unsealed, usize::MAX)?;
            let removed = found.differences.into_iter().filter(|it| it.what == Edit::Removed);
            seals.note_all(&self.connection)?;
            let noted = seals.noted(&self.connection)?;
            noted.and_removed(removed.map(|it| (it.table, it.key)))
        } else {
            seals.noted(&self.connection)?
        };
        if !noted.edits.is_empty() {
            on_edits(&mut OpenTransaction { sqlite: self, now_ms }, &noted.edits)?;
            if let Some(Watched { seals: Some(seals), .. }) = &mut self.watched {
                noted = seals.noted(&self.connection)?;
            }
        }
        let head = self.head(&files)?;
        let Some(Watched { seals: Some(seals), .. }) = &self.watched else { return Ok((head, None)) };
        let sealed = seals.seal(&self.connection, head.as_ref(), noted)?;
        let head = if sealed.is_some() { self.head(&files)? } else { head };
        Ok((head, sealed))
    }

    fn seals(&self) -> Option<&Seals> {
        self.watched.as_ref().and_then(|it| it.seals.as_ref())
    }

    /// The last row of the witness's table, within the transaction.
    fn head(&self, files: &Watch) -> Result<Option<Head>, DbError> {
        let Some(witness) = files.witness() else { return Ok(None) };
        let mut last = self.connection.prepare_cached(witness.last)?;
        Ok(last.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
    }

    /// After a commit: it counts only if the files are still those that the next process opens.
    fn committed(&mut self, head: Option<Head>, sealed: Option<Sealed>) -> Result<(), DbError> {
        let Some(watched) = &mut self.watched else { return Ok(()) };
        if let (Some(seals), Some(sealed)) = (&mut watched.seals, sealed) {
            seals.committed(sealed);
        }
        watched.files.committed(head.clone())?;
        if let Some(head) = &head {
            (watched.on_head)(head);
        }
        Ok(())
    }

    /// Runs a statement of the transaction itself, which is prepared once.
    fn execute(&self, statement: &'static str) -> Result<(), DbError> {
        self.connection.prepare_cached(statement)?.execute([])?;
        Ok(())
    }

    /// Ends the transaction that is open, if one is; also after a panic within it.
    pub(crate) fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }

    fn now_ms(&self) -> Result<i64, DbError> {
        match &self.time {
            TimeSource::Manual(at) => Ok(at.load(Relaxed)),
            TimeSource::Asked(ask) => Ok(ask()),
            TimeSource::Database => {
                let mut now =
                    self.connection.prepare_cached("SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)")?;
                Ok(now.query_row([], |row| row.get(0))?)
            }
        }
    }

    fn rewritten(&mut self, statement: &'static str) -> Arc<str> {
        Arc::clone(self.rewritten.entry(statement).or_insert_with(|| for_sqlite(statement).into()))
    }
}

/// A transaction that is open.
struct OpenTransaction<'s> {
    sqlite: &'s mut Sqlite,
    now_ms: i64,
}

impl Tx for OpenTransaction<'_> {
    fn query(&mut self, statement: &'static str, values: &[Value]) -> Result<Vec<Row>, DbError> {
        let text = self.sqlite.rewritten(statement);
        let mut prepared = self.sqlite.connection.prepare_cached(&text)?;
        let columns = prepared.column_count();
        let mut found = prepared.query(params_from_iter(values))?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            if rows.len() == MAX_ROWS {
                return Err(DbError::TooManyRows { max: MAX_ROWS });
            }
            let read = (0..columns).map(|column| read(row.get_ref(column)?, column));
            rows.push(Row(read.collect::<Result<_, _>>()?));
        }
        Ok(rows)
    }

    fn execute(&mut self, statement: &'static str, values: &[Value]) -> Result<u64, DbError> {
        let text = self.sqlite.rewritten(statement);
        let mut prepared = self.sqlite.connection.prepare_cached(&text)?;
        let mark = self.sqlite.seals().map(Seals::mark);
        STEPS.pass();
        let changed = prepared.execute(params_from_iter(values));
        if let (Err(_), Some(seals), Some(mark)) = (&changed, self.sqlite.seals(), mark) {
            seals.forget(mark); // triggers do not know that a statement was undone
        }
        STEPS.pass();
        Ok(changed? as u64)
    }

    fn now_ms(&self) -> i64 {
        self.now_ms
    }
}

fn read(value: ValueRef<'_>, column: usize) -> Result<Value, DbError> {
    match value {
        ValueRef::Null => Ok(Value::Null),
        ValueRef::Integer(number) => Ok(Value::Int(number)),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Ok(Value::Text(text.to_owned())),
            Err(_) => Err(DbError::Shape { column, wanted: "a text" }),
        },
        ValueRef::Real(_) | ValueRef::Blob(_) => Err(DbError::Shape { column, wanted: "a number or a text" }),
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

/// A statement in SQLite's form. In texts between quotes a `$` stays.
fn for_sqlite(statement: &str) -> String {
    let mut is_quoted = false;
    let mut rewritten = String::with_capacity(statement.len());
    let mut characters = statement.chars().peekable();
    while let Some(character) = characters.next() {
        is_quoted ^= character == '\'';
        let is_place = character == '$' && !is_quoted && characters.peek().is_some_and(char::is_ascii_digit);
        rewritten.push(if is_place { '?' } else { character });
    }
    rewritten
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_rewritten_and_quoted_texts_are_not() {
        for (postgres, sqlite) in [
            ("SELECT $1, $12", "SELECT ?1, ?12"),
            ("SELECT '$1', $2", "SELECT '$1', ?2"),
            ("SELECT '''$1', $2", "SELECT '''$1', ?2"),
            ("SELECT $a", "SELECT $a"),
        ] {
            assert_eq!(for_sqlite(postgres), sqlite);
        }
    }
}
