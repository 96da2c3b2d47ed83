//! Names of counters in Redis: `tollgate:{counter key}`. The part in braces decides the hash slot in a
//! Cluster.

use crate::config::HashTag;

/// The Redis key of a counter. No two counters share one. (Braces in a counter key are escaped where it is
/// made.)
pub fn redis_key(prefix: &str, tag: HashTag, counter: &[u8]) -> Vec<u8> {
    let up_to_bar = |nth: usize| {
        let mut bars = counter.iter().enumerate().filter(|(_, byte)| **byte == b'|').map(|(place, _)| place);
        bars.nth(nth).unwrap_or(counter.len())
    };
    let end = match tag {
        HashTag::Counter => counter.len(),
        HashTag::Domain => up_to_bar(0),
        HashTag::FirstEntry => up_to_bar(1),
    };
    let (tag, rest) = counter.split_at(end);
    [prefix.as_bytes(), b"{", tag, b"}", rest].concat()
}

#[cfg(test)]
mod tests {
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
}
