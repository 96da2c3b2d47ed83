//! Quotas that keep instants: the key holds the instant at which it is full, written at any rate, as in
//! redis-cell.

use tollgate_testkit::redis_cell::{
    CellAnswer, CellRate, CellStep, answers_alike, is_less_than_one_ns_late_for_each_change,
};

use super::*;

fn take(store: &Direct, nth: usize, step: &CellStep, now: Timestamp) -> CellAnswer {
    let quota = step.rate.quota().expect("small numbers");
    let asks = [store.ask(b"k", &quota, KeyOperation::Take(Cost(step.quantity)))];
    let answers = if nth.is_multiple_of(3) { store.run_together(&asks, now) } else { store.run(&asks, now) };
    match &answers.expect("an answer")[..] {
        [Answer::Decision(decision)] => CellAnswer::from(decision),
        other => panic!("{other:?}"),
    }
}

#[test]
fn any_rates_on_one_key_in_redis_are_counted_as_redis_cell_counts_them() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    for seed in 0..u64::from(cases(64)) {
        let store = store(&redis, StoreTime::Node);
        answers_alike(seed, AHEAD.as_nanos(), |nth, step, now_ns| {
            take(&store, nth, step, Timestamp::from_nanos(now_ns))
        });
    }
}

#[test]
fn in_redis_too_a_change_of_the_rate_is_less_than_a_nanosecond_late_and_never_early() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    for seed in 0..u64::from(cases(64)) {
        let store = store(&redis, StoreTime::Node);
        is_less_than_one_ns_late_for_each_change(seed, AHEAD.as_nanos(), |nth, step, now_ns| {
            take(&store, nth, step, Timestamp::from_nanos(now_ns))
        });
    }
}

/// Callers of one node whose rates differ share a flight, and one call of a script if they ask the same key.
#[test]
fn a_rate_with_many_units_in_a_nanosecond_reads_and_leaves_the_instant_too() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let store = store(&redis, StoreTime::Node);
    let odd = 12_345_677;
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
