//! A bucket that a task refills at each tick, beside one that works its refill out when it is asked: the
//! usual design of a queue of tokens with a thread, which Tollgate has for this comparison only.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Quota, Timestamp};

use super::{NOON, direct};

/// Permits that a task adds to at every tick, up to the burst.
struct Refilled {
    permits: u64,
    burst: u64,
    /// Permits of one tick.
    per_tick: u64,
    tick: Duration,
    ticks: u64,
}

impl Refilled {
    fn new(rate: u64, burst: u64, tick: Duration) -> Self {
        let per_tick = rate * tick.as_millis() as u64 / 1_000;
        Self { permits: burst, burst, per_tick, tick, ticks: 0 }
    }

    /// Lets the task run until `now`.
    fn run(&mut self, now: Timestamp) {
        let due = (now.since(NOON).as_nanos() / self.tick.as_nanos()) as u64;
        self.permits = (self.permits + (due - self.ticks) * self.per_tick).min(self.burst);
        self.ticks = due;
    }

    fn take(&mut self, n: u64, now: Timestamp) -> bool {
        self.run(now);
        let is_admitted = n <= self.permits;
        self.permits -= if is_admitted { n } else { 0 };
        is_admitted
    }
}

/// The most permits of `admitted`, by instant, above `rate` in any span.
fn worst_excess(admitted: &[(Duration, u64)], rate: u64) -> f64 {
    // The largest sum of a run of what was admitted less what the rate allows for its span.
    let mut worst = 0.0_f64;
    let mut run = 0.0_f64;
    let mut before = Duration::ZERO;
    for (at, permits) in admitted {
        run = (run - rate as f64 * (*at - before).as_secs_f64()).max(0.0) + *permits as f64;
        (worst, before) = (worst.max(run), *at);
    }
    worst
}

proptest! {
    /// Row 29: what a task refills is off by one tick at most in any span, and what is worked out by nothing.
    #[test]
    fn a_refill_in_the_background_is_off_by_up_to_one_tick_and_one_at_the_request_is_not(
        ticks_per_second in prop::sample::select(vec![1_u64, 5, 10, 50]), per_tick in 1_u64..40,
        burst in 40_u64..400, arrivals in prop::collection::vec((0_u64..250, 1_u64..12), 1..400),
    ) {
        let rate = per_tick * ticks_per_second;
        let tick = Duration::from_secs(1) / ticks_per_second as u32;
        let (limiter, clock) = direct(Quota::per_second(rate).burst(burst));
        let mut refilled = Refilled::new(rate, burst, tick);
        let mut at = Duration::ZERO;
        let mut by_tick = Vec::new();
        let mut at_request = Vec::new();
        for (wait_ms, n) in arrivals {
            let wait = Duration::from_millis(wait_ms);
            clock.advance(wait);
            at += wait;
            if refilled.take(n, NOON + at) {
                by_tick.push((at, n));
            }
            if limiter.check_n(n).is_ok() {
                at_request.push((at, n));
            }
        }
        let [tick_excess, request_excess] = [&by_tick, &at_request].map(|it| worst_excess(it, rate));
        prop_assert!(request_excess <= burst as f64 + 1e-6, "{request_excess} above {burst}");
        prop_assert!(tick_excess <= (burst + per_tick) as f64 + 1e-6, "{tick_excess} above {burst} + {per_tick}");
    }
}

/// The worst case of each: a burst around a tick.
#[test]
fn a_background_refill_admits_a_tick_too_much_around_a_tick_and_too_little_before_it() {
    let rate = 100;
    let burst = 50;
    let tick = Duration::from_millis(200);
    let mut refilled = Refilled::new(rate, burst, tick);
    let (limiter, clock) = direct(Quota::per_second(rate).burst(burst));
    let almost = tick - Duration::from_nanos(1);
    clock.advance(almost);
    // 50 just before the tick, and 20 more at it: 70 in a nanosecond.
    assert!(refilled.take(50, NOON + almost) && limiter.check_n(50).is_ok());
    clock.advance(Duration::from_nanos(1));
    assert!(refilled.take(20, NOON + tick));
    assert!(limiter.check().is_err());
    // Just before the next tick a permit is due, and the task has not run.
    clock.advance(almost);
    assert!(!refilled.take(1, NOON + tick + almost));
    assert!(limiter.check_n(19).is_ok());
}
