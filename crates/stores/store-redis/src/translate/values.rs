//! Values of replies: numbers, texts, and values that are not a state of this store.

use tollgate_core::State;
use tollgate_redis_link::Value;

use crate::ask::AskError;
use crate::script::Swap;

/// The value of a key before a step.
pub(crate) enum StoredValue {
    /// A state, and whether there was one at all.
    State(State, bool),
    /// Another rule has written it: the call that replaces it.
    Odd(Swap, Vec<Vec<u8>>),
    /// Not a state of this store; a description of it.
    Foreign(String),
}

/// A step's reply about one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepReply<'a> {
    pub(crate) status: i64,
    /// The key's expiry before the step, or its list.
    pub(crate) first: &'a Value,
    /// The key's value before the step.
    pub(crate) second: &'a Value,
}

/// A string of the reply; `None` for a nil.
pub(crate) fn text(value: &Value) -> Result<Option<String>, AskError> {
    match value {
        Value::Nil | Value::Boolean(false) => Ok(None),
        Value::BulkString(bytes) => Ok(Some(String::from_utf8_lossy(bytes).into_owned())),
        Value::SimpleString(text) => Ok(Some(text.clone())),
        other => Err(AskError::Reply(format!("{other:?}"))),
    }
}

/// A whole number, which Redis may return as a number or as a string; the inner `Err` is a text that is not a
/// number.
pub(super) fn whole(value: &Value) -> Result<Option<Result<u64, String>>, AskError> {
    if let Value::Int(int) = value {
        return Ok(Some(u64::try_from(*int).map_err(|_| int.to_string())));
    }
    Ok(text(value)?.map(|text| text.parse().map_err(|_| text)))
}

pub(crate) fn int(value: &Value) -> Result<i64, AskError> {
    match value {
        Value::Int(int) => Ok(*int),
        other => Err(AskError::Reply(format!("{other:?}"))),
    }
}

/// The excerpt of a value that is not a state of this store.
pub(super) fn foreign(text: &str) -> StoredValue {
    const SHOWN: usize = 40;
    let shown: String = text.chars().take(SHOWN).flat_map(char::escape_default).collect();
    let more = if text.chars().count() > SHOWN { "…" } else { "" };
    StoredValue::Foreign(format!("the value \"{shown}{more}\""))
}

/// Whole numbers between single blanks.
pub(super) fn numbers<const N: usize>(text: &str) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    let mut words = text.split(' ');
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    words.next().is_none().then_some(numbers)
}
