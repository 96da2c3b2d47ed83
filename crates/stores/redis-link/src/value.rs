//! The values of a server's replies.

/// A value of RESP2 or RESP3.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The absence of a value.
    Nil,
    /// A signed 64-bit number.
    Int(i64),
    /// A string of any bytes.
    BulkString(Vec<u8>),
    /// Values in order.
    Array(Vec<Value>),
    /// A status line, or another value that is only text.
    SimpleString(String),
    /// The status line `OK`.
    Okay,
    /// Pairs of key and value.
    Map(Vec<(Value, Value)>),
    /// A list in no order.
    Set(Vec<Value>),
    /// A number with a fraction.
    Double(f64),
    /// True or false.
    Boolean(bool),
}

impl Value {
    /// The text of a string.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
            Self::SimpleString(text) => Some(text),
            _ => None,
        }
    }
}
