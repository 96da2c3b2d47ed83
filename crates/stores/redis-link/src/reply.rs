//! Replies as bytes, read into [`Value`]: RESP2 and RESP3. Not here: the source of the bytes.
//!
//! A reply is read once all of it has arrived; ours are short. Bytes that are not the Redis protocol are
//! distinguished from a reply that has not arrived yet, so that a wrong port is reported at once.

use crate::value::Value;

/// A server's reply to one command.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Any value except an error.
    Value(Value),
    /// An error, as the server words it: `CODE what happened`.
    Error(String),
}

/// The bytes are not a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotRedis {
    /// The first bytes, made printable.
    pub(crate) begins: String,
}

/// Longest string or array that is accepted, and deepest nesting.
const LONGEST: usize = 16 << 20;
const DEEPEST: u32 = 16;

/// Reads one reply off the beginning of `bytes`: the reply and its length, or `None` while some of it is
/// missing.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Reply, usize)>, NotRedis> {
    let mut reader = ReplyReader { bytes, at: 0 };
    let reply = match bytes.first() {
        Some(b'-') => reader.line().map(|line| Reply::Error(text(line))),
        Some(b'!') => reader.string().map(|string| Reply::Error(text(string))),
        _ => reader.value(0).map(Reply::Value),
    };
    match reply {
        Ok(reply) => Ok(Some((reply, reader.at))),
        Err(Stop::More) => Ok(None),
        Err(Stop::Wrong) => {
            let begins = text(&bytes[..bytes.len().min(24)]).escape_debug().to_string();
            Err(NotRedis { begins })
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

enum Stop {
    More,
    Wrong,
}

struct ReplyReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> ReplyReader<'a> {
    /// The rest of the line, without the byte that names its kind.
    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            return if rest.len() > 64 << 10 { Err(Stop::Wrong) } else { Err(Stop::More) };
        };
        if end < 2 || rest[end - 1] != b'\r' {
            return Err(Stop::Wrong);
        }
        self.at += end + 1;
        Ok(&rest[1..end - 1])
    }

    fn int(&mut self) -> Result<i64, Stop> {
        let line = self.line()?;
        std::str::from_utf8(line).ok().and_then(|line| line.parse().ok()).ok_or(Stop::Wrong)
    }

    /// A length; `None` for RESP2's null.
    fn length(&mut self) -> Result<Option<usize>, Stop> {
        match self.int()? {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(length) if length <= LONGEST => Ok(Some(length)),
                _ => Err(Stop::Wrong),
            },
        }
    }

    fn string(&mut self) -> Result<&'a [u8], Stop> {
        let length = self.length()?.ok_or(Stop::Wrong)?;
        self.body(length)
    }

    fn body(&mut self, length: usize) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let Some(body) = rest.get(..length + 2) else { return Err(Stop::More) };
        if &body[length..] != b"\r\n" {
            return Err(Stop::Wrong);
        }
        self.at += length + 2;
        Ok(&body[..length])
    }

    fn values(&mut self, count: usize, depth: u32) -> Result<Vec<Value>, Stop> {
        if depth >= DEEPEST {
            return Err(Stop::Wrong);
        }
        // Each value takes at least three bytes, so no more is allocated than can have arrived.
        let mut values = Vec::with_capacity(count.min((self.bytes.len() - self.at) / 3));
        for _ in 0..count {
            values.push(self.value(depth + 1)?);
        }
        Ok(values)
    }

    fn value(&mut self, depth: u32) -> Result<Value, Stop> {
        let Some(kind) = self.bytes.get(self.at) else { return Err(Stop::More) };
        Ok(match kind {
            b':' => Value::Int(self.int()?),
            b'$' => match self.length()? {
                None => Value::Nil,
                Some(length) => Value::BulkString(self.body(length)?.to_vec()),
            },
            b'*' => match self.length()? {
                None => Value::Nil,
                Some(count) => Value::Array(self.values(count, depth)?),
            },
            b'+' => match self.line()? {
                b"OK" => Value::Okay,
                line => Value::SimpleString(text(line)),
            },
            b'_' => {
                self.line()?;
                Value::Nil
            }
            b'#' => Value::Boolean(self.line()? == b"t"),
            b',' => {
                let line = self.line()?;
                let number = std::str::from_utf8(line).ok().and_then(|line| line.parse().ok());
                Value::Double(number.ok_or(Stop::Wrong)?)
            }
            b'~' => {
                let count = self.length()?.ok_or(Stop::Wrong)?;
                Value::Set(self.values(count, depth)?)
            }
            b'%' => {
                let count = self.length()?.ok_or(Stop::Wrong)?;
                let mut values = self.values(count.saturating_mul(2), depth)?.into_iter();
                let mut pairs = Vec::with_capacity(count.min(values.len()));
                while let (Some(key), Some(value)) = (values.next(), values.next()) {
                    pairs.push((key, value));
                }
                Value::Map(pairs)
            }
            // Kinds whose text is only ever shown.
            b'-' | b'(' => Value::SimpleString(text(self.line()?)),
            b'=' | b'!' => Value::SimpleString(text(self.string()?)),
            _ => return Err(Stop::Wrong),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn every_kind_of_reply_is_read_and_none_before_it_is_whole() {
        for (bytes, want) in [
            (":-12\r\n", Reply::Value(Value::Int(-12))),
            ("+OK\r\n", Reply::Value(Value::Okay)),
            ("+PONG\r\n", Reply::Value(Value::SimpleString("PONG".into()))),
            ("$3\r\na\r\n\r\n", Reply::Value(bulk("a\r\n"))),
            ("$-1\r\n", Reply::Value(Value::Nil)),
            ("_\r\n", Reply::Value(Value::Nil)),
            ("*-1\r\n", Reply::Value(Value::Nil)),
            ("*2\r\n:1\r\n*1\r\n$1\r\nx\r\n", {
                let inner = Value::Array(vec![bulk("x")]);
                Reply::Value(Value::Array(vec![Value::Int(1), inner]))
            }),
            ("%1\r\n+k\r\n#t\r\n", {
                let pair = (Value::SimpleString("k".into()), Value::Boolean(true));
                Reply::Value(Value::Map(vec![pair]))
            }),
            ("~1\r\n,1.5\r\n", Reply::Value(Value::Set(vec![Value::Double(1.5)]))),
            ("-NOSCRIPT no such\r\n", Reply::Error("NOSCRIPT no such".into())),
            ("!5\r\nERR x\r\n", Reply::Error("ERR x".into())),
        ] {
            for cut in 0..bytes.len() {
                assert_eq!(parse(&bytes.as_bytes()[..cut]), Ok(None), "{bytes:?} cut at {cut}");
            }
            let more = format!("{bytes}:7\r\n");
            assert_eq!(parse(more.as_bytes()), Ok(Some((want, bytes.len()))), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_not_redis_is_reported_at_once() {
        for bytes in [
            "HTTP/1.1 400 Bad Request\r\n",
            "\u{15}\u{3}\u{3}",
            ":x\r\n",
            "$-2\r\n",
            "*99999999999\r\n",
            "+\n",
        ] {
            let error = parse(bytes.as_bytes()).expect_err(bytes);
            assert!(!error.begins.is_empty());
        }
        let deep = "*1\r\n".repeat(100);
        assert!(parse(deep.as_bytes()).is_err());
        assert_eq!(parse(b"*1000000\r\n"), Ok(None), "accepted, but nothing is allocated for it");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic_and_a_reply_is_the_same_whatever_follows(
            bytes in proptest::collection::vec(
                proptest::prop_oneof![proptest::sample::select(&b"$*%:+-~\r\n0123"[..]), proptest::num::u8::ANY],
                0..64,
            ),
            more in proptest::collection::vec(proptest::num::u8::ANY, 0..8),
        ) {
            if let Ok(Some((reply, length))) = parse(&bytes) {
                proptest::prop_assert!(length <= bytes.len());
                let longer = [&bytes[..length], &more].concat();
                proptest::prop_assert_eq!(parse(&longer), Ok(Some((reply, length))));
            }
        }
    }
}
