//! Counter keys: bytes that no two counters share, whichever values a client chooses.
//!
//! ```text
//! key   = domain { "|" level } "|" tail
//! level = key "=" value       the value of the request; where values are addresses, an address in its one
//!                             canonical spelling
//!       | key "~" wildcard    with share_threshold: the pattern of the rule, whose matches share a counter
//!       | key "*" wildcard    the same for a pattern that begins in the key
//!       | key "^" regex       the same for a regular expression
//!       | key "@" network     the same for a network; also an address, or its network by ipv6_prefix
//! tail  = kind [ "#" name ]   what is counted, and the name of one of several `limits`, if it has one
//!       | kind "$" bucket     of all limits that share this bucket; "!" of those in shadow
//! key   = key "|^" version    of limits of that version alone, while it is rolled out
//! kind  = unit | period | algorithm [ ":" … ]
//! ```
//!
//! `|`, `%`, braces and control characters are written as `%` and two hexadecimal digits everywhere; the five
//! marks above also in a level's key. So a key can be read back into its parts, and different parts never
//! make the same key.
//!
//! The key of a bucket has the levels that its rules leave open only ([`bucket`](crate::bucket)).
//!
//! A key contains only what must separate two counters: the algorithm, because the states of one mean nothing
//! to another, and for windows the unit or period. It does not contain the limit, the burst or the rule's
//! place in the file, so changing a number or moving a rule keeps its counts.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::domain::Entry;
use crate::key_text::escape;
use crate::limit::Override;
use crate::pattern::network_of;
use crate::reading::{Read, Reading, ValueRoom};
use crate::rule::{Counted, Level, Rule};

