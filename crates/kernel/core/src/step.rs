//! A quota's algorithm with its computed numbers, by the shape of its state.
//!
//! A word algorithm takes words and a wide algorithm takes wide states, so a state of the wrong shape cannot
//! reach a step. [`Quota::take`](crate::Quota::take) and its siblings accept a [`State`](crate::State) of
//! either shape.

mod wide;
mod word;

pub use self::wide::WideAlgorithm;
pub(crate) use self::wide::WideKind;
pub use self::word::WordAlgorithm;
pub(crate) use self::word::WordKind;

/// The arithmetic of one quota, for a store that keeps words and wide states itself.
///
/// # Example
/// ```
/// # use tollgate_core::*;
/// # use std::time::Duration;
/// let quota = Quota::token_bucket(10, Duration::from_secs(1))?;
/// let Step::Word(bucket) = quota.step() else { panic!("one word per key") };
/// let step = bucket.take(Word::FRESH, Cost(4), Timestamp::from_unix_seconds(1_700_000_000));
/// assert_eq!(step.decision.remaining(), 6);
/// # Ok::<(), QuotaError>(())
/// ```
#[derive(Clone, Debug)]
pub enum Step {
    /// One [`Word`](crate::Word) per key.
    Word(WordAlgorithm),
    /// Several numbers per key.
    Wide(WideAlgorithm),
}
