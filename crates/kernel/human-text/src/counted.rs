//! Numbers of things.

/// `1 rule`, `2 rules`.
///
/// # Example
/// ```
/// # use tollgate_human_text::counted;
/// assert_eq!(counted(1, "rule"), "1 rule");
/// assert_eq!(counted(2, "rule"), "2 rules");
/// ```
#[must_use]
pub fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
