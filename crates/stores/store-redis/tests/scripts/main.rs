//! The scripts on a real server, over a plain connection: held to the model of exact counting, and to the
//! ledger of leases.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a failed step of a test must say which, and figures are printed"
)]

mod cell;
mod changes;
mod direct;
mod edges;
mod ledger;
mod memory;
mod rates;
mod server_time;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tollgate_core::{Algorithm, Align, Cost, LeakyForm, LeavingCell, Period, Quota, Refill, Timestamp};
use tollgate_store::{Charge, Counter, Inspection, Key, ModelStore, Store, block_on, suite};
use tollgate_store_redis::StoreTime;
use tollgate_store_redis::internals::{Answer, KeyOperation};
use tollgate_testkit::redis::{Options, Redis};

use crate::direct::Direct;

/// Far enough ahead that no key expires by the server's clock: 2050.
const AHEAD: Timestamp = Timestamp::from_unix_seconds(2_524_608_000);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// A store with keys of its own.
fn store(redis: &Redis, time: StoreTime) -> Direct {
    static STORES: AtomicU32 = AtomicU32::new(0);
    Direct::new(redis.address(), format!("t{}:", STORES.fetch_add(1, Relaxed)), time)
}

fn bucket(burst: Option<u64>, initial: Option<u64>, overdraft: u64, refill: Refill) -> Algorithm {
    Algorithm::TokenBucket { burst, initial, overdraft, refill }
}

fn quota(limit: u64, span: Duration, algorithm: Algorithm) -> Quota {
    Quota::new(limit, Period::Span(span), algorithm).expect("a quota")
}

/// One quota of each kind, small enough that takes are denied.
fn each(span: Duration) -> Vec<Quota> {
    [
        (5, bucket(None, None, 0, Refill::Continuous)),
        (7, bucket(Some(9), Some(2), 3, Refill::Continuous)),
        (5, bucket(Some(8), None, 0, Refill::Interval)),
        (4, bucket(Some(6), Some(1), 2, Refill::Interval)),
        (5, Algorithm::FixedWindow { align: Align::Calendar }),
        (5, Algorithm::FixedWindow { align: Align::FirstHit }),
        (6, Algorithm::sliding_window(10)),
        (6, Algorithm::SlidingWindow { cells: 5, leaving: LeavingCell::Drops }),
        (6, Algorithm::SlidingWindowCounter),
        (5, Algorithm::SlidingWindowLog { log_denied: false }),
        (5, Algorithm::SlidingWindowLog { log_denied: true }),
        (5, Algorithm::LeakyBucket { capacity: Some(6), form: LeakyForm::Meter }),
        (5, Algorithm::LeakyBucket { capacity: Some(6), form: LeakyForm::Queue { delay_after: 2 } }),
        (9, Algorithm::Total),
        (5, Algorithm::WarmUp { warm_up: 3 * SECOND, cold_factor: 3 }),
        (5, Algorithm::SmoothBursty { burst: Some(4) }),
        (5, Algorithm::PriorityBuckets { burst: Some(9), weights: [2, 1].into(), class: 0 }),
    ]
    .map(|(limit, algorithm)| quota(limit, span, algorithm))
    .into()
}

fn cases(default: u32) -> u32 {
    std::env::var("TOLLGATE_SUITE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default)
}

#[test]
fn scripts_answer_as_the_model_does() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let options = suite::Options {
        begins: AHEAD,
        cases: cases(64),
        takes: 60,
        threads: 8,
        unsupported: &["concurrency"],
        ..Default::default()
    };
    suite::run(&suite::Parked, || store(&redis, StoreTime::Node), &options);
}

