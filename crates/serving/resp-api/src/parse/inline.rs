//! A command as a person types it: words between spaces, in quotes where a word contains spaces.

use super::parsed::{ArgumentRange, Caps, Parsed, ProtocolError};

/// Bytes of the longest typed line.
const MAX_INLINE: usize = 16 * 1024;

/// Parses the line at `start` and unquotes it in place: the result is never longer than the line.
pub(super) fn line(
    buffer: &mut [u8],
    start: usize,
    arguments: &mut Vec<ArgumentRange>,
    caps: &Caps,
) -> Result<Parsed, ProtocolError> {
    let most = MAX_INLINE.min(caps.command);
    let Some(length) = buffer[start..].iter().take(most).position(|&byte| byte == b'\n') else {
        let held = buffer.len() - start;
        return if held >= most { Err(ProtocolError::Inline) } else { Ok(Parsed::Part { needed: held + 1 }) };
    };
    let end = start + length + 1;
    words(&mut buffer[start..end - 1], start, arguments)?;
    let most = caps.arguments;
    match arguments.len() {
        0 => Ok(Parsed::Nothing { end }),
        many if many > most && caps.is_anonymous => Err(ProtocolError::AnonymousArguments),
        many if many > most => Err(ProtocolError::Arguments),
        _ if arguments.iter().all(|span| (span.end - span.start) as usize <= caps.bulk) => {
            Ok(Parsed::Command { end })
        }
        _ => Err(ProtocolError::Bulk),
    }
}

/// Parses the words of `text`, which begins at `offset` of the buffer.
fn words(text: &mut [u8], offset: usize, arguments: &mut Vec<ArgumentRange>) -> Result<(), ProtocolError> {
    let mut read = 0;
    let mut written = 0;
    loop {
        while text.get(read).is_some_and(|&byte| is_space(byte)) {
            read += 1;
        }
        if read == text.len() {
            return Ok(());
        }
        let word = written;
        while let Some(&byte) = text.get(read).filter(|&&byte| !is_space(byte)) {
            if byte == b'"' || byte == b'\'' {
                (read, written) = quoted(text, read + 1, written, byte)?;
            } else {
                text[written] = byte;
                (read, written) = (read + 1, written + 1);
            }
        }
        arguments.push(ArgumentRange::new(offset + word, offset + written));
    }
}

/// Copies the quoted text at `read` to `written`; returns the positions after both.
fn quoted(
    text: &mut [u8],
    mut read: usize,
    mut written: usize,
    quote: u8,
) -> Result<(usize, usize), ProtocolError> {
    loop {
        let (byte, length) = match (text.get(read), quote) {
            (None, _) => return Err(ProtocolError::Quotes),
            (Some(&byte), _) if byte == quote => {
                // A closing quote ends the word.
                return match text.get(read + 1) {
                    Some(&next) if !is_space(next) => Err(ProtocolError::Quotes),
                    _ => Ok((read + 1, written)),
                };
            }
            (Some(b'\\'), b'"') => escape(&text[read + 1..])?,
            (Some(b'\\'), _) if text.get(read + 1) == Some(&b'\'') => (b'\'', 2),
            (Some(&byte), _) => (byte, 1),
        };
        text[written] = byte;
        (read, written) = (read + length, written + 1);
    }
}

/// The byte that a backslash before `text` stands for, and the length of the escape.
fn escape(text: &[u8]) -> Result<(u8, usize), ProtocolError> {
    let digit = |at: usize| text.get(at).and_then(|&byte| (byte as char).to_digit(16));
    Ok(match text.first() {
        None => return Err(ProtocolError::Quotes),
        Some(b'x') if let (Some(high), Some(low)) = (digit(1), digit(2)) => ((high * 16 + low) as u8, 4),
        Some(b'n') => (b'\n', 2),
        Some(b'r') => (b'\r', 2),
        Some(b't') => (b'\t', 2),
        Some(b'b') => (8, 2),
        Some(b'a') => (7, 2),
        Some(&other) => (other, 2),
    })
}

/// White space as in C, and NUL.
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 11 | 12 | 0)
}
