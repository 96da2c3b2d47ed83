//! The name of a counter's item in memcached: the prefix and the counter key, readable where it can be.
//!
//! memcached allows names of 250 bytes without spaces and control characters. Bytes other than printable
//! ASCII, and `%`, are written as `%` and two hexadecimal digits; a name that is too long then is `#` and the
//! SHA-256 of the key, in hexadecimal. No other name begins with `#`, which is written `%23`; so two keys
//! share an item only by a collision of SHA-256.

use aws_lc_rs::digest::{SHA256, digest};

const LONGEST: usize = 250;

/// The name of the item that keeps the counter `key`.
pub(crate) fn name(prefix: &str, key: &[u8]) -> Box<[u8]> {
    let mut name = Vec::with_capacity(LONGEST);
    name.extend_from_slice(prefix.as_bytes());
    for (at, &byte) in key.iter().enumerate() {
        if byte.is_ascii_graphic() && byte != b'%' && (byte != b'#' || at > 0) {
            name.push(byte);
        } else {
            name.push(b'%');
            hex(&mut name, byte);
        }
        if name.len() > LONGEST {
            name.truncate(prefix.len());
            name.push(b'#');
            digest(&SHA256, key).as_ref().iter().for_each(|&byte| hex(&mut name, byte));
            break;
        }
    }
    name.into()
}

fn hex(to: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    to.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_readable_where_they_can_be() {
        for (key, want) in [
            ("shop|user=ann|minute", "t:shop|user=ann|minute"),
            ("shop|user=ann b%7C|minute", "t:shop|user=ann%20b%257C|minute"),
            ("#1", "t:%231"),
            ("a#1", "t:a#1"),
            ("é\r\n", "t:%c3%a9%0d%0a"),
            ("", "t:"),
        ] {
            assert_eq!(name("t:", key.as_bytes()).escape_ascii().to_string(), want);
        }
    }

    #[test]
    fn a_long_key_becomes_its_hash() {
        let name = |n: usize| String::from_utf8(name("t:", &vec![b'x'; n]).into()).expect("ASCII");
        assert_eq!(name(248).len(), 250);
        let long = name(249);
        assert!(long.starts_with("t:#") && long.len() == 2 + 1 + 64, "{long}");
        assert_ne!(long, name(250));
    }

    proptest! {
        #[test]
        fn no_two_keys_share_a_name(a in proptest::collection::vec(any::<u8>(), 0..120), b in "[#%a0-9 ]{0,300}") {
            let one = name("tollgate:", &a);
            let other = name("tollgate:", b.as_bytes());
            prop_assert!(one.len() <= LONGEST && one.iter().all(u8::is_ascii_graphic));
            prop_assert_eq!(one == other, a == b.as_bytes());
        }
    }
}
