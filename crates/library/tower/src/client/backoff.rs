//! Waits of a client that holds back.

use std::time::Duration;

/// Wait of a client where a server names none: `first`, then twice as long each time, up to `longest`. All
/// waits vary, so that clients which were denied together do not come back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait; 250 ms if nothing is set.
    pub first: Duration,
    /// The longest wait; 30 s if nothing is set.
    pub longest: Duration,
    /// Most by which a wait varies, in percent of itself, up to 100; 20 if nothing is set. A backoff becomes
    /// shorter; a wait that a server named becomes longer, since a shorter one would be too early.
    pub jitter_percent: u8,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(250), longest: Duration::from_secs(30), jitter_percent: 20 }
    }
}

impl Backoff {
    /// The wait after the attempt of this number, counted from 0.
    pub(crate) fn wait(&self, attempt: u32) -> Duration {
        let wait = self.first.saturating_mul(1_u32.checked_shl(attempt).unwrap_or(u32::MAX));
        let wait = wait.min(self.longest);
        wait - self.part(wait)
    }

    /// A wait that a server named, plus a random part of it.
    pub(crate) fn vary(&self, named: Duration) -> Duration {
        named.saturating_add(self.part(named))
    }

    fn part(&self, of: Duration) -> Duration {
        let most = u64::try_from(of.as_nanos()).unwrap_or(u64::MAX) / 100;
        Duration::from_nanos(fastrand::u64(0..=most.saturating_mul(u64::from(self.jitter_percent.min(100)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_vary_within_their_bounds() {
        let second = Duration::from_secs(1);
        let backoff = Backoff { first: second, longest: 10 * second, jitter_percent: 50 };
        for (attempt, whole) in [(0, 1), (1, 2), (3, 8), (4, 10), (40, 10), (u32::MAX, 10)] {
            for _ in 0..100 {
                let wait = backoff.wait(attempt);
                assert!((whole * second / 2..=whole * second).contains(&wait), "{attempt}: {wait:?}");
                let named = backoff.vary(whole * second);
                assert!((whole * second..=whole * second * 3 / 2).contains(&named), "{named:?}");
            }
        }
        let exact = Backoff { jitter_percent: 0, ..backoff };
        assert_eq!((exact.wait(1), exact.vary(second)), (2 * second, second));
        assert_eq!(backoff.vary(Duration::ZERO), Duration::ZERO);
    }
}
