//! A bucket that several classes of requests share: quotas with costs and overdrafts of their own on one
//! counter, on a store and on the model; and callers of all classes at once.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use tollgate_core::{Algorithm, Cost, Decision, Period, Quota, QuotaError, Refill, Timestamp};

use super::concurrent::{at_once, expect, passes};
use super::setup::{Executor, Failure, Options};
use crate::{Charge, Counter, Key, ModelStore, Store, StoreError, Take, Verdicts};

const LAW: &str = "classes_that_share_a_bucket_are_as_the_model_has_them";
const KEY: Key<'_> = Key(b"d|token_bucket$reports");
const CLASSES: usize = 3;

/// One step; classes are numbers below [`CLASSES`].
#[derive(Clone, Debug)]
enum BucketStep {
    Take {
        charge: Charge,
        takes: Vec<(usize, u64)>,
    },
    Hold {
        takes: Vec<(usize, u64)>,
        max_wait: Duration,
    },
    GiveBack(usize, u64),
    Charge(usize, u64),
    Inspect(usize),
    Reset(usize),
    Advance(Duration),
    Rewind(Duration),
    /// Changes the overdrafts, with the same numbers otherwise.
    Reload(usize),
}

fn steps(most: usize) -> impl Strategy<Value = Vec<BucketStep>> {
    let cost = || prop_oneof![1 => Just(0), 8 => 1..=6_u64, 1 => 10..=40_u64];
    let of_class = move || (0..CLASSES, cost());
    let takes = move || prop::collection::vec(of_class(), 1..=5);
    let span =
        || prop_oneof![0..20_u64, 0..900_000_000_u64, 0..9_000_000_000_u64].prop_map(Duration::from_nanos);
    let charge = prop_oneof![Just(Charge::Each), Just(Charge::Together)];
    let step = prop_oneof![
        8 => (charge, takes()).prop_map(|(charge, takes)| BucketStep::Take { charge, takes }),
        2 => (takes(), span()).prop_map(|(takes, max_wait)| BucketStep::Hold { takes, max_wait }),
        1 => of_class().prop_map(|(class, cost)| BucketStep::GiveBack(class, cost)),
        1 => of_class().prop_map(|(class, cost)| BucketStep::Charge(class, cost)),
        1 => (0..CLASSES).prop_map(BucketStep::Inspect),
        1 => (0..CLASSES).prop_map(BucketStep::Reset),
        6 => span().prop_map(BucketStep::Advance),
        1 => span().prop_map(BucketStep::Rewind),
        1 => (0..RELOADS).prop_map(BucketStep::Reload),
    ];
    prop::collection::vec(step, 1..=most)
}

/// Overdrafts of the classes before and after a reload.
const RELOADS: usize = 3;
const OVERDRAFTS: [[u64; CLASSES]; RELOADS] = [[0, 3, 30], [5, 0, 0], [0, 0, 0]];

#[derive(Clone, Copy, Debug)]
struct Shape {
    limit: u64,
    span: Duration,
    burst: u64,
    refill: Refill,
}

fn shapes() -> [Shape; 4] {
    let second = Duration::from_secs(1);
    let refill = Refill::Continuous;
    [
        Shape { limit: 10, span: second, burst: 12, refill },
        Shape { limit: 4, span: second, burst: 4, refill },
        Shape { limit: 1, span: 60 * second, burst: 8, refill },
        Shape { limit: 5, span: second, burst: 7, refill: Refill::Interval },
    ]
}

