//! Bodies as JSON: unknown and duplicate members are rejected, and numbers are numbers.

use serde::Deserialize;

use crate::web::{Failure, Visit};

/// The body as `T`.
pub(super) fn read<T: for<'de> Deserialize<'de>>(visit: &Visit) -> Result<T, Failure> {
    if visit.body.trim_ascii_start().first() != Some(&b'{') {
        // Structs are read from arrays too, without the names of their members.
        return Err(Failure::Bad("invalid request body: expected a JSON object".to_owned()));
    }
    if is_deep(&visit.body) {
        return Err(Failure::Bad(format!("invalid request body: more than {MAX_DEPTH} levels")));
    }
    serde_json::from_slice(&visit.body)
        .map_err(|error| Failure::Bad(format!("invalid request body: {error}")))
}

/// Deepest nesting of a body.
const MAX_DEPTH: usize = 64;

/// Whether arrays and objects are nested deeper than [`MAX_DEPTH`].
fn is_deep(body: &[u8]) -> bool {
    let mut depth = 0_usize;
    let mut is_text = false;
    let mut is_escaped = false;
    for byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => depth += 1,
            b']' | b'}' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::is_deep;

    #[test]
    fn sixty_four_levels_are_read_and_one_more_is_not() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(!is_deep(nested(64).as_bytes()) && is_deep(nested(65).as_bytes()));
        let text = format!(r#"{{"a": "{}\"{}"}}"#, "[".repeat(100), "{".repeat(100));
        assert!(!is_deep(text.as_bytes()), "brackets in texts are no levels");
    }
}
