//! Slots: random histories beside the model, and holders at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::Mutex;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use tollgate_core::{Acquired, Holder, RetryAfter, Slots, Timestamp, nanos};

use super::concurrent::expect;
use super::setup::{Executor, Failure, Options};
use crate::{Key, ModelStore, SlotKey, Store};

/// Half a minute: longer than any check takes, by a server's own clock too.
const TTL: Duration = Duration::from_secs(30);
/// Rounds of callers at once, at most.
const ROUNDS: u32 = 100;
/// The holders that try for a slot while all are held.
const ONE_MORE: u128 = u128::MAX;
const KEYS: [&[u8]; 2] = [b"export", b"import"];

#[derive(Clone, Copy, Debug)]
enum SlotsStep {
    Acquire {
        key: usize,
        holder: u128,
    },
    Release {
        key: usize,
        holder: u128,
    },
    Advance(Duration),
    /// The clock steps back, by less than a slot lasts in all: slots that have expired since are not
    /// requested again.
    Back(Duration),
    /// To the instant at which, by the last decision, a slot lapses (or `all` have), or a microsecond before
    /// or after it.
    Meet {
        all: bool,
        off_us: i64,
    },
}

fn step() -> impl Strategy<Value = SlotsStep> {
    let who = || (0..KEYS.len(), prop_oneof![4 => 0..6_u128, 1 => Just(u128::MAX)]);
    prop_oneof![
        4 => who().prop_map(|(key, holder)| SlotsStep::Acquire { key, holder }),
        2 => who().prop_map(|(key, holder)| SlotsStep::Release { key, holder }),
        // Whole microseconds: a server's clock has no more.
        1 => (0..40_000_000_u64).prop_map(|us| SlotsStep::Advance(Duration::from_micros(us))),
        1 => (0..20_000_000_u64).prop_map(|us| SlotsStep::Back(Duration::from_micros(us))),
        1 => (any::<bool>(), -1..=1_i64).prop_map(|(all, off_us)| SlotsStep::Meet { all, off_us }),
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
            let store = make();
            let model = ModelStore::default();
            let mut now = options.begins;
            let mut latest = now;
            // The instants at which a slot lapses, and at which all have.
            let mut lapses = [now; 2];
            for (index, step) in steps.iter().enumerate() {
                let (got, want) = match *step {
                    SlotsStep::Advance(span) => {
                        now = now + span;
                        continue;
                    }
                    SlotsStep::Back(span) => {
                        latest = latest.max(now);
                        let earliest = latest.as_nanos().saturating_sub(nanos(TTL) - 1_000);
                        let back = now.as_nanos().saturating_sub(nanos(span)).max(earliest);
                        now = Timestamp::from_nanos(back.max(options.begins.as_nanos()));
                        continue;
                    }
                    SlotsStep::Meet { all, off_us } => {
                        let at = lapses[usize::from(all)].as_nanos().saturating_add_signed(off_us * 1_000);
                        now = now.max(Timestamp::from_nanos(at));
                        continue;
                    }
                    SlotsStep::Acquire { key, holder } => {
                        let key = SlotKey::new(Key(KEYS[key]));
                        let holder = Holder(holder);
                        let got = executor.block_on(store.acquire(key, &slots, holder, now));
                        let want = executor.block_on(model.acquire(key, &slots, holder, now));
                        let answer = |it: Acquired| (it.decision, it.is_renewal);
                        let got = got.map(answer);
                        let want = want.map(answer);
                        if let Ok((want, _)) = &want {
                            let first = match want.retry_after() {
                                RetryAfter::After(wait) => wait,
                                _ => Duration::ZERO,
                            };
                            lapses = [now + first, now + want.reset_after()];
                        }
                        (format!("{got:?}"), format!("{want:?}"))
                    }
                    SlotsStep::Release { key, holder } => {
                        let key = SlotKey::new(Key(KEYS[key]));
                        let holder = Holder(holder);
                        let got = executor.block_on(store.release(key, &slots, holder, now));
                        let want = executor.block_on(model.release(key, &slots, holder, now));
                        let got = got.map(|it| it.was_held);
                        let want = want.map(|it| it.was_held);
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

/// Callers that acquire at once, on every one of `nodes`, which count together: exactly as many get a slot as
/// there are. While these hold theirs one more is denied, and once they have released them all slots are free
/// again.
pub(super) fn holders_at_once_are_never_more_than_the_slots<S: Store>(
    executor: &impl Executor,
    nodes: &[S],
    options: &Options,
) -> Result<(), Failure> {
    const LAW: &str = "holders_at_once_are_never_more_than_the_slots";
    let limit = (options.threads as u64 / 2).max(1);
    let slots = Slots::new(limit, TTL).map_err(|error| failure(LAW, error))?;
    let key = SlotKey::new(Key(b"busy"));
    let now = options.begins;
    let acquires = |node: usize, holder: u128| {
        let store = &nodes[node % nodes.len()];
        executor.block_on(store.acquire(key, &slots, Holder(holder), now)).is_ok_and(|it| it.is_admitted())
    };
    let releases = |node: usize, holder: u128| {
        let store = &nodes[node % nodes.len()];
        executor.block_on(store.release(key, &slots, Holder(holder), now)).is_ok_and(|it| it.was_held)
    };
    let together = Barrier::new(options.threads);
    let holding = AtomicU64::new(0);
    let unreleased = AtomicU64::new(0);
    // By round: the number of callers that held a slot when all had tried, and whether one more got one.
    let seen = Mutex::new(Vec::new());
    let call = |thread: usize| {
        for round in 0..options.takes.min(ROUNDS) {
            let holder = (thread as u128) << 64 | u128::from(round);
            together.wait();
            let is_holder = acquires(thread, holder);
            holding.fetch_add(u64::from(is_holder), SeqCst);
            together.wait();
            if thread == 0 {
                let one_more = acquires(round as usize, ONE_MORE) && releases(round as usize, ONE_MORE);
                seen.lock().push((holding.swap(0, SeqCst), one_more));
            }
            together.wait();
            if is_holder && !releases(thread + 1, holder) {
                unreleased.fetch_add(1, SeqCst);
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..options.threads {
            let call = &call;
            scope.spawn(move || call(thread));
        }
    });
    for (round, (held, one_more)) in seen.into_inner().into_iter().enumerate() {
        expect(LAW, held == limit, || format!("round {round}: {held} hold a slot, of {limit}"))?;
        expect(LAW, !one_more, || format!("round {round}: one more got a slot where all {limit} are held"))?;
    }
    let unreleased = unreleased.into_inner();
    expect(LAW, unreleased == 0, || format!("{unreleased} slots could not be released"))
}

fn failure(law: &'static str, details: impl std::fmt::Display) -> Failure {
    Failure { law, details: details.to_string() }
}
