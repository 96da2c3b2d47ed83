//! Slots: random histories beside the model, and holders at once.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use tollgate_core::{Holder, RetryAfter, Slots, Timestamp};

use super::concurrent::{at_once, expect};
use super::{Executor, Failure, Options};
use crate::{Key, ModelStore, Store};

/// Half a minute: longer than any check takes on a server's own clock, too.
const TTL: Duration = Duration::from_secs(30);
const KEYS: [&[u8]; 2] = [b"export", b"import"];

#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire {
        key: usize,
        holder: u128,
    },
    Release {
        key: usize,
        holder: u128,
    },
    Advance(Duration),
    /// To the instant at which, by the last decision, a slot lapses (or `all` have), or a microsecond before or after it.
    Meet {
        all: bool,
        off_us: i64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let who = || (0..KEYS.len(), prop_oneof![4 => 0..6_u128, 1 => Just(u128::MAX)]);
    prop_oneof![
        4 => who().prop_map(|(key, holder)| Step::Acquire { key, holder }),
        2 => who().prop_map(|(key, holder)| Step::Release { key, holder }),
        // Whole microseconds: a server's clock has no more.
        1 => (0..40_000_000_u64).prop_map(|us| Step::Advance(Duration::from_micros(us))),
        1 => (any::<bool>(), -1..=1_i64).prop_map(|(all, off_us)| Step::Meet { all, off_us }),
    ]
}

/// Row 28: a slot is held until it is released or lapses, by its holder alone.
pub(super) fn slots_are_as_the_model_has_them<S: Store>(
    executor: &impl Executor,
    make: impl Fn() -> S,
    options: &Options,
) -> Result<(), Failure> {
    const LAW: &str = "slots_are_as_the_model_has_them";
    let slots = Slots::new(3, TTL).map_err(|error| failure(LAW, error))?;
    let config = Config { cases: options.cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&prop::collection::vec(step(), 1..=options.steps), |steps| {
            let (store, model, mut now) = (make(), ModelStore::default(), options.begins);
            // When a slot lapses, and when all have.
            let mut lapses = [now; 2];
            for (index, step) in steps.iter().enumerate() {
                let (got, want) = match *step {
                    Step::Advance(span) => {
                        now = now + span;
                        continue;
                    }
                    Step::Meet { all, off_us } => {
                        let at = lapses[usize::from(all)].as_nanos().saturating_add_signed(off_us * 1_000);
                        now = now.max(Timestamp::from_nanos(at));
                        continue;
                    }
                    Step::Acquire { key, holder } => {
                        let (key, holder) = (Key(KEYS[key]), Holder(holder));
                        let got = executor.block_on(store.acquire(key, &slots, holder, now));
                        let want = executor.block_on(model.acquire(key, &slots, holder, now));
                        if let Ok(want) = &want {
                            let first = match want.retry_after() {
                                RetryAfter::After(wait) => wait,
                                _ => Duration::ZERO,
                            };
                            lapses = [now + first, now + want.reset_after()];
                        }
                        (format!("{got:?}"), format!("{want:?}"))
                    }
                    Step::Release { key, holder } => {
                        let (key, holder) = (Key(KEYS[key]), Holder(holder));
                        let got = executor.block_on(store.release(key, &slots, holder, now));
                        let want = executor.block_on(model.release(key, &slots, holder, now));
                        (format!("{got:?}"), format!("{want:?}"))
                    }
                };
                if got != want {
                    let told = format!("step {index} ({step:?}):\n   store: {got}\n   model: {want}");
                    return Err(TestCaseError::fail(told));
                }
            }
            Ok(())
        })
        .map_err(|error| match error {
            TestError::Fail(reason, steps) => failure(LAW, format!("{reason}\nsteps: {steps:#?}")),
            TestError::Abort(reason) => failure(LAW, reason),
        })
}

/// Holders that come and go at once: never more of them than there are slots, and all are free in the end.
pub(super) fn holders_at_once_are_never_more_than_the_slots<S: Store>(
    executor: &impl Executor,
    make: impl Fn() -> S,
    options: &Options,
) -> Result<(), Failure> {
    const LAW: &str = "holders_at_once_are_never_more_than_the_slots";
    let limit = (options.threads as u64 / 2).max(1);
    let slots = Slots::new(limit, TTL).map_err(|error| failure(LAW, error))?;
    let (store, key, now) = (make(), Key(b"busy"), options.begins);
    let (inside, most) = (AtomicU64::new(0), AtomicU64::new(0));
    let unreleased = at_once(options, |thread, round| {
        let holder = Holder((thread as u128) << 64 | u128::from(round));
        let acquired = executor.block_on(store.acquire(key, &slots, holder, now));
        if !acquired.is_ok_and(|decision| decision.is_admitted()) {
            return 0;
        }
        most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
        inside.fetch_sub(1, SeqCst);
        u64::from(!executor.block_on(store.release(key, &slots, holder, now)).unwrap_or(false))
    });
    let most = most.into_inner();
    expect(LAW, most <= limit && most > 0, || format!("{most} at once, {limit} may"))?;
    expect(LAW, unreleased == 0, || format!("{unreleased} slots could not be released"))?;
    for nth in 0..limit {
        let free = executor.block_on(store.acquire(key, &slots, Holder(u128::MAX - u128::from(nth)), now));
        let is_free = free.as_ref().is_ok_and(|decision| decision.is_admitted());
        expect(LAW, is_free, || format!("only {nth} of {limit} are free in the end: {free:?}"))?;
    }
    Ok(())
}

fn failure(law: &'static str, details: impl std::fmt::Display) -> Failure {
    Failure { law, details: details.to_string() }
}
