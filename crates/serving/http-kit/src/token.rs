//! The admin token: compared in constant time, never shown.

use subtle::ConstantTimeEq;

/// Longest token; longer ones are rejected.
const MAX: usize = 256;

/// The secret of admin operations. Its `Debug` does not show it.
///
/// # Example
/// ```
/// # use tollgate_http_kit::Token;
/// let token = Token::new("correct horse battery staple").expect("not empty, not too long");
/// assert!(token.is(b"correct horse battery staple"));
/// assert!(!token.is(b"correct horse"));
/// assert_eq!(format!("{token:?}"), "Token");
/// ```
#[derive(Clone)]
pub struct Token {
    /// Filled up with zeros, so that a comparison takes as long for every guess.
    padded: [u8; MAX],
    length: u64,
}

impl Token {
    /// A token; `None` when `secret` is empty, longer than 256 bytes, or not printable ASCII without spaces
    /// at its ends, which no header field could carry.
    #[must_use]
    pub fn new(secret: &str) -> Option<Self> {
        let is_printable = secret.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        if secret.is_empty() || !is_printable || secret.trim() != secret {
            return None;
        }
        Self::pad(secret.as_bytes())
    }

    /// Whether `guess` is this token. Takes the same time whatever the guess.
    #[must_use]
    pub fn is(&self, guess: &[u8]) -> bool {
        Self::pad(guess)
            .is_some_and(|guess| (self.padded.ct_eq(&guess.padded) & self.length.ct_eq(&guess.length)).into())
    }

    fn pad(bytes: &[u8]) -> Option<Self> {
        let mut padded = [0; MAX];
        padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { padded, length: bytes.len() as u64 })
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = Token::new("s3cret").expect("a token");
        for (guess, want) in
            [("s3cret", true), ("s3cre", false), ("s3cret\0", false), ("S3cret", false), ("", false)]
        {
            assert_eq!(token.is(guess.as_bytes()), want, "{guess:?}");
        }
        assert!(!token.is(&[b'x'; 10_000]));
    }

    #[test]
    fn a_secret_that_no_header_field_can_carry_is_rejected() {
        for secret in ["", " x", "x ", "a\nb", "schlüssel", &"x".repeat(257)] {
            assert!(Token::new(secret).is_none(), "{secret:?}");
        }
    }
}
