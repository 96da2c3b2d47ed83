//! Text from outside as a message shows it: short, and on one line.

use std::fmt::{self, Write as _};

/// Characters of a text that [`clip`] and [`shorten`] keep.
const KEPT: usize = 60;

/// The first 60 characters on one line; hidden characters are escaped.
#[must_use]
pub fn clip(text: &str) -> String {
    clip_to(text, KEPT)
}

/// As [`clip`], with the first `most` characters.
#[must_use]
pub fn clip_to(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == most {
            shown.push('…');
            break;
        }
        if is_hidden(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// As [`clip`], without escapes: for text that is escaped where it is written, such as a field of a log line.
#[must_use]
pub fn shorten(text: &str) -> String {
    shorten_to(text, KEPT)
}

/// As [`shorten`], to the first `most` characters.
#[must_use]
pub fn shorten_to(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Whether a character has no shape of its own but changes how the text around it is read: control
/// characters, separators of lines and paragraphs, marks that reverse the direction of text, and other
/// characters that Unicode does not show, such as a zero width space or a tag.
///
/// Joiners and variation selectors are not among them, since writing systems and emoji need them: they give
/// the characters beside them another shape.
///
/// # Example
/// ```
/// # use tollgate_human_text::is_hidden;
/// assert!(['\n', '\u{1b}', '\u{85}', '\u{2028}', '\u{202e}'].into_iter().all(is_hidden));
/// assert!(['\u{ad}', '\u{200b}', '\u{feff}', '\u{e0041}'].into_iter().all(is_hidden));
/// assert!([' ', 'é', '限', '\u{200d}', '\u{fe0f}'].into_iter().all(|c| !is_hidden(c)));
/// ```
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || c > '\u{ac}'
            && matches!(
                c,
                '\u{ad}'
                    | '\u{34f}'
                    | '\u{61c}'
                    | '\u{115f}'..='\u{1160}'
                    | '\u{17b4}'..='\u{17b5}'
                    | '\u{180e}'
                    | '\u{200b}'
                    | '\u{200e}'..='\u{200f}'
                    | '\u{2028}'..='\u{202e}'
                    | '\u{2060}'..='\u{206f}'
                    | '\u{3164}'
                    | '\u{feff}'
                    | '\u{ffa0}'
                    | '\u{fff0}'..='\u{fffb}'
                    | '\u{1bca0}'..='\u{1bca3}'
                    | '\u{1d173}'..='\u{1d17a}'
                    | '\u{e0000}'..='\u{e00ff}'
                    | '\u{e01f0}'..='\u{e0fff}'
            )
}

/// In quotes, escaped as Rust does, and with everything hidden escaped.
#[derive(Clone, Copy, Debug)]
pub struct InQuotes<'a>(pub &'a str);

impl fmt::Display for InQuotes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rust escapes the characters that its own tables call unprintable, which are almost the same.
        let escaped = format!("{:?}", self.0);
        escaped.chars().try_for_each(|c| match c {
            c if is_hidden(c) => write!(f, "{}", c.escape_unicode()),
            c => f.write_char(c),
        })
    }
}

/// A value of a log line: as it is if it reads as one word, otherwise [`InQuotes`].
///
/// # Example
/// ```
/// # use tollgate_human_text::Quoted;
/// assert_eq!(Quoted("10.0.0.1:8080").to_string(), "10.0.0.1:8080");
/// assert_eq!(Quoted("5 per minute").to_string(), r#""5 per minute""#);
/// assert_eq!(Quoted("a=1\nb\u{202e}").to_string(), r#""a=1\nb\u{202e}""#);
/// assert_eq!(Quoted("\u{feff}\u{3164}").to_string(), r#""\u{feff}\u{3164}""#);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needs_quotes = |c: char| c.is_whitespace() || is_hidden(c) || matches!(c, '"' | '\\' | '=');
        if self.0.is_empty() || self.0.contains(needs_quotes) {
            InQuotes(self.0).fmt(f)
        } else {
            f.write_str(self.0)
        }
    }
}
