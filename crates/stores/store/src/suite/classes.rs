//! Classes of priority that share a counter: random takes by all of them, on a store and on the model.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use tollgate_core::{Algorithm, Cost, Decision, Period, Quota, Timestamp};

use super::setup::{Executor, Failure, Options};
use crate::{Charge, Counter, Key, ModelStore, Store, StoreError, Take, Verdicts};

const LAW: &str = "classes_that_share_a_counter_are_as_the_model_has_them";
const KEY: Key<'_> = Key(b"tenant=a");
const CLASSES: usize = 3;

/// One step; classes are numbers below [`CLASSES`].
#[derive(Clone, Debug)]
enum ClassesStep {
    Take {
        charge: Charge,
        takes: Vec<(usize, u64)>,
    },
    GiveBack(usize, u64),
    Charge(usize, u64),
    Advance(Duration),
    Rewind(Duration),
    /// Reverses the weights of the rule from now on: same sum, so the same units.
    Turn,
}

fn steps(most: usize) -> impl Strategy<Value = Vec<ClassesStep>> {
    let cost = || prop_oneof![1 => Just(0), 8 => 1..=6_u64, 1 => 20..=200_u64];
    let of_class = move || (0..CLASSES, cost());
    let span =
        || prop_oneof![0..20_u64, 0..900_000_000_u64, 0..30_000_000_000_u64].prop_map(Duration::from_nanos);
    let charge = prop_oneof![Just(Charge::Each), Just(Charge::Together)];
    let step = prop_oneof![
        8 => (charge, prop::collection::vec(of_class(), 1..=5))
            .prop_map(|(charge, takes)| ClassesStep::Take { charge, takes }),
        1 => of_class().prop_map(|(class, cost)| ClassesStep::GiveBack(class, cost)),
        1 => of_class().prop_map(|(class, cost)| ClassesStep::Charge(class, cost)),
        6 => span().prop_map(ClassesStep::Advance),
        1 => span().prop_map(ClassesStep::Rewind),
        1 => Just(ClassesStep::Turn),
    ];
    prop::collection::vec(step, 1..=most)
}

#[derive(Clone, Copy, Debug)]
struct Parent {
    limit: u64,
    span: Duration,
    burst: u64,
}

/// Their shares are whole, are fractions, and need more than 64 bits.
fn parents() -> [Parent; 4] {
    let second = Duration::from_secs(1);
    [
        Parent { limit: 10, span: second, burst: 20 },
        Parent { limit: 7, span: 3 * second, burst: 11 },
        Parent { limit: 1_000_003, span: 60 * second, burst: 40 },
        Parent { limit: 7, span: 86_400 * second, burst: 90 },
    ]
}

fn classes(parent: Parent, weights: [u32; CLASSES]) -> Option<Vec<Quota>> {
    let Parent { limit, span, burst } = parent;
    let of = |class| {
        let algorithm = Algorithm::PriorityBuckets { burst: Some(burst), weights: weights.into(), class };
        Quota::new(limit, Period::Span(span), algorithm).ok()
    };
    (0..CLASSES).map(of).collect()
}

pub(super) fn classes_are_as_the_model_has_them<S: Store>(
    executor: &impl Executor,
    make: impl Fn() -> S,
    options: &Options,
) -> Result<(), Failure> {
    let config = Config { cases: options.cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&(0..parents().len(), steps(options.steps)), |(parent, steps)| {
            let parent = parents()[parent];
            let rules = [[6, 3, 1], [1, 3, 6]].map(|weights| classes(parent, weights));
            let [Some(rule), Some(turned)] = rules else {
                return Err(TestCaseError::fail(format!("{parent:?} makes no quota")));
            };
            replay(executor, &make(), [&rule, &turned], options, &steps)
        })
        .map_err(|error| match error {
            TestError::Fail(reason, (parent, steps)) => {
                let details = format!("{reason}\nparent {:?}\nsteps: {steps:#?}", parents()[parent]);
                Failure { law: LAW, details }
            }
            TestError::Abort(reason) => Failure { law: LAW, details: reason.to_string() },
        })
}

fn replay<S: Store>(
    executor: &impl Executor,
    store: &S,
    rules: [&[Quota]; 2],
    options: &Options,
    steps: &[ClassesStep],
) -> Result<(), TestCaseError> {
    let model = ModelStore::default();
    let mut now = options.begins;
    let mut rule = rules[0];
    for (index, step) in steps.iter().enumerate() {
        let counter = |class: usize| Counter::new(KEY, &rule[class]);
        let (got, want): (Verdicts, Verdicts) = match step {
            ClassesStep::Take { charge, takes } => {
                let batch: Vec<Take<'_>> =
                    takes.iter().map(|(class, cost)| counter(*class).take(Cost(*cost))).collect();
                let mut got = Verdicts::new();
                let mut want = Verdicts::new();
                executor.block_on(store.take(&batch, *charge, now, &mut got));
                executor.block_on(model.take(&batch, *charge, now, &mut want));
                (got, want)
            }
            ClassesStep::GiveBack(class, cost) => (
                vec![executor.block_on(store.give_back(counter(*class), Cost(*cost), now))],
                vec![executor.block_on(model.give_back(counter(*class), Cost(*cost), now))],
            ),
            ClassesStep::Charge(class, cost) => (
                vec![executor.block_on(store.charge(counter(*class), Cost(*cost), now))],
                vec![executor.block_on(model.charge(counter(*class), Cost(*cost), now))],
            ),
            ClassesStep::Advance(span) => {
                now = now + *span;
                continue;
            }
            ClassesStep::Rewind(span) => {
                let span_ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
                let back = Timestamp::from_nanos(now.as_nanos().saturating_sub(span_ns));
                // A full key may be gone or not, which shows only where the clock steps back behind it.
                let is_full = model.expiry(KEY).is_none_or(|expiry| expiry.is_past(now));
                now = if options.steps_back && !is_full { back } else { now };
                continue;
            }
            ClassesStep::Turn => {
                rule = if std::ptr::eq(rule, rules[0]) { rules[1] } else { rules[0] };
                continue;
            }
        };
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
