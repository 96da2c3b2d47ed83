//! Counter keys: bytes that no two counters share, whatever values a client chooses.
//!
//! ```text
//! key   = domain { "|" level } "|" tail
//! level = key "=" value       the value of the request
//!       | key "~" wildcard    the pattern of the rule, where share_threshold makes all that match it share a counter;
//!       | key "*" wildcard    the same for a pattern that begins in the key,
//!       | key "^" regex       or is a regular expression,
//!       | key "@" network     or a network; also an address, or the network that ipv6_prefix groups it by
//! tail  = kind [ "#" name ]   what is counted, and the name of one of several `limits`
//! kind  = unit | period | algorithm [ ":" … ]
//! ```
//!
//! `|`, `%`, braces and control characters are written as `%` and two hexadecimal digits everywhere, the five
//! marks above also in a level's key. So a key can be read back to what it was made of, and no two of those share one.
//!
//! A key holds what must separate two counters and nothing else: the algorithm, because states of one mean nothing to
//! another, and for windows the unit or period. It does not hold the limit, the burst or the rule's place in the file: a
//! changed number or a rule moved keeps its counts.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Algorithm, Align, LeakyForm, Quota, QuotaError, Refill};

use crate::domain::Entry;
use crate::pattern::{Network, address};
use crate::rule::{Counted, Level, Limit, Override, Rule, Unit};

impl Rule {
    /// Appends the key of the counter of `limits[limit]` for a request's `entries` in `domain`.
    ///
    /// `entries` are those that [`Domain::find`](crate::Domain::find) found this rule by. Appends nothing for a limit that
    /// is not there.
    ///
    /// # What is counted together
    /// Equal keys mean one counter, and two requests have equal keys only when all of these are equal:
    ///
    /// - the domain, and the number, keys and order of the entries;
    /// - each value: all of it, so that a rule without a value or with a pattern counts each value of the request apart. But
    ///   with `share_threshold` the rule's pattern stands for all values that match it; with `value_cidr` the address counts
    ///   whatever its spelling; with `ipv6_prefix` so many of its bits;
    /// - what is counted: the unit or period (with cells, time zone or first hit, where the rule has them) of windows, the
    ///   algorithm alone of buckets and totals; and the name, for one of several `limits`.
    ///
    /// Not the limit, the burst, the rule's name or its place: change a number and the counts stay. So an exact rule cut
    /// out of a general one goes on with the counts of the general one. Keys are readable text without control characters;
    /// no value can be chosen that makes its key another's.
    ///
    /// # Example
    /// ```
    /// # use tollgate_policy::*;
    /// let text = "{domain: shop, descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 5}}]}";
    /// let source = Source { name: "shop.yaml".into(), text: text.into() };
    /// let policy = Policy::parse(&[source], &Options::default())?;
    /// let entries = [Entry { key: "user", value: "ann|b" }];
    /// let rule = policy.domain("shop").and_then(|shop| shop.find(&entries)).expect("there is a rule");
    /// let mut key = Vec::new();
    /// rule.write_key(0, "shop", &entries, &mut key);
    /// assert_eq!(key, b"shop|user=ann%7Cb|minute");
    /// # Ok::<(), Faults>(())
    /// ```
    pub fn write_key(&self, limit: usize, domain: &str, entries: &[Entry<'_>], key: &mut Vec<u8>) {
        let Some(limit) = self.limits.get(limit) else { return };
        escape(key, domain, false);
        for (i, entry) in entries.iter().enumerate() {
            let level = if self.counts_values { None } else { self.levels.get(i) };
            write_level(key, level.map(Arc::as_ref), entry);
        }
        key.push(b'|');
        key.extend_from_slice(limit.key_tail.as_bytes());
    }
}

impl Override {
    /// A limit of `requests_per_unit` hits a calendar window of `unit`; zero refuses everything.
    ///
    /// # Errors
    /// None today: every number of requests and every unit makes a quota.
    pub fn new(requests_per_unit: u32, unit: Unit) -> Result<Self, QuotaError> {
        let period = Duration::from_secs(unit.seconds());
        Ok(Self {
            unit,
            limit: Limit {
                name: String::new(),
                quota: Quota::fixed_window(u64::from(requests_per_unit), period)?,
                requests_per_unit,
                unit: Some(unit),
                period,
                key_tail: Arc::default(), // its key ends in the unit's name
            },
        })
    }

