//! The number of permits that one request asks for.

/// Permits asked for by one request. Zero is a peek: it gets a decision, and nothing is charged.
///
/// # Example
/// ```
/// # use tollgate_core::Cost;
/// assert_eq!(Cost::ONE.permits(), 1);
/// assert!(Cost::PEEK.is_peek());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(pub u64);

impl Cost {
    /// Gets a decision and charges nothing.
    pub const PEEK: Self = Self(0);
    /// One permit: the cost of most requests.
    pub const ONE: Self = Self(1);

    /// The number of permits.
    #[must_use]
    pub const fn permits(self) -> u64 {
        self.0
    }

    /// True for a cost of zero.
    #[must_use]
    pub const fn is_peek(self) -> bool {
        self.0 == 0
    }
}
