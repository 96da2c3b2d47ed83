//! Random histories, run on a store and on the model side by side.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use tollgate_core::{Algorithm, Cost, Decision, MAX_COUNT, Quota, RetryAfter, Timestamp};

use super::quotas;
use super::setup::{Executor, Failure, Options};
use crate::{
    Charge, Counter, Inspection, Key, ModelStore, Payment, Store, StoreError, StoreName, Take, Verdicts,
};

const LAW: &str = "every_store_answers_as_the_model_does";
/// The longest wait for an instant that a decision named: a history stays within days.
const LONGEST_MEETING: Duration = Duration::from_secs(3_600);
/// Quotas of one history; few, so that their counters meet each other.
const QUOTAS: usize = 3;
/// Number of keys per quota.
const KEYS: usize = 3;
/// Key `k` goes with quota `k % QUOTAS`; those that a careless store takes for one have the same quota.
const KEY_BYTES: [&[u8]; QUOTAS * KEYS] =
    [b"", b"a", &[b'x'; 300], &[0], b"a\0", &[b'x'; 301], &[0xff; 8], b"client=10.0.0.1", b"client=10.0.0.2"];

/// One step of a history; `key` indexes [`KEY_BYTES`]. `Meet` goes to the instant that the last decision
/// named (when the cost fits, or `reset`: when all is there again), or a nanosecond before or after it;
/// `Drain` takes exactly the permits left: there a `<` for a `<=` shows.
#[derive(Clone, Debug)]
enum HistoryStep {
    Take { charge: Charge, takes: Vec<(usize, Cost, Payment)> },
    Drain { key: usize },
    Hold { takes: Vec<(usize, Cost)>, max_wait: Duration },
    GiveBack { key: usize, cost: Cost },
    Charge { key: usize, cost: Cost },
    Reset { key: usize },
    Inspect { key: usize },
    Advance(Duration),
    Meet { reset: bool, off: i8 },
    Rewind(Duration),
}

/// A history: its quotas (indices into all of them), its beginning, and its steps.
#[derive(Clone, Debug)]
struct History {
    quotas: [prop::sample::Index; QUOTAS],
    begins: Duration,
    steps: Vec<HistoryStep>,
}

pub(super) fn answers_as_the_model_does<S: Store>(
    executor: &impl Executor,
    make: impl Fn() -> S,
    options: &Options,
) -> Result<(), Failure> {
    let quotas = quotas::all(options);
    let config = Config {
        cases: options.cases,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&histories(options.steps), |history| {
            let quotas = history.quotas.each_ref().map(|index| index.get(&quotas));
            replay(executor, &make(), quotas, options, history.begins, &history.steps)
        })
        .map_err(|error| match error {
            TestError::Fail(reason, history) => {
                let quotas = history.quotas.map(|index| index.get(&quotas).clone());
                let told: Vec<String> = quotas.iter().map(describe).collect();
                let details = format!(
                    "{reason}\nquotas (three keys each): {told:#?}\nbegins {:?} into an hour\nsteps: {:#?}",
                    history.begins, history.steps
                );
                Failure { law: LAW, details }
            }
            TestError::Abort(reason) => Failure { law: LAW, details: reason.to_string() },
        })
}

fn describe(quota: &Quota) -> String {
    format!("{} per {:?}, {:?}", quota.limit(), quota.period(), quota.algorithm())
}

fn histories(steps: usize) -> impl Strategy<Value = History> {
    (any::<[prop::sample::Index; QUOTAS]>(), spans(), prop::collection::vec(step(), 1..=steps))
        .prop_map(|(quotas, begins, steps)| History { quotas, begins, steps })
}

