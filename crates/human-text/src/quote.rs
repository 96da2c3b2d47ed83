//! Text from outside as a message shows it: short, and on one line.

/// The first 60 characters on one line; control characters are escaped.
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
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}
