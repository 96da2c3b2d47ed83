//! Parses commands: arrays of bulk strings as clients send them, and lines as people type them.
//!
//! Nothing is copied: an argument is a range of the buffer. The parser keeps no state between calls, so it
//! does not matter in which pieces the bytes arrive. Not here: what commands mean.

mod inline;
pub(crate) mod number;
mod parsed;

pub(crate) use self::parsed::{ArgumentRange, Caps, Parsed, ProtocolError};

/// Bytes within which the first line of an array or a bulk string must end.
const MAX_HEADER: usize = 32;
/// The longest argument that is dropped, and the most arguments: more break the protocol, as in Redis.
pub(crate) const LONGEST_DROPPED: usize = 512 * 1024 * 1024;
const MOST_ARGUMENTS: usize = 1024 * 1024;
/// The shortest argument: `$0`, and two line breaks.
const SHORTEST_ARGUMENT: usize = 6;

/// Parses the command at `start` of `buffer` into `arguments`, which are cleared first.
///
/// A typed line with quotes is unquoted in place; nothing else is changed.
#[inline]
pub(crate) fn parse(
    buffer: &mut [u8],
    start: usize,
    arguments: &mut Vec<ArgumentRange>,
    caps: &Caps,
) -> Result<Parsed, ProtocolError> {
    arguments.clear();
    match buffer.get(start) {
        Some(b'*') => array(buffer, start, arguments, caps),
        Some(_) => inline::line(buffer, start, arguments, caps),
        None => Ok(Parsed::Part { needed: 1 }),
    }
}

/// The first line of an array or a bulk string.
enum Header {
    /// Its number, and where the next line begins.
    Number(i64, usize),
    Part,
}

fn array(
    buffer: &[u8],
    start: usize,
    arguments: &mut Vec<ArgumentRange>,
    caps: &Caps,
) -> Result<Parsed, ProtocolError> {
    let (mut left, mut at) =
        match header(buffer, start + 1, ProtocolError::Arguments, ProtocolError::ArgumentsHeader)? {
            Header::Number(..=0, end) => return Ok(Parsed::Nothing { end }),
            Header::Number(count, end) => match usize::try_from(count) {
                Ok(count) if count <= caps.arguments => (count, end),
                _ if caps.is_anonymous => return Err(ProtocolError::AnonymousArguments),
                Ok(count) if count <= MOST_ARGUMENTS => return Ok(Parsed::Oversized),
                _ => return Err(ProtocolError::Arguments),
            },
            Header::Part => return Ok(Parsed::Part { needed: buffer.len() - start + 1 }),
        };
    while left > 0 {
        // Nearly all lengths have one digit or two.
        let (length, body) = match buffer[at..] {
            [b'$', one @ b'0'..=b'9', b'\r', b'\n', ..] => (usize::from(one - b'0'), at + 4),
            [b'$', ten @ b'1'..=b'9', one @ b'0'..=b'9', b'\r', b'\n', ..] => {
                (usize::from(ten - b'0') * 10 + usize::from(one - b'0'), at + 5)
            }
            _ => match bulk(buffer, at, caps)? {
                Some(length) => length,
                None => {
                    let needed = at - start + left * SHORTEST_ARGUMENT;
                    return Ok(Parsed::Part { needed: needed.max(buffer.len() - start + 1) });
                }
            },
        };
        if length > caps.bulk {
            return if caps.is_anonymous { Err(ProtocolError::AnonymousBulk) } else { Ok(Parsed::Oversized) };
        }
        let end = body + length;
        if end + 2 - start > caps.command {
            return if caps.is_anonymous { Err(ProtocolError::Command) } else { Ok(Parsed::Oversized) };
        }
        match buffer.get(end..end + 2) {
            Some(b"\r\n") => {}
            Some(_) => return Err(ProtocolError::NoLineBreak),
            None => {
                left -= 1;
                return Ok(Parsed::Part { needed: end + 2 - start + left * SHORTEST_ARGUMENT });
            }
        }
        arguments.push(ArgumentRange::new(body, end));
        at = end + 2;
        left -= 1;
    }
    Ok(Parsed::Command { end: at })
}

/// The length of the argument whose first line is at `at`, and where it begins; `None` while that line is
/// incomplete.
#[inline(never)]
fn bulk(buffer: &[u8], at: usize, caps: &Caps) -> Result<Option<(usize, usize)>, ProtocolError> {
    match buffer.get(at) {
        Some(b'$') => {}
        Some(&other) => return Err(ProtocolError::NoBulk(other)),
        None => return Ok(None),
    }
    match header(buffer, at + 1, ProtocolError::Bulk, ProtocolError::BulkHeader)? {
        Header::Number(length, body) => match usize::try_from(length) {
            Ok(length) if length <= if caps.is_anonymous { caps.bulk } else { LONGEST_DROPPED } => {
                Ok(Some((length, body)))
            }
            _ if caps.is_anonymous && length > 0 => Err(ProtocolError::AnonymousBulk),
            _ => Err(ProtocolError::Bulk),
        },
        Header::Part => Ok(None),
    }
}

/// The number of the line at `at`. Returns `invalid` if it is malformed, and `too_long` if the line does not
/// end.
#[inline]
fn header(
    buffer: &[u8],
    at: usize,
    invalid: ProtocolError,
    too_long: ProtocolError,
) -> Result<Header, ProtocolError> {
    if let Some(&[digit @ b'1'..=b'9', b'\r', b'\n']) = buffer.get(at..at + 3) {
        return Ok(Header::Number(i64::from(digit - b'0'), at + 3));
    }
    let line = &buffer[at.min(buffer.len())..buffer.len().min(at + MAX_HEADER)];
    match line.iter().position(|&byte| byte == b'\r') {
        None if line.len() == MAX_HEADER => Err(too_long),
        None => Ok(Header::Part),
        Some(end) => match (number::parse(&line[..end]), buffer.get(at + end + 1)) {
            (None, _) => Err(invalid),
            (Some(_), None) => Ok(Header::Part),
            (Some(number), Some(b'\n')) => Ok(Header::Number(number, at + end + 2)),
            (Some(_), Some(_)) => Err(invalid),
        },
    }
}

#[cfg(test)]
mod tests;
