//! Text from outside as a message shows it: short, and on one line.

use std::fmt;

/// The first 60 characters on one line; hidden characters are escaped.
#[must_use]
pub fn clip(text: &str) -> String {
    clip_to(text, 60)
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

/// Whether a character has no shape of its own but changes how the text around it is read: control
/// characters, separators of lines and paragraphs, and marks that reverse the direction of text.
///
/// # Example
/// ```
/// # use tollgate_human_text::is_hidden;
/// assert!(['\n', '\u{1b}', '\u{85}', '\u{2028}', '\u{202e}'].into_iter().all(is_hidden));
/// assert!([' ', 'é', '限', '\u{200d}'].into_iter().all(|c| !is_hidden(c)));
/// ```
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A value of a log line: as it is if it reads as one word, otherwise quoted and escaped as Rust does.
///
/// # Example
/// ```
/// # use tollgate_human_text::Quoted;
/// assert_eq!(Quoted("10.0.0.1:8080").to_string(), "10.0.0.1:8080");
/// assert_eq!(Quoted("5 per minute").to_string(), r#""5 per minute""#);
/// assert_eq!(Quoted("a=1\nb\u{202e}").to_string(), r#""a=1\nb\u{202e}""#);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needs_quotes = |c: char| c.is_whitespace() || is_hidden(c) || matches!(c, '"' | '\\' | '=');
        if self.0.is_empty() || self.0.contains(needs_quotes) {
            write!(f, "{:?}", self.0)
        } else {
            f.write_str(self.0)
        }
    }
}
