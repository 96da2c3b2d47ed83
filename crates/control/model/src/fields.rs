//! Fields that several forms have: names, numbers and texts, each read from the text that was entered.
//!
//! Not here: which fields a form has, and what must fit together (`table_rule` and the services of
//! `control`).

use crate::faults::Fault;

/// Longest description, in characters.
pub const MAX_DESCRIPTION: usize = 500;

/// Characters of the name of an app.
pub(crate) const APP: &str = "A-Z a-z 0-9 _ . -";
/// Characters of the key of a rule.
const KEY: &str = "A-Z a-z 0-9 _ . : / -";

/// The name of an app, which is the name of its domain too.
///
/// # Errors
/// A [`Fault`].
pub fn app_name(text: &str) -> Result<String, Fault> {
    name(text, 64, ".", APP)
}

/// The key of a rule.
///
/// # Errors
/// A [`Fault`].
pub fn rule_key(text: &str) -> Result<String, Fault> {
    name(text, 128, ".:/", KEY)
}

/// Millionths as a decimal number.
#[must_use]
pub fn in_words(micro: i64) -> String {
    let whole = micro / 1_000_000;
    let part = micro % 1_000_000;
    if part == 0 {
        return whole.to_string();
    }
    format!("{whole}.{part:06}").trim_end_matches('0').to_owned()
}

/// A name of these characters, at most `max` of them.
pub(crate) fn name(
    text: &str,
    max: usize,
    punctuation: &str,
    allowed: &'static str,
) -> Result<String, Fault> {
    if text.is_empty() {
        return Err(Fault::Required);
    }
    if text.contains('*') {
        return Err(Fault::Star);
    }
    let is_allowed = |it: char| it.is_ascii_alphanumeric() || "_-".contains(it) || punctuation.contains(it);
    // A name of dots alone would be a folder in a URL.
    if !text.chars().all(is_allowed) || text.bytes().all(|it| it == b'.') {
        return Err(Fault::Characters { allowed });
    }
    // All characters are ASCII here.
    if text.len() > max { Err(Fault::TooLong { max }) } else { Ok(text.to_owned()) }
}

/// A whole number in digits; spaces around it are a slip of the hand. `default` is that of an empty text.
///
/// # Errors
/// A [`Fault`].
pub fn whole(text: &str, default: Option<i64>, min: i64, max: i64) -> Result<i64, Fault> {
    let text = text.trim_matches(' ');
    match default {
        Some(default) if text.is_empty() => return Ok(default),
        None if text.is_empty() => return Err(Fault::Required),
        _ => {}
    }
    let is_digits = text.len() <= 20 && text.bytes().all(|it| it.is_ascii_digit());
    let number = is_digits.then(|| text.parse::<i64>().ok()).flatten();
    number.filter(|it| (min..=max).contains(it)).ok_or(Fault::Whole { min, max })
}

/// A decimal number as whole millionths, without floats; 1 by default.
pub(crate) fn micro(text: &str) -> Result<i64, Fault> {
    let text = text.trim_matches(' ');
    if text.is_empty() {
        return Ok(1_000_000);
    }
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let are_digits = |it: &str, max| (1..=max).contains(&it.len()) && it.bytes().all(|b| b.is_ascii_digit());
    if !are_digits(whole, 4) || !are_digits(part, 6) {
        return Err(Fault::Decimal);
    }
    let read = |text: &str| text.parse::<i64>().map_err(|_| Fault::Decimal);
    let micro = read(whole)? * 1_000_000 + read(&format!("{part:0<6}"))?;
    if micro <= 1_000_000_000 { Ok(micro) } else { Err(Fault::Decimal) }
}

/// Text for people: any script, one line.
///
/// # Errors
/// A [`Fault`].
pub fn text(text: &str, max: usize) -> Result<String, Fault> {
    if text.chars().any(char::is_control) {
        return Err(Fault::Characters { allowed: "text without control characters" });
    }
    if text.chars().count() > max { Err(Fault::TooLong { max }) } else { Ok(text.to_owned()) }
}
