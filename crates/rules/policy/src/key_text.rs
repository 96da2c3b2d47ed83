//! The text of counter keys: which characters are escaped, and how a key ends. `counter_key` has the grammar.

use tollgate_core::{Algorithm, Align, LeakyForm, LeavingCell, Refill};

/// Bytes that are escaped everywhere: 1; only in the key of a level: 2.
const SPECIAL: [u8; 256] = {
    let mut table = [0; 256];
    let mut control = 0;
    while control < 32 {
        table[control] = 1;
        control += 1;
    }
    table[127] = 1;
    table[b'|' as usize] = 1;
    table[b'%' as usize] = 1;
    table[b'{' as usize] = 1;
    table[b'}' as usize] = 1;
    table[b'=' as usize] = 2;
    table[b'~' as usize] = 2;
    table[b'*' as usize] = 2;
    table[b'^' as usize] = 2;
    table[b'@' as usize] = 2;
    table
};

#[inline(always)]
pub(crate) fn escape(key: &mut Vec<u8>, text: &[u8], is_level_key: bool) {
    if is_plain(text, is_level_key) {
        key.extend_from_slice(text);
    } else {
        escape_bytes(key, text, is_level_key);
    }
}

/// True if nothing in `text` needs escaping; looks at eight bytes at a time. May return false for `~` and a
/// few other bytes that need no escaping.
#[inline]
fn is_plain(text: &[u8], is_level_key: bool) -> bool {
    let Some(last) = text.last_chunk::<8>() else {
        return !text.iter().any(|byte| SPECIAL[usize::from(*byte)] != 0);
    };
    // The last eight bytes may overlap those before.
    let (words, _) = text.as_chunks::<8>();
    words.iter().fold(specials(last, is_level_key), |sum, word| sum | specials(word, is_level_key)) == 0
}

/// Not zero if one of eight bytes may be special: below a blank, `%`, `{` and above, and in a level's key the
/// marks.
#[inline]
fn specials(word: &[u8; 8], is_level_key: bool) -> u64 {
    const fn all(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    const HIGH: u64 = all(0x80);
    let word = u64::from_ne_bytes(*word);
    // A borrow or a carry may mark a neighbour too, but never hides one.
    let below = |word: u64, bound: u8| word.wrapping_sub(all(bound)) & !word & HIGH;
    let is = |byte: u8| below(word ^ all(byte), 1);
    let from_brace = (word & !HIGH).wrapping_add(all(0x80 - b'{')) & !word & HIGH;
    let everywhere = below(word, 32) | is(b'%') | from_brace;
    if is_level_key { everywhere | is(b'=') | is(b'*') | is(b'^') | is(b'@') } else { everywhere }
}

#[cold]
fn escape_bytes(key: &mut Vec<u8>, text: &[u8], is_level_key: bool) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let plain = if is_level_key { 0 } else { 2 };
    let is_special = |byte: &u8| {
        let class = SPECIAL[usize::from(*byte)];
        class != 0 && class != plain
    };
    let mut rest = text;
    while let Some(at) = rest.iter().position(is_special) {
        let byte = rest[at];
        key.extend_from_slice(&rest[..at]);
        key.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        rest = &rest[at + 1..];
    }
    key.extend_from_slice(rest);
}

/// The kind part of a tail. `period` is the window's length as text.
pub(crate) fn tail(algorithm: &Algorithm, period: &str, is_zero: bool) -> String {
    let kind = match algorithm {
        Algorithm::FixedWindow { align: Align::Calendar } => period.to_owned(),
        Algorithm::FixedWindow { align: Align::FirstHit } => format!("first_hit:{period}"),
        Algorithm::SlidingWindow { cells, leaving: LeavingCell::Counts } => {
            format!("sliding_window:{period}/{cells}")
        }
        Algorithm::SlidingWindow { cells, leaving: LeavingCell::Drops } => {
            format!("sliding_window:{period}/{cells}:drop")
        }
        Algorithm::TokenBucket { refill: Refill::Interval, .. } => "token_bucket:interval".to_owned(),
        Algorithm::LeakyBucket { form: LeakyForm::Queue { .. }, .. } => "leaky_bucket:queue".to_owned(),
        // These states do not depend on the rate: the new quota reads a bucket in permits, and a warm-up as a
        // share of the stored permits.
        Algorithm::TokenBucket { .. }
        | Algorithm::LeakyBucket { .. }
        | Algorithm::WarmUp { .. }
        | Algorithm::SmoothBursty { .. }
        | Algorithm::PriorityBuckets { .. }
        | Algorithm::Total => algorithm.name().to_owned(),
        other => format!("{}:{period}", other.name()),
    };
    // A bucket that never refills has another kind of state.
    if algorithm.is_bucket() && is_zero { kind + ":0" } else { kind }
}

/// The tail of a bucket that limits share. Limits in shadow have another one.
pub(crate) fn bucket_tail(tail: &str, name: &str, is_shadow: bool) -> String {
    let mut bytes = Vec::new();
    escape(&mut bytes, name.as_bytes(), false);
    let mark = if is_shadow { '!' } else { '$' };
    format!("{tail}{mark}{}", String::from_utf8_lossy(&bytes))
}

/// The tail of one of several `limits`.
pub(crate) fn named_tail(tail: &str, name: &str) -> String {
    let mut bytes = Vec::new();
    escape(&mut bytes, name.as_bytes(), false);
    format!("{tail}#{}", String::from_utf8_lossy(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_path_escapes_as_the_slow_one_does_wherever_a_special_byte_is() {
        for byte in 0..=255_u8 {
            for length in 1..20 {
                for at in 0..length {
                    let mut bytes = vec![b'a'; length];
                    bytes[at] = byte;
                    for is_level_key in [false, true] {
                        let mut quick = Vec::new();
                        let mut slow = Vec::new();
                        escape(&mut quick, &bytes, is_level_key);
                        escape_bytes(&mut slow, &bytes, is_level_key);
                        assert_eq!(quick, slow, "{bytes:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn letters_digits_and_common_signs_take_the_fast_path() {
        for text in
            ["", "api_key", "192.168.100.200", "/api/v1/users?q=x&y", "ü–漢字 and more", "ann@shop.example"]
        {
            assert!(is_plain(text.as_bytes(), false), "{text}");
        }
        assert!(is_plain(b"remote_address", true));
    }
}
