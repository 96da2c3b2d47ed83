//! Rules that change: counts continue, in permits. (Several rules at once: [`rates`](super::rates).)

use tollgate_core::{Decision, RetryAfter};
use tollgate_store_redis::internals::Ask;

use super::*;

/// The most by which the script rounds up when one rate's debt becomes another's: a few ns, and for a rate
/// that counts in parts of a ns one part in 10^8.
const ROUNDED: Duration = Duration::from_micros(5);

fn is_same(got: &Decision, want: &Decision) -> bool {
    let wait = |of: &Decision| match of.retry_after() {
        RetryAfter::After(wait) => Some(wait),
        _ => None,
    };
    let is_near = |a: Duration, b: Duration| a.abs_diff(b) <= ROUNDED;
    let waits = wait(got).zip(wait(want)).map_or(wait(got) == wait(want), |(a, b)| is_near(a, b));
    waits
        && is_near(got.reset_after(), want.reset_after())
        && got.is_admitted() == want.is_admitted()
        && (got.remaining() == want.remaining() || got.remaining() + 1 == want.remaining())
}

/// From one quota to its successor, with the answers of both stores before and after.
fn continues_as_the_model(redis: &Redis, from: &Quota, to: &Quota, gap: Duration) {
    let store = store(redis, StoreTime::Node);
    let model = ModelStore::default();
    let changed_at = AHEAD + gap;
    let to = to.clone().migrated_from(from, changed_at);
    let back = from.clone().migrated_from(&to, changed_at + gap);
    let kinds = [
        KeyOperation::Take(Cost(3)),
        KeyOperation::Take(Cost(1)),
        KeyOperation::Charge(Cost(1)),
        KeyOperation::Inspect,
    ];
    let later = changed_at + gap;
    for (quota, now) in [(from, AHEAD), (&to, changed_at), (&to, later), (&back, later), (&back, later + gap)]
    {
        for kind in kinds {
            let got = store.run(&[store.ask(b"k", quota, kind)], now).expect("an answer");
            let want = one_by_one(&model, quota, &[kind], now);
            let seen = |answer: &Answer| match answer {
                Answer::Decision(seen) | Answer::Inspection(Inspection { decision: seen, .. }) => *seen,
                Answer::Reset(_) => panic!("{answer:?}"),
            };
            let same = is_same(&seen(&got[0]), &seen(&want[0]));
            assert!(same, "{kind:?} at +{gap:?} from {from:?} to {quota:?}: {got:?}, not {want:?}");
        }
    }
}

#[test]
fn counts_survive_a_change_of_the_rate_as_in_the_model() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let minute = SECOND * 60;
    for (from, to) in each(SECOND).iter().zip(&each(minute)) {
        // (What a warm-up or a parent of classes owes is rounded once when it is rewritten, and once when looked at.)
        for gap in [0, 1, 130_000_000, 999_999_999, 1_500_000_000].map(Duration::from_nanos) {
            // Without its rate a bucket's time is kept; a bucket that starts to begin short is another thing.
            continues_as_the_model(&redis, from, to, gap);
        }
    }
    let cells = |cells| quota(6, SECOND, Algorithm::sliding_window(cells));
    let bucket = |limit, burst| quota(limit, SECOND, bucket(Some(burst), None, 0, Refill::Continuous));
    for (from, to) in [(cells(10), cells(4)), (bucket(10, 5), bucket(8, 9)), (bucket(1_000, 5), bucket(3, 5))]
    {
        for gap in [0, 7, 130_000_000, 430_000_000].map(Duration::from_nanos) {
            continues_as_the_model(&redis, &from, &to, gap);
        }
    }
}