/// Nodes whose clocks differ ask for one key: the counts of a node that is behind still count for it.
#[test]
fn a_look_by_a_clock_that_is_ahead_deletes_nothing() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    for quota in each(SECOND) {
        let store = store(&redis, StoreTime::Node);
        let model = ModelStore::default();
        for (kind, now) in [
            (KeyOperation::Take(Cost(4)), AHEAD),
            (KeyOperation::Take(Cost(0)), AHEAD + 10 * SECOND),
            (KeyOperation::Take(Cost(u64::MAX)), AHEAD + 10 * SECOND),
            (KeyOperation::Inspect, AHEAD),
            (KeyOperation::Take(Cost(4)), AHEAD),
        ] {
            let decisions = |answers: &[Answer]| match answers {
                [Answer::Decision(it)] | [Answer::Inspection(Inspection { decision: it, .. })] => *it,
                other => panic!("{other:?}"),
            };
            let got = store.run(&[store.ask(b"k", &quota, kind)], now).expect("an answer");
            let want = one_by_one(&model, &quota, &[kind], now);
            assert_eq!(decisions(&got), decisions(&want), "{kind:?} of {quota:?}");
        }
    }
}

/// The model's answers to asks one after another.
fn one_by_one(model: &ModelStore, quota: &Quota, kinds: &[KeyOperation], now: Timestamp) -> Vec<Answer> {
    let counter = Counter::new(Key(b"k"), quota);
    let batch = |cost| [counter.take(cost)];
    let mut verdicts = Vec::new();
    let last = |verdicts: &mut tollgate_store::Verdicts| {
        verdicts.pop().expect("an answer").expect("the model always answers")
    };
    let answers = kinds.iter().map(|kind| match *kind {
        KeyOperation::Take(cost) => {
            block_on(model.take(&batch(cost), Charge::Each, now, &mut verdicts));
            Answer::Decision(last(&mut verdicts))
        }
        KeyOperation::Reserve(cost, max_wait) => {
            block_on(model.reserve(&batch(cost), max_wait, now, &mut verdicts));
            Answer::Decision(last(&mut verdicts))
        }
        KeyOperation::Charge(cost) => {
            Answer::Decision(block_on(model.charge(counter, cost, now)).expect("an answer"))
        }
        KeyOperation::Pay(cost) => {
            block_on(model.take(&[counter.pay(cost)], Charge::Each, now, &mut verdicts));
            Answer::Decision(last(&mut verdicts))
        }
        KeyOperation::GiveBack(cost) => {
            Answer::Decision(block_on(model.give_back(counter, cost, now)).expect("an answer"))
        }
        KeyOperation::Reset => Answer::Reset(block_on(model.reset(counter, now)).expect("an answer")),
        KeyOperation::Inspect => {
            Answer::Inspection(block_on(model.inspect(counter, now)).expect("an answer"))
        }
    });
    answers.collect()
}

fn kinds() -> impl Strategy<Value = Vec<KeyOperation>> {
    let cost =
        || prop_oneof![1 => Just(0), 6 => 1..4_u64, 1 => 4..12_u64, 1 => Just(u64::MAX)].prop_map(Cost);
    let one = prop_oneof![
        6 => (cost(), 1..70_usize).prop_map(|(cost, n)| vec![KeyOperation::Take(cost); n]),
        2 => (cost(), 0..3_000_u64, 1..9_usize)
            .prop_map(|(cost, ms, n)| vec![KeyOperation::Reserve(cost, Duration::from_millis(ms)); n]),
        1 => cost().prop_map(|cost| vec![KeyOperation::Charge(cost)]),
        2 => (cost(), 1..9_usize).prop_map(|(cost, n)| vec![KeyOperation::Pay(cost); n]),
        2 => cost().prop_map(|cost| vec![KeyOperation::GiveBack(cost)]),
        1 => Just(vec![KeyOperation::Inspect]),
    ];
    prop::collection::vec(one, 1..8).prop_map(|runs| runs.concat())
}

