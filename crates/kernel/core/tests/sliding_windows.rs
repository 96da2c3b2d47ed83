//! Step tables of the windows that slide: strict cells, counter, log.
#![expect(clippy::expect_used, reason = "a test that cannot set up its case has failed")]

use std::time::Duration;

use tollgate_core::{Algorithm, Cost, LeavingCell, Period, Quota, QuotaError, State};
use tollgate_testkit::table::{Want, admit, at, deny, never, play, play_on};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn quota(limit: u64, window: Duration, algorithm: Algorithm) -> Quota {
    Quota::new(limit, Period::Span(window), algorithm).expect("a window")
}

fn cells(limit: u64, window: Duration, cells: u32) -> Quota {
    quota(limit, window, Algorithm::sliding_window(cells))
}

fn counter(limit: u64, window: Duration) -> Quota {
    quota(limit, window, Algorithm::SlidingWindowCounter)
}

fn log(limit: u64, window: Duration, log_denied: bool) -> Quota {
    quota(limit, window, Algorithm::SlidingWindowLog { log_denied })
}

/// Weights are rounded down, so often a nanosecond more is missing.
fn deny_ns(ns: u64) -> Want {
    Want::Deny(Duration::from_nanos(ns))
}

/// Rows 9 and 111: where a fixed window lets 200 pass.
#[test]
fn never_more_than_a_hundred_pass_around_the_minute() {
    let around = [(59_500, 100, admit(0))];
    for quota in [cells(100, MINUTE, 6), log(100, MINUTE, false)] {
        let mut state = play(&quota, &around);
        for ms in (59_501..=60_500).step_by(7) {
            assert!(!quota.take(&mut state, Cost::ONE, at(ms)).is_admitted(), "at {ms} ms");
        }
    }
    // The counter only estimates, and denies this all the same.
    play(
        &counter(100, MINUTE),
        &[(59_500, 100, admit(0)), (60_000, 1, deny_ns(1)), (60_600, 1, admit(0)), (60_600, 1, deny_ns(1))],
    );
}

/// Row 111: twice the rate in two milliseconds, which a fixed window lets pass, at every offset from the
/// edge.
#[test]
fn exact_windows_deny_twice_the_rate_in_two_milliseconds() {
    for quota in [cells(100, SECOND, 10), log(100, SECOND, false)] {
        for begins_ms in [0, 1, 100, 499, 998, 999, 1_000] {
            let mut state = play(&quota, &[(begins_ms, 100, admit(0))]);
            for ms in 0..=2 {
                let now = at(begins_ms + ms);
                assert!(
                    !quota.take(&mut state, Cost::ONE, now).is_admitted(),
                    "{ms} ms after {begins_ms} ms"
                );
            }
        }
    }
}

/// Row 10: six cells of ten seconds; a take at 0:35 is counted in the cell of 0:30.
#[test]
fn a_hit_at_0_35_leaves_with_the_cell_of_0_30() {
    play(
        &cells(1, MINUTE, 6),
        &[
            (35_000, 1, admit(0)),
            (99_999, 1, deny(1)), // 1:39.999
            (100_000, 1, admit(0)),
        ],
    );
}

