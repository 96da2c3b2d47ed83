//! Step tables of the fixed window: grid, first hit, calendar.
#![expect(clippy::expect_used, reason = "a test that cannot set up its case has failed")]

use std::time::Duration;

use tollgate_core::{
    Algorithm, Align, CivilUnit, Cost, Period, Quota, QuotaError, State, Timestamp, WindowParams, Word,
};
use tollgate_testkit::table::{MIDNIGHT, admit, at, deny, never, play, play_on};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn fixed(limit: u64, window: Duration) -> Quota {
    Quota::fixed_window(limit, window).expect("a window")
}

fn first_hit(limit: u64, window: Duration) -> Quota {
    let algorithm = Algorithm::FixedWindow { align: Align::FirstHit };
    Quota::new(limit, Period::Span(window), algorithm).expect("a window")
}

fn civil(limit: u64, unit: CivilUnit, zone: &str) -> Quota {
    let time_zone = jiff::tz::TimeZone::get(zone).expect("a bundled zone");
    let algorithm = Algorithm::FixedWindow { align: Align::Calendar };
    Quota::new(limit, Period::Civil { unit, time_zone }, algorithm).expect("a calendar")
}

fn instant(text: &str) -> Timestamp {
    let instant: jiff::Timestamp = text.parse().expect("an instant");
    Timestamp::from_unix_seconds(instant.as_second() as u64)
}

/// Row 9, and 111: a fixed window admits twice the limit around an edge.
#[test]
fn two_hundred_pass_within_a_second_around_the_minute() {
    play(
        &fixed(100, MINUTE),
        &[(59_500, 100, admit(0)), (59_999, 1, deny(1)), (60_000, 100, admit(0)), (60_000, 1, deny(60_000))],
    );
}

/// Row 111: a hundred a second, and two hundred pass within two milliseconds, 999 ms and 1,001 ms into the
/// second.
#[test]
fn a_fixed_window_lets_twice_the_rate_pass_in_two_milliseconds() {
    play(
        &fixed(100, SECOND),
        &[(999, 100, admit(0)), (999, 1, deny(1)), (1_001, 100, admit(0)), (1_001, 1, deny(999))],
    );
}

/// Row 36 of the acceptance page.
#[test]
fn a_hundred_a_minute_resets_at_the_end_of_the_minute() {
    let mut rows: Vec<_> = (0..100).map(|hit| (hit * 10, 1, admit(99 - hit))).collect();
    rows.extend([(1_000, 1, deny(59_000)), (59_999, 1, deny(1)), (60_000, 1, admit(99))]);
    play(&fixed(100, MINUTE), &rows);
}

/// Row 140 of the acceptance page.
#[test]
fn three_a_second_then_the_fourth_waits_for_the_next_second() {
    play(
        &fixed(3, SECOND),
        &[
            (0, 1, admit(2)),
            (200, 1, admit(1)),
            (400, 1, admit(0)),
            (600, 1, deny(400)),
            (1_000, 1, admit(2)),
        ],
    );
}

/// Row 140: 5 a minute gives 10 between 2:00:30 and 2:01:30.
#[test]
fn five_a_minute_lets_ten_pass_between_half_past_and_half_past() {
    let two_o_clock = 2 * 3_600_000;
    let mut rows = Vec::new();
    for hit in 0..5 {
        rows.push((two_o_clock + 30_000 + hit * 5_000, 1, admit(4 - hit)));
    }
    rows.push((two_o_clock + 59_000, 1, deny(1_000)));
    for hit in 0..5 {
        rows.push((two_o_clock + 60_000 + hit * 5_000, 1, admit(4 - hit)));
    }
    rows.push((two_o_clock + 90_000, 1, deny(30_000)));
    play(&fixed(5, MINUTE), &rows);
}

/// Row 133: 2 a second, and the third hears 429.
#[test]
fn two_a_second_and_the_third_is_denied() {
    play(&fixed(2, SECOND), &[(100, 1, admit(1)), (200, 1, admit(0)), (300, 1, deny(700))]);
}

