//! SHA-256 and its hexadecimal digits.

use sha2::{Digest as _, Sha256};

/// SHA-256 of a text, as hexadecimal digits.
#[must_use]
pub fn sha256(text: &str) -> String {
    hex(&digest(text))
}

/// SHA-256 of a text.
#[must_use]
pub fn digest(text: &str) -> [u8; 32] {
    digest_of(text.as_bytes())
}

/// SHA-256 of bytes.
#[must_use]
pub fn digest_of(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Hexadecimal digits of bytes.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// The digest that [`hex`] has written.
#[must_use]
pub fn digest_in(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    for (byte, digits) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    (text.len() == 64).then_some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_bytes() {
        assert_eq!(hex(&[0, 0xab, 0xff]), "00abff");
        assert_eq!(digest_in(&sha256("a")), Some(digest("a")));
    }
}
