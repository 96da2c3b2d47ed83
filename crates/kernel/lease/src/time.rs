//! A node's own clock, as the protocol sees it.

use std::time::Duration;

/// An instant of a node's own monotonic clock, in nanoseconds since an arbitrary beginning. Setting a wall
/// clock does not change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mono(pub u64);

impl Mono {
    /// The instant `span` later.
    #[inline]
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The instant this many microseconds later.
    #[inline]
    #[must_use]
    pub(crate) const fn after_us(self, span_us: u64) -> Self {
        Self(self.0.saturating_add(span_us.saturating_mul(1_000)))
    }

    /// Nanoseconds from `earlier` until now; 0 where that is not earlier.
    #[inline]
    #[must_use]
    pub(crate) const fn ns_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
