//! The arguments of one command, without a copy: each is a range of the buffer that the bytes were read into.

use tollgate_limiter::MAX_HITS;

use crate::parse::{ArgumentRange, number};

/// The arguments of a command, its name first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments<'a> {
    input: &'a [u8],
    spans: &'a [ArgumentRange],
}

impl<'a> Arguments<'a> {
    /// The arguments at `spans` of `input`.
    #[inline]
    pub(crate) const fn new(input: &'a [u8], spans: &'a [ArgumentRange]) -> Self {
        Self { input, spans }
    }

    /// The command's name.
    #[inline]
    pub(crate) fn name(&self) -> &'a [u8] {
        self.get(0).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| span.of(self.input))
    }

    /// The arguments from `index` on.
    pub(crate) fn from(&self, index: usize) -> impl Iterator<Item = &'a [u8]> {
        self.spans.iter().skip(index).map(|span| span.of(self.input))
    }

    /// Number of arguments, the name included.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.spans.len()
    }

    /// Where they are in the buffer.
    #[inline]
    pub(crate) const fn spans(&self) -> &'a [ArgumentRange] {
        self.spans
    }

    /// The buffer that they are in.
    #[inline]
    pub(crate) const fn input(&self) -> &'a [u8] {
        self.input
    }

    /// The arguments without the last one where that is `option`, and whether it was.
    #[inline]
    pub(crate) fn split_option(self, option: &str) -> (Self, bool) {
        match self.spans {
            [rest @ .., last] if last.of(self.input).eq_ignore_ascii_case(option.as_bytes()) => {
                (Self { spans: rest, ..self }, true)
            }
            _ => (self, false),
        }
    }
}

/// `argument` as a number.
///
/// # Errors
/// The message of Redis.
pub(crate) fn integer(argument: &[u8]) -> Result<i64, &'static str> {
    number::parse(argument).ok_or(NOT_AN_INTEGER)
}

/// `argument` as a number of permits. A client may have chosen it, so a number that is too large for 63 bits
/// counts as the largest.
///
/// # Errors
/// A message for a negative number, and that of Redis for text that is not a number.
pub(crate) fn permits(argument: &[u8]) -> Result<u64, &'static str> {
    match number::parse(argument) {
        Some(number) => u64::try_from(number).map_err(|_| NEGATIVE),
        None if argument.len() > 18 && argument[0] != b'0' && argument.iter().all(u8::is_ascii_digit) => {
            Ok(MAX_HITS)
        }
        None => Err(NOT_AN_INTEGER),
    }
}

const NEGATIVE: &str = "ERR the number of permits is negative; the smallest is 0, which only looks";

/// Redis's reply to a number that is malformed or too large.
pub(crate) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