/// Existing users of this window rely on it.
#[test]
fn a_denied_hit_is_counted() {
    play(&fixed(10, MINUTE), &[(0, 11, never()), (0, 1, deny(60_000)), (1, 0, deny(59_999))]);
    play(&fixed(10, MINUTE), &[(0, 8, admit(2)), (0, 3, deny(60_000)), (0, 1, deny(60_000))]);
}

/// Row 19: the state is one word, and nothing else goes into it than the hits and the window's end.
#[test]
fn the_state_is_a_counter_and_the_end_of_its_window() {
    assert_eq!(size_of::<Word>(), 16);
    for (quota, first_ms, end_ms) in
        [(fixed(10, MINUTE), 59_999, 60_000), (first_hit(10, MINUTE), 59_999, 119_999)]
    {
        let mut state = play(&quota, &[(first_ms, 3, admit(7))]);
        assert_eq!(state, State::Word(WindowParams::word(3, at(end_ms).as_nanos())));
        play_on(&quota, &mut state, &[(first_ms, 2, admit(5)), (first_ms, 9, deny(end_ms - first_ms))]);
        assert_eq!(
            state,
            State::Word(WindowParams::word(14, at(end_ms).as_nanos())),
            "denied hits count too"
        );
    }
}

#[test]
fn windows_of_less_than_a_second_end_to_the_nanosecond() {
    play(
        &fixed(1, Duration::from_millis(250)),
        &[(0, 1, admit(0)), (249, 1, deny(1)), (250, 1, admit(0)), (600, 1, admit(0))],
    );
    let quota = fixed(1, Duration::from_nanos(7));
    let mut state = quota.fresh();
    let grid = Timestamp::from_nanos(7 * 242_833_611_528_216_130);
    for (offset, passes) in [(0, true), (6, false), (7, true), (13, false), (14, true)] {
        let now = grid + Duration::from_nanos(offset);
        assert_eq!(quota.take(&mut state, Cost::ONE, now).is_admitted(), passes, "at {offset} ns");
    }
}

#[test]
fn a_window_from_the_first_hit_begins_anew_with_the_next_hit_after_it() {
    play(
        &first_hit(2, SECOND),
        &[
            (700, 1, admit(1)),
            (1_600, 1, admit(0)),
            (1_699, 1, deny(1)),
            (1_700, 1, admit(1)), // 1 s after the first
            (5_350, 2, admit(0)),
            (6_349, 1, deny(1)),
        ],
    );
}

#[test]
fn a_clock_that_steps_back_gives_nothing_away() {
    play(
        &fixed(2, MINUTE),
        &[
            (3_600_000, 2, admit(0)),
            (60_000, 1, deny(3_600_000)), // an hour back: the window that has begun keeps its end
            (3_659_999, 1, deny(1)),
            (3_660_000, 1, admit(1)),
        ],
    );
}

#[test]
fn what_is_given_back_can_be_taken_again() {
    let quota = fixed(3, MINUTE);
    let mut state = play(&quota, &[(0, 3, admit(0)), (0, 1, deny(60_000))]);
    // The denied hit is counted: two come back, one is free.
    assert_eq!(quota.give_back(&mut state, Cost(2), at(0)).remaining(), 1);
    play_on(&quota, &mut state, &[(1, 1, admit(0)), (1, 1, deny(59_999))]);
}

/// Row 141: a calendar of a time zone.
#[test]
fn a_day_ends_at_local_midnight() {
    let quota = civil(1, CivilUnit::Day, "Asia/Shanghai");
    let hour = 3_600_000;
    play(&quota, &[(15 * hour, 1, admit(0)), (16 * hour - 1, 1, deny(1)), (16 * hour, 1, admit(0))]);
}

