//! The counts of a limiter, as a value.
//!
//! Not here: a form to write to a disk.

use tollgate_core::{Cost, Quota, State, StepParams, Timestamp, nanos};

use crate::quota::Described;

/// Counts of one key, to be [restored](crate::RateLimiter::restore) later, in the same limiter or in another
/// one with the same quota. Time passes in between: permits that have come back by then are back.
///
/// # Example
/// ```
/// use tollgate::{Quota, RateLimiter};
///
/// let limiter = RateLimiter::direct(Quota::per_hour(10))?;
/// limiter.check_n(7)?;
/// let before = limiter.snapshot();
/// limiter.check_n(3)?;
/// limiter.restore(&before)?;
/// assert_eq!(limiter.take_at_most(10), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot {
    quota: Quota,
    kept: SavedState,
}

#[derive(Clone, Debug)]
enum SavedState {
    /// The instant at which a bucket is full again, in ns since the Unix epoch. (Its word has a meaning only
    /// for the quota that wrote it, which may have changed since.)
    FullAt(u64),
    /// Any other state, which every quota of the same numbers reads alike.
    State(State),
}

/// Why a snapshot cannot be restored. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The snapshot is of a limiter with another quota.
    #[error("the snapshot is of another quota, {snapshot}; this limiter has {limiter}")]
    OtherQuota {
        /// Quota by which the snapshot was counted.
        snapshot: String,
        /// Quota of the limiter.
        limiter: String,
    },
}

impl Snapshot {
    pub(crate) fn of(quota: &Quota, mut state: State, now: Timestamp) -> Self {
        let is_fresh = matches!(&state, State::Word(word) if word.is_fresh());
        let kept = match quota.step_params() {
            StepParams::Bucket(_) if !is_fresh => {
                let until_full = nanos(quota.take(&mut state, Cost::PEEK, now).reset_after());
                SavedState::FullAt(now.as_nanos().saturating_add(until_full))
            }
            _ => SavedState::State(state),
        };
        Self { quota: quota.clone(), kept }
    }

    /// The state of this snapshot for `quota`.
    pub(crate) fn state_for(&self, quota: &Quota) -> Result<State, RestoreError> {
        let own = &self.quota;
        if (own.limit(), own.period(), own.algorithm()) != (quota.limit(), quota.period(), quota.algorithm())
        {
            let snapshot = Described(own).to_string();
            let limiter = Described(quota).to_string();
            return Err(RestoreError::OtherQuota { snapshot, limiter });
        }
        Ok(match (&self.kept, quota.step_params()) {
            (SavedState::FullAt(instant), StepParams::Bucket(bucket)) => {
                State::Word(bucket.word(u128::from(*instant) * u128::from(bucket.scale())))
            }
            (SavedState::State(state), _) => state.clone(),
            (SavedState::FullAt(_), _) => quota.fresh(),
        })
    }
}
