//! Random callers against a line that is looked at from event to event, with the quota alone.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{Algorithm, Cost, Quota, Refill, RetryAfter, State, Timestamp};
use tollgate_limiter::{Descriptor, Entry, Limiter, LimiterSettings, Patience, Request, Scratch};
use tollgate_store::ModelStore;

use super::sim::{SimClock, Tasks};
use crate::common::{NOON, policy};

#[derive(Clone, Copy, Debug)]
struct Caller {
    /// After the one before.
    after_ms: u64,
    cost: u64,
    /// Goes away after so long, if it still waits.
    leaves_ms: Option<u64>,
    /// The time that it has, if less than the rule's.
    longest_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Passed(Timestamp),
    /// Without a wait.
    Denied,
    TimedOut(Timestamp),
    Left,
}

const RULES: [(&str, bool); 11] = [
    ("algorithm: token_bucket, unit: second, requests_per_unit: 100, burst: 4", true),
    ("algorithm: leaky_bucket, unit: second, requests_per_unit: 40, capacity: 5", true),
    ("algorithm: token_bucket, unit: second, requests_per_unit: 10, burst: 4", true),
    ("algorithm: token_bucket, unit: second, requests_per_unit: 2, burst: 5, overdraft: 2", false),
    ("algorithm: leaky_bucket, unit: second, requests_per_unit: 4, capacity: 4", true),
    ("algorithm: token_bucket, unit: second, requests_per_unit: 4, burst: 6, refill: interval", false),
    ("unit: second, requests_per_unit: 4", false),
    ("algorithm: fixed_window, align: first_hit, unit: second, requests_per_unit: 5", false),
    ("algorithm: sliding_window, cells: 4, unit: second, requests_per_unit: 5", false),
    ("algorithm: sliding_window_log, unit: second, requests_per_unit: 4", false),
    ("algorithm: sliding_window_counter, unit: second, requests_per_unit: 4", false),
];

const MAX_WAIT: Duration = Duration::from_millis(2_300);

fn caller() -> impl Strategy<Value = Caller> {
    let after = prop_oneof![3 => Just(0_u64), 5 => 1..150_u64, 1 => 150..3_000_u64];
    let leaves = prop_oneof![3 => Just(None), 1 => (1..2_500_u64).prop_map(Some)];
    let longest = prop_oneof![3 => Just(10_000_u64), 1 => 0..2_500_u64];
    let cost = prop_oneof![3 => Just(1_u64), 1 => 1..=4_u64];
    (after, cost, leaves, longest).prop_map(|(after_ms, cost, leaves_ms, longest_ms)| Caller {
        after_ms,
        cost,
        leaves_ms,
        longest_ms,
    })
}

/// The actual fates of the callers.
fn play(rule: &str, callers: &[Caller]) -> Vec<Fate> {
    let text = format!(
        "{{domain: d, descriptors: [{{key: k, rate_limit: {{{rule}, on_limit: queue, max_wait: {}ms}}}}]}}",
        MAX_WAIT.as_millis()
    );
    let limiter = Limiter::new(policy(&text), ModelStore::default(), LimiterSettings::default());
    let fates = RefCell::new(vec![Fate::Left; callers.len()]);
    let world = SimClock::at(NOON);
    let mut tasks = Tasks::new(&world);
    let mut arrives = NOON;
    // By time; those who leave before those who come.
    let mut events = Vec::new();
    for (index, caller) in callers.iter().enumerate() {
        arrives = arrives + Duration::from_millis(caller.after_ms);
        events.push((arrives, true, index));
        if let Some(leaves) = caller.leaves_ms {
            events.push((arrives + Duration::from_millis(leaves), false, index));
        }
    }
    events.sort();
    for (at, comes, index) in events {
        tasks.run_until(at);
        if !comes {
            tasks.drop_task(index);
            continue;
        }
        let caller = callers[index];
        let limiter = &limiter;
        let fates = &fates;
        let world = Arc::clone(&world);
        let started = tasks.start(async move {
            let entries = [Entry::new("k", "v")];
            let descriptors = [Descriptor::new(&entries)];
            let request = Request { domain: "d", descriptors: &descriptors, hits: caller.cost };
            let now = || world.now();
            let longest = Duration::from_millis(caller.longest_ms);
            let patience = Patience { now: &now, sleep: |span| world.sleep(span), longest, left: None };
            let mut scratch = Scratch::new();
            let answer = limiter.decide_patiently(&request, world.now(), &patience, &mut scratch).await;
            let answer = answer.expect("a valid request");
            assert_eq!(answer.waited(), world.now().since(at));
            assert_eq!(answer.descriptor(0).map(|it| it.delay()), Some(answer.waited()));
            fates.borrow_mut()[index] = match (answer.is_admitted(), answer.waited().is_zero()) {
                (true, _) => Fate::Passed(world.now()),
                (false, true) => Fate::Denied,
                (false, false) => Fate::TimedOut(world.now()),
            };
            if !answer.is_admitted() {
                assert!(answer.retry_after() > RetryAfter::Now, "a denial has a wait");
            }
        });
        assert_eq!(started, index);
    }
    tasks.run_until(world.now() + Duration::from_secs(60));
    drop(tasks);
    let rendered = limiter.metrics().render();
    assert!(rendered.contains("tollgate_queued_requests 0\n"), "nobody waits any longer");
    fates.into_inner()
}

