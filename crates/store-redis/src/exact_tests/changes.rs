//! Rules that change: counts go on, in permits where the earlier rate is known.

use super::*;

/// From one quota to its successor, and what both stores say before and after.
fn goes_on_as_the_model(redis: &Redis, from: &Quota, to: &Quota, gap: Duration) {
    let (store, model) = (store(redis, StoreTime::Node), ModelStore::default());
    let changed_at = AHEAD + gap;
    let to = to.clone().succeeding(from, changed_at);
    let back = from.clone().succeeding(&to, changed_at + gap);
    let kinds = [Kind::Take(Cost(3)), Kind::Take(Cost(1)), Kind::Charge(Cost(1)), Kind::Inspect];
    let later = changed_at + gap;
    for (quota, now) in [(from, AHEAD), (&to, changed_at), (&to, later), (&back, later), (&back, later + gap)]
    {
        for kind in kinds {
            let got = store.run(&[store.ask(b"k", quota, kind)], now).expect("an answer");
            let want = one_by_one(&model, quota, &[kind], now);
            let same = match (&got[..], &want[..]) {
                ([Answer::Inspection(got)], [Answer::Inspection(want)]) => got.decision == want.decision,
                (got, want) => got == want,
            };
            assert!(same, "{kind:?} at +{gap:?} from {from:?} to {quota:?}: {got:?}, not {want:?}");
        }
    }
}

#[test]
fn counts_survive_a_change_of_the_rate_as_in_the_model() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let minute = SECOND * 60;
    for (from, to) in each(SECOND).iter().zip(&each(minute)) {
        for gap in [0, 1, 130_000_000, 999_999_999, 1_500_000_000].map(Duration::from_nanos) {
            // Without its rate a bucket's time is kept; a bucket that starts to begin short is another thing.
            goes_on_as_the_model(&redis, from, to, gap);
        }
    }
    let cells = |cells| quota(6, SECOND, Algorithm::SlidingWindow { cells });
    let bucket = |limit, burst| quota(limit, SECOND, bucket(Some(burst), None, 0, Refill::Continuous));
    for (from, to) in [(cells(10), cells(4)), (bucket(10, 5), bucket(7, 9)), (bucket(1_000, 5), bucket(3, 5))]
    {
        for gap in [0, 7, 130_000_000, 430_000_000].map(Duration::from_nanos) {
            goes_on_as_the_model(&redis, &from, &to, gap);
        }
    }
}

