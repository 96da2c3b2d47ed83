//! Values of columns: whole numbers and texts, as both databases know them.

/// A value of a column, or of a place in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
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

/// One row of an answer, which [`Select`](crate::Select) and the functions beside it read by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row(pub(crate) Vec<Value>);
