//! The steps of transactions that write, so that a test can end the process at each of them.

use tollgate_mistakes::KillPoints;

/// Before and after each statement that writes, before and after the commit.
pub(crate) static STEPS: KillPoints = KillPoints::new();

/// Ends this process, as a kill does, at the `step`-th step from now, from 1.
#[cfg(feature = "kill-points")]
pub fn kill_at_step(step: u64) {
    STEPS.kill_at(step);
}