#[test]
fn a_bucket_of_an_unknown_rate_keeps_the_time_that_it_owes() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let store = store(&redis, StoreTime::Node);
    let minute = SECOND * 60;
    let taken = |limit: u64, cost: u64| {
        let quota = quota(limit, minute, bucket(None, None, 0, Refill::Continuous));
        let answers =
            store.run(&[store.ask(b"k", &quota, Kind::Take(Cost(cost)))], AHEAD).expect("an answer");
        match &answers[..] {
            [Answer::Decision(it)] => (it.is_admitted(), it.remaining()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(taken(10, 6), (true, 4)); // owes 36 s
    assert_eq!(taken(20, 0), (true, 8)); // the same 36 s are twelve permits of this rate
    assert_eq!(taken(20, 8), (true, 0));
    assert_eq!(taken(30, 1), (false, 0)); // 60 s
    assert_eq!(taken(10, 0), (true, 0));
}

/// While nodes are given a new rule one after another, takes of both kinds of nodes alternate. What is owed, in time, is never less than
/// what either has taken at its own rate, so that both together admit at most what the more generous rule does.
#[test]
fn while_nodes_count_at_two_rates_no_more_is_admitted_than_at_the_higher() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let day = SECOND * 86_400;
    for (limit, next) in [(200, 400), (200, 220), (200, 100), (7, 9_999), (9_999, 7)] {
        for together in [false, true] {
            let (mut old, new) = (store(&redis, StoreTime::Node), store(&redis, StoreTime::Node));
            old.prefix.clone_from(&new.prefix);
            old.is_new = false; // it runs since long, and knows nothing of the next rate
            let of = |limit| quota(limit, day, bucket(None, None, 0, Refill::Continuous));
            let (before, after) = (of(limit), of(next).succeeding(&of(limit), AHEAD));
            let mut taken = [0.0; 2];
            for nth in 0..3_000_usize {
                let (node, quota) = [(&old, &before), (&new, &after)][nth % 2];
                let ask = [node.ask(b"k", quota, Kind::Take(Cost(1)))];
                let answers = if together { node.run_together(&ask, AHEAD) } else { node.run(&ask, AHEAD) }
                    .expect("an answer");
                let admitted = matches!(&answers[..], [Answer::Decision(it)] if it.is_admitted());
                taken[nth % 2] += f64::from(u8::from(admitted));
            }
            let share = taken[0] / limit as f64 + taken[1] / next as f64;
            // The first take was before the change, and is kept in permits.
            assert!(share <= 1.0 + 1.0 / limit.min(next) as f64, "{limit} to {next}: {taken:?}");
            assert!(
                share >= 0.97 - 2.0 / limit.min(next) as f64,
                "{limit} to {next}: {taken:?} is too little"
            );
        }
    }
}

/// Counted in whole ms, a rate of a permit in a few of them would never come into its own.
#[test]
fn a_fast_rate_goes_on_as_its_own_whoever_wrote_it() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let (mut node, other) = (store(&redis, StoreTime::Node), store(&redis, StoreTime::Node));
    node.prefix.clone_from(&other.prefix);
    node.is_new = false;
    let of = |limit| quota(limit, SECOND, bucket(None, None, 0, Refill::Continuous));
    other.run(&[other.ask(b"k", &of(9_000), Kind::Take(Cost(9)))], AHEAD).expect("an answer");
    let left = [(); 5].map(|()| {
        let answers = node.run(&[node.ask(b"k", &of(10_000), Kind::Take(Cost(1)))], AHEAD);
        match &answers.expect("an answer")[..] {
            [Answer::Decision(it)] => it.remaining(),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(left, [9_989, 9_988, 9_987, 9_986, 9_985], "a ms of it is ten permits");
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
            let answers =
                store.run(&[store.ask(b"k", &quota, Kind::Take(Cost(cost)))], now).expect("an answer");
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
fn another_algorithm_under_the_same_name_is_told_and_not_counted() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let store = store(&redis, StoreTime::Node);
    // Counter keys name their algorithm, so that this never happens by a rule's change; by hand it may.
    let log = quota(5, SECOND, Algorithm::SlidingWindowLog { log_denied: false });
    let window = quota(5, SECOND, Algorithm::SlidingWindowCounter);
    store.run(&[store.ask(b"k", &log, Kind::Take(Cost(1)))], AHEAD).expect("an answer");
    store.run(&[store.ask(b"k", &window, Kind::Take(Cost(1)))], AHEAD).expect_err("a list is no counter");
}

#[test]
fn together_goes_on_from_other_rates_too() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let store = store(&redis, StoreTime::Node);
    let of = |limit| quota(limit, SECOND, bucket(Some(5), None, 0, Refill::Continuous));
    let cells = |cells| quota(5, SECOND, Algorithm::SlidingWindow { cells });
    let asks = |bucket: &Quota, cells: &Quota| {
        [store.ask(b"a", bucket, Kind::Take(Cost(2))), store.ask(b"b", cells, Kind::Take(Cost(2)))]
    };
    let left = |asks: &[crate::ask::Ask]| {
        let answers = store.run_together(asks, AHEAD).expect("answers");
        answers
            .iter()
            .map(|it| if let Answer::Decision(it) = it { it.remaining() } else { 99 })
            .collect::<Vec<_>>()
    };
    assert_eq!(left(&asks(&of(10), &cells(10))), [3, 3]);
    let faster = of(20).succeeding(&of(10), AHEAD);
    assert_eq!(left(&asks(&faster, &cells(5))), [1, 1]);
    assert_eq!(left(&asks(&faster, &cells(5))), [1, 1], "both refused");
}
