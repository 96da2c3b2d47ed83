//! Readings of the keys of a level, as its descriptors declare them.
//!
//! Not here: how a value is read (`reading`).

use std::collections::HashMap;
use std::num::NonZeroU8;

use crate::reading::{Reading, exact_address};
use crate::spec::{DescriptorSpec, ListedValue, ValueKind};

/// Reading of the values of each key of a level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readings(HashMap<String, Reading>);

impl Readings {
    /// Adds the declarations of the descriptors of the level. Of two places in a list the first counts.
    pub(crate) fn note(&mut self, level: &[DescriptorSpec]) {
        for spec in level {
            let reading = reading_of(spec);
            if !reading.is_text() {
                let known = self.0.entry(spec.key.clone()).or_default();
                *known = known.and(reading);
            }
        }
    }

    pub(crate) fn of(&self, key: &str) -> Reading {
        self.0.get(key).copied().unwrap_or_default()
    }
}

/// Reading of the values of a descriptor's key.
fn reading_of(spec: &DescriptorSpec) -> Reading {
    if spec.key.contains('*') {
        return Reading::Text; // no one key
    }
    if let Some(nth) = spec.forwarded.and_then(NonZeroU8::new) {
        return Reading::Forwarded(nth);
    }
    let takes_addresses = match &spec.value.0 {
        ValueKind::Network(_) => true,
        ValueKind::List(list) => list.values.iter().any(|it| matches!(it, ListedValue::Network(_))),
        ValueKind::Text(text) => exact_address(text).is_some(),
        ValueKind::Any | ValueKind::Regex(_) => false,
    };
    if takes_addresses || spec.ipv6_prefix.is_some() { Reading::Address } else { Reading::Text }
}
