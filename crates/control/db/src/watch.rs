//! Whether the files that are open are still those at their path. SQLite does not notice that its file was
//! deleted, renamed, replaced or cut: it writes on, and everything is lost at the end of the process.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use crate::error::DbError;

/// Suffixes of the files of a database: the file itself, its write-ahead log, and the index of that log.
const FILES: [&str; 3] = ["", "-wal", "-shm"];

/// A database below this size is walked whenever another process has written to its file, and a larger one
/// only if a file has become shorter: a walk takes about a second for each 200 MB.
const SMALL: u64 = 64 << 20;

/// Statements by which a database is recognized: a table that only grows, as numbers and digests.
#[derive(Clone, Copy, Debug)]
pub struct Witness {
    /// Number and digest of the last row.
    pub last: &'static str,
    /// A row if `?1` is a number with the digest `?2`.
    pub has: &'static str,
}

/// The last row of what [`Witness`] names.
pub type Head = (i64, String);

/// Called with the last committed row of the witness's table.
pub type OnHead = Box<dyn Fn(&Head) + Send>;

/// The files of a database, as they were last.
#[derive(Debug)]
pub(crate) struct Watch {
    path: PathBuf,
    witness: Option<Witness>,
    seen: Mutex<FileSnapshot>,
}

#[derive(Debug)]
struct FileSnapshot {
    files: [Metadata; 3],
    /// The last committed row of what [`Witness`] names.
    head: Option<Head>,
}

impl Watch {
    /// Watches the files of a database that is open.
    pub(crate) fn new(path: &Path, witness: Option<Witness>) -> Result<Self, DbError> {
        let files = looked_at(path)?;
        Ok(Self { path: path.to_owned(), witness, seen: Mutex::new(FileSnapshot { files, head: None }) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) const fn witness(&self) -> Option<Witness> {
        self.witness
    }

    /// # Errors
    /// [`DbError::Gone`] if the files are not those that are open.
    pub(crate) fn check(&self) -> Result<(), DbError> {
        let files = looked_at(&self.path)?;
        let mut seen = self.seen.lock();
        for ((before, now), suffix) in seen.files.iter().zip(&files).zip(FILES) {
            if (before.dev(), before.ino()) != (now.dev(), now.ino()) {
                return Err(self.gone(suffix, "was replaced"));
            }
        }
        let is_cut = seen.files.iter().zip(&files).any(|(before, now)| now.len() < before.len());
        let is_written = stamp(&seen.files[0]) != stamp(&files[0]);
        if is_cut || is_written {
            // Another process may have moved the log into the database, or overwritten it.
            self.read_anew(is_cut || files[0].len() < SMALL, seen.head.as_ref())?;
        }
        seen.files = files;
        Ok(())
    }

    /// Like [`check`](Self::check), after this process has written: its own changes to the files are right.
    pub(crate) fn committed(&self, head: Option<Head>) -> Result<(), DbError> {
        let files = looked_at(&self.path)?;
        let mut seen = self.seen.lock();
        for ((before, now), suffix) in seen.files.iter().zip(&files).zip(FILES) {
            if (before.dev(), before.ino()) != (now.dev(), now.ino()) {
                return Err(self.gone(suffix, "was replaced"));
            }
            if now.len() < before.len() {
                return Err(self.gone(suffix, "was cut"));
            }
        }
        seen.files = files;
        seen.head = head.or(seen.head.take());
        Ok(())
    }

    /// Reads the database as the next process would.
    fn read_anew(&self, is_walked: bool, head: Option<&Head>) -> Result<(), DbError> {
        let damaged = |_| self.gone("", "was damaged");
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags).map_err(damaged)?;
        if is_walked {
            let found: String =
                connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(damaged)?;
            if found != "ok" {
                return Err(self.gone("", "was cut or overwritten"));
            }
        }
        if let (Some(witness), Some((number, digest))) = (self.witness, head) {
            let found = connection.query_row(witness.has, (number, digest), |_| Ok(())).optional();
            if found.map_err(damaged)?.is_none() {
                return Err(self.gone("", "was overwritten"));
            }
        }
        Ok(())
    }

    fn gone(&self, suffix: &str, what: &'static str) -> DbError {
        DbError::Gone { file: with(&self.path, suffix).display().to_string(), what }
    }
}

fn stamp(file: &Metadata) -> (i64, i64) {
    (file.mtime(), file.mtime_nsec())
}

fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn looked_at(path: &Path) -> Result<[Metadata; 3], DbError> {
    let [file, log, index] = FILES.map(|suffix| {
        let path = with(path, suffix);
        fs::metadata(&path)
            .map_err(|_| DbError::Gone { file: path.display().to_string(), what: "was deleted or renamed" })
    });
    Ok([file?, log?, index?])
}
