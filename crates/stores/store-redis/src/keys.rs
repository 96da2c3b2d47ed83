//! Names of counters in Redis: `tollgate:{counter key}`. The part in braces decides the hash slot in a
//! Cluster.
//!
//! A counter key above a kibibyte is named by its SHA-256, so that a client that chooses a value of megabytes
//! chooses neither the memory of Redis nor that of this node.

use std::borrow::Cow;

use aws_lc_rs::digest::{SHA256, digest};
use tollgate_store::{Counter, Key};

use crate::config::HashTag;

/// Bytes of the longest counter key that is used as a name unchanged.
pub(crate) const LONGEST_KEY: usize = 1024;
/// The most bytes of a long key that stay readable: its domain and first entry, which decide the slot.
const LONGEST_HEAD: usize = 512;
/// Begins the digest of a long key. Rules escape `%` as `%25`, and keys that come with their own limit begin
/// with a control character; so no key that is short has it.
const MARK: &[u8] = b"%sha256:";

/// The Redis key of a counter. No two counters share one, except by a collision of SHA-256. (Braces in a
/// counter key are escaped where it is made.)
pub fn redis_key(prefix: &str, tag: HashTag, counter: &[u8]) -> Vec<u8> {
    let counter = &*bounded_key(counter);
    let end = match tag {
        HashTag::Counter => counter.len(),
        HashTag::Domain => up_to_bar(counter, 0),
        HashTag::FirstEntry => up_to_bar(counter, 1),
    };
    let (tag, rest) = counter.split_at(end);
    [prefix.as_bytes(), b"{", tag, b"}", rest].concat()
}

/// A counter's key as the store keeps it: of at most [`LONGEST_KEY`] bytes, itself where it fits.
pub(crate) fn bounded_key(counter: &[u8]) -> Cow<'_, [u8]> {
    if counter.len() <= LONGEST_KEY { Cow::Borrowed(counter) } else { Cow::Owned(digest_key(counter)) }
}

/// The counter under its [`bounded_key`], which is put into `kept`.
#[inline]
pub(crate) fn bounded<'a>(counter: Counter<'a>, kept: &'a mut Vec<u8>) -> Counter<'a> {
    if counter.key.0.len() <= LONGEST_KEY {
        return counter;
    }
    *kept = digest_key(counter.key.0);
    Counter { key: Key(kept), ..counter }
}

/// The domain, the first entry, and the SHA-256 of the whole key. The SHA-256 alone, if these are long too,
/// or if the key came with its own limit and has no such parts.
#[cold]
fn digest_key(counter: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let is_of_rule = counter.first().is_some_and(|first| !first.is_ascii_control());
    let ends = [up_to_bar(counter, 1), up_to_bar(counter, 0)];
    let head = ends.into_iter().find(|&end| is_of_rule && end <= LONGEST_HEAD);
    let mut key = Vec::with_capacity(LONGEST_HEAD + 1 + MARK.len() + 64);
    if let Some(end) = head {
        key.extend_from_slice(&counter[..end]);
        key.push(b'|');
    }
    key.extend_from_slice(MARK);
    for byte in digest(&SHA256, counter).as_ref() {
        key.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    key
}

/// The place of the `nth` bar, or the end of the key.
pub(crate) fn up_to_bar(counter: &[u8], nth: usize) -> usize {
    let mut bars = counter.iter().enumerate().filter(|(_, byte)| **byte == b'|').map(|(place, _)| place);
    bars.nth(nth).unwrap_or(counter.len())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_tag_holds_as_much_of_the_counter_as_was_asked_for() {
        for (tag, want) in [
            (HashTag::Counter, "tollgate:{shop|user=ann|path=/a|minute}"),
            (HashTag::Domain, "tollgate:{shop}|user=ann|path=/a|minute"),
            (HashTag::FirstEntry, "tollgate:{shop|user=ann}|path=/a|minute"),
        ] {
            assert_eq!(redis_key("tollgate:", tag, b"shop|user=ann|path=/a|minute"), want.as_bytes());
        }
        assert_eq!(
            redis_key("a:", HashTag::FirstEntry, b"odd"),
            b"a:{odd}",
            "without parts it is its own tag"
        );
    }

    #[test]
    fn a_key_above_a_kibibyte_is_named_by_its_digest_and_stays_in_the_slot_of_its_caller() {
        let x = |n: usize| "x".repeat(n);
        let sum = |key: &str| {
            digest(&SHA256, key.as_bytes())
                .as_ref()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        };
        let short = format!("d|a=b|p={}", x(LONGEST_KEY - 8));
        assert_eq!(short.len(), LONGEST_KEY);
        assert_eq!(redis_key("", HashTag::Counter, short.as_bytes()), format!("{{{short}}}").as_bytes());
        let second = format!("d|a=b|p={}|minute", x(2_000));
        let first = format!("d|a={}|minute", x(2_000));
        let domain = format!("{}|a=b|minute", x(2_000));
        let own = format!("\u{1}d|a=b|{}", x(2_000));
        for (key, tag, want) in [
            (&second, HashTag::Counter, format!("{{d|a=b|%sha256:{}}}", sum(&second))),
            (&second, HashTag::Domain, format!("{{d}}|a=b|%sha256:{}", sum(&second))),
            (&second, HashTag::FirstEntry, format!("{{d|a=b}}|%sha256:{}", sum(&second))),
            (&first, HashTag::Counter, format!("{{d|%sha256:{}}}", sum(&first))),
            (&first, HashTag::Domain, format!("{{d}}|%sha256:{}", sum(&first))),
            (&first, HashTag::FirstEntry, format!("{{d|%sha256:{}}}", sum(&first))),
            (&domain, HashTag::Domain, format!("{{%sha256:{}}}", sum(&domain))),
            (&own, HashTag::Counter, format!("{{%sha256:{}}}", sum(&own))),
        ] {
            assert_eq!(redis_key("", tag, key.as_bytes()).escape_ascii().to_string(), want, "{tag:?}");
        }
    }

    #[test]
    fn each_long_key_is_a_counter_of_its_own_and_no_name_grows_with_it() {
        let mut names = HashSet::new();
        for length in (1_000..1_100).chain([10_000, 1 << 20]) {
            for end in ["a", "b"] {
                let key = format!("shop|user={}{end}|minute", "x".repeat(length));
                let name = redis_key("tollgate:", HashTag::Counter, key.as_bytes());
                assert!(name.len() <= "tollgate:{}".len() + LONGEST_KEY, "{length}: {}", name.len());
                assert_eq!(bounded_key(&bounded_key(key.as_bytes())), bounded_key(key.as_bytes()));
                assert!(names.insert(name), "{length}{end}");
            }
        }
    }
}
