//! The wait before the next attempt to connect: full jitter, doubling.

use std::time::Duration;

/// The ceiling of the first wait.
const FIRST: Duration = Duration::from_millis(200);
/// The highest ceiling.
const LAST: Duration = Duration::from_secs(30);
/// The longest wait that the control plane may ask for.
const LONGEST_AWAY: Duration = Duration::from_secs(300);

/// The attempts since the last success.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// The wait before the next attempt: between zero and a ceiling of 0.2 s to 30 s that doubles.
    pub(crate) fn wait(&mut self, random: &mut fastrand::Rng) -> Duration {
        let ceiling = FIRST.saturating_mul(1 << self.attempts.min(20)).min(LAST);
        self.attempts = self.attempts.saturating_add(1);
        ceiling.mul_f64(random.f64())
    }

    /// The wait that the control plane asked for, and up to half as much again.
    pub(crate) fn away(after: Duration, random: &mut fastrand::Rng) -> Duration {
        let after = after.min(LONGEST_AWAY);
        after + after.mul_f64(random.f64() / 2.0)
    }

    /// The control plane has answered.
    pub(crate) fn succeeded(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_stay_below_a_ceiling_that_doubles_up_to_30_s_and_begins_anew_after_a_success() {
        let mut backoff = Backoff::default();
        let mut random = fastrand::Rng::with_seed(7);
        for ceiling_ms in [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000] {
            assert!(backoff.wait(&mut random) <= Duration::from_millis(ceiling_ms), "{ceiling_ms} ms");
        }
        backoff.succeeded();
        assert!(backoff.wait(&mut random) <= FIRST);
        let longest = (0..1_000).map(|_| Backoff::default().wait(&mut random)).max();
        assert!(longest > Some(FIRST.mul_f64(0.95)), "the whole span is used: {longest:?}");
    }

    #[test]
    fn the_control_plane_is_obeyed_within_bounds() {
        let mut random = fastrand::Rng::with_seed(7);
        let (after, waited) = (Duration::from_secs(4), |after| Backoff::away(after, &mut random));
        let waits: Vec<_> = std::iter::repeat_n(after, 1_000).map(waited).collect();
        assert!(waits.iter().all(|wait| (after..=after.mul_f64(1.5)).contains(wait)));
        assert!(Backoff::away(Duration::MAX, &mut random) <= LONGEST_AWAY.mul_f64(1.5));
    }
}
