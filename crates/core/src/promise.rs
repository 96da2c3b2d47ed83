//! A promise of permits at a later instant.

use crate::{Cost, Timestamp, Word};

/// The answer to [`Quota::promise_word`](crate::Quota::promise_word).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Promise {
    /// False: nothing was reserved, and the state is unchanged.
    pub granted: bool,
    /// How many permits were asked for.
    pub permits: u64,
    /// From when on they may be used. Of a refused reservation: the first instant at which they would be there, or the
    /// end of time ([`u64::MAX`] ns) when that is never.
    pub act_at: Timestamp,
    /// What to remember; the old word when nothing was reserved.
    pub word: Word,
}

impl Promise {
    pub(crate) const fn refused(word: Word, cost: Cost, act_at: Timestamp) -> Self {
        Self { granted: false, permits: cost.permits(), act_at, word }
    }
}
