//! The rule for when a server that does not answer is no longer asked, and when it is tried again. Reads no
//! clock.
//!
//! Not here: the events that count as failures, and the probing of a server (each store).

use std::time::Duration;

use super::jittered;

/// Pause after a first failure; each failure that follows doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// The failures after which a server is not asked for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Failures in a row that open it: broken connections and answers that did not come in time.
    pub failures: u32,
    /// Longest pause between two probes while it is open; the first are shorter, and each is shortened at
    /// random.
    pub longest_pause: Duration,
}

impl Default for BreakerSettings {
    /// Defaults: 3 failures; 400 ms.
    fn default() -> Self {
        Self { failures: 3, longest_pause: Duration::from_millis(400) }
    }
}

impl BreakerSettings {
    /// The reason why these settings cannot work; `None` where they can.
    #[must_use]
    pub const fn fault(&self) -> Option<&'static str> {
        if self.failures == 0 || self.longest_pause.is_zero() {
            return Some("the breaker must allow at least one failure and a pause");
        }
        None
    }
}

/// One server's breaker, as one connection queue sees it: counts failures in a row, opens, and closes after a
/// probe.
///
/// # Example
/// ```
/// use tollgate_store::remote::{Breaker, BreakerSettings, Failed};
///
/// let mut breaker = Breaker::new(BreakerSettings { failures: 2, ..BreakerSettings::default() });
/// assert_eq!(breaker.failed(), Failed::StillClosed);
/// assert_eq!(breaker.failed(), Failed::Opened);
/// assert!(breaker.close(), "a probe was answered");
/// assert_eq!(breaker.failed(), Failed::Opened, "one more failure opens it again");
/// ```
#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    failures: u32,
    is_open: bool,
}

/// The effect of a failure on the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// Too few failures in a row so far.
    StillClosed,
    /// This failure opened the breaker.
    Opened,
    /// The breaker was open already.
    StillOpen,
}

impl Breaker {
    /// A closed breaker.
    #[must_use]
    pub const fn new(settings: BreakerSettings) -> Self {
        Self { settings, failures: 0, is_open: false }
    }

    /// Whether calls must not be sent.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.is_open
    }

    /// Failures in a row.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// Counts one failure.
    pub fn failed(&mut self) -> Failed {
        self.failures = self.failures.saturating_add(1);
        if self.is_open {
            return Failed::StillOpen;
        }
        if self.failures < self.settings.failures {
            return Failed::StillClosed;
        }
        self.is_open = true;
        Failed::Opened
    }

    /// Counts one failure that opens the breaker by itself.
    pub fn trip(&mut self) -> Failed {
        self.failures = self.failures.max(self.settings.failures - 1);
        self.failed()
    }

    /// Takes the last failure back: the same trouble was counted already.
    pub fn uncount(&mut self) {
        self.failures = self.failures.saturating_sub(1);
    }

    /// A call was answered.
    pub fn answered(&mut self) {
        self.failures = 0;
    }

    /// A probe was answered: calls go through again, and one more failure opens the breaker anew. True when
    /// it was open.
    pub fn close(&mut self) -> bool {
        let was_open = std::mem::take(&mut self.is_open);
        if was_open {
            self.failures = self.settings.failures - 1;
        }
        was_open
    }

    /// Pause before the next try: doubled by each failure up to the longest, and shortened at random so that
    /// nodes do not retry all at once.
    #[must_use]
    pub fn pause(&self) -> Duration {
        jittered(FIRST_PAUSE.saturating_mul(1 << self.failures.min(16)).min(self.settings.longest_pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(failures: u32, settings: BreakerSettings) -> Breaker {
        Breaker { failures, ..Breaker::new(settings) }
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_each_is_shortened_at_random() {
        let settings = BreakerSettings::default();
        for (failures, most_ms) in [(0, 2), (1, 4), (2, 8), (7, 256), (8, 400), (16, 400), (u32::MAX, 400)] {
            let breaker = after(failures, settings.clone());
            let most = Duration::from_millis(most_ms);
            let pauses: Vec<_> = (0..200).map(|_| breaker.pause()).collect();
            let (Some(shortest), Some(longest)) = (pauses.iter().min(), pauses.iter().max()) else {
                panic!()
            };
            assert!(*shortest >= most / 2 && *longest <= most, "{failures}: {shortest:?} to {longest:?}");
            assert!(*longest - *shortest > most / 4, "{failures}: {shortest:?} to {longest:?}");
        }
    }

    #[test]
    fn after_a_probe_one_more_failure_opens_it_again_and_the_next_probe_comes_soon() {
        let mut breaker =
            Breaker::new(BreakerSettings { failures: 3, longest_pause: Duration::from_secs(60) });
        for nth in 1..=20 {
            let failed = breaker.failed();
            assert_eq!(failed == Failed::Opened, nth == 3, "failure {nth}");
            assert_eq!(breaker.is_open(), nth >= 3, "after {nth} failures");
        }
        assert!(breaker.pause() >= Duration::from_secs(30), "it was down for long");
        assert!(breaker.close());
        assert!(!breaker.is_open() && !breaker.close());
        assert_eq!(breaker.failed(), Failed::Opened);
        assert!(breaker.pause() <= FIRST_PAUSE * 8, "a server that just answered is probed again soon");
    }

    #[test]
    fn an_answer_ends_the_row_of_failures_and_a_failure_counted_twice_is_taken_back() {
        let mut breaker = Breaker::new(BreakerSettings { failures: 2, ..BreakerSettings::default() });
        breaker.failed();
        breaker.answered();
        assert_eq!(breaker.failed(), Failed::StillClosed);
        breaker.uncount();
        assert_eq!(breaker.failed(), Failed::StillClosed);
        breaker.answered();
        assert_eq!(breaker.trip(), Failed::Opened);
    }
}
