//! Replies as bytes, in either version of the protocol, and the errors that several commands return.

use std::borrow::Cow;

/// Bytes of a client's argument that an error repeats.
const MAX_REPEATED: usize = 128;

/// Appends replies to a connection's output.
#[derive(Debug)]
pub(crate) struct ReplyWriter<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    /// RESP3 has types of its own for maps, nulls and verbatim text.
    pub(crate) is_resp3: bool,
}

impl ReplyWriter<'_> {
    /// A short text without line breaks.
    pub(crate) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error: its code, such as `ERR`, and a message. Control characters become spaces, so that a message
    /// cannot contain another reply.
    pub(crate) fn error(&mut self, text: impl std::fmt::Display) {
        use std::io::Write as _;

        self.out.push(b'-');
        let start = self.out.len();
        // Writing to a vector does not fail.
        let _ = write!(self.out, "{text}");
        self.out[start..].iter_mut().filter(|byte| byte.is_ascii_control()).for_each(|byte| *byte = b' ');
        self.out.extend_from_slice(b"\r\n");
    }

    /// The error for a subcommand that `command` does not have.
    pub(crate) fn unknown_subcommand(&mut self, command: &str, subcommand: &[u8]) {
        let subcommand = excerpt(subcommand, MAX_REPEATED);
        self.error(format_args!("ERR unknown subcommand '{subcommand}'. Try {command} HELP."));
    }

    /// The error for a command that does not exist; `arguments` are those after its name.
    pub(crate) fn unknown_command<'w>(&mut self, name: &[u8], arguments: impl Iterator<Item = &'w [u8]>) {
        let mut repeated = String::new();
        for argument in arguments {
            if repeated.len() >= MAX_REPEATED {
                break;
            }
            repeated.push('\'');
            repeated.push_str(&excerpt(argument, MAX_REPEATED - repeated.len()));
            repeated.push_str("' ");
        }
        let name = excerpt(name, MAX_REPEATED);
        self.error(format_args!("ERR unknown command '{name}', with args beginning with: {repeated}"));
    }

    pub(crate) fn integer(&mut self, number: i64) {
        integer(self.out, number);
    }

    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len());
        self.line_end_of(bytes);
    }

    /// Text of several lines for people: a verbatim string in RESP3.
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

    /// A null in place of an array; RESP3 has one null for everything.
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

/// The closest number that the protocol can carry.
#[inline]
pub(crate) fn saturate(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The error for a command called with a wrong number of arguments.
pub(crate) fn wrong_number_of_arguments(command: &str) -> String {
    format!("ERR wrong number of arguments for '{command}' command")
}

/// At most `max` bytes of `argument`, as text.
pub(crate) fn excerpt(argument: &[u8], max: usize) -> Cow<'_, str> {
    String::from_utf8_lossy(&argument[..argument.len().min(max)])
}
