//! The name of a counter in the table: 67 bits of a keyed hash of its key.
//!
//! The table keeps no key, so the hash *is* the identity, and two keys that hash alike would share a counter.
//! The hash is multilinear: from every seventh byte of the key on a word c₁, c₂, … of 8 bytes is read, the
//! last one so that its lowest 7 bytes are the key's last, and with secret random 128-bit numbers k
//!
//! ```text
//! h = k_length + k₁·c₁ + k₂·c₂ + …   modulo 2^128;   used are its highest 67 bits
//! ```
//!
//! Keys of two lengths differ by the k of their lengths, which are uniform and independent. Two keys of one
//! length differ in some byte, and every byte is among the lowest 7 of some word: the words differ by d = 2^t
//! · odd with t < 56. That word's k is uniform and independent of the rest, so k·d is uniform over the
//! multiples of 2^t, and the difference of the two hashes is uniform in bits 56 and above, which include
//! those used. Each hash by itself is uniform too. So any two keys, chosen by anyone who does not know k,
//! agree in n of those bits with probability exactly 2^-n.
//!
//! 64 of the bits are the [tag](KeyHash::tag) that the table stores, and 3 choose the shard, which is known
//! from where a tag lies: 67 bits. Among 10^7 keys there are 5·10^13 pairs, so that the chance that any two
//! share a counter is at most 5·10^13 · 2^-67 < 3.5·10^-7. (The tag is mixed further, by a bijection, since a
//! multilinear hash sends numbered keys to evenly spaced places, which makes for uneven lines. Tags whose low
//! half is 0 have 1 added: that adds 2^-95 per pair.) Keys above 252 bytes are first brought to 128 bits by
//! SipHash twice, under two secrets, and count as one more length. For them the chance rests on SipHash, not
//! on the proof above.

use std::hash::{DefaultHasher, Hasher};

use tollgate_store::Origin;

use crate::config::HashKey;

/// Bytes of a key for each of its words.
const CHARACTER: usize = 7;
/// Most words of a key that is hashed directly.
const CHARACTERS: usize = 36;
const LONGEST_DIRECT: usize = CHARACTER * CHARACTERS;
/// Longest key whose hash is inlined.
const LONGEST_INLINE: usize = 5 * CHARACTER;

/// The name of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct KeyHash {
    /// The part that the table stores; its low half is never 0.
    pub(crate) tag: u64,
    /// Three further bits, independent of the tag.
    pub(crate) extra: u32,
    /// The source of its quota, which decides the table that it is in. No two counters differ only in it.
    pub(crate) origin: Origin,
}

#[derive(Debug)]
pub(crate) struct KeyHasher {
    /// One number for each length, and one more for all longer keys.
    lengths: [u128; LONGEST_DIRECT + 2],
    /// One number for each word.
    multipliers: [u128; CHARACTERS],
    /// Keys of the two hashes that shorten long keys.
    long: [Sip; 2],
}

/// SipHash of the standard library, keyed by a secret that every text begins with.
#[derive(Debug)]
struct Sip(u128);

impl Sip {
    fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.0.to_ne_bytes());
        hasher.write(bytes);
        hasher.finish()
    }
}

impl KeyHasher {
    pub(crate) fn new(key: HashKey) -> Self {
        let mut secrets = Secrets::new(key);
        Self {
            lengths: [(); LONGEST_DIRECT + 2].map(|()| secrets.next()),
            multipliers: [(); CHARACTERS].map(|()| secrets.next()),
            long: [Sip(secrets.next()), Sip(secrets.next())],
        }
    }

    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        match key.len() {
            length @ 8..=LONGEST_INLINE => name(self.lengths[length].wrapping_add(self.few_words(key))),
            _ => self.hash_other(key),
        }
    }

    /// As [`Self::words`] for 8 to [`LONGEST_INLINE`] bytes, without a loop.
    #[inline]
    fn few_words(&self, key: &[u8]) -> u128 {
        let times = |place: usize, word: u64| self.multipliers[place].wrapping_mul(u128::from(word));
        let whole = |place: usize| {
            times(place, key[CHARACTER * place..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word)))
        };
        let last = |place: usize| times(place, last_word(key));
        match key.len() {
            ..15 => whole(0).wrapping_add(last(1)),
            15..=21 => whole(0).wrapping_add(whole(1)).wrapping_add(last(2)),
            22..=28 => whole(0).wrapping_add(whole(1)).wrapping_add(whole(2)).wrapping_add(last(3)),
            _ => (0..4).map(whole).fold(last(4), u128::wrapping_add),
        }
    }

    #[inline(never)]
    fn hash_other(&self, key: &[u8]) -> KeyHash {
        let sum = match key.len() {
            0..8 => {
                let mut word = [0_u8; 8];
                word[..key.len()].copy_from_slice(key);
                self.multipliers[0].wrapping_mul(u128::from(u64::from_le_bytes(word)))
            }
            8..=LONGEST_DIRECT => self.words(key),
            _ => self.long(key),
        };
        name(self.lengths[key.len().min(LONGEST_DIRECT + 1)].wrapping_add(sum))
    }

    /// The hash of a key from 8 to 252 bytes.
    #[inline]
    fn words(&self, key: &[u8]) -> u128 {
        let mut sum = 0_u128;
        let mut rest = key;
        for multiplier in &self.multipliers {
            let word = match rest.first_chunk() {
                Some(word) => u64::from_le_bytes(*word),
                None => return sum.wrapping_add(multiplier.wrapping_mul(u128::from(last_word(key)))),
            };
            sum = sum.wrapping_add(multiplier.wrapping_mul(u128::from(word)));
            rest = &rest[CHARACTER..];
        }
        sum
    }

    fn long(&self, key: &[u8]) -> u128 {
        let mut shortened = [0_u8; 16];
        shortened[..8].copy_from_slice(&self.long[0].hash(key).to_le_bytes());
        shortened[8..].copy_from_slice(&self.long[1].hash(key).to_le_bytes());
        self.words(&shortened)
    }
}

