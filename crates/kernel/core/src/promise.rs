//! A promise of permits at a later instant.

use crate::cost::Cost;
use crate::state::Word;
use crate::time::Timestamp;

/// The answer to [`WordAlgorithm::promise`](crate::WordAlgorithm::promise).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Promise {
    /// False: nothing was reserved, and the state is unchanged.
    pub granted: bool,
    /// Permits that were asked for.
    pub permits: u64,
    /// The instant from which they may be used. If not granted: the first instant at which they would be
    /// there, or [`Timestamp::NEVER`].
    pub act_at: Timestamp,
    /// The state to keep; the old word when nothing was reserved.
    pub word: Word,
}

impl Promise {
    pub(crate) const fn granted(word: Word, cost: Cost, act_at: Timestamp) -> Self {
        Self { granted: true, permits: cost.permits(), act_at, word }
    }

    pub(crate) const fn denied(word: Word, cost: Cost, act_at: Timestamp) -> Self {
        Self { granted: false, permits: cost.permits(), act_at, word }
    }
}