/// Law: merged callers get the answers that they would have got one after another.
#[test]
fn a_merged_call_answers_as_its_asks_do_one_by_one() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let quotas =
        [each(SECOND), vec![quota(1_000_000_000, SECOND, bucket(Some(40), None, 0, Refill::Continuous))]]
            .concat();
    let steps = prop::collection::vec((kinds(), 0..1_500_000_000_u64, any::<bool>()), 1..6);
    let config = Config { cases: cases(96), failure_persistence: None, ..Config::default() };
    let law = TestRunner::new(config).run(&(0..quotas.len(), steps), |(which, steps)| {
        let quota = &quotas[which];
        let model = ModelStore::default();
        let store = store(&redis, StoreTime::Node);
        let mut now = AHEAD;
        for (kinds, gap_ns, back) in steps {
            let asks: Vec<_> = kinds.iter().map(|kind| store.ask(b"k", quota, *kind)).collect();
            let got = store.run(&asks, now).expect("an answer");
            for ((got, want), kind) in got.iter().zip(one_by_one(&model, quota, &kinds, now)).zip(&kinds) {
                let same = match (got, &want) {
                    // A state that equals that of an unseen key may be kept or not.
                    (Answer::Inspection(got), Answer::Inspection(want)) => got.decision == want.decision,
                    (got, want) => *got == *want,
                };
                prop_assert!(same, "{kind:?} of {:?}: {got:?}, not {want:?}", quota.algorithm());
            }
            let gap = Duration::from_nanos(gap_ns);
            now = if back && gap_ns < 300_000_000 {
                Timestamp::from_nanos(now.as_nanos() - gap_ns)
            } else {
                now + gap
            };
        }
        Ok(())
    });
    law.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn what_is_not_ours_is_named_and_left_alone() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    for (nth, quota) in each(SECOND).iter().enumerate() {
        let store = store(&redis, StoreTime::Store);
        let key = store.text_key(b"k");
        let is_list =
            matches!(quota.algorithm(), Algorithm::SlidingWindow { .. } | Algorithm::SlidingWindowLog { .. });
        for foreign in
            [&["SET", key.as_str(), "hello"][..], &["HSET", &key, "a", "1"], &["RPUSH", &key, "a", "b"]]
        {
            store.command(&["DEL", &key]);
            store.command(foreign);
            let before = store.command(&["DUMP", &key]);
            for kind in [
                KeyOperation::Take(Cost(1)),
                KeyOperation::GiveBack(Cost(1)),
                KeyOperation::Reset,
                KeyOperation::Inspect,
            ] {
                let fault = store
                    .run(&[store.ask(b"k", quota, kind)], AHEAD)
                    .expect_err("it is not ours")
                    .to_string();
                assert!(fault.contains(&key), "{nth} {is_list}: {fault}");
                assert_eq!(store.command(&["DUMP", &key]), before, "{kind:?} of {:?}", quota.algorithm());
            }
            let asks = [
                store.ask(b"other", quota, KeyOperation::Take(Cost(1))),
                store.ask(b"k", quota, KeyOperation::Take(Cost(1))),
            ];
            store.run_together(&asks, AHEAD).expect_err("it is not ours");
            assert_eq!(store.command(&["EXISTS", &store.text_key(b"other")]).int(), 0);
        }
    }
}

/// Law I6: a clock that steps back admits no more than one that stops; one that steps forward admits once the
/// refill of the step, and no more.
#[test]
fn a_clock_that_steps_mints_nothing() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    for quota in each(SECOND) {
        let store = store(&redis, StoreTime::Node);
        let model = ModelStore::default();
        let count = |answers: &[Answer]| {
            answers.iter().filter(|it| matches!(it, Answer::Decision(it) if it.is_admitted())).count()
        };
        // As many as a model admits that gets the same takes.
        for (hours, steps_back) in [(1, false), (0, true), (1, true), (2, false), (1, true)] {
            let now = AHEAD + HOUR * hours;
            let kinds = [KeyOperation::Take(Cost(1)); 40];
            let asks = kinds.map(|kind| store.ask(b"k", &quota, kind));
            let admitted = count(&store.run(&asks, now).expect("answers"));
            let most = if steps_back { 0 } else { count(&one_by_one(&model, &quota, &kinds, now)) };
            assert_eq!(admitted, most, "at {hours} h: {:?}", quota.algorithm());
        }
    }
}
