//! Which keys may stand where, and what a misspelt one was meant to be.

use super::{Notes, Path};
use crate::tree::Key;

/// A kind of map in a rule file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Root,
    Descriptor,
    RateLimit,
    LimitsEntry,
    ReplacesEntry,
    Response,
}

const ROOT: &[&str] = &["domain", "descriptors", "charge", "response"];
const DESCRIPTOR: &[&str] = &[
    "key",
    "value",
    "rate_limit",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
    "limits",
    "value_cidr",
    "value_regex",
    "ipv6_prefix",
    "sharing",
    "on_store_failure",
    "response",
];
const LIMITS_ENTRY: &[&str] = &[
    "unit",
    "requests_per_unit",
    "name",
    "replaces",
    "unit_multiplier",
    "period",
    "algorithm",
    "burst",
    "initial",
    "overdraft",
    "refill",
    "cells",
    "align",
    "log_denied",
    "form",
    "capacity",
    "delay_after",
    "limit",
    "time_zone",
];
/// What `rate_limit` has besides [`LIMITS_ENTRY`].
const RATE_LIMIT_ONLY: &[&str] = &["unlimited", "sharing", "on_store_failure"];
const RESPONSE: &[&str] = &["status", "content_type", "body", "headers"];
/// Keys of envoyproxy/ratelimit: ignored where they have no meaning, as there, but with a warning.
const PEER: &[&str] = &[
    "domain",
    "key",
    "value",
    "descriptors",
    "rate_limit",
    "unit",
    "requests_per_unit",
    "unlimited",
    "shadow_mode",
    "quota_mode",
    "name",
    "replaces",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];
/// Keys of algorithms that are not built yet.
const LATER: &[&str] = &["warm_up", "cold_factor", "ttl", "classes", "concurrency", "priority_buckets"];

impl Section {
    pub(super) fn allows(self, name: &str) -> bool {
        match self {
            Self::Root => ROOT.contains(&name),
            Self::Descriptor => DESCRIPTOR.contains(&name),
            Self::RateLimit => LIMITS_ENTRY.contains(&name) || RATE_LIMIT_ONLY.contains(&name),
            Self::LimitsEntry => LIMITS_ENTRY.contains(&name),
            Self::ReplacesEntry => name == "name",
            Self::Response => RESPONSE.contains(&name),
        }
    }

    fn names(self) -> Vec<&'static str> {
        match self {
            Self::Root => ROOT.to_vec(),
            Self::Descriptor => DESCRIPTOR.to_vec(),
            Self::RateLimit => [LIMITS_ENTRY, RATE_LIMIT_ONLY].concat(),
            Self::LimitsEntry => LIMITS_ENTRY.to_vec(),
            Self::ReplacesEntry => vec!["name"],
            Self::Response => RESPONSE.to_vec(),
        }
    }

    /// What to write where something other than a map stands.
    pub(super) const fn example(self) -> &'static str {
        match self {
            Self::Root => "a map with domain: and descriptors:",
            Self::Descriptor => "a map with key:",
            Self::RateLimit | Self::LimitsEntry => "a map with unit: and requests_per_unit:",
            Self::ReplacesEntry => "a map with name:",
            Self::Response => "a map with status:, content_type:, body: or headers:",
        }
    }
}

/// Where a key belongs, for one that stands in the wrong place.
fn home(name: &str) -> Option<&'static str> {
    if ROOT.contains(&name) && name != "descriptors" && name != "response" {
        return Some("at the top of the file");
    }
    if DESCRIPTOR.contains(&name) {
        return Some("in a descriptor");
    }
    if LIMITS_ENTRY.contains(&name) || RATE_LIMIT_ONLY.contains(&name) {
        return Some("under rate_limit");
    }
    RESPONSE.contains(&name).then_some("under response")
}

/// Notes a key that has no meaning in its section.
pub(super) fn check(notes: &mut Notes, section: Section, key: &Key, path: &Path<'_>) {
    let name = key.text.as_str();
    // Some files of the field write these two with a capital.
    if section.allows(name) || (section == Section::Descriptor && matches!(name, "Key" | "Value")) {
        return;
    }
    if notes.is_full() {
        return; // spares the search for what was meant
    }
    let here = path.key(name);
    if LATER.contains(&name) {
        let message = "comes in a later release; leave it out, docs/choosing.md names what is there today";
        notes.fault(key.pos, here, message);
        return;
    }
    let is_peer_section = matches!(section, Section::Root | Section::Descriptor | Section::RateLimit);
    match home(name) {
        Some(home) if is_peer_section && PEER.contains(&name) => {
            notes.warn(key.pos, here, format!("has no effect here; it belongs {home}"));
        }
        Some(home) => notes.fault(key.pos, here, format!("has no meaning here; it belongs {home}")),
        None => {
            let names = section.names();
            let hint = did_you_mean(name, &names).unwrap_or_else(|| {
                format!("the keys here are {}", super::scalar::one_of(&names).replace(" or ", " and "))
            });
            notes.fault(key.pos, here, format!("unknown key; {hint}"));
        }
    }
}

/// `did you mean NAME?` for the nearest of `names`, when one is near.
#[must_use]
pub fn did_you_mean(word: &str, names: &[&str]) -> Option<String> {
    let plain = |text: &str| -> Vec<char> {
        text.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).take(40).collect()
    };
    let word = plain(word);
    let (distance, name) =
        names.iter().map(|name| (distance(&word, &plain(name)), name)).min_by_key(|near| near.0)?;
    (distance <= 1.max(word.len() / 3) && distance < word.len()).then(|| format!("did you mean {name}?"))
}

/// Insertions, deletions, replacements and swaps of neighbours from one word to the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    least = least.min(rows[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    rows[a.len()][b.len()]
}
