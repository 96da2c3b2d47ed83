//! Integers in the one form that Redis accepts: no plus sign, no leading zeros, no spaces.

/// The number, if `text` is a valid one that fits.
#[inline]
pub(crate) fn parse(text: &[u8]) -> Option<i64> {
    match text {
        [digit @ b'0'..=b'9'] => Some(i64::from(digit - b'0')),
        [b'1'..=b'9', ..] if text.len() < 18 => {
            // Cannot overflow; whether all bytes were digits is checked at the end.
            let mut is_valid = true;
            let number = text.iter().fold(0_u64, |number, byte| {
                let digit = byte.wrapping_sub(b'0');
                is_valid &= digit <= 9;
                number.wrapping_mul(10).wrapping_add(u64::from(digit))
            });
            is_valid.then_some(number as i64)
        }
        [b'-', digits @ ..] => digits_of(digits, true),
        digits => digits_of(digits, false),
    }
}

/// Digits without leading zeros. Counts downwards, since there is one more negative number than positive
/// ones.
fn digits_of(digits: &[u8], is_negative: bool) -> Option<i64> {
    if !matches!(digits, [b'1'..=b'9', ..]) || digits.len() > 19 {
        return None;
    }
    let mut number = 0_i64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if is_negative { Some(number) } else { number.checked_neg() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_spelling() {
        for (text, want) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("10", Some(10)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("92233720368547758070", None),
            ("00", None),
            ("01", None),
            ("-0", None),
            ("-", None),
            ("+1", None),
            ("", None),
            (" 1", None),
            ("1 ", None),
            ("1.0", None),
            ("0x1", None),
            ("1\0", None),
        ] {
            assert_eq!(parse(text.as_bytes()), want, "{text:?}");
        }
    }
}