/// Rows 39, 10 and 120: six counters of ten seconds, the current one and the five before it: at 1:00 that of
/// 0:00 to 0:10 is dropped and that of 1:00 to 1:10 taken in. The strict form keeps the cell that is leaving
/// until all of it is a minute old, and drops each ten seconds later.
#[test]
fn at_one_minute_the_cell_of_0_00_is_dropped_and_that_of_1_00_taken_in() {
    let leaving = LeavingCell::Drops;
    play(
        &quota(100, MINUTE, Algorithm::SlidingWindow { cells: 6, leaving }),
        &[
            (5_000, 10, admit(90)),  // 0:00–0:10
            (15_000, 20, admit(70)), // 0:10–0:20
            (25_000, 5, admit(65)),
            (35_000, 15, admit(50)),
            (45_000, 30, admit(20)),
            (55_000, 20, admit(0)), // 0:50–1:00
            (59_999, 1, deny(1)),
            (60_000, 10, admit(0)), // 0:00–0:10 is dropped
            (69_999, 1, deny(1)),
            (70_000, 20, admit(0)), // 0:10–0:20 is dropped
            (80_000, 6, deny(10_000)),
            (80_000, 5, admit(0)),
        ],
    );
    play(
        &cells(100, MINUTE, 6),
        &[
            (5_000, 10, admit(90)),
            (15_000, 20, admit(70)),
            (25_000, 5, admit(65)),
            (35_000, 15, admit(50)),
            (45_000, 30, admit(20)),
            (55_000, 20, admit(0)),
            (60_000, 1, deny(10_000)), // 0:00–0:10 still counts: a part of it is less than a minute old
            (69_999, 1, deny(1)),
            (70_000, 10, admit(0)), // 0:00–0:10 is dropped
            (79_999, 1, deny(1)),
            (80_000, 20, admit(0)), // 0:10–0:20 is dropped
            (90_000, 6, deny(10_000)),
            (90_000, 5, admit(0)),
        ],
    );
}

/// Rows 20 and 21
#[test]
fn a_window_that_does_not_divide_into_its_cells_is_a_fault() {
    let window = Duration::from_nanos(1_000_000_001);
    let rejected = Quota::new(1, Period::Span(window), Algorithm::sliding_window(10));
    let error = rejected.expect_err("uneven");
    assert_eq!(error, QuotaError::UnevenCells { window, cells: 10 });
    assert_eq!(
        error.to_string(),
        "a window of 1.000000001s does not divide into 10 cells of whole nanoseconds"
    );
    assert!(matches!(
        Quota::new(1, Period::Span(MINUTE), Algorithm::sliding_window(0)),
        Err(QuotaError::Empty("cells"))
    ));
    assert!(matches!(
        Quota::new(1, Period::Span(MINUTE), Algorithm::sliding_window(60_000)),
        Err(QuotaError::ManyCells { cells: 60_000 })
    ));
}

/// Row 22: purge, sum, deny at the limit, else count; a denied take counts nothing.
#[test]
fn a_denied_take_uses_nothing() {
    let rows =
        [(0, 2, admit(1)), (0, 2, deny(11_000)), (0, 1, admit(0)), (0, 4, never()), (10_999, 3, deny(1))];
    let mut state = play(&cells(3, Duration::from_secs(10), 10), &rows);
    play_on(&cells(3, Duration::from_secs(10), 10), &mut state, &[(11_000, 3, admit(0))]);
}

/// Rows 121 and 44: the ring is used again, for any takes.
#[test]
fn a_ring_allocates_once() {
    let quota = cells(100, MINUTE, 60);
    let mut state = quota.fresh();
    let mut place = None;
    for turn in 0..10_000_u64 {
        let _ = quota.take(&mut state, Cost::ONE, at(turn * 137));
        let State::Wide(wide) = &state else { panic!("wide") };
        let now = (wide.cells.as_ptr(), wide.cells.capacity());
        assert_eq!(*place.get_or_insert(now), now, "turn {turn}");
    }
}

/// Row 121: after a pause a large burst passes, up to the limit.
#[test]
fn after_a_pause_the_whole_limit_passes_at_once() {
    play(&cells(10, SECOND, 10), &[(0, 3, admit(7)), (5_000, 10, admit(0)), (5_000, 1, deny(1_100))]);
}

#[test]
fn permits_given_back_free_the_oldest_cells_first() {
    let quota = cells(10, SECOND, 10);
    let mut state = play(&quota, &[(0, 4, admit(6)), (500, 6, admit(0))]);
    assert_eq!(quota.give_back(&mut state, Cost(5), at(600)).remaining(), 5);
    play_on(&quota, &mut state, &[(600, 5, admit(0)), (1_100, 1, deny(500)), (1_600, 5, admit(0))]);
}

