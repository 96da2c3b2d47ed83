//! A test as a story in rows: when, how much, and what must be answered.
//!
//! # Example
//! ```
//! # use tollgate_core::Quota;
//! # use tollgate_testkit::table::*;
//! # use std::time::Duration;
//! let quota = Quota::token_bucket(10, Duration::from_secs(1))?;
//! play(&quota, &[
//!     (0, 10, admit(0)),
//!     (0, 1, deny(100)), // one comes every 100 ms
//!     (0, 11, never()),
//!     (100, 1, admit(0)),
//! ]);
//! # Ok::<(), tollgate_core::QuotaError>(())
//! ```

use std::time::Duration;

use tollgate_core::{Cost, Decision, Quota, RetryAfter, State, Timestamp};

/// Where tables begin: midnight (UTC) of Monday, 13 November 2023.
pub const MIDNIGHT: Timestamp = Timestamp::from_unix_seconds(1_699_833_600);

/// A decision, as far as a row cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Admitted at once, with this number of permits left.
    Admit { remaining: u64 },
    /// Admitted, to act so much later.
    Delay(Duration),
    /// Denied until so much later.
    Deny(Duration),
    /// Denied, and no wait helps.
    Never,
}

/// Admitted at once, with `remaining` permits left.
#[must_use]
pub const fn admit(remaining: u64) -> Want {
    Want::Admit { remaining }
}

/// Admitted, to act `ms` later.
#[must_use]
pub const fn delay(ms: u64) -> Want {
    Want::Delay(Duration::from_millis(ms))
}

/// Denied; a retry `ms` later fits.
#[must_use]
pub const fn deny(ms: u64) -> Want {
    Want::Deny(Duration::from_millis(ms))
}

/// Denied; no wait helps.
#[must_use]
pub const fn never() -> Want {
    Want::Never
}

/// The instant `ms` after [`MIDNIGHT`].
#[must_use]
pub fn at(ms: u64) -> Timestamp {
    MIDNIGHT + Duration::from_millis(ms)
}

/// The decision in the words of a row.
#[must_use]
pub fn said(decision: &Decision) -> Want {
    match decision.retry_after() {
        RetryAfter::Now if decision.delay().is_zero() => Want::Admit { remaining: decision.remaining() },
        RetryAfter::Now => Want::Delay(decision.delay()),
        RetryAfter::After(wait) => Want::Deny(wait),
        RetryAfter::Never => Want::Never,
    }
}

/// Plays `rows` of (ms after [`MIDNIGHT`], cost, answer) on a fresh key; gives the state it leaves.
///
/// # Panics
/// At the first row that is answered otherwise.
pub fn play(quota: &Quota, rows: &[(u64, u64, Want)]) -> State {
    let mut state = quota.fresh();
    play_on(quota, &mut state, rows);
    state
}

/// As [`play`], beginning with `state`.
///
/// # Panics
/// At the first row that is answered otherwise.
pub fn play_on(quota: &Quota, state: &mut State, rows: &[(u64, u64, Want)]) {
    for (row, &(ms, cost, want)) in rows.iter().enumerate() {
        let decision = quota.take(state, Cost(cost), at(ms));
        assert_eq!(said(&decision), want, "row {row}: at {ms} ms, cost {cost}: {decision:?}");
    }
}
