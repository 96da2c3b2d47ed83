//! Which seeds a simulation tries: a least number, and then more for as long as its budget lasts.
//!
//! The budget is processor time of the process, so that a busy machine tries no fewer than a quiet one.
//! `TOLLGATE_SIM_SECONDS` sets it; without, it is [`USUAL`]. The runner of `./test` gives each test a process
//! of its own; where tests share one, the least number still holds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The budget without a setting.
pub const USUAL: Duration = Duration::from_secs(12);

/// The seeds 0, 1, 2 … of one simulation, which its threads draw.
///
/// # Example
/// ```
/// # use tollgate_testkit::seeds::Seeds;
/// let seeds = Seeds::exactly(3);
/// assert_eq!(std::iter::from_fn(|| seeds.draw()).collect::<Vec<_>>(), [0, 1, 2]);
/// assert_eq!(seeds.drawn(), 3);
/// ```
#[derive(Debug)]
pub struct Seeds {
    next: AtomicU64,
    least: u64,
    /// Processor time of the process at which it ends, once `least` are drawn.
    until: Duration,
}

impl Seeds {
    /// At least `least`, or exactly as many as the environment variable `number` says.
    #[must_use]
    pub fn for_a_while(least: u64, number: &str) -> Self {
        let of = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        match of(number) {
            Some(seeds) => Self::exactly(seeds),
            None => Self::within(least, of("TOLLGATE_SIM_SECONDS").map_or(USUAL, Duration::from_secs)),
        }
    }

    /// At least `least`, and more for `budget` from now.
    #[must_use]
    pub fn within(least: u64, budget: Duration) -> Self {
        Self { next: AtomicU64::new(0), least, until: processor_time() + budget }
    }

    /// Exactly this number, however long they take.
    #[must_use]
    pub const fn exactly(seeds: u64) -> Self {
        Self { next: AtomicU64::new(0), least: seeds, until: Duration::ZERO }
    }

    /// The next seed; `None` when there are no more.
    pub fn draw(&self) -> Option<u64> {
        let goes_on = |next: u64| next < self.least || processor_time() < self.until;
        let step = |next| goes_on(next).then_some(next + 1);
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).ok()
    }

    /// Number of seeds drawn so far.
    pub fn drawn(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }
}

/// Processor time of all threads of this process.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_number_is_drawn_also_without_a_budget_and_a_budget_ends() {
        let draws = |seeds: &Seeds| std::iter::from_fn(|| seeds.draw()).count() as u64;
        let none = Seeds::within(7, Duration::ZERO);
        assert_eq!((draws(&none), none.drawn()), (7, 7));
        let some = Seeds::within(7, Duration::from_millis(20));
        let drawn = draws(&some);
        assert!(drawn > 7 && drawn == some.drawn(), "{drawn}");
        assert_eq!(some.draw(), None);
    }

    #[test]
    fn threads_draw_each_seed_once() {
        let seeds = Seeds::exactly(10_000);
        let drawn = std::thread::scope(|scope| {
            let draw = || std::iter::from_fn(|| seeds.draw()).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect::<Vec<_>>()
        });
        let mut sorted = drawn;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..10_000));
    }
}
