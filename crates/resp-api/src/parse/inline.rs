//! A command as a person types it: words between blanks, with quotes where a word has blanks.

use super::{Caps, Fault, MAX_INLINE, Parsed, Span};

/// Reads the line at `start`. Unquotes it where it stands: what it says is never longer than what was typed.
pub(super) fn line(
    buffer: &mut [u8],
    start: usize,
    arguments: &mut Vec<Span>,
    caps: &Caps,
) -> Result<Parsed, Fault> {
    let most = MAX_INLINE.min(caps.command);
    let Some(length) = buffer[start..].iter().take(most).position(|&byte| byte == b'\n') else {
        let held = buffer.len() - start;
        return if held >= most { Err(Fault::Inline) } else { Ok(Parsed::Part { needed: held + 1 }) };
    };
    let end = start + length + 1;
    words(&mut buffer[start..end - 1], start, arguments)?;
    let most = caps.arguments;
    match arguments.len() {
        0 => Ok(Parsed::Nothing { end }),
        many if many > most && caps.is_stranger => Err(Fault::StrangersArguments),
        many if many > most => Err(Fault::Arguments),
        _ if arguments.iter().all(|span| (span.end - span.start) as usize <= caps.bulk) => {
            Ok(Parsed::Command { end })
        }
        _ => Err(Fault::Bulk),
    }
}

/// The words of `text`, which stands at `offset` of the buffer.
fn words(text: &mut [u8], offset: usize, arguments: &mut Vec<Span>) -> Result<(), Fault> {
    let (mut read, mut written) = (0, 0);
    loop {
        while text.get(read).is_some_and(|&byte| is_blank(byte)) {
            read += 1;
        }
        if read == text.len() {
            return Ok(());
        }
        let word = written;
        while let Some(&byte) = text.get(read).filter(|&&byte| !is_blank(byte)) {
            if byte == b'"' || byte == b'\'' {
                (read, written) = quoted(text, read + 1, written, byte)?;
            } else {
                text[written] = byte;
                (read, written) = (read + 1, written + 1);
            }
        }
        arguments.push(Span::new(offset + word, offset + written));
    }
}

/// Copies what stands in quotes from `read` on to `written`; answers where each goes on.
fn quoted(text: &mut [u8], mut read: usize, mut written: usize, quote: u8) -> Result<(usize, usize), Fault> {
    loop {
        let (byte, length) = match (text.get(read), quote) {
            (None, _) => return Err(Fault::Quotes),
            (Some(&byte), _) if byte == quote => {
                // A closing quote ends the word.
                return match text.get(read + 1) {
                    Some(&next) if !is_blank(next) => Err(Fault::Quotes),
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

/// What a backslash before `text` makes of it, and how long both are.
fn escape(text: &[u8]) -> Result<(u8, usize), Fault> {
    let digit = |at: usize| text.get(at).and_then(|&byte| (byte as char).to_digit(16));
    Ok(match text.first() {
        None => return Err(Fault::Quotes),
        Some(b'x') if let (Some(high), Some(low)) = (digit(1), digit(2)) => ((high * 16 + low) as u8, 4),
        Some(b'n') => (b'\n', 2),
        Some(b'r') => (b'\r', 2),
        Some(b't') => (b'\t', 2),
        Some(b'b') => (8, 2),
        Some(b'a') => (7, 2),
        Some(&other) => (other, 2),
    })
}

/// Blanks as C has them, and NUL.
const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 11 | 12 | 0)
}
