//! When the next request of a connection is to be sent, and whether there is one.
//!
//! Closed loop: now. Open loop: at its place in a fixed schedule, independent of the requests before it. The
//! latency of a request that leaves late, because its connection was full or stalled, counts from its place
//! in the schedule. Otherwise a server that stalls for a second would affect one sample instead of a second's
//! worth of them.
//!
//! Not here: waiting until then ([`alarm`](crate::alarm)).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::{NANOS_PER_SECOND, Timestamp};

use crate::tally::Sent;
use crate::{End, Plan};

/// Requests on a grid: number `i` belongs at `begin` + `i` / `rate`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) begin: Timestamp,
    /// Per second, above 0.
    pub(crate) rate: u64,
}

impl Grid {
    pub(crate) fn at(self, index: u64) -> Timestamp {
        let after_ns = u128::from(index) * u128::from(NANOS_PER_SECOND) / u128::from(self.rate);
        let at_ns = u128::from(self.begin.as_nanos()).saturating_add(after_ns);
        Timestamp::from_nanos(u64::try_from(at_ns).unwrap_or(u64::MAX))
    }

    /// Number of requests that are due before `span` is over.
    fn within(self, span: Duration) -> u64 {
        let requests = (span.as_nanos() * u128::from(self.rate)).div_ceil(u128::from(NANOS_PER_SECOND));
        u64::try_from(requests).unwrap_or(u64::MAX)
    }
}

/// Schedule shared by all connections.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    /// When the measurement begins.
    pub(crate) counted_from: Timestamp,
    /// When it ends; `None` if requests are counted instead.
    pub(crate) until: Option<Timestamp>,
    pub(crate) grid: Option<Grid>,
    /// Requests on the grid, the warm-up's first; unused without a grid.
    pub(crate) on_grid: u64,
    /// Requests left to take in a closed loop that counts them.
    tickets: Arc<AtomicU64>,
}

impl Course {
    pub(crate) fn new(plan: &Plan, begin: Timestamp) -> Self {
        let counted_from = later(begin, plan.warm_up);
        let grid = plan.rate.map(|rate| Grid { begin, rate: rate.max(1) });
        let until = match plan.end {
            End::After(span) => Some(later(counted_from, span)),
            End::Requests(_) => None,
        };
        let on_grid = grid.map_or(0, |grid| match plan.end {
            End::After(span) => grid.within(plan.warm_up.saturating_add(span)),
            End::Requests(count) => grid.within(plan.warm_up).saturating_add(count),
        });
        let count = if let End::Requests(count) = plan.end { count } else { 0 };
        Self { counted_from, until, grid, on_grid, tickets: Arc::new(AtomicU64::new(count)) }
    }

    /// Requests that no connection has taken: those of connections that were lost for good.
    pub(crate) fn untaken(&self) -> u64 {
        if self.grid.is_some() { 0 } else { self.tickets.load(Ordering::Relaxed) }
    }

    fn take_ticket(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        self.tickets.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// Next action of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Send(Sent),
    /// Waits for the next place on the grid.
    Later,
    /// Sends nothing more.
    Over,
}

/// The pace of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    course: Course,
    /// Number on the grid of this connection's next request, and how far it is to the one after.
    index: u64,
    step: u64,
    is_over: bool,
}

impl Pace {
    /// The pace of connection number `index` of `connections`, which take turns on the grid.
    pub(crate) fn new(course: Course, index: usize, connections: usize) -> Self {
        Self { course, index: index as u64, step: connections as u64, is_over: false }
    }

    pub(crate) fn next(&mut self, now: Timestamp) -> Next {
        let next = if self.is_over { Next::Over } else { self.look(now) };
        self.is_over = next == Next::Over;
        next
    }

    fn look(&mut self, now: Timestamp) -> Next {
        let course = &self.course;
        let Some(grid) = course.grid else {
            let is_counted = now >= course.counted_from;
            let is_left = match course.until {
                Some(until) => now < until,
                None => !is_counted || course.take_ticket(),
            };
            return if is_left { Next::Send(Sent { intended: now, is_counted }) } else { Next::Over };
        };
        if self.index >= course.on_grid {
            return Next::Over;
        }
        let intended = grid.at(self.index);
        if intended > now {
            return Next::Later;
        }
        self.index += self.step;
        Next::Send(Sent { intended, is_counted: intended >= course.counted_from })
    }

