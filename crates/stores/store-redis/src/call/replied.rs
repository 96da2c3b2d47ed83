//! Replies of `each.lua`, key by key. Not here: their meaning.

use std::borrow::Cow;

use tollgate_core::Timestamp;
use tollgate_redis_link::Value;

use crate::ask::AskError;
use crate::translate::{int, text};

/// Bytes of a pair of packed numbers.
const PAIR: usize = 16;

/// A reply to a call on one key or more.
pub struct Replied<'a> {
    /// The instant that counted.
    pub at: Timestamp,
    parts: Parts<'a>,
}

enum Parts<'a> {
    Packed(&'a [u8]),
    Words(&'a [Value]),
}

/// The part of a reply about one key.
pub enum ReplyPart<'a> {
    /// The step's reply.
    Held {
        /// The step's status.
        status: i64,
        /// The key's expiry before the step, or its list.
        first: Cow<'a, Value>,
        /// The key's value before the step.
        second: Cow<'a, Value>,
    },
    /// A command failed; nothing of this key was changed.
    Failed(String),
}

impl<'a> Replied<'a> {
    /// Reads the head of a reply.
    pub fn read(reply: &'a Value) -> Result<Self, AskError> {
        let odd = || AskError::Reply(format!("{reply:?}"));
        let (head, parts) = match reply {
            Value::BulkString(bytes) => {
                let (head, pairs) = bytes.split_at_checked(PAIR).ok_or_else(odd)?;
                (head, Parts::Packed(pairs))
            }
            Value::Array(values) => match &values[..] {
                [Value::BulkString(head), parts @ ..] => (&head[..], Parts::Words(parts)),
                _ => return Err(odd()),
            },
            _ => return Err(odd()),
        };
        let [ms, ns] = pair(head).ok_or_else(odd)?;
        let at = Timestamp::from_nanos((ms as u64).saturating_mul(1_000_000).saturating_add(ns as u64));
        Ok(Self { at, parts })
    }

    /// Number of keys.
    pub fn key_count(&self) -> usize {
        match self.parts {
            Parts::Packed(pairs) => pairs.len() / PAIR,
            Parts::Words(parts) => parts.len(),
        }
    }

    /// The part about the nth key.
    pub fn part(&self, nth: usize) -> Result<ReplyPart<'a>, AskError> {
        match self.parts {
            Parts::Packed(pairs) => {
                let from = (nth * PAIR).min(pairs.len());
                packed(&pairs[from..pairs.len().min(from + PAIR)])
            }
            Parts::Words(parts) => match parts.get(nth) {
                Some(Value::BulkString(bytes)) => packed(bytes),
                Some(Value::Array(values)) => in_words(values),
                other => Err(AskError::Reply(format!("{other:?}"))),
            },
        }
    }
}

fn pair(bytes: &[u8]) -> Option<[f64; 2]> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    match (numbers, rest) {
        ([first, second], []) => Some([f64::from_le_bytes(*first), f64::from_le_bytes(*second)]),
        _ => None,
    }
}

fn packed<'a>(bytes: &[u8]) -> Result<ReplyPart<'a>, AskError> {
    let [expires, held] = pair(bytes).ok_or_else(|| AskError::Reply(format!("{bytes:?}")))?;
    let held = if held < 0.0 { Value::Nil } else { Value::Int(held as i64) };
    Ok(ReplyPart::Held { status: 1, first: Cow::Owned(Value::Int(expires as i64)), second: Cow::Owned(held) })
}

fn in_words(values: &[Value]) -> Result<ReplyPart<'_>, AskError> {
    const NIL: &Value = &Value::Nil;
    let [status, first, second] = [0, 1, 2].map(|nth| values.get(nth).unwrap_or(NIL));
    let status = int(status)?;
    if status == -3 {
        return Ok(ReplyPart::Failed(text(first)?.unwrap_or_default()));
    }
    Ok(ReplyPart::Held { status, first: Cow::Borrowed(first), second: Cow::Borrowed(second) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(numbers: &[f64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn numbers_and_words_are_distinguished_key_by_key() {
        let reply = Value::BulkString(bytes(&[5.0, 7.0, 30.0, 8.0, -2.0, -1.0]));
        let replied = Replied::read(&reply).expect("a reply");
        assert_eq!((replied.at, replied.key_count()), (Timestamp::from_nanos(5_000_007), 2));
        let held = |part| match part {
            Ok(ReplyPart::Held { status, first, second }) => {
                (status, first.into_owned(), second.into_owned())
            }
            _ => panic!("not held"),
        };
        assert_eq!(held(replied.part(0)), (1, Value::Int(30), Value::Int(8)));
        assert_eq!(held(replied.part(1)), (1, Value::Int(-2), Value::Nil));
        assert!(replied.part(2).is_err(), "one more than there are");

        let reply = Value::Array(vec![
            Value::BulkString(bytes(&[5.0, 7.0])),
            Value::BulkString(bytes(&[30.0, 8.0])),
            Value::Array(vec![Value::Int(-1), Value::Int(9), Value::SimpleString("x".into())]),
            Value::Array(vec![Value::Int(-3), Value::BulkString(b"WRONGTYPE of it".to_vec())]),
        ]);
        let replied = Replied::read(&reply).expect("a reply");
        assert_eq!(replied.key_count(), 3);
        assert_eq!(held(replied.part(0)), (1, Value::Int(30), Value::Int(8)));
        assert_eq!(held(replied.part(1)), (-1, Value::Int(9), Value::SimpleString("x".into())));
        assert!(matches!(replied.part(2), Ok(ReplyPart::Failed(error)) if error == "WRONGTYPE of it"));
        for odd in [Value::Nil, Value::BulkString(vec![0; 15]), Value::Array(vec![Value::Int(1)])] {
            assert!(Replied::read(&odd).is_err(), "{odd:?}");
        }
    }
}
