//! The form of a token: `tgl_`, 43 characters for 256 random bits, and 6 characters that check the others.
//! Scanners for leaked secrets find it by its form, and a typing error is found without the database.

use tollgate_model::hash::digest;

use crate::error::ControlError;

const PREFIX: &str = "tgl_";
const RANDOM: usize = 43;
const CHECK: usize = 6;

/// Characters that people see of a token: enough to tell theirs apart.
pub(crate) const SHOWN: usize = PREFIX.len() + 8;

/// A new token.
pub(crate) fn make() -> Result<String, ControlError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| ControlError::NoRandomness)?;
    Ok(text_of(&bytes))
}

/// The token of these bits.
#[must_use]
pub fn text_of(bits: &[u8; 32]) -> String {
    let body = format!("{PREFIX}{}", base64(bits));
    let check = checksum(&body);
    body + &check
}

/// Whether `text` has the form of a token and its checksum is right. Says nothing about its rights.
pub(crate) fn is_token(text: &str) -> bool {
    let length = PREFIX.len() + RANDOM;
    text.len() == length + CHECK
        && text.is_ascii()
        && text.starts_with(PREFIX)
        && checksum(&text[..length]) == text[length..]
}

fn checksum(body: &str) -> String {
    base64(&digest(body)).chars().take(CHECK).collect()
}

/// Base 64 with `-` and `_`, without padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(bytes.len() * 4 / 3 + 3);
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * place)) as usize & 63]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_and_with_any_character_changed_it_is_not() {
        let token = make().expect("bits");
        assert_eq!(token.len(), 53);
        assert!(is_token(&token) && token != make().expect("bits"));
        for at in 0..token.len() {
            let mut other = token.clone().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            assert!(!is_token(&String::from_utf8(other).expect("ASCII")), "changed at {at}");
        }
        for text in ["", "tgl_", &token[..52], &format!("{token}A"), &"é".repeat(27)] {
            assert!(!is_token(text), "{text}");
        }
    }

    #[test]
    fn base64_is_that_of_its_specification() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg"),
            (b"fo", "Zm8"),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg"),
            (&[0xfb, 0xff], "-_8"),
        ] {
            assert_eq!(base64(bytes), text);
        }
    }
}