/// One that waits in the model.
#[derive(Clone, Copy, Debug)]
struct InLine {
    index: usize,
    cost: Cost,
    deadline: Timestamp,
    leaves: Timestamp,
}

/// The same, worked out.
#[derive(Clone)]
struct Model<'q> {
    quota: &'q Quota,
    /// After all that have passed.
    state: State,
    /// Those that hold permits for an instant to come.
    granted: Vec<InLine>,
    line: Vec<InLine>,
    fates: Vec<Fate>,
    /// Time before its turn at which a request is granted its permits.
    ahead: Duration,
}

impl<'q> Model<'q> {
    fn new(quota: &'q Quota, callers: usize) -> Self {
        let is_promised = match quota.algorithm() {
            Algorithm::TokenBucket { overdraft, refill, .. } => {
                *overdraft == 0 && *refill == Refill::Continuous
            }
            Algorithm::LeakyBucket { .. } => true,
            _ => false,
        };
        let ahead = if is_promised { Duration::from_millis(20) } else { Duration::ZERO };
        let state = quota.fresh();
        let fates = vec![Fate::Denied; callers];
        Self { quota, state, granted: Vec::new(), line: Vec::new(), fates, ahead }
    }

    /// The state after those that hold permits, and from when on these may be used.
    fn after_granted(&self, now: Timestamp) -> (State, Vec<Timestamp>) {
        let mut state = self.state.clone();
        let long = Duration::from_secs(3_600);
        let acts =
            self.granted.iter().map(|it| now + self.quota.reserve(&mut state, it.cost, long, now).delay());
        let acts = acts.collect();
        (state, acts)
    }

    /// When `cost` would fit after all that hold permits; `None` for never.
    fn due(&self, cost: Cost, now: Timestamp) -> Option<Timestamp> {
        let (mut state, _) = self.after_granted(now);
        match self.quota.take(&mut state, cost, now).retry_after() {
            RetryAfter::Now => Some(now),
            RetryAfter::After(span) => Some(now + span),
            RetryAfter::Never => None,
        }
    }