/// The classes of a bucket before and after each reload.
fn rules(shape: Shape, options: &Options) -> Result<Vec<Vec<Quota>>, QuotaError> {
    let Shape { limit, span, burst, refill } = shape;
    let has_overdraft = !options.unsupported.contains(&"overdraft");
    let class = |overdraft, most| {
        let algorithm = Algorithm::TokenBucket { burst: Some(burst), initial: None, overdraft, refill };
        Quota::new(limit, Period::Span(span), algorithm)?.with_room_for_overdraft(most)
    };
    let rule = |overdrafts: &[u64; CLASSES]| {
        let overdrafts = overdrafts.map(|overdraft| if has_overdraft { overdraft } else { 0 });
        let most = overdrafts.into_iter().max().unwrap_or_default();
        overdrafts.into_iter().map(|overdraft| class(overdraft, most)).collect()
    };
    OVERDRAFTS.iter().map(rule).collect()
}

pub(super) fn classes_of_a_bucket_are_as_the_model_has_them<S: Store>(
    executor: &impl Executor,
    make: impl Fn() -> S,
    options: &Options,
) -> Result<(), Failure> {
    let config = Config { cases: options.cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&(0..shapes().len(), steps(options.steps)), |(bucket, steps)| {
            let rules = rules(shapes()[bucket], options)
                .map_err(|error| TestCaseError::fail(format!("no quota: {error}")))?;
            replay(executor, &make(), &rules, options, &steps)
        })
        .map_err(|error| match error {
            TestError::Fail(reason, (bucket, steps)) => {
                let details = format!("{reason}\nbucket {:?}\nsteps: {steps:#?}", shapes()[bucket]);
                Failure { law: LAW, details }
            }
            TestError::Abort(reason) => Failure { law: LAW, details: reason.to_string() },
        })
}

fn replay<S: Store>(
    executor: &impl Executor,
    store: &S,
    rules: &[Vec<Quota>],
    options: &Options,
    steps: &[BucketStep],
) -> Result<(), TestCaseError> {
    let model = ModelStore::default();
    let mut now = options.begins;
    let mut rule = rules[0].clone();
    let tick = |now: Timestamp| {
        let tick = u64::try_from(options.tick.as_nanos()).unwrap_or(u64::MAX).max(1);
        Timestamp::from_nanos(now.as_nanos().div_ceil(tick).saturating_mul(tick))
    };
    for (index, step) in steps.iter().enumerate() {
        let counter = |class: usize| Counter::new(KEY, &rule[class]);
        let batch = |takes: &[(usize, u64)]| -> Vec<(usize, Cost)> {
            takes.iter().map(|(class, cost)| (*class, Cost(*cost))).collect()
        };
        let mut got = Verdicts::new();
        let mut want = Verdicts::new();
        match step {
            BucketStep::Take { charge, takes } => {
                let takes = batch(takes);
                let batch: Vec<Take<'_>> =
                    takes.iter().map(|(class, cost)| counter(*class).take(*cost)).collect();
                executor.block_on(store.take(&batch, *charge, now, &mut got));
                executor.block_on(model.take(&batch, *charge, now, &mut want));
            }
            BucketStep::Hold { takes, max_wait } => {
                let max_wait = if options.promises { *max_wait } else { Duration::ZERO };
                let takes = batch(takes);
                let batch: Vec<Take<'_>> =
                    takes.iter().map(|(class, cost)| counter(*class).take(*cost)).collect();
                executor.block_on(store.reserve(&batch, max_wait, now, &mut got));
                executor.block_on(model.reserve(&batch, max_wait, now, &mut want));
            }
            BucketStep::GiveBack(class, cost) => {
                got.push(executor.block_on(store.give_back(counter(*class), Cost(*cost), now)));
                want.push(executor.block_on(model.give_back(counter(*class), Cost(*cost), now)));
            }
            BucketStep::Charge(class, cost) => {
                got.push(executor.block_on(store.charge(counter(*class), Cost(*cost), now)));
                want.push(executor.block_on(model.charge(counter(*class), Cost(*cost), now)));
            }
            BucketStep::Inspect(class) => {
                let of = |inspected: Result<crate::Inspection, StoreError>| inspected.map(|it| it.decision);
                got.push(of(executor.block_on(store.inspect(counter(*class), now))));
                want.push(of(executor.block_on(model.inspect(counter(*class), now))));
            }
            BucketStep::Reset(class) => {
                let _ = executor.block_on(store.reset(counter(*class), now));
                let _ = executor.block_on(model.reset(counter(*class), now));
            }
            BucketStep::Advance(span) => now = tick(now + *span),
            BucketStep::Rewind(span) => {
                let span_ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
                let back = Timestamp::from_nanos(now.as_nanos().saturating_sub(span_ns));
                // A full key may be gone or not, which shows only where the clock steps back behind it.
                let is_full = model.expiry(KEY).is_none_or(|expiry| expiry.is_past(now));
                now = if options.steps_back && !is_full { tick(back) } else { now };
            }
            BucketStep::Reload(to) => {
                let old = rule[0].clone();
                rule = rules[*to].iter().map(|new| new.clone().migrated_from(&old, now)).collect();
            }
        }
        same(&got, &want)
            .map_err(|error| TestCaseError::fail(format!("step {index} ({step:?}): {error}")))?;
    }
    Ok(())
}