/// The numbers that make a hash secret.
enum Secrets {
    /// Random numbers from the operating system: uniform and independent.
    Random(std::vec::IntoIter<[u8; 16]>),
    /// Numbers derived from a seed.
    Fixed { seed: u64, next: u64 },
}

impl Secrets {
    /// Number of secrets that a [`KeyHasher`] asks for.
    const COUNT: usize = LONGEST_DIRECT + 2 + CHARACTERS + 2;

    #[expect(
        clippy::expect_used,
        reason = "without random numbers a hash cannot be kept secret; std panics here too"
    )]
    fn new(key: HashKey) -> Self {
        match key {
            HashKey::Random => {
                let mut numbers = vec![[0; 16]; Self::COUNT];
                getrandom::fill(numbers.as_flattened_mut()).expect("the operating system has random numbers");
                Self::Random(numbers.into_iter())
            }
            HashKey::Fixed(seed) => Self::Fixed { seed, next: 0 },
        }
    }

    fn next(&mut self) -> u128 {
        match self {
            Self::Random(numbers) => u128::from_ne_bytes(numbers.next().unwrap_or_default()),
            Self::Fixed { seed, next } => {
                *next += 1;
                let sip = Sip(u128::from(*seed));
                let [high, low] = [0, 1].map(|half| sip.hash(&(2 * *next + half).to_le_bytes()));
                u128::from(high) << 64 | u128::from(low)
            }
        }
    }
}

/// The last 7 bytes of a key of at least 8.
#[inline]
fn last_word(key: &[u8]) -> u64 {
    key.last_chunk().map_or(0, |word| u64::from_le_bytes(*word) >> 8)
}

#[inline]
fn name(sum: u128) -> KeyHash {
    let mut tag = (sum >> 64) as u64;
    tag ^= tag >> 32;
    tag = tag.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    tag = tag.wrapping_add(u64::from(tag as u32 == 0));
    KeyHash { tag, extra: (sum as u64 >> 61) as u32, origin: Origin::Rule }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn any_single_byte_and_any_length_changes_the_name() {
        let hasher = KeyHasher::new(HashKey::Fixed(1));
        let mut seen = HashSet::new();
        for length in 0..600 {
            let mut key = vec![0_u8; length];
            assert!(seen.insert(hasher.hash(&key)), "length {length}");
            for at in 0..length {
                key[at] = 1;
                assert!(seen.insert(hasher.hash(&key)), "length {length}, byte {at}");
                key[at] = 0;
            }
        }
    }

    #[test]
    fn a_key_of_usual_length_has_the_same_name_with_and_without_the_loop() {
        let hasher = KeyHasher::new(HashKey::Fixed(3));
        let key: Vec<u8> = (0..=255).collect();
        for length in 8..=LONGEST_INLINE {
            for at in [0, 1, 40, 256 - length] {
                let key = &key[at..at + length];
                assert_eq!(hasher.few_words(key), hasher.words(key), "length {length}");
            }
        }
    }

    #[test]
    fn the_chance_that_two_of_ten_million_keys_share_a_counter_is_below_one_in_a_million() {
        let pairs = 1e7 * 1e7 / 2.0;
        let alike = 2_f64.powi(-67) + 2_f64.powi(-95);
        assert!(pairs * alike < 1e-6);
    }

    #[test]
    fn truncated_names_collide_as_often_as_random_numbers() {
        // 2^17 numbered keys in 2^30 values: 8 colliding pairs expected in each part of the name.
        let hasher = KeyHasher::new(HashKey::Fixed(7));
        for (part, shift) in [("top of the tag", 34), ("middle", 17), ("bottom", 2)] {
            let mut values: Vec<u64> = (0..1_u32 << 17)
                .map(|number| {
                    hasher.hash(format!("user:{number:015}").as_bytes()).tag >> shift & ((1 << 30) - 1)
                })
                .collect();
            values.sort_unstable();
            let pairs = values.windows(2).filter(|pair| pair[0] == pair[1]).count();
            assert!(pairs < 30, "{pairs} pairs collide in the {part}");
        }
    }

    #[test]
    fn two_random_keys_give_two_names() {
        let one = KeyHasher::new(HashKey::Random);
        let other = KeyHasher::new(HashKey::Random);
        assert_ne!(one.hash(b"key"), other.hash(b"key"));
        assert_ne!(one.hash(&[0; 300]), other.hash(&[0; 300]));
    }
}
