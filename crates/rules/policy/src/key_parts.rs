//! Counter keys read back into the domain and the entries of the requests that they count. `counter_key` has
//! the grammar.

use crate::counter_key::write_value;
use crate::domain::Entry;
use crate::key_text::escape;

/// The parts of a counter's key: the requests that it counts, and its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyParts {
    /// Name of the domain.
    pub domain: String,
    /// Key and value of each entry, as they were sent. `None` where requests with different values share the
    /// counter, or where the key is too long to be kept whole: then the entries of a request do not follow
    /// from it.
    pub entries: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    /// Unit or algorithm: `minute`, `token_bucket` and the like. Empty if the key is not kept whole.
    pub counted: String,
}

/// Begins the last part of a key that stores keep as a digest.
const DIGEST: &str = "%sha256:";

impl KeyParts {
    /// Reads a key that [`Rule::write_key`](crate::Rule::write_key) wrote, or the part of such a key that a
    /// store keeps. `None` for anything else.
    ///
    /// # Example
    /// ```
    /// # use tollgate_policy::KeyParts;
    /// let parts = KeyParts::read(b"shop|user=ann%7Cb|minute").expect("a key");
    /// assert_eq!((&*parts.domain, &*parts.counted), ("shop", "minute"));
    /// assert_eq!(parts.entries, Some(vec![(b"user".to_vec(), b"ann|b".to_vec())]));
    /// ```
    #[must_use]
    pub fn read(key: &[u8]) -> Option<Self> {
        let mut parts: Vec<&[u8]> = key.split(|byte| *byte == b'|').collect();
        let tail = std::str::from_utf8(parts.pop()?).ok()?;
        let (domain, levels) = parts.split_first()?;
        let domain = String::from_utf8(unescaped(domain)?).ok()?;
        if tail.starts_with(DIGEST) {
            return Some(Self { domain, entries: None, counted: String::new() });
        }
        let shares_bucket = tail.contains(['$', '!']);
        let entry = |level: &&[u8]| {
            let at = level.iter().position(|byte| b"=~*^@".contains(byte))?;
            let (name, [mark, value @ ..]) = level.split_at_checked(at)? else { return None };
            let value = unescaped(value)?;
            // One address stands for itself, a network for all of its addresses.
            let is_value = *mark == b'=' || (*mark == b'@' && !value.contains(&b'/'));
            Some(is_value.then_some((unescaped(name)?, value)))
        };
        let levels: Vec<_> = levels.iter().map(entry).collect::<Option<_>>()?;
        let entries = levels.into_iter().collect::<Option<Vec<_>>>().filter(|_| !shares_bucket);
        Some(Self { domain, entries, counted: String::from_utf8(unescaped(tail.as_bytes())?).ok()? })
    }

    /// Appends the beginning of all keys that count requests of `domain` with these first entries, each
    /// followed by a bar. Keys of counters that several values share begin otherwise.
    pub fn write_start(domain: &str, entries: &[Entry<'_>], key: &mut Vec<u8>) {
        escape(key, domain.as_bytes(), false);
        entries.iter().for_each(|entry| write_value(key, entry));
    }
}

/// A part without its escapes; `None` if one is cut or damaged.
fn unescaped(part: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part;
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let (digits, after) = after.split_at_checked(2)?;
        let digits =
            std::str::from_utf8(digits).ok().filter(|it| it.bytes().all(|it| it.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_key_counts_is_read_back() {
        let entry = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        for (key, entries, counted) in [
            ("d|minute", Some(vec![]), "minute"),
            ("d|a=b|c=|90s", Some(vec![entry("a", "b"), entry("c", "")]), "90s"),
            ("d|a=x=y|token_bucket#fast", Some(vec![entry("a", "x=y")]), "token_bucket#fast"),
            ("d|ip@10.0.0.1|hour", Some(vec![entry("ip", "10.0.0.1")]), "hour"),
            ("d|ip@2001:db8::/56|hour", None, "hour"),
            ("d|a~v*|minute", None, "minute"),
            ("d|a^v.*|minute", None, "minute"),
            ("d|a=b|token_bucket$backend", None, "token_bucket$backend"),
            ("d|a=b|token_bucket!backend", None, "token_bucket!backend"),
            ("d|a=b|%sha256:0f", None, ""),
        ] {
            let want = KeyParts { domain: "d".into(), entries, counted: counted.into() };
            assert_eq!(KeyParts::read(key.as_bytes()), Some(want), "{key}");
        }
        for none in ["", "d", "d|a|minute", "d|a=%7|minute", "d|a=%zz|minute", "%|minute"] {
            assert_eq!(KeyParts::read(none.as_bytes()), None, "{none}");
        }
        for damaged in [&b"\xff|a=b|minute"[..], b"d|a=b|\xff"] {
            assert_eq!(KeyParts::read(damaged), None, "domains and kinds are texts of rules");
        }
    }

    #[test]
    fn a_start_and_a_kind_are_read_back_as_they_were_written() {
        let texts = ["", "a", "a|b", "%", "%7C", "=~*^@", "{}", "\u{1}\n", "酒店", "$!#", "leased"];
        let bytes = [&b"\xff"[..], b"caf\xe9", b"\xc3", b"|\xed\xb3\xa9=", b"\x80%\xfe"];
        let parts = || texts.iter().map(|text| text.as_bytes()).chain(bytes);
        for domain in texts {
            for first in parts() {
                for second in parts() {
                    let entries = [(first.to_vec(), second.to_vec()), (second.to_vec(), first.to_vec())];
                    for count in 0..=2 {
                        let entries = entries[..count].to_vec();
                        let borrowed: Vec<_> =
                            entries.iter().map(|(key, value)| Entry::new(key, value)).collect();
                        let mut key = Vec::new();
                        KeyParts::write_start(domain, &borrowed, &mut key);
                        key.extend_from_slice(b"|minute");
                        let counted = "minute".to_owned();
                        let want = KeyParts { domain: domain.into(), entries: Some(entries), counted };
                        assert_eq!(KeyParts::read(&key), Some(want));
                    }
                }
            }
        }
    }
}