fn step() -> impl Strategy<Value = HistoryStep> {
    let key = || 0..KEY_BYTES.len();
    let takes = || prop::collection::vec((key(), costs()), 1..=6);
    prop_oneof![
        4 => prop::collection::vec((key(), costs(), payment()), 1..=6)
            .prop_map(|takes| HistoryStep::Take { charge: Charge::Each, takes }),
        4 => takes().prop_map(|takes| HistoryStep::Take { charge: Charge::Together, takes: ahead(takes) }),
        2 => (takes(), spans()).prop_map(|(takes, max_wait)| HistoryStep::Hold { takes, max_wait }),
        1 => key().prop_map(|key| HistoryStep::Drain { key }),
        1 => (key(), costs()).prop_map(|(key, cost)| HistoryStep::Charge { key, cost }),
        2 => (key(), costs()).prop_map(|(key, cost)| HistoryStep::GiveBack { key, cost }),
        1 => key().prop_map(|key| HistoryStep::Reset { key }),
        2 => key().prop_map(|key| HistoryStep::Inspect { key }),
        4 => spans().prop_map(HistoryStep::Advance),
        3 => (any::<bool>(), -1..=1_i8).prop_map(|(reset, off)| HistoryStep::Meet { reset, off }),
        1 => spans().prop_map(HistoryStep::Rewind),
    ]
}

fn costs() -> impl Strategy<Value = Cost> {
    prop_oneof![
        2 => Just(Cost::PEEK),
        8 => (1..=8_u64).prop_map(Cost),
        1 => prop_oneof![Just(1_000_000_000), Just(1 << 34), Just(1 << 45), Just(MAX_COUNT), Just(u64::MAX)]
            .prop_map(Cost),
    ]
}

fn payment() -> impl Strategy<Value = Payment> {
    prop_oneof![4 => Just(Payment::Ahead), 2 => Just(Payment::After), 1 => Just(Payment::Consumed)]
}

fn ahead(takes: Vec<(usize, Cost)>) -> Vec<(usize, Cost, Payment)> {
    takes.into_iter().map(|(key, cost)| (key, cost, Payment::Ahead)).collect()
}

/// Spans of every size that a rule or a clock step may have.
fn spans() -> impl Strategy<Value = Duration> {
    prop_oneof![
        2 => (0..3_u64).prop_map(Duration::from_nanos),
        4 => (0..1_000_000_000_u64).prop_map(Duration::from_nanos),
        3 => (0..3_000_u64).prop_map(Duration::from_millis),
        2 => (0..120_u64).prop_map(Duration::from_secs),
        1 => (0..3_600_u64).prop_map(Duration::from_secs),
    ]
}

/// Every quota at its edges, which random histories meet too seldom: used up to the last permit, looked at
/// together with another, asked a nanosecond before and at the instant that it named.
pub(super) fn each_quota_at_its_edges<S: Store>(
    executor: &impl Executor,
    make: impl Fn() -> S,
    options: &Options,
) -> Result<(), Failure> {
    const LAW: &str = "each_quota_at_its_edges_is_as_in_the_model";
    let fail = |details: String| Failure { law: LAW, details };
    let other = quotas::slow(40, options).map_err(|error| fail(error.to_string()))?;
    for quota in quotas::all(options) {
        replay(executor, &make(), [&quota, &other, &other], options, Duration::ZERO, &edges())
            .map_err(|error| fail(format!("{error}\nquota: {}", describe(&quota))))?;
    }
    Ok(())
}

fn edges() -> Vec<HistoryStep> {
    const KEY: usize = 0;
    let one = |cost| HistoryStep::Take { charge: Charge::Each, takes: ahead(vec![(KEY, Cost(cost))]) };
    let beside = |cost| HistoryStep::Take {
        charge: Charge::Together,
        takes: ahead(vec![(KEY, Cost(cost)), (1, Cost::ONE)]),
    };
    let paid =
        |cost| HistoryStep::Take { charge: Charge::Each, takes: vec![(KEY, Cost(cost), Payment::After)] };
    let held = |cost| HistoryStep::Hold { takes: vec![(KEY, Cost(cost))], max_wait: Duration::ZERO };
    let meet = |reset, off| HistoryStep::Meet { reset, off };
    let mut steps = vec![
        one(1),
        held(3),
        held(3),
        HistoryStep::GiveBack { key: KEY, cost: Cost::ONE },
        HistoryStep::Drain { key: KEY },
    ];
    for off in [-1, 0, 1] {
        steps.extend([beside(0), beside(1), one(1), meet(false, off), beside(0), one(1), one(1)]);
        steps.extend([
            HistoryStep::Drain { key: KEY },
            beside(0),
            one(1),
            meet(true, off),
            one(0),
            beside(1),
        ]);
        // Paid for afterwards: with the last permit, with nothing left, and from a debt on.
        steps.extend([HistoryStep::Drain { key: KEY }, paid(0), meet(false, off), paid(0), one(1), paid(3)]);
        steps.extend([paid(0), meet(false, off), paid(0), paid(1), paid(0), meet(true, off), paid(0)]);
    }
    steps
}