impl Rule {
    /// Appends the key of the counter of `limits[limit]` for a request's `entries` in `domain`.
    ///
    /// `entries` are those that [`Domain::find`](crate::Domain::find) found this rule by. Appends nothing if
    /// there is no such limit.
    ///
    /// # What is counted together
    /// Equal keys mean one counter. Two requests have equal keys only if all of these are equal:
    ///
    /// - the domain, and the number, the keys and the order of the entries;
    /// - each value, in full: a rule without a value, or with a pattern, counts each value of the request
    ///   separately. Some settings change that. With `share_threshold` all values that match the rule's
    ///   pattern share a counter. Where a descriptor of the level takes addresses, all spellings of an
    ///   address are one value, and of a list one address counts. With `ipv6_prefix` only that number of its
    ///   bits counts;
    /// - of limits that share a bucket, only the values that their rules leave open, and the bucket's name;
    /// - what is counted: for windows the unit or period (with cells, time zone or first hit, if the rule has
    ///   them), for buckets and totals the algorithm alone; and the name, if it is one of several `limits`.
    ///
    /// The limit, the burst, the rule's name and its place are not part of the key, so changing them keeps
    /// the counts. An exact rule that is split off from a general one continues with the counts of the
    /// general one. Keys are readable text without control characters, and no value can be chosen that makes
    /// its key another's.
    ///
    /// # Example
    /// ```
    /// # use tollgate_policy::*;
    /// let user = DescriptorSpec::new("user").rule(RuleSpec::new(Limit::per(5, Unit::Minute)?));
    /// let policy = PolicyBuilder::new().domain(DomainSpec::new("shop").descriptor(user)).build()?;
    /// let entries = [Entry::new("user", "ann|b")];
    /// let rule = policy.domain("shop").and_then(|shop| shop.find(&entries)).expect("there is a rule");
    /// let mut key = Vec::new();
    /// rule.write_key(0, "shop", &entries, &mut key);
    /// assert_eq!(key, b"shop|user=ann%7Cb|minute");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_key(&self, limit: usize, domain: &str, entries: &[Entry<'_>], key: &mut Vec<u8>) {
        let Some(limit) = self.limits.get(limit) else { return };
        self.write_levels(limit.bucket.is_some(), domain, entries, key);
        key.push(b'|');
        key.extend_from_slice(limit.key_tail.as_bytes());
    }

    /// Whether requests are counted together only if the keys and the values of all entries are equal, so
    /// that these can stand for [the key](Rule::write_key).
    #[must_use]
    pub const fn counts_values(&self) -> bool {
        self.counts_values
    }

    /// Appends the key of the [slots](Rule::slots) for a request's `entries` in `domain`. What is counted
    /// together is as in [`write_key`](Rule::write_key), and no counter has the same key.
    pub fn write_slot_key(&self, domain: &str, entries: &[Entry<'_>], key: &mut Vec<u8>) {
        self.write_levels(false, domain, entries, key);
        key.extend_from_slice(b"|concurrency");
    }

    #[inline(always)]
    fn write_levels(&self, in_bucket: bool, domain: &str, entries: &[Entry<'_>], key: &mut Vec<u8>) {
        escape(key, domain.as_bytes(), false);
        if self.counts_values {
            entries.iter().for_each(|entry| write_value(key, entry));
        } else {
            self.write_other_levels(in_bucket, entries, key);
        }
    }

    /// Writes the levels of a rule with a pattern, a network or a bucket.
    #[inline(never)]
    fn write_other_levels(&self, in_bucket: bool, entries: &[Entry<'_>], key: &mut Vec<u8>) {
        for (i, entry) in entries.iter().enumerate() {
            let level = self.levels.get(i).map(Arc::as_ref);
            if !in_bucket || level.is_some_and(|level| level.is_open) {
                write_level(key, level, entry);
            }
        }
    }
}

impl Override {
    /// Appends the key of this override's counter. `rule` is the configured rule of these entries, if there
    /// is one.
    ///
    /// The key is that of a configured fixed window of the same unit, so that both share a counter. The
    /// rule's `share_threshold` is ignored; its grouping of addresses applies.
    pub fn write_key(&self, rule: Option<&Rule>, domain: &str, entries: &[Entry<'_>], key: &mut Vec<u8>) {
        escape(key, domain.as_bytes(), false);
        for (i, entry) in entries.iter().enumerate() {
            let level = rule.and_then(|rule| rule.levels.get(i)).map(Arc::as_ref);
            write_level(key, level.filter(|level| !matches!(level.counted, Counted::Shared { .. })), entry);
        }
        key.push(b'|');
        key.extend_from_slice(self.unit.name().as_bytes());
    }
}

/// Makes `key` that of the same counter of one version alone, while that version is rolled out.
pub fn write_version(version: u64, key: &mut Vec<u8>) {
    let _ = write!(KeyText(key), "|^{version}");
}

/// A level that counts by the value of the request. A function of its own, so that the keys of most rules do
/// not pay for buckets.
#[inline(never)]
pub(crate) fn write_value(key: &mut Vec<u8>, entry: &Entry<'_>) {
    key.push(b'|');
    escape(key, entry.key, true);
    key.push(b'=');
    escape(key, entry.value, false);
}

fn write_level(key: &mut Vec<u8>, level: Option<&Level>, entry: &Entry<'_>) {
    key.push(b'|');
    escape(key, entry.key, true);
    if let Some(Level { counted: Counted::Shared { mark, pattern }, .. }) = level {
        key.push(*mark);
        return escape(key, pattern.as_bytes(), false);
    }
    let mut room = ValueRoom::new();
    let reading = level.map_or(Reading::Text, |level| level.reading);
    let Read { text, address, .. } = reading.read(entry.value, &mut room);
    match (level.map(|level| &level.counted), address) {
        (Some(Counted::Address(prefix)), Some(address)) => {
            key.push(b'@');
            match prefix {
                Some(prefix) if address.is_ipv6() => {
                    let _ = write!(KeyText(key), "{}", network_of(address, *prefix));
                }
                _ => key.extend_from_slice(text),
            }
        }
        _ => {
            key.push(b'=');
            escape(key, text, false);
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
