//! Replies as bytes, in either version of the protocol. Not here: what they say.

use crate::parse::number;

/// Appends replies to a connection's output.
#[derive(Debug)]
pub(crate) struct Reply<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    /// RESP3: maps, nulls and texts of their own kind.
    pub(crate) is_resp3: bool,
}

impl Reply<'_> {
    /// A short text of ours.
    pub(crate) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error: its code, such as `ERR`, and what is wrong. Control characters become blanks, so that no text can hold
    /// another reply.
    pub(crate) fn error(&mut self, text: impl std::fmt::Display) {
        use std::io::Write as _;

        self.out.push(b'-');
        let start = self.out.len();
        // Writing to a vector does not fail.
        let _ = write!(self.out, "{text}");
        self.out[start..].iter_mut().filter(|byte| byte.is_ascii_control()).for_each(|byte| *byte = b' ');
        self.out.extend_from_slice(b"\r\n");
    }

    pub(crate) fn integer(&mut self, number: i64) {
        integer(self.out, number);
    }

    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len());
        self.line_end_of(bytes);
    }

    /// A text of several lines for people; says so in RESP3.
    pub(crate) fn text(&mut self, text: &str) {
        if self.is_resp3 {
            self.header(b'=', text.len() + 4);
            self.out.extend_from_slice(b"txt:");
            self.line_end_of(text.as_bytes());
        } else {
            self.bulk(text.as_bytes());
        }
    }

    pub(crate) fn null(&mut self) {
        self.out.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// As RESP2 says that there is no array; RESP3 has one null for all.
    pub(crate) fn null_array(&mut self) {
        self.out.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// The head of an array; its elements follow.
    pub(crate) fn array(&mut self, elements: usize) {
        self.header(b'*', elements);
    }

    /// The head of a set; an array in RESP2.
    pub(crate) fn set(&mut self, elements: usize) {
        self.header(if self.is_resp3 { b'~' } else { b'*' }, elements);
    }

    /// The head of a map; key, value, key, value follow. An array of those in RESP2.
    pub(crate) fn map(&mut self, pairs: usize) {
        if self.is_resp3 { self.header(b'%', pairs) } else { self.header(b'*', 2 * pairs) }
    }

    fn header(&mut self, kind: u8, length: usize) {
        self.out.push(kind);
        self.out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    fn line(&mut self, kind: u8, bytes: &[u8]) {
        self.out.push(kind);
        self.line_end_of(bytes);
    }

    fn line_end_of(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Appends an integer reply.
#[inline]
pub(crate) fn integer(out: &mut Vec<u8>, number: i64) {
    if let Ok(digit @ 0..=9) = u8::try_from(number) {
        out.extend_from_slice(&[b':', b'0' + digit, b'\r', b'\n']);
    } else {
        out.push(b':');
        out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// An argument as a number.
///
/// # Errors
/// What Redis says when it is none.
pub(crate) fn number_of(argument: &[u8]) -> Result<i64, &'static str> {
    number::parse(argument).ok_or("ERR value is not an integer or out of range")
}
