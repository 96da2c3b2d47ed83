//! `algorithm: concurrency`: slots that are held at the same time, and how long one lasts.

use tollgate_core::Slots;
use tollgate_human_text::parse_duration;

use super::algorithm::CONCURRENCY;
use crate::read::known_keys::Section;
use crate::read::path::Path;
use crate::read::reader::{Fields, Reader};
use crate::read::scalar::quoted;
use crate::yaml_tree::Kind;

/// Keys of such a rule.
const KEYS: [&str; 7] = ["algorithm", "limit", "ttl", "name", "replaces", "sharing", "on_store_failure"];

/// Whether the algorithm is this one.
pub(super) fn is_meant(fields: &Fields<'_>) -> bool {
    let kind = fields.get("algorithm").map(|node| &node.kind);
    matches!(kind, Some(Kind::Scalar(scalar)) if scalar.text == CONCURRENCY)
}

impl Reader<'_> {
    /// The slots; `None` if something about them is faulty, which is reported.
    pub(super) fn concurrency(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> Option<Slots> {
        for (key, node) in &fields.map.entries {
            let name = key.text.as_str();
            if KEYS.contains(&name) || !Section::RateLimit.allows(name) || node.is_null() {
                continue;
            }
            let message = match name {
                "requests_per_unit" => "concurrency counts slots, not requests; write limit",
                _ => "has no meaning for concurrency, which has slots and no rate; remove it",
            };
            self.notes.fault(key.pos, path.key(name), message);
        }
        let limit = match fields.get("limit") {
            Some(node) => self.number(node, &path.key("limit"), 0, Slots::MOST),
            None => {
                let message = "is missing; write how many may hold a slot at the same time";
                self.notes.fault(fields.pos, path.key("limit"), message);
                None
            }
        };
        let here = path.key("ttl");
        let Some(node) = fields.get("ttl") else {
            let message =
                "is missing; write after which time a slot is free that is not released, such as ttl: 30s";
            self.notes.fault(fields.pos, here, message);
            return None;
        };
        let text = self.scalar(node, &here, "a duration such as 30s")?;
        let Some(ttl) = parse_duration(&text.text) else {
            let message =
                format!("invalid duration {}: expected something like 500ms, 30s or 1h", quoted(text));
            self.notes.fault(node.pos, here, message);
            return None;
        };
        let limit = limit?;
        match Slots::new(limit, ttl) {
            Ok(slots) => Some(slots),
            Err(_) => {
                // The limit is in its bounds.
                self.notes.fault(node.pos, here, "is out of range; write a duration from 1ns to 3650d");
                None
            }
        }
    }
}