    /// Appends the key of this override's counter; `rule` is the configured rule of these entries, if there is one.
    ///
    /// Equal to the key of a configured fixed window of the same unit, so that both count together. A rule's
    /// `share_threshold` does not apply, its grouping of addresses does.
    pub fn write_key(&self, rule: Option<&Rule>, domain: &str, entries: &[Entry<'_>], key: &mut Vec<u8>) {
        escape(key, domain, false);
        for (i, entry) in entries.iter().enumerate() {
            let level = rule.and_then(|rule| rule.levels.get(i)).map(Arc::as_ref);
            write_level(key, level.filter(|level| matches!(level.counted, Counted::Address(_))), entry);
        }
        key.push(b'|');
        key.extend_from_slice(self.unit.name().as_bytes());
    }
}

fn write_level(key: &mut Vec<u8>, level: Option<&Level>, entry: &Entry<'_>) {
    key.push(b'|');
    escape(key, entry.key, true);
    match level.map(|level| &level.counted) {
        Some(Counted::Shared { mark, pattern }) => {
            key.push(*mark);
            escape(key, pattern, false);
        }
        Some(Counted::Address(prefix)) if let Some(address) = address(entry.value) => {
            key.push(b'@');
            let mut text = KeyText(key);
            let _ = match prefix {
                Some(prefix) if address.is_ipv6() => write!(text, "{}", Network::of(address, *prefix)),
                _ => write!(text, "{address}"),
            };
        }
        _ => {
            key.push(b'=');
            escape(key, entry.value, false);
        }
    }
}

struct KeyText<'a>(&'a mut Vec<u8>);

impl std::fmt::Write for KeyText<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

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

#[inline]
fn escape(key: &mut Vec<u8>, text: &str, is_level_key: bool) {
    if is_plain(text.as_bytes(), is_level_key) {
        key.extend_from_slice(text.as_bytes());
    } else {
        escape_bytes(key, text, is_level_key);
    }
}

/// True when certainly nothing in `text` needs escaping: eight bytes are looked at together. False may also be said of `~` and
/// other bytes that need none after all.
#[inline]
fn is_plain(text: &[u8], is_level_key: bool) -> bool {
    let Some(last) = text.last_chunk::<8>() else {
        return !text.iter().any(|byte| SPECIAL[usize::from(*byte)] != 0);
    };
    // The last eight bytes may overlap those before.
    let (words, _) = text.as_chunks::<8>();
    words.iter().fold(specials(last, is_level_key), |sum, word| sum | specials(word, is_level_key)) == 0
}

/// Not zero when one of eight bytes may be special: below a blank, `%`, `{` and above, and in a level's key the marks.
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
fn escape_bytes(key: &mut Vec<u8>, text: &str, is_level_key: bool) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let plain = if is_level_key { 0 } else { 2 };
    let is_special = |byte: &u8| {
        let class = SPECIAL[usize::from(*byte)];
        class != 0 && class != plain
    };
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(is_special) {
        let byte = rest[at];
        key.extend_from_slice(&rest[..at]);
        key.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        rest = &rest[at + 1..];
    }
    key.extend_from_slice(rest);
}

/// The kind part of a tail. `period` is the text of the window's length.
pub(crate) fn tail(algorithm: &Algorithm, period: &str, is_zero: bool) -> String {
    let kind = match algorithm {
        Algorithm::FixedWindow { align: Align::Calendar } => period.to_owned(),
        Algorithm::FixedWindow { align: Align::FirstHit } => format!("first_hit:{period}"),
        Algorithm::SlidingWindow { cells } => format!("sliding_window:{period}/{cells}"),
        Algorithm::TokenBucket { refill: Refill::Interval, .. } => "token_bucket:interval".to_owned(),
        Algorithm::LeakyBucket { form: LeakyForm::Queue { .. }, .. } => "leaky_bucket:queue".to_owned(),
        // What a bucket's state means does not depend on its rate: `Quota::migrated_from` carries it over.
        Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. } | Algorithm::Total => {
            algorithm.name().to_owned()
        }
        other => format!("{}:{period}", other.name()),
    };
    // A bucket that nothing flows into keeps another kind of state.
    let is_bucket = matches!(algorithm, Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. });
    if is_bucket && is_zero { kind + ":0" } else { kind }
}

/// The tail of one of several `limits`.
pub(crate) fn named_tail(tail: &str, name: &str) -> String {
    let mut bytes = Vec::new();
    escape(&mut bytes, name, false);
    format!("{tail}#{}", String::from_utf8_lossy(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_called_plain_is_written_as_it_is_at_every_place_of_a_text() {
        for byte in 0..=127_u8 {
            for length in 1..20 {
                for at in 0..length {
                    let mut bytes = vec![b'a'; length];
                    bytes[at] = byte;
                    let text = String::from_utf8(bytes).expect("ASCII");
                    for is_level_key in [false, true] {
                        let (mut quick, mut slow) = (Vec::new(), Vec::new());
                        escape(&mut quick, &text, is_level_key);
                        escape_bytes(&mut slow, &text, is_level_key);
                        assert_eq!(quick, slow, "{text:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn letters_digits_and_usual_signs_are_plain() {
        for text in
            ["", "api_key", "192.168.100.200", "/api/v1/users?q=x&y", "ü–漢字 and more", "ann@shop.example"]
        {
            assert!(is_plain(text.as_bytes(), false), "{text}");
        }
        assert!(is_plain(b"remote_address", true));
    }
}