fn same(
    got: &[Result<Decision, StoreError>],
    want: &[Result<Decision, StoreError>],
) -> Result<(), TestCaseError> {
    let got = format!("{got:?}");
    let want = format!("{want:?}");
    prop_assert_eq!(got, want);
    Ok(())
}

/// Callers of all classes at once, each alone and several together: the admitted permits are never more than
/// the bucket and the overdraft have, all others are left, and no class is denied permits that are left.
pub(super) fn classes_at_once_share_one_bucket<S: Store>(
    executor: &impl Executor,
    make: impl Fn() -> S,
    options: &Options,
) -> Result<(), Failure> {
    const LAW: &str = "classes_at_once_share_one_bucket";
    let most = u64::from(options.takes) * options.threads as u64;
    let burst = (most / 2).clamp(20, options.most.min(2_000));
    let span = Duration::from_secs(1_800);
    let refill = Refill::Continuous;
    let shape = Shape { limit: 1, span, burst, refill };
    let rules = rules(shape, options).map_err(|error| Failure { law: LAW, details: error.to_string() })?;
    let classes = &rules[0];
    let costs = [1, 2, 5];
    let take = |class: usize| Counter::new(KEY, &classes[class]).take(Cost(costs[class]));
    let store = make();
    let left = AtomicI64::new(burst.cast_signed());
    at_once(options, |thread, round| {
        let first = (thread + round as usize) % CLASSES;
        let (batch, charge) = match round % 3 {
            0 => (vec![take(first), take((first + 1) % CLASSES)], Charge::Together),
            _ => (vec![take(first)], Charge::Each),
        };
        if passes(executor, &store, &batch, charge, options.begins) {
            let cost: u64 = batch.iter().map(|take| take.cost.permits()).sum();
            left.fetch_sub(cost.cast_signed(), Relaxed);
        }
        0
    });
    // Each class takes the permits that it may still have, one after another.
    for class in [2, 1, 0] {
        while passes(executor, &store, &[take(class)], Charge::Each, options.begins) {
            left.fetch_sub(costs[class].cast_signed(), Relaxed);
        }
    }
    let left = left.load(Relaxed);
    let deepest = OVERDRAFTS[0][2].cast_signed();
    let deepest = if options.unsupported.contains(&"overdraft") { 0 } else { deepest };
    expect(LAW, left >= -deepest, || format!("{left} are left of {burst}, {deepest} may be overdrawn"))?;
    // The class with the deepest overdraft was denied last with a cost of five.
    expect(LAW, left <= 0, || format!("{left} are left of {burst}, and were denied"))?;
    let counter = Counter::new(KEY, &classes[0]);
    let back = executor.block_on(store.give_back(counter, Cost((1 - left).cast_unsigned()), options.begins));
    let peek = back.map(|decision| decision.remaining());
    expect(LAW, matches!(peek, Ok(1)), || format!("after {} were given back: {peek:?}", 1 - left))
}