/// The operation on a batch.
#[derive(Clone, Copy)]
enum BatchOperation {
    Take(Charge),
    Hold(Duration),
}

impl BatchOperation {
    async fn of(self, store: &impl Store, batch: &[Take<'_>], now: Timestamp, verdicts: &mut Verdicts) {
        match self {
            Self::Take(charge) => store.take(batch, charge, now, verdicts).await,
            Self::Hold(max_wait) => store.reserve(batch, max_wait, now, verdicts).await,
        }
    }
}

/// Both stores, and the time.
struct Replay<'a, S, E> {
    executor: &'a E,
    store: &'a S,
    model: ModelStore,
    quotas: [&'a Quota; QUOTAS],
    options: &'a Options,
    now: Timestamp,
    latest: Timestamp,
    /// The model's last decision, and when it was made.
    last: Option<(Decision, Timestamp)>,
}

fn replay<S: Store>(
    executor: &impl Executor,
    store: &S,
    quotas: [&Quota; QUOTAS],
    options: &Options,
    begins: Duration,
    steps: &[HistoryStep],
) -> Result<(), TestCaseError> {
    let model = ModelStore::default();
    let now = whole(options.begins + begins, options.tick);
    let mut replay = Replay { executor, store, model, quotas, options, now, latest: now, last: None };
    for (index, step) in steps.iter().enumerate() {
        replay.step(step).map_err(|error| match error {
            TestCaseError::Fail(reason) => TestCaseError::fail(format!("step {index} ({step:?}): {reason}")),
            other => other,
        })?;
    }
    // At the end the state of every key must be that of the model, also of keys that no step looked at.
    (0..KEY_BYTES.len()).try_for_each(|key| replay.step(&HistoryStep::Inspect { key }))
}

impl<'a, S: Store, E: Executor> Replay<'a, S, E> {
    fn counter(&self, key: usize) -> Counter<'a> {
        Counter::new(Key(KEY_BYTES[key]), self.quotas[key % QUOTAS])
    }

    fn step(&mut self, step: &HistoryStep) -> Result<(), TestCaseError> {
        match step {
            HistoryStep::Take { charge, takes } => self.batch(takes, BatchOperation::Take(*charge)),
            HistoryStep::Drain { key } => {
                let looked = self.model.inspect(self.counter(*key), self.now);
                let left = self.executor.block_on(looked).map_or(0, |it| it.decision.remaining());
                self.batch(&[(*key, Cost(left), Payment::Ahead)], BatchOperation::Take(Charge::Each))
            }
            HistoryStep::Hold { takes, max_wait } => {
                let max_wait = if self.options.promises { *max_wait } else { Duration::ZERO };
                self.batch(&ahead(takes.clone()), BatchOperation::Hold(max_wait))
            }
            HistoryStep::Charge { key, cost } => {
                let cost = (*cost).min(Cost(self.options.most));
                let counter = self.counter(*key);
                let got = self.executor.block_on(self.store.charge(counter, cost, self.now));
                let want = self.executor.block_on(self.model.charge(counter, cost, self.now));
                self.remember(&want);
                self.alike(counter, &got, &want)
            }
            HistoryStep::GiveBack { key, cost } => self.give_back(self.counter(*key), *cost),
            HistoryStep::Reset { key } => self.reset(*key),
            HistoryStep::Inspect { key } => self.inspect(*key),
            HistoryStep::Advance(span) => {
                self.now = whole(self.now + *span, self.options.tick);
                self.latest = self.latest.max(self.now);
                Ok(())
            }
            HistoryStep::Meet { reset, off } => {
                self.meet(*reset, *off);
                Ok(())
            }
            HistoryStep::Rewind(_) if !self.options.steps_back => Ok(()),
            HistoryStep::Rewind(span) => {
                let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
                let now = Timestamp::from_nanos(self.now.as_nanos().saturating_sub(span));
                self.now = whole(now, self.options.tick);
                self.forget_what_a_store_may_have_dropped();
                Ok(())
            }
        }
    }

