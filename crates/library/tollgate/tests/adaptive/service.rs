//! A service of known capacity, on a manual clock: what the limits make of it.

use std::collections::VecDeque;
use std::time::Duration;

use tollgate::adaptive::{AdaptiveLimit, Aimd, Gradient2, Vegas, Window};
use tollgate::{AdaptiveGuard, AdaptiveLimiter, Clock, ManualClock, Timestamp};

use super::ms;

/// Does `places` calls at the same time, each for `work`; others wait in its queue, of which at most
/// `most_waiting` are not shed.
struct Service {
    places: usize,
    work: Duration,
    most_waiting: usize,
    busy: Vec<(Timestamp, AdaptiveGuard<ManualClock>)>,
    waiting: VecDeque<AdaptiveGuard<ManualClock>>,
    done: u64,
    shed: u64,
}

impl Service {
    fn take(&mut self, call: AdaptiveGuard<ManualClock>, now: Timestamp) {
        if self.busy.len() < self.places {
            self.busy.push((now + self.work, call));
        } else if self.waiting.len() < self.most_waiting {
            self.waiting.push_back(call);
        } else {
            self.shed += 1;
            call.overload();
        }
    }

    /// Ends the calls that are done by `now`.
    fn advance(&mut self, now: Timestamp) {
        for (_, call) in self.busy.extract_if(.., |(until, _)| *until <= now) {
            self.done += 1;
            call.success();
        }
        while self.busy.len() < self.places
            && let Some(call) = self.waiting.pop_front()
        {
            self.busy.push((now + self.work, call));
        }
    }
}

/// A limit in front of an overloaded service, for `seconds`. Returns the limit and, for the last half of the
/// time, the share of the capacity that was used and the most callers that waited.
fn overloaded(
    limit: impl AdaptiveLimit,
    (places, work_ms, most_waiting): (usize, u64, usize),
    seconds: u64,
) -> (u64, f64, usize) {
    let clock = ManualClock::default();
    let window = Window::default();
    let limiter = AdaptiveLimiter::with_clock(limit, window, clock.clone()).expect("settings");
    let busy = Vec::new();
    let waiting = VecDeque::new();
    let work = ms(work_ms);
    let mut service = Service { places, work, most_waiting, busy, waiting, done: 0, shed: 0 };
    let mut most = 0;
    let mut done_before = 0;
    for tick in 0..seconds * 1_000 {
        if tick == seconds * 500 {
            (most, done_before) = (0, service.done);
        }
        let now = clock.now();
        service.advance(now);
        for _ in 0..limiter.limit() {
            let Ok(call) = limiter.try_enter() else { break };
            assert!(limiter.in_flight() <= limiter.limit());
            service.take(call, now);
        }
        most = most.max(service.waiting.len());
        clock.advance(ms(1));
    }
    let capacity = places as f64 * (seconds * 500) as f64 / work_ms as f64;
    (limiter.limit(), (service.done - done_before) as f64 / capacity, most)
}

#[test]
fn vegas_uses_all_of_a_service_and_keeps_its_queue_short() {
    for (places, work_ms) in [(10, 20), (40, 10), (100, 50)] {
        let limit = Vegas::default().initial(places as u64).seed(7);
        let (limit, used, waiting) = overloaded(limit, (places, work_ms, usize::MAX), 200);
        assert!(used > 0.95, "{places} places: {used} of the capacity, limit {limit}");
        // A queue of up to six logarithms is right, and the shortest latency is measured behind a short queue.
        assert!(limit < 2 * places as u64 + 20, "{places} places: limit {limit}");
        assert!(waiting < places + 30, "{places} places: {waiting} waited");
    }
}

#[test]
fn gradient2_uses_all_of_a_service_and_its_limit_is_bounded() {
    for (places, work_ms) in [(10, 20), (40, 10), (100, 50)] {
        let (limit, used, _) = overloaded(Gradient2::default().min(1), (places, work_ms, usize::MAX), 200);
        assert!(used > 0.95, "{places} places: {used} of the capacity, limit {limit}");
        assert!(limit <= 200);
    }
}

#[test]
fn aimd_swings_around_what_a_service_that_sheds_can_take() {
    for (places, queue) in [(20, 5), (50, 10), (100, 20)] {
        let (limit, used, _) = overloaded(Aimd::default().min(1).max(1_000), (places, 20, queue), 200);
        let most = (places + queue) as u64;
        assert!(used > 0.85, "{places} places: {used} of the capacity, limit {limit}");
        assert!((most * 8 / 10..=most + 1).contains(&limit), "{places} places: limit {limit}");
    }
}

#[test]
fn without_load_no_limit_grows() {
    fn after_a_thousand_calls(limit: impl AdaptiveLimit) -> u64 {
        let clock = ManualClock::default();
        let limiter = AdaptiveLimiter::with_clock(limit, Window::default(), clock.clone()).expect("settings");
        for _ in 0..1_000 {
            let call = limiter.try_enter().expect("none is in flight");
            clock.advance(ms(10));
            call.success();
        }
        limiter.limit()
    }
    assert_eq!(after_a_thousand_calls(Aimd::default()), 20);
    assert_eq!(after_a_thousand_calls(Vegas::default()), 20);
    assert_eq!(after_a_thousand_calls(Gradient2::default()), 20);
}