/// Row 142: 2 a minute. The take at 1:00:50 is denied; where it is logged, it still counts at 1:01:40.
#[test]
fn two_a_minute_by_log() {
    let hour = 3_600_000;
    let logs_denied = log(2, MINUTE, true);
    play(
        &logs_denied,
        &[
            (hour + 1_000, 1, admit(1)),
            (hour + 30_000, 1, admit(0)),
            (hour + 50_000, 1, deny(40_000)), // denied, but logged: fits at 1:01:30, when 0:30 is out
            (hour + 100_000, 1, admit(0)),    // 1:01:40 sees 1:00:50 only
        ],
    );
    play(
        &log(2, MINUTE, false),
        &[
            (hour + 1_000, 1, admit(1)),
            (hour + 30_000, 1, admit(0)),
            (hour + 50_000, 1, deny(11_000)), // fits at 1:01:01, when the first is out
            (hour + 100_000, 1, admit(1)),
        ],
    );
}

#[test]
fn a_client_that_does_not_back_off_stays_denied_where_denials_are_logged() {
    let quota = log(2, SECOND, true);
    let mut state = play(&quota, &[(0, 1, admit(1)), (0, 1, admit(0))]);
    for turn in 1..100 {
        assert!(!quota.take(&mut state, Cost::ONE, at(turn * 400)).is_admitted());
    }
    play_on(&quota, &mut state, &[(99 * 400 + 1_000, 1, admit(1))]);
    // Memory: entries that decide nothing any more are forgotten.
    for turn in 0..10_000 {
        let _ = quota.take(&mut state, Cost::ONE, at(100_000 + turn));
    }
    let State::Wide(wide) = &state else { panic!("wide") };
    assert!(wide.cells.len() <= 16, "{}", wide.cells.len());
}

#[test]
fn a_take_exactly_one_window_later_no_longer_sees_the_first() {
    play(&log(1, SECOND, false), &[(0, 1, admit(0)), (999, 1, deny(1)), (1_000, 1, admit(0))]);
}

/// Row 143: memory is bounded by the limit, and takes of one instant share an entry.
#[test]
fn a_log_keeps_at_most_as_many_entries_as_the_limit() {
    let quota = log(100, SECOND, false);
    let mut state = quota.fresh();
    for turn in 0..100_000 {
        let _ = quota.take(&mut state, Cost::ONE, at(turn));
        let State::Wide(wide) = &state else { panic!("wide") };
        assert!(wide.cells.len() <= 3 + 2 * 2 * 100 + 2, "{}", wide.cells.len());
    }
    let mut state = quota.fresh();
    for _ in 0..100 {
        let _ = quota.take(&mut state, Cost::ONE, at(0));
    }
    let State::Wide(wide) = &state else { panic!("wide") };
    assert_eq!(wide.cells.len(), 5, "one entry");
}

/// Row 144: 7 a minute, 5 in the minute before, 3 in this one, 30 % into it: 3 + 5 × 70 % = 6.5, rounded down
/// to 6.
#[test]
fn an_estimate_of_six_and_a_half_is_six() {
    let quota = counter(7, MINUTE);
    let mut state = play(
        &quota,
        &[(10_000, 5, admit(2)), (60_000, 1, admit(1)), (61_000, 1, admit(1)), (62_000, 1, admit(0))],
    );
    play_on(
        &quota,
        &mut state,
        &[(78_000, 0, admit(1)), (78_000, 1, admit(0)), (78_000, 1, deny_ns(6_000_000_001))],
    );
}

#[test]
fn the_counter_knows_when_the_next_fits_also_in_the_next_window() {
    play(
        &counter(10, MINUTE),
        &[
            (0, 10, admit(0)),
            (0, 1, deny_ns(60_000_000_001)), // just after 1:00 the ten before weigh nine
            (0, 5, deny_ns(84_000_000_001)), // they weigh five after four tenths of the next window
            (0, 11, never()),
        ],
    );
}
