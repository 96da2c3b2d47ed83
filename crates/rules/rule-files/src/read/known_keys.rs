//! The known keys of each section, and suggestions for misspelt ones.

use tollgate_human_text::{did_you_mean, one_of};

use super::guesses;
use super::notes::Notes;
use super::path::Path;
use super::warnings::Warned;
use crate::yaml_tree::YamlKey;

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

const ROOT: &[&str] = &["domain", "descriptors", "charge", "unmatched", "response"];
const DESCRIPTOR: &[&str] = &[
    "key",
    "value",
    "rate_limit",
    "rate",
    "action",
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
    "value_file",
    "ipv6_prefix",
    "forwarded",
    "sharing",
    "on_store_failure",
    "on_limit",
    "max_wait",
    "response",
];
const LIMITS_ENTRY: &[&str] = &[
    "unit",
    "requests_per_unit",
    "rate",
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
    "leaving_cell",
    "align",
    "log_denied",
    "form",
    "capacity",
    "delay_after",
    "warm_up",
    "cold_factor",
    "limit",
    "excess",
    "cost",
    "bucket",
    "shadow",
    "post_paid",
    "time_zone",
    "ttl",
];
/// Keys of `rate_limit` besides those of [`LIMITS_ENTRY`].
const RATE_LIMIT_ONLY: &[&str] =
    &["classes", "unlimited", "sharing", "on_store_failure", "on_limit", "max_wait"];
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

    /// Remedy for something other than a map.
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

/// Where a misplaced key belongs.
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

/// Notes a key that is unknown in its section.
pub(super) fn check(notes: &mut Notes, section: Section, key: &YamlKey, path: &Path<'_>) {
    let name = key.text.as_str();
    // Some files of envoyproxy/ratelimit write these two with a capital letter.
    if section.allows(name) || (section == Section::Descriptor && matches!(name, "Key" | "Value")) {
        return;
    }
    if notes.is_full() {
        return; // spares the search for what was meant
    }
    let here = path.key(name);
    let is_peer_section = matches!(section, Section::Root | Section::Descriptor | Section::RateLimit);
    match home(name) {
        Some(home) if is_peer_section && PEER.contains(&name) => {
            notes.warn(Warned::Misplaced, key.pos, here, format!("has no effect here; it belongs {home}"));
        }
        Some(home) => notes.fault(key.pos, here, format!("is not a key of this map; it belongs {home}")),
        None => {
            let names = section.names();
            let guess = match section {
                Section::RateLimit | Section::LimitsEntry => guesses::limit_key(name),
                _ => None,
            };
            let hint = guess
                .or_else(|| did_you_mean(name, &names))
                .unwrap_or_else(|| format!("the keys here are {}", one_of(&names).replace(" or ", " and ")));
            notes.fault(key.pos, here, format!("unknown key; {hint}"));
        }
    }
}
