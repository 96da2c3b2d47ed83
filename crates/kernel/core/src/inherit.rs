//! The ways in which a key keeps its used permits when its quota is replaced, and their arithmetic.

/// The part of its state that a key keeps when its quota is replaced. Full is the burst where there is one,
/// otherwise the limit; parts of a permit are kept between buckets, and never rounded up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Inherit {
    /// Used permits stay used: a smaller quota may leave a debt. From another algorithm, nothing is kept.
    #[default]
    Taken,
    /// Nothing: every key begins anew.
    Reset,
    /// The remaining permits, up to the new full: 3 of 10 become 3 of 20, or 2 of 2.
    AsIs,
    /// The remaining permits, plus the difference to a larger quota: 3 of 10 become 13 of 20, or 2 of 2.
    Additive,
    /// The same share: 3 of 10 become 6 of 20, or 1 of 5.
    Proportional,
}

impl Inherit {
    /// The missing permits of the new full where `missing` were missing of the old; all in one unit. Rounded
    /// up.
    pub(crate) fn missing(self, missing: u128, old_full: u128, full: u128) -> u128 {
        let less = old_full.saturating_sub(full);
        match self {
            Self::Reset => 0,
            Self::Taken => missing,
            Self::AsIs => (missing + full.saturating_sub(old_full)).saturating_sub(less),
            Self::Additive => missing.saturating_sub(less),
            Self::Proportional if old_full == 0 => full,
            Self::Proportional => missing.saturating_mul(full).div_ceil(old_full),
        }
    }
}
