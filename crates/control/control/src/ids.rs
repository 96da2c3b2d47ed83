//! Names and secrets that are made here.

use tollgate_model::hash::hex;

use crate::error::ControlError;

/// A UUID of version 7: sorts by the time at which it was made.
pub(crate) fn new_id(now_ms: i64) -> Result<String, ControlError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| ControlError::NoRandomness)?;
    bytes[..6].copy_from_slice(&now_ms.to_be_bytes()[2..]);
    bytes[6] = 0x70 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    let digits = hex(&bytes);
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    Ok(parts.join("-"))
}

/// 256 random bits as 64 hexadecimal digits. Only its SHA-256 is stored.
///
/// # Errors
/// [`ControlError::NoRandomness`].
pub fn secret() -> Result<String, ControlError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| ControlError::NoRandomness)?;
    Ok(hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_uuid_of_version_7_and_sorts_by_time() {
        let first = new_id(1_700_000_000_000).expect("bits");
        let second = new_id(1_700_000_000_001).expect("bits");
        assert!(first < second && first.len() == 36);
        assert_eq!(&first[..13], "018bcfe5-6800");
        assert_eq!(first.as_bytes()[14], b'7');
    }
}