    fn remember(&mut self, decision: &Result<Decision, StoreError>) {
        self.last = decision.as_ref().ok().map(|decision| (*decision, self.now));
    }

    fn meet(&mut self, reset: bool, off: i8) {
        let Some((decision, made_at)) = self.last else { return };
        let wait = match decision.left_after() {
            RetryAfter::After(wait) if !reset => wait,
            _ => decision.reset_after(),
        };
        if wait <= LONGEST_MEETING {
            let tick = i64::try_from(self.options.tick.as_nanos()).unwrap_or(i64::MAX);
            let at = (made_at + wait).as_nanos().saturating_add_signed(tick.saturating_mul(off.into()));
            self.now = self.now.max(whole(Timestamp::from_nanos(at), self.options.tick));
            self.latest = self.latest.max(self.now);
        }
    }

    fn batch(&mut self, takes: &[(usize, Cost, Payment)], how: BatchOperation) -> Result<(), TestCaseError> {
        let take = |&(key, cost, payment): &(usize, Cost, Payment)| {
            // The most that the store may count at once.
            let cost = if payment.is_after() { cost.min(Cost(self.options.most)) } else { cost };
            Take { payment, ..self.counter(key).take(cost) }
        };
        let batch: Vec<Take<'_>> = takes.iter().map(take).collect();
        // Verdicts that a caller already holds must stay.
        let earlier = || StoreError::Failed { store: StoreName::new("suite"), reason: "earlier".into() };
        let mut got: Verdicts = vec![Err(earlier())];
        let mut want: Verdicts = vec![Err(earlier())];
        self.executor.block_on(how.of(self.store, &batch, self.now, &mut got));
        self.executor.block_on(how.of(&self.model, &batch, self.now, &mut want));
        if let Some(last) = want.last() {
            self.remember(last);
        }
        prop_assert_eq!(got.len(), want.len(), "answers to a batch of {}, and one earlier", batch.len());
        let kept = matches!(&got[0], Err(StoreError::Failed { reason, .. }) if reason == "earlier");
        prop_assert!(kept, "what the caller already had is gone");
        for (index, (got, want)) in got.iter().zip(&want).enumerate().skip(1) {
            self.alike(batch[index - 1].counter, got, want)
                .map_err(|error| TestCaseError::fail(format!("take {}: {error}", index - 1)))?;
        }
        Ok(())
    }

    /// The same answer, except for a window's excess over its limit where not every denied hit is counted.
    fn alike(
        &self,
        counter: Counter<'_>,
        got: &Result<Decision, StoreError>,
        want: &Result<Decision, StoreError>,
    ) -> Result<(), TestCaseError> {
        let is_loose = self.is_loose(counter) && want.as_ref().is_ok_and(|want| want.owed() > 0);
        let said = |it: &Decision| {
            (it.limit(), it.remaining(), it.outcome(), it.left_after(), it.reset_after(), it.delay())
        };
        match (got, want) {
            (Ok(got), Ok(want)) if is_loose && said(got) == said(want) => Ok(()),
            _ => self.same(got, want),
        }
    }

    /// A window of a store that does not count every denied hit.
    fn is_loose(&self, counter: Counter<'_>) -> bool {
        matches!(counter.quota.algorithm(), Algorithm::FixedWindow { .. }) && !self.options.whole_windows
    }

