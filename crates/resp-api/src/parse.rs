//! Commands out of bytes: arrays of bulk strings as clients send them, and lines as people type them.
//!
//! Nothing is copied: an argument is a place in the buffer. Pure: a buffer in, one command or what is missing out, so that it
//! does not matter in which pieces the bytes came. Not here: what commands mean.

mod inline;
pub(crate) mod number;

use std::ops::Range;

/// A line as typed is cut off at so many bytes.
const MAX_INLINE: usize = 16 * 1024;
/// Bytes of the longest line that begins an array or a bulk string and can be right.
const MAX_HEADER: usize = 32;
/// The shortest argument: `$0`, and two line breaks.
const SHORTEST_ARGUMENT: usize = 6;

/// What a peer may send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    /// Bytes of one argument.
    pub(crate) bulk: usize,
    /// Arguments of one command.
    pub(crate) arguments: usize,
    /// Bytes of one command.
    pub(crate) command: usize,
    /// The peer has yet to say its password, and is told so when it sends too much.
    pub(crate) is_stranger: bool,
}

/// Where an argument stands in the buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub(crate) const fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    #[inline]
    pub(crate) fn of(self, buffer: &[u8]) -> &[u8] {
        &buffer[Range::from(self)]
    }
}

impl From<Span> for Range<usize> {
    #[inline]
    fn from(span: Span) -> Self {
        span.start as usize..span.end as usize
    }
}

/// What stands at the head of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// A command, whose arguments were put into the vector; the next one begins at `end`.
    Command { end: usize },
    /// An empty line or an empty array, which nobody answers.
    Nothing { end: usize },
    /// The beginning of a command: nothing can be said before there are `needed` bytes from its start.
    Part { needed: usize },
}

/// What was sent is not the protocol. The texts are Redis's where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("invalid multibulk length")]
    Arguments,
    #[error("unauthenticated multibulk length")]
    StrangersArguments,
    #[error("too big mbulk count string")]
    ArgumentsHeader,
    #[error("invalid bulk length")]
    Bulk,
    #[error("unauthenticated bulk length")]
    StrangersBulk,
    #[error("too big bulk count string")]
    BulkHeader,
    #[error("expected '$', got '{}'", .0.escape_ascii())]
    NoBulk(u8),
    #[error("expected a line break behind an argument")]
    NoLineBreak,
    #[error("command too long")]
    Command,
    #[error("too big inline request")]
    Inline,
    #[error("unbalanced quotes in request")]
    Quotes,
    /// Nothing is wrong with this one, but all half commands of all connections are too many bytes.
    #[error("too many bytes of half commands on all connections; send whole ones")]
    Budget,
}

/// Reads the command at `start` of `buffer` into `arguments`, which are emptied first.
///
/// A typed line with quotes is unquoted where it stands; anything else is left as it is.
#[inline]
pub(crate) fn parse(
    buffer: &mut [u8],
    start: usize,
    arguments: &mut Vec<Span>,
    caps: &Caps,
) -> Result<Parsed, Fault> {
    arguments.clear();
    match buffer.get(start) {
        Some(b'*') => array(buffer, start, arguments, caps),
        Some(_) => inline::line(buffer, start, arguments, caps),
        None => Ok(Parsed::Part { needed: 1 }),
    }
}

/// A line that begins an array or a bulk string.
enum Header {
    /// Its number, and where the next line begins.
    Number(i64, usize),
    Part,
}

fn array(buffer: &[u8], start: usize, arguments: &mut Vec<Span>, caps: &Caps) -> Result<Parsed, Fault> {
    let (mut left, mut at) = match header(buffer, start + 1, Fault::Arguments, Fault::ArgumentsHeader)? {
        Header::Number(..=0, end) => return Ok(Parsed::Nothing { end }),
        Header::Number(count, end) => match usize::try_from(count) {
            Ok(count) if count <= caps.arguments => (count, end),
            _ if caps.is_stranger => return Err(Fault::StrangersArguments),
            _ => return Err(Fault::Arguments),
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
            return Err(if caps.is_stranger { Fault::StrangersBulk } else { Fault::Bulk });
        }
        let end = body + length;
        if end + 2 - start > caps.command {
            return Err(Fault::Command);
        }
        match buffer.get(end..end + 2) {
            Some(b"\r\n") => {}
            Some(_) => return Err(Fault::NoLineBreak),
            None => {
                left -= 1;
                return Ok(Parsed::Part { needed: end + 2 - start + left * SHORTEST_ARGUMENT });
            }
        }
        arguments.push(Span::new(body, end));
        at = end + 2;
        left -= 1;
    }
    Ok(Parsed::Command { end: at })
}

/// The length that the line at `at` gives of an argument, and where that begins; `None` while the line is not whole.
#[inline(never)]
fn bulk(buffer: &[u8], at: usize, caps: &Caps) -> Result<Option<(usize, usize)>, Fault> {
    match buffer.get(at) {
        Some(b'$') => {}
        Some(&other) => return Err(Fault::NoBulk(other)),
        None => return Ok(None),
    }
    match header(buffer, at + 1, Fault::Bulk, Fault::BulkHeader)? {
        Header::Number(length, body) => match usize::try_from(length) {
            Ok(length) if length <= caps.bulk => Ok(Some((length, body))),
            _ if caps.is_stranger && length > 0 => Err(Fault::StrangersBulk),
            _ => Err(Fault::Bulk),
        },
        Header::Part => Ok(None),
    }
}

/// The number at `at`, written as Redis wants it, and its line break. Wrong ones are `fault`, endless ones `long`.
#[inline]
fn header(buffer: &[u8], at: usize, fault: Fault, long: Fault) -> Result<Header, Fault> {
    if let Some(&[digit @ b'1'..=b'9', b'\r', b'\n']) = buffer.get(at..at + 3) {
        return Ok(Header::Number(i64::from(digit - b'0'), at + 3));
    }
    let line = &buffer[at.min(buffer.len())..buffer.len().min(at + MAX_HEADER)];
    match line.iter().position(|&byte| byte == b'\r') {
        None if line.len() == MAX_HEADER => Err(long),
        None => Ok(Header::Part),
        Some(end) => match (number::parse(&line[..end]), buffer.get(at + end + 1)) {
            (None, _) => Err(fault),
            (Some(_), None) => Ok(Header::Part),
            (Some(number), Some(b'\n')) => Ok(Header::Number(number, at + end + 2)),
            (Some(_), Some(_)) => Err(fault),
        },
    }
}

#[cfg(test)]
mod tests;
