//! Versions that are being rolled out, and are judged by counters of their own.
//!
//! Nodes with the previous version share the counters of a store with nodes that have the new version. The
//! previous version refills these counters, so they do not show what the new version would deny by itself.
//! Each limit of a candidate is therefore charged twice: on the shared counter, which decides, and on a
//! counter that only nodes with this version use, which decides nothing.

use hashbrown::HashMap;

/// Most domains that are judged at the same time; others are decided as usual, and not judged.
const MOST: usize = 10_000;

/// The version that is judged, by domain.
#[derive(Debug, Default)]
pub(crate) struct Candidates(HashMap<Box<str>, u64>);

impl Candidates {
    pub(crate) fn new(of: Vec<(String, u64)>) -> Self {
        Self(of.into_iter().take(MOST).map(|(domain, version)| (domain.into(), version)).collect())
    }

    /// The version of `domain` that is judged.
    pub(crate) fn of(&self, domain: &str) -> Option<u64> {
        self.0.get(domain).copied()
    }
}