    fn give_back(&self, counter: Counter<'_>, cost: Cost) -> Result<(), TestCaseError> {
        let is_loose = self.is_loose(counter);
        let looked = || self.executor.block_on(self.model.inspect(counter, self.now));
        if is_loose && looked().is_ok_and(|it| !it.decision.is_admitted()) {
            return Ok(());
        }
        let got = self.executor.block_on(self.store.give_back(counter, cost, self.now));
        let want = self.executor.block_on(self.model.give_back(counter, cost, self.now));
        self.same(&got, &want)?;
        if is_loose && looked().is_ok_and(|it| is_full(&it)) {
            self.forget(counter);
        }
        Ok(())
    }

    fn forget(&self, counter: Counter<'_>) {
        let _ = self.executor.block_on(self.store.reset(counter, self.now));
        let _ = self.executor.block_on(self.model.reset(counter, self.now));
    }

    fn reset(&self, key: usize) -> Result<(), TestCaseError> {
        let counter = self.counter(key);
        let is_kept = self.model.expiry(counter.key).is_some();
        let full = self.executor.block_on(self.model.inspect(counter, self.now)).is_ok_and(|it| is_full(&it));
        let got = self.executor.block_on(self.store.reset(counter, self.now));
        let want = self.executor.block_on(self.model.reset(counter, self.now));
        match (got, want) {
            (Ok(got), Ok(_)) if !is_kept && !self.options.is_split => {
                prop_assert!(!got, "nothing was ever kept, or it was forgotten before");
                Ok(())
            }
            // A state that says the same as none may be kept or not.
            (Ok(_), Ok(_)) if full => Ok(()),
            (Ok(got), Ok(want)) => {
                prop_assert_eq!(got, want, "was there something to forget?");
                Ok(())
            }
            (got, want) => Err(TestCaseError::fail(format!("got {got:?}, the model says {want:?}"))),
        }
    }

    fn inspect(&self, key: usize) -> Result<(), TestCaseError> {
        let counter = self.counter(key);
        let got = self.executor.block_on(self.store.inspect(counter, self.now));
        let want = self.executor.block_on(self.model.inspect(counter, self.now));
        match (got, want) {
            (Ok(got), Ok(want)) => {
                prop_assert!(
                    self.are_same(&got.decision, &want.decision),
                    "inspecting key {}: {:?}, {:?}",
                    key,
                    got,
                    want
                );
                prop_assert!(is_full(&want) || got.is_tracked == want.is_tracked, "{:?}, {:?}", got, want);
                Ok(())
            }
            (got, want) => Err(TestCaseError::fail(format!("got {got:?}, the model says {want:?}"))),
        }
    }

    fn same(
        &self,
        got: &Result<Decision, StoreError>,
        want: &Result<Decision, StoreError>,
    ) -> Result<(), TestCaseError> {
        match (got, want) {
            (Ok(got), Ok(want)) if self.are_same(got, want) => Ok(()),
            _ => Err(TestCaseError::fail(format!("\n   store: {got:?}\n   model: {want:?}"))),
        }
    }

    /// A store that does not count each hit that a window denies does not know the state that a denial found.
    fn are_same(&self, got: &Decision, want: &Decision) -> bool {
        let is_told = self.options.whole_windows || got.is_admitted();
        let parts = |it: &Decision| {
            (it.is_admitted(), it.limit(), it.remaining(), it.delay(), it.retry_after(), it.reset_after())
        };
        if is_told { got == want } else { parts(got) == parts(want) }
    }

    /// A state that expired at the latest time may be gone or not when the clock steps back before that: both
    /// are right, so both stores forget it and continue equally.
    fn forget_what_a_store_may_have_dropped(&self) {
        for counter in (0..KEY_BYTES.len()).map(|key| self.counter(key)) {
            if self.model.expiry(counter.key).is_some_and(|expiry| expiry.is_past(self.latest)) {
                self.forget(counter);
            }
        }
    }
}

/// The first whole tick that is not before `now`.
fn whole(now: Timestamp, tick: Duration) -> Timestamp {
    let tick = u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX).max(1);
    Timestamp::from_nanos(now.as_nanos().div_ceil(tick).saturating_mul(tick))
}

/// True for a state that answers as a fresh one does.
fn is_full(inspection: &Inspection) -> bool {
    inspection.decision.reset_after().is_zero()
}