    /// Gives up; returns the number of measured requests that this connection still has on the grid.
    pub(crate) fn abandon(&mut self) -> u64 {
        let mut count = 0;
        if self.course.grid.is_some() {
            while let Next::Send(sent) = self.next(Timestamp::from_nanos(u64::MAX)) {
                count += u64::from(sent.is_counted);
            }
        }
        self.is_over = true;
        count
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }
}

fn later(at: Timestamp, span: Duration) -> Timestamp {
    let span_ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    Timestamp::from_nanos(at.as_nanos().saturating_add(span_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ask;
    use crate::tests::{at_ms, plan_for};

    fn course(rate: Option<u64>, end: End, warm_up_ms: u64) -> Course {
        let plan = Plan {
            rate,
            end,
            warm_up: Duration::from_millis(warm_up_ms),
            ..plan_for("http://h:1", Ask::Get)
        };
        Course::new(&plan, at_ms(1_000))
    }

    fn send(intended_ms: u64, is_counted: bool) -> Next {
        Next::Send(Sent { intended: at_ms(intended_ms), is_counted })
    }

    #[test]
    fn two_connections_take_turns_on_the_grid_and_late_ones_keep_their_times() {
        // 100 a second, so one every 10 ms; 20 ms of warm-up; 4 counted.
        let course = course(Some(100), End::Requests(4), 20);
        let mut first = Pace::new(course.clone(), 0, 2);
        let mut second = Pace::new(course, 1, 2);
        for (pace, now_ms, want) in [
            (0, 1_000, send(1_000, false)),
            (0, 1_000, Next::Later),
            (1, 1_009, Next::Later),
            (1, 1_010, send(1_010, false)),
            // The first connection was held up: both leave at once, each with its own time.
            (0, 1_055, send(1_020, true)),
            (0, 1_055, send(1_040, true)),
            (0, 1_055, Next::Over),
            (1, 1_055, send(1_030, true)),
            (1, 1_055, send(1_050, true)),
            (1, 9_000, Next::Over),
        ] {
            let pace = if pace == 0 { &mut first } else { &mut second };
            assert_eq!(pace.next(at_ms(now_ms)), want, "at {now_ms} ms");
        }
    }

    #[test]
    fn a_schedule_of_some_time_has_rate_times_that_many_requests() {
        for (rate, span_ms, want) in
            [(100, 1_000, 100), (3, 1_000, 3), (3, 1_001, 4), (1_000_000, 10, 10_000)]
        {
            let mut pace = Pace::new(course(Some(rate), End::After(Duration::from_millis(span_ms)), 0), 0, 1);
            assert_eq!(pace.abandon(), want, "{rate} a second for {span_ms} ms");
            assert!(pace.is_over());
        }
    }

    #[test]
    fn a_closed_loop_sends_at_once_and_counts_after_the_warm_up() {
        let course = course(None, End::Requests(2), 10);
        let mut pace = Pace::new(course.clone(), 0, 1);
        let mut other = pace.clone();
        assert_eq!(pace.next(at_ms(1_009)), send(1_009, false));
        assert_eq!(pace.next(at_ms(1_010)), send(1_010, true));
        assert_eq!(course.untaken(), 1);
        assert_eq!(other.next(at_ms(1_011)), send(1_011, true));
        assert_eq!(pace.next(at_ms(1_012)), Next::Over);
        assert_eq!(pace.abandon(), 0);
    }

    #[test]
    fn a_closed_loop_of_some_time_ends_with_it() {
        let mut pace = Pace::new(course(None, End::After(Duration::from_millis(5)), 0), 0, 1);
        assert_eq!(pace.next(at_ms(1_004)), send(1_004, true));
        assert_eq!(pace.next(at_ms(1_005)), Next::Over);
        assert!(pace.is_over());
    }
}
