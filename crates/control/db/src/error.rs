//! Why a transaction failed, and what became of its changes.

/// Why a transaction failed. Unless a variant says otherwise, nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DbError {
    /// A unique or foreign key, or a trigger, rejected a change.
    #[error("the database rejected the change: {0}")]
    Constraint(String),
    /// Too many transactions wait already.
    #[error("the database is busy: {waiting} transactions wait already")]
    Busy {
        /// Transactions that wait for a thread already.
        waiting: usize,
    },
    /// The disk is full.
    #[error("the disk is full; nothing was changed")]
    DiskFull,
    /// The files of the database are not those that this process has open any more.
    #[error(
        "{file} {what} while the control plane uses it; changes are rejected, since they would be lost: put the file \
         back, or stop the control plane, restore a copy and start it again"
    )]
    Gone {
        file: String,
        /// Event that separated the file from this process, as a verb phrase: `was deleted`.
        what: &'static str,
    },
    /// A table cannot be sealed.
    #[error("table {table} has no primary key of one to three columns: leave it out of what is sealed")]
    Unsealed { table: String },
    /// A statement read more rows than [`MAX_ROWS`](crate::MAX_ROWS).
    #[error("a statement read more than {max} rows")]
    TooManyRows { max: usize },
    /// A column has another type than the code expects.
    #[error("column {column} is not {wanted}")]
    Shape {
        /// Counted from 0.
        column: usize,
        /// Type that the code expects.
        wanted: &'static str,
    },
    /// The file has a schema that this version of the program does not know.
    #[error(
        "the database has migration {found}, and this version knows up to {known}: start a newer version, or \
         restore the copy made before the upgrade"
    )]
    Newer {
        /// In the file.
        found: i64,
        /// In the program.
        known: i64,
    },
    /// A migration in the file is another than the one in the program.
    #[error("migration {number} in the database differs from the one in this version")]
    Changed { number: i64 },
    /// A storage function panicked; its transaction was rolled back.
    #[error("a storage function panicked; its changes were rolled back")]
    Panicked,
    /// The database threads have ended: the change may or may not have been made.
    #[error("the database is closed; the change may or may not have been made")]
    Closed,
    /// A database thread could not be started.
    #[error("a database thread could not be started")]
    Thread(#[source] std::io::Error),
    /// Everything else that SQLite reports. It is not a source: the next one of the chain would be SQLite's
    /// own error, which says the same again.
    #[error("the database failed: {0}")]
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for DbError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{ConstraintViolation, DiskFull};
        match error.sqlite_error_code() {
            Some(ConstraintViolation) => Self::Constraint(error.to_string()),
            Some(DiskFull) => Self::DiskFull,
            _ => Self::Sqlite(error),
        }
    }
}