    /// Does what is to be done at `now`.
    fn settle(&mut self, now: Timestamp) {
        loop {
            let (_, acts) = self.after_granted(now);
            if acts.first().is_some_and(|act| *act <= now) {
                let it = self.granted.remove(0);
                assert!(self.quota.take(&mut self.state, it.cost, now).is_admitted());
                self.fates[it.index] = Fate::Passed(now);
                continue;
            }
            if let Some(&first) = self.line.first() {
                let due = self.due(first.cost, now).unwrap_or(Timestamp::NEVER);
                if due > first.deadline {
                    // It gives up as soon as it is known, which is when it is the first.
                    self.fates[first.index] = Fate::TimedOut(now);
                    self.line.remove(0);
                    continue;
                }
                if due <= now + self.ahead {
                    self.granted.push(self.line.remove(0));
                    continue;
                }
            }
            // One at a time, since the next may have its turn then.
            if let Some(over) = self.line.iter().position(|it| it.deadline <= now) {
                self.fates[self.line.remove(over).index] = Fate::TimedOut(now);
                continue;
            }
            // One that leaves at the instant of its turn leaves after it.
            let in_line = self.line.iter().chain(&self.granted).filter(|it| it.leaves <= now);
            let Some(index) = in_line.map(|it| it.index).min() else { return };
            self.line.retain(|it| it.index != index);
            self.granted.retain(|it| it.index != index);
            self.fates[index] = Fate::Left;
        }
    }

    /// Lets time pass from `now` to `end`.
    fn run(&mut self, mut now: Timestamp, end: Timestamp) {
        loop {
            self.settle(now);
            let (_, acts) = self.after_granted(now);
            let first = self.line.first().and_then(|first| self.due(first.cost, now));
            let asks = first.map(|due| Timestamp::from_nanos(due.as_nanos() - self.ahead.as_nanos() as u64));
            let ends = self.line.iter().map(|it| it.deadline);
            let leaves = self.line.iter().chain(&self.granted).map(|it| it.leaves);
            let next = acts.into_iter().chain(asks).chain(ends).chain(leaves).min();
            match next {
                Some(next) if next <= end => now = next,
                _ => return,
            }
        }
    }

    /// When one that joins with `cost` has its turn, if nobody leaves.
    fn turn(&self, cost: Cost, now: Timestamp) -> Option<Timestamp> {
        let mut model = self.clone();
        let far = now + Duration::from_secs(100);
        let forever = |it: InLine| InLine { deadline: far, leaves: far, ..it };
        model.granted = self.granted.iter().copied().map(forever).collect();
        model.line = self.line.iter().copied().map(forever).collect();
        let index = model.fates.len();
        model.fates.push(Fate::Denied);
        model.line.push(InLine { index, cost, deadline: far, leaves: far });
        model.run(now, far);
        match model.fates[index] {
            Fate::Passed(at) => Some(at),
            _ => None,
        }
    }
}

fn check(rule: &str, is_exact: bool, callers: &[Caller]) {
    let text = format!("{{domain: d, descriptors: [{{key: k, rate_limit: {{{rule}}}}}]}}");
    let policy = policy(&text);
    let quota = &policy.rules().next().expect("a rule").limits[0].quota;
    let fates = play(rule, callers);
    let mut model = Model::new(quota, callers.len());
    let mut now = NOON;
    for (index, caller) in callers.iter().enumerate() {
        let arrives = now + Duration::from_millis(caller.after_ms);
        model.run(now, arrives);
        now = arrives;
        let cost = Cost(caller.cost);
        let fate = fates[index];
        let deadline = now + MAX_WAIT.min(Duration::from_millis(caller.longest_ms));
        let turn = model.turn(cost, now);
        let leaves = caller.leaves_ms.map_or(Timestamp::NEVER, |leaves| now + Duration::from_millis(leaves));
        if turn == Some(now) {
            assert_eq!(fate, Fate::Passed(now), "{index} needs no wait");
        }
        if fate == Fate::Denied {
            assert!(turn.is_none_or(|turn| turn > deadline), "{index} is denied needlessly: {turn:?}");
            continue;
        }
        if is_exact {
            assert!(turn.is_some_and(|turn| turn <= deadline), "{index} waits in vain: {turn:?}");
        }
        model.line.push(InLine { index, cost, deadline, leaves });
        model.settle(now);
    }
    model.run(now, now + Duration::from_secs(60));
    assert_eq!(fates, model.fates);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn callers_fare_as_in_a_line_that_is_looked_at_at_every_event(
        (rule, is_exact) in prop::sample::select(RULES.to_vec()),
        callers in prop::collection::vec(caller(), 1..40),
    ) {
        check(rule, is_exact, &callers);
    }
}
