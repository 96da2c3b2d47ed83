//! `algorithm: priority_buckets`: the classes and their weights, by the values that name them.

use std::sync::Arc;

use super::algorithm::PRIORITY_BUCKETS;
use crate::read::path::Path;
use crate::read::reader::{Fields, Reader};
use crate::yaml_tree::Kind;

/// The largest weight.
const MOST: u64 = 1_000;

/// Whether the algorithm is this one.
pub(super) fn is_meant(fields: &Fields<'_>) -> bool {
    let kind = fields.get("algorithm").map(|node| &node.kind);
    matches!(kind, Some(Kind::Scalar(scalar)) if scalar.text == PRIORITY_BUCKETS)
}

/// The values that name the classes, in the order of their weights; none for another algorithm.
pub(super) fn names(fields: &Fields<'_>) -> Vec<String> {
    match fields.get("classes").map(|node| &node.kind) {
        Some(Kind::Map(map)) if is_meant(fields) => {
            map.entries.iter().map(|(key, _)| key.text.clone()).collect()
        }
        _ => Vec::new(),
    }
}

impl Reader<'_> {
    /// The weights of `classes`; `None` if something about them is faulty, which is reported.
    pub(super) fn weights(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> Option<Arc<[u32]>> {
        let here = path.key("classes");
        let Some(node) = fields.get("classes") else {
            let message = "is missing; write the values that name the classes, and their weights, such as \
                           classes: {high: 3, low: 1}";
            self.notes.fault(fields.pos, here, message);
            return None;
        };
        let Kind::Map(map) = &node.kind else {
            self.wrong_kind(node, &here, "a map of values and weights such as {high: 3, low: 1}");
            return None;
        };
        let mut weights = Vec::new();
        for (key, weight) in &map.entries {
            let at = here.key(&key.text);
            if key.text.is_empty() || key.text.contains('*') {
                let message = "is not the name of a class; write one value without *";
                self.notes.fault(key.pos, at, message);
                return None;
            }
            weights.push(u32::try_from(self.number(weight, &at, 1, MOST)?).ok()?);
        }
        Some(weights.into())
    }
}