/// Row 141 of the acceptance page.
#[test]
fn days_on_which_clocks_are_set_have_23_and_25_hours() {
    let quota = civil(1, CivilUnit::Day, "Europe/Berlin");
    for (first, hours) in [
        ("2024-03-30T23:00:00Z", 23), // clocks go forward on 31 March
        ("2024-03-31T22:00:00Z", 24),
        ("2024-10-26T22:00:00Z", 25), // clocks go back on 27 October
        ("2024-10-27T23:00:00Z", 24),
    ] {
        let mut state = quota.fresh();
        let begins = instant(first);
        let span = Duration::from_secs(hours * 3_600);
        assert_eq!(quota.take(&mut state, Cost::ONE, begins).reset_after(), span, "from {first}");
        let last = begins + (span - Duration::from_nanos(1));
        assert!(!quota.take(&mut state.clone(), Cost::ONE, last).is_admitted());
        assert!(quota.take(&mut state, Cost::ONE, begins + span).is_admitted());
    }
}

/// In this zone the clocks go forward at midnight: 1 September 2024 began at one o'clock.
#[test]
fn a_day_without_midnight_begins_when_its_clock_first_shows_it() {
    let quota = civil(1, CivilUnit::Day, "America/Santiago");
    let mut state = quota.fresh();
    let eve = instant("2024-09-08T03:59:59Z");
    assert_eq!(quota.take(&mut state, Cost::ONE, eve).reset_after(), SECOND);
    let reset = quota.take(&mut state, Cost::ONE, eve + SECOND).reset_after();
    assert_eq!(reset, Duration::from_secs(23 * 3_600));
}

/// Row 141; 13 November 2023 is a Monday.
#[test]
fn weeks_begin_on_monday_months_and_years_on_the_first() {
    let day = 86_400;
    for (unit, days) in [(CivilUnit::Week, 7), (CivilUnit::Month, 18), (CivilUnit::Year, 49)] {
        let quota = civil(1, unit, "UTC");
        let reset = quota.take(&mut quota.fresh(), Cost::ONE, MIDNIGHT).reset_after();
        assert_eq!(reset, Duration::from_secs(days * day), "{unit:?}");
        let sunday = Timestamp::from_unix_seconds(MIDNIGHT.unix_seconds() - 1);
        let reset = quota.take(&mut quota.fresh(), Cost::ONE, sunday).reset_after();
        let expected = if unit == CivilUnit::Week { 1 } else { days * day + 1 };
        assert_eq!(reset, Duration::from_secs(expected), "{unit:?}");
    }
}

#[test]
fn a_calendar_answers_alike_whatever_was_asked_before() {
    let quota = civil(1, CivilUnit::Month, "America/New_York");
    let noons: Vec<_> =
        (0..800_u64).map(|day| MIDNIGHT + Duration::from_secs(day * 86_400 + 43_200)).collect();
    let reset = |quota: &Quota, now| quota.take(&mut quota.fresh(), Cost::ONE, now).reset_after();
    for (turn, &noon) in noons.iter().enumerate() {
        let elsewhere = noons[turn * 7 % noons.len()];
        let _ = reset(&quota, elsewhere);
        let fresh = civil(1, CivilUnit::Month, "America/New_York");
        assert_eq!(reset(&quota, noon), reset(&fresh, noon));
    }
}

#[test]
fn only_the_grid_has_a_calendar() {
    let time_zone = jiff::tz::TimeZone::UTC;
    let period = || Period::Civil { unit: CivilUnit::Day, time_zone: time_zone.clone() };
    for algorithm in [
        Algorithm::FixedWindow { align: Align::FirstHit },
        Algorithm::sliding_window(10),
        Algorithm::SlidingWindowCounter,
        Algorithm::SlidingWindowLog { log_denied: false },
    ] {
        let rejected = Quota::new(1, period(), algorithm.clone());
        assert!(matches!(rejected, Err(QuotaError::Unsupported { .. })), "{algorithm:?}");
    }
}
