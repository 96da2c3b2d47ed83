//! Values of columns: whole numbers and texts, as both databases know them.

use crate::error::DbError;

/// A value of a column, or of a place in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Absent.
    Null,
    /// `BIGINT`: numbers, flags, and times as milliseconds UTC.
    Int(i64),
    /// `TEXT`: everything else; hashes as hexadecimal digits.
    Text(String),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Int(i64::from(value))
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Self {
        Self::Text(value.clone())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// One row of an answer; columns are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row(pub(crate) Vec<Value>);

impl Row {
    /// The number in this column.
    ///
    /// # Errors
    /// [`DbError::Shape`] when there is something else.
    pub fn int(&self, column: usize) -> Result<i64, DbError> {
        self.opt_int(column)?.ok_or(DbError::Shape { column, wanted: "a number" })
    }

    /// The number in this column, or `None` for an absent one.
    ///
    /// # Errors
    /// [`DbError::Shape`] when there is something else.
    pub fn opt_int(&self, column: usize) -> Result<Option<i64>, DbError> {
        match self.0.get(column) {
            Some(Value::Int(value)) => Ok(Some(*value)),
            Some(Value::Null) => Ok(None),
            _ => Err(DbError::Shape { column, wanted: "a number" }),
        }
    }

    /// The text in this column.
    ///
    /// # Errors
    /// [`DbError::Shape`] when there is something else.
    pub fn text(&self, column: usize) -> Result<String, DbError> {
        self.opt_text(column)?.ok_or(DbError::Shape { column, wanted: "a text" })
    }

    /// The text in this column, or `None` for an absent one.
    ///
    /// # Errors
    /// [`DbError::Shape`] when there is something else.
    pub fn opt_text(&self, column: usize) -> Result<Option<String>, DbError> {
        match self.0.get(column) {
            Some(Value::Text(value)) => Ok(Some(value.clone())),
            Some(Value::Null) => Ok(None),
            _ => Err(DbError::Shape { column, wanted: "a text" }),
        }
    }
}
