//! Quotas that keep instants: the key says when it is full, whatever rate has written it, as in redis-cell.

use tollgate_core::{Decision, RetryAfter};
use tollgate_testkit::redis_cell::{Cell, CellAnswer, CellRate, CellStep, history};

use super::*;

fn cell_quota(rate: CellRate) -> Quota {
    let algorithm = bucket(Some(rate.max_burst + 1), None, 0, Refill::Continuous);
    quota(rate.count, SECOND * rate.period_s as u32, algorithm).keeping_instants()
}

fn answer(decision: &Decision) -> CellAnswer {
    CellAnswer {
        admitted: decision.is_admitted(),
        remaining: decision.remaining(),
        retry_after: match decision.retry_after() {
            RetryAfter::After(wait) => Some(wait),
            _ => None,
        },
        reset_after: decision.reset_after(),
    }
}

fn take(store: &Direct, nth: usize, step: &CellStep, now: Timestamp) -> CellAnswer {
    let asks = [store.ask(b"k", &cell_quota(step.rate), Kind::Take(Cost(step.quantity)))];
    let answers = if nth.is_multiple_of(3) { store.run_together(&asks, now) } else { store.run(&asks, now) };
    match &answers.expect("an answer")[..] {
        [Answer::Decision(decision)] => answer(decision),
        other => panic!("{other:?}"),
    }
}

#[test]
fn any_rates_on_one_key_in_redis_are_counted_as_redis_cell_counts_them() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    for seed in 0..u64::from(cases(64)) {
        let (store, mut cell, mut now) = (store(&redis, StoreTime::Node), Cell::default(), AHEAD);
        for (nth, step) in history(seed, true).iter().enumerate() {
            now = now + step.gap;
            let got = take(&store, nth, step, now);
            let want = cell.throttle(step.rate, step.quantity, now.as_nanos());
            assert_eq!(got, want, "seed {seed}, request {nth}: {step:?}");
        }
    }
}

#[test]
fn in_redis_too_a_change_of_the_rate_is_less_than_a_nanosecond_late_and_never_early() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    for seed in 0..u64::from(cases(64)) {
        let (store, mut cell, mut now) = (store(&redis, StoreTime::Node), Cell::default(), AHEAD);
        let (mut last, mut late) = (None, Duration::ZERO);
        for (nth, step) in history(seed, false).iter().enumerate() {
            let CellStep { gap, rate, quantity } = *step;
            if last.is_some_and(|last: CellRate| (last.count, last.period_s) != (rate.count, rate.period_s)) {
                late += Duration::from_nanos(1);
            }
            last = Some(rate);
            now = now + gap;
            let got = take(&store, nth, step, now);
            let (mut most, mut least) = (cell, cell.delayed(late));
            let says = [&mut most, &mut least].map(|cell| cell.throttle(rate, quantity, now.as_nanos()));
            let is_between = got.admitted <= says[0].admitted && got.admitted >= says[1].admitted;
            assert!(is_between, "seed {seed}, request {nth}: {step:?}: {got:?}, not {says:?}");
            if got.admitted {
                cell = most;
            }
            let reset = { cell }.throttle(rate, 0, now.as_nanos()).reset_after;
            let is_near = (reset..=reset + late).contains(&got.reset_after);
            assert!(is_near, "seed {seed}, request {nth}: {step:?}: {got:?}, not {reset:?}");
        }
    }
}

/// Callers of one node whose rates differ share a flight, and one call of a script if they ask the same key.
#[test]
fn a_rate_with_many_units_in_a_nanosecond_reads_and_leaves_the_instant_too() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let (store, odd) = (store(&redis, StoreTime::Node), 12_345_677);
    let rate = |max_burst, count| CellRate { max_burst, count, period_s: 1 };
    let ask = |rate, quantity, now| take(&store, 1, &CellStep { gap: SECOND, rate, quantity }, now);
    assert!(ask(rate(9, 10), 5, AHEAD).admitted);
    let half = Duration::from_millis(500);
    let seen = ask(rate(odd - 1, odd), 0, AHEAD);
    assert_eq!((seen.admitted, seen.reset_after), (true, half));
    assert_eq!(seen.remaining, odd / 2);
    let taken = ask(rate(odd - 1, odd), 1, AHEAD);
    let interval = Duration::from_nanos(1_000_000_000 / odd);
    let near =
        |reset: Duration| (half + interval..=half + interval + Duration::from_nanos(3)).contains(&reset);
    assert!(taken.admitted && near(taken.reset_after), "{taken:?}");
    let back = ask(rate(9, 10), 0, AHEAD);
    assert!(near(back.reset_after) && back.remaining == 4, "{back:?}");
}
