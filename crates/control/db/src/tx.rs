//! The database as a storage function sees it: one transaction.

use crate::error::DbError;
use crate::value::{Row, Value};

/// Most rows that one statement may read; lists are read in pages.
pub const MAX_ROWS: usize = 50_000;

/// One transaction. Everything that a storage function does through it is kept or lost together.
pub trait Tx {
    /// The rows of a statement. `$1` is the first of `values`.
    ///
    /// # Errors
    /// [`DbError`]; the transaction must then be given up.
    fn query(&mut self, statement: &'static str, values: &[Value]) -> Result<Vec<Row>, DbError>;

    /// Runs a statement that changes rows, and returns how many.
    ///
    /// # Errors
    /// [`DbError`]; the transaction must then be given up, except after [`DbError::Constraint`].
    fn execute(&mut self, statement: &'static str, values: &[Value]) -> Result<u64, DbError>;

    /// When the transaction began, in milliseconds UTC, by the clock of the database.
    fn now_ms(&self) -> i64;

    /// The first row of a statement, if there is one.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    fn query_one(&mut self, statement: &'static str, values: &[Value]) -> Result<Option<Row>, DbError> {
        Ok(self.query(statement, values)?.into_iter().next())
    }
}
