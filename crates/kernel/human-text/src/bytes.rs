//! Bytes that clients choose, as text and back: unreadable bytes become `\xE9`.
//!
//! Different bytes always have different texts, so a text that a person copies from a log or a page names
//! exactly one key. Not here: the escapes of counter keys (`policy`), of JSON and of log formats.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::quote::is_hidden;

/// Bytes as text. A backslash becomes `\\`; a byte that is not UTF-8, and each byte of a
/// [hidden](is_hidden) character, becomes `\x` and two hexadecimal digits.
///
/// The text has no control characters. [`read_bytes`] reads it back. Copies nothing if nothing is escaped.
///
/// # Example
/// ```
/// # use tollgate_human_text::{read_bytes, show_bytes};
/// for (bytes, text) in [
///     (&b"ann"[..], "ann"),
///     ("限流".as_bytes(), "限流"),
///     (b"caf\xe9", r"caf\xE9"),
///     (b"a\\b\n", r"a\\b\x0A"),
///     ("\u{202e}".as_bytes(), r"\xE2\x80\xAE"),
/// ] {
///     assert_eq!(show_bytes(bytes), text);
///     assert_eq!(*read_bytes(text), *bytes);
/// }
/// ```
#[must_use]
pub fn show_bytes(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(needs_escape) => Cow::Borrowed(text),
        _ => Cow::Owned(escaped(bytes)),
    }
}

/// As [`show_bytes`], without escapes of hidden characters: for text that is escaped where it is written,
/// such as a field of a log line. A text is shown as it is, except that a backslash becomes `\\` where
/// [`read_bytes`] would take it for the beginning of an escape.
///
/// # Example
/// ```
/// # use tollgate_human_text::{bytes_as_text, read_bytes};
/// for (bytes, text) in [
///     (&b"a\n"[..], "a\n"),
///     (br"C:\dir", r"C:\dir"),
///     (b"caf\xe9", r"caf\xE9"),
///     (br"caf\xE9", r"caf\\xE9"),
/// ] {
///     assert_eq!(bytes_as_text(bytes), text);
///     assert_eq!(*read_bytes(text), *bytes);
/// }
/// ```
#[must_use]
pub fn bytes_as_text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\\') => Cow::Borrowed(text),
        _ => Cow::Owned(unambiguous(bytes)),
    }
}

/// Bytes as text with U+FFFD in place of each invalid sequence: for comparison with texts, not for display.
///
/// As `String::from_utf8_lossy`, which looks at each byte of a valid text.
#[inline]
#[must_use]
pub fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// A text in the spelling of [`show_bytes`] as bytes.
///
/// A backslash that begins no escape stands for itself, so that texts which people write without escapes are
/// read as they are.
#[must_use]
pub fn read_bytes(text: &str) -> Cow<'_, [u8]> {
    if !text.contains('\\') {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let (byte, behind) = match after {
            [b'\\', behind @ ..] if first == b'\\' => (b'\\', behind),
            [b'x', high, low, behind @ ..] if first == b'\\' => {
                digit(*high).zip(digit(*low)).map_or((first, after), |(h, l)| (h << 4 | l, behind))
            }
            _ => (first, after),
        };
        bytes.push(byte);
        rest = behind;
    }
    Cow::Owned(bytes)
}

fn needs_escape(c: char) -> bool {
    c == '\\' || is_hidden(c)
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                c if is_hidden(c) => push_hex(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => text.push(c),
            }
        }
        push_hex(&mut text, chunk.invalid());
    }
    text
}

fn unambiguous(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some((before, after)) = rest.split_once('\\') {
            text.push_str(before);
            let is_read_as_escape = match after.as_bytes() {
                [] => !chunk.invalid().is_empty(), // which is written with a backslash
                [b'\\', ..] => true,
                [b'x', high, low, ..] => digit(*high).and(digit(*low)).is_some(),
                _ => false,
            };
            text.push_str(if is_read_as_escape { "\\\\" } else { "\\" });
            rest = after;
        }
        text.push_str(rest);
        push_hex(&mut text, chunk.invalid());
    }
    text
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(text, "\\x{byte:02X}"); // cannot fail
    }
}

const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes with many special ones: broken characters, escapes, hidden characters.
    fn odd_bytes() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            any::<u8>().prop_map(|byte| vec![byte]),
            any::<char>().prop_map(|c| c.to_string().into_bytes()),
            "[\\\\x0-9a-fA-F]{0,6}".prop_map(String::into_bytes),
            Just(vec![0xed, 0xb3, 0xa9]),
            Just("é".as_bytes().to_vec()),
        ];
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn a_text_names_exactly_the_bytes_that_it_shows(bytes in odd_bytes()) {
            let text = show_bytes(&bytes);
            prop_assert!(!text.contains(is_hidden), "{text:?}");
            prop_assert_eq!(&*read_bytes(&text), &*bytes);
        }

        #[test]
        fn a_text_without_escapes_of_its_own_names_exactly_the_bytes_too(bytes in odd_bytes()) {
            let text = bytes_as_text(&bytes);
            prop_assert_eq!(&*read_bytes(&text), &*bytes, "{:?}", text);
            if std::str::from_utf8(&bytes).is_ok_and(|text| !text.contains('\\')) {
                prop_assert_eq!(text.as_bytes(), &*bytes);
            }
        }

        #[test]
        fn a_text_without_backslashes_is_read_as_it_is(text in "[^\\\\]{0,20}") {
            prop_assert_eq!(&*read_bytes(&text), text.as_bytes());
        }
    }

    #[test]
    fn a_backslash_that_begins_no_escape_stands_for_itself() {
        for (text, bytes) in [
            (r"C:\dir", &br"C:\dir"[..]),
            (r"\", br"\"),
            (r"\x", br"\x"),
            (r"\xg0", br"\xg0"),
            (r"\x4", br"\x4"),
            (r"\x4a\X4A", br"J\X4A"),
            (r"\\x4a", br"\x4a"),
            (r"\\\", br"\\"),
        ] {
            assert_eq!(*read_bytes(text), *bytes, "{text}");
        }
    }
}
