//! The commands that bring their own rate, compared with redis-cell by histories in which the rate changes.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::time::Duration;

use crate::common::{NOON, Server};
use tollgate_core::Clock;
use tollgate_resp_api::RespSettings;
use tollgate_testkit::redis_cell::{Cell, CellAnswer, CellRate, CellStep, history};

/// Actual and expected reply of one of the three commands.
fn command(nth: usize, key: u64, step: &CellStep, answer: &CellAnswer) -> (String, String) {
    let CellStep { rate: CellRate { max_burst, count, period_s }, quantity, .. } = *step;
    let CellAnswer { admitted, remaining, retry_after, reset_after } = *answer;
    let limit = max_burst + 1;
    let seconds = |span: Duration| span.as_nanos().div_ceil(1_000_000_000) as i64;
    let wait = retry_after.map_or(-1, seconds);
    let reset = seconds(reset_after);
    match nth % 3 {
        0 => (
            format!("CL.THROTTLE {key} {max_burst} {count} {period_s} {quantity}"),
            format!("[{}, {limit}, {remaining}, {wait}, {reset}]", u8::from(!admitted)),
        ),
        1 => (
            format!("THROTTLE {key} {limit} {count} {period_s} {quantity}"),
            format!(
                "[{}, {limit}, {remaining}, {reset}, {}]",
                u8::from(admitted),
                if admitted { 0 } else { wait }
            ),
        ),
        _ => {
            let ms = |span: Duration| span.as_nanos().div_ceil(1_000_000) as i64;
            let wait = retry_after.map_or(-1, ms);
            let reset = ms(reset_after);
            (
                format!("TOLLGATE.THROTTLE {key} {max_burst} {count} {} {quantity}", period_s * 1_000),
                format!("[{}, {limit}, {remaining}, {wait}, {reset}]", u8::from(!admitted)),
            )
        }
    }
}

#[test]
fn a_key_keeps_its_instant_when_burst_count_and_period_change_as_in_redis_cell() {
    let server = Server::start(RespSettings::default());
    let mut client = server.connect();
    let begins = NOON.as_nanos();
    for seed in 0..200 {
        let mut cell = Cell::default();
        for (nth, step) in history(seed, true).iter().enumerate() {
            server.clock.advance(step.gap);
            let now_ns = server.clock.now().as_nanos() - begins;
            let answer = cell.throttle(step.rate, step.quantity, now_ns);
            let (asked, want) = command(nth, seed, step, &answer);
            assert_eq!(client.ask(&asked), want, "seed {seed}, request {nth}: {asked}");
        }
    }
}

/// A deploy that changes a number gives no client a full bucket.
#[test]
fn a_spent_key_stays_spent_when_the_rate_changes() {
    let server = Server::start(RespSettings::default());
    crate::common::story(
        &server,
        &[
            ("CL.THROTTLE ann 9 10 60 10", "[0, 10, 0, -1, 60]"),
            ("CL.THROTTLE ann 9 11 60", "[1, 10, 0, 11, 60]"),
            ("CL.THROTTLE ann 99 100 60", "[1, 100, 0, 1, 60]"),
            ("CL.THROTTLE ann 9 10 120", "[0, 10, 4, -1, 72]"),
            ("... 72000", ""),
            ("CL.THROTTLE ann 9 10 60 0", "[0, 10, 10, -1, 0]"),
        ],
    );
}