/// A node need not know the rate: the key has the rate at which it is counted.
#[test]
fn a_bucket_of_an_unknown_rate_keeps_the_permits_that_it_owes() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let store = store(&redis, StoreTime::Node);
    let minute = SECOND * 60;
    let taken = |limit: u64, cost: u64| {
        let quota = quota(limit, minute, bucket(None, None, 0, Refill::Continuous));
        let answers =
            store.run(&[store.ask(b"k", &quota, KeyOperation::Take(Cost(cost)))], AHEAD).expect("an answer");
        match &answers[..] {
            [Answer::Decision(it)] => (it.is_admitted(), it.remaining()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(taken(10, 6), (true, 4));
    assert_eq!(taken(20, 0), (true, 14));
    assert_eq!(taken(20, 8), (true, 6));
    assert_eq!(taken(30, 1), (true, 15));
    assert_eq!(taken(10, 0), (false, 0), "15 are owed");
    assert_eq!(taken(7_000, 1), (true, 6_984));
}

/// A bucket whose limit is 0 is a total under the same name: it admits its burst once.
#[test]
fn a_limit_that_becomes_zero_and_is_raised_again_keeps_the_counts_it_can() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    for refill in [Refill::Continuous, Refill::Interval] {
        let store = store(&redis, StoreTime::Node);
        let minute = SECOND * 60;
        let taken = |limit: u64, cost: u64, now: Timestamp| {
            let quota = quota(limit, minute, bucket(Some(10), None, 0, refill));
            let answers = store
                .run(&[store.ask(b"k", &quota, KeyOperation::Take(Cost(cost)))], now)
                .expect("an answer");
            match &answers[..] {
                [Answer::Decision(it)] => (it.is_admitted(), it.remaining()),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(taken(6, 4, AHEAD), (true, 6));
        assert_eq!(taken(0, 3, AHEAD), (true, 7), "nothing of the bucket counts");
        assert_eq!(taken(0, 8, AHEAD), (false, 7));
        assert_eq!(taken(6, 2, AHEAD), (true, 5), "three are owed");
        assert_eq!(taken(6, 0, AHEAD + minute), (true, 10));
    }
}

#[test]
fn another_algorithm_under_the_same_name_is_reported_and_not_counted() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let store = store(&redis, StoreTime::Node);
    // Counter keys name their algorithm, so that this never happens by a rule's change; by hand it may.
    let log = quota(5, SECOND, Algorithm::SlidingWindowLog { log_denied: false });
    let window = quota(5, SECOND, Algorithm::SlidingWindowCounter);
    store.run(&[store.ask(b"k", &log, KeyOperation::Take(Cost(1)))], AHEAD).expect("an answer");
    store
        .run(&[store.ask(b"k", &window, KeyOperation::Take(Cost(1)))], AHEAD)
        .expect_err("a list is no counter");
}

#[test]
fn charging_together_continues_from_other_rates_too() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let store = store(&redis, StoreTime::Node);
    let of = |limit| quota(limit, SECOND, bucket(Some(5), None, 0, Refill::Continuous));
    let cells = |cells| quota(5, SECOND, Algorithm::sliding_window(cells));
    let asks = |bucket: &Quota, cells: &Quota| {
        [
            store.ask(b"a", bucket, KeyOperation::Take(Cost(2))),
            store.ask(b"b", cells, KeyOperation::Take(Cost(2))),
        ]
    };
    let left = |asks: &[Ask]| {
        let answers = store.run_together(asks, AHEAD).expect("answers");
        answers
            .iter()
            .map(|it| if let Answer::Decision(it) = it { it.remaining() } else { 99 })
            .collect::<Vec<_>>()
    };
    assert_eq!(left(&asks(&of(10), &cells(10))), [3, 3]);
    let faster = of(20).migrated_from(&of(10), AHEAD);
    assert_eq!(left(&asks(&faster, &cells(5))), [1, 1]);
    assert_eq!(left(&asks(&faster, &cells(5))), [1, 1], "both denied");
}

/// A log whose limit goes up and down, with penalties and refunds of any size at the same instants: a debt
/// from an earlier, higher limit stays.
#[test]
fn a_log_whose_limit_changes_owes_what_the_model_owes() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    for seed in 0..cases(300) {
        let mut dice = fastrand::Rng::with_seed(u64::from(seed));
        let store = store(&redis, StoreTime::Node);
        let model = ModelStore::default();
        let log_denied = dice.bool();
        let log = |limit| quota(limit, SECOND, Algorithm::SlidingWindowLog { log_denied });
        let limits = [log(12), log(10), log(3)];
        let key = format!("k{seed}");
        let mut now = AHEAD;
        for step in 0..40 {
            let quota = &limits[dice.usize(..limits.len())];
            let cost = Cost(dice.u64(..14));
            let kind = match dice.u8(..6) {
                0 => KeyOperation::GiveBack(cost),
                1 | 2 => KeyOperation::Charge(cost),
                3 => KeyOperation::Take(Cost::PEEK),
                _ => KeyOperation::Take(cost),
            };
            let got = store.run(&[store.ask(key.as_bytes(), quota, kind)], now).expect("an answer");
            let want = one_by_one(&model, quota, &[kind], now);
            assert_eq!(got, want, "seed {seed}, step {step}: {kind:?} of {}", quota.limit());
            now = now + [Duration::ZERO, Duration::from_millis(130)][usize::from(dice.u8(..3) == 0)];
        }
    }
}
