//! Random callers against a line that is looked at from event to event, with the quota alone.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{Cost, Quota, RetryAfter, State, Timestamp};
use tollgate_limiter::{Descriptor, Entry, Limiter, LimiterSettings, Patience, Request, Scratch};
use tollgate_store::ModelStore;

use super::sim::{Tasks, World};
use crate::common::{NOON, policy};

/// One caller.
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

const RULES: [(&str, bool); 9] = [
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

/// What becomes of the callers in fact.
fn play(rule: &str, callers: &[Caller]) -> Vec<Fate> {
    let text = format!(
        "{{domain: d, descriptors: [{{key: k, rate_limit: {{{rule}, on_limit: queue, max_wait: {}ms}}}}]}}",
        MAX_WAIT.as_millis()
    );
    let limiter = Limiter::new(policy(&text), ModelStore::default(), LimiterSettings::default());
    let fates = RefCell::new(vec![Fate::Left; callers.len()]);
    let world = World::at(NOON);
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
        let (caller, limiter, fates, world) = (callers[index], &limiter, &fates, Arc::clone(&world));
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
struct Model<'q> {
    quota: &'q Quota,
    state: State,
    line: Vec<InLine>,
    fates: Vec<Fate>,
}

impl Model<'_> {
    /// When `cost` would fit; `None` for never.
    fn due(&self, cost: Cost, now: Timestamp) -> Option<Timestamp> {
        match self.quota.clone().take(&mut self.state.clone(), cost, now).retry_after() {
            RetryAfter::Now => Some(now),
            RetryAfter::After(span) => Some(now + span),
            RetryAfter::Never => None,
        }
    }

    /// Lets time pass from `now` to `end`.
    fn run(&mut self, mut now: Timestamp, end: Timestamp) {
        loop {
            let first = self.line.first().copied();
            let due = first.and_then(|first| self.due(first.cost, now)).unwrap_or(Timestamp::NEVER);
            if let Some(first) = first
                && due > first.deadline
            {
                // It gives up as soon as it is known, which is when it is the first.
                self.fates[first.index] = Fate::TimedOut(now);
                self.line.remove(0);
                continue;
            }
            let ends = self.line.iter().map(|it| it.deadline.min(it.leaves)).min();
            let next = due.min(ends.unwrap_or(Timestamp::NEVER));
            if next > end {
                return;
            }
            now = next;
            if due == next
                && let Some(first) = first
                // One that leaves at that very instant leaves after its turn.
                && first.leaves >= next
            {
                assert!(self.quota.take(&mut self.state, first.cost, now).is_admitted());
                self.fates[first.index] = Fate::Passed(now);
                self.line.remove(0);
                continue;
            }
            // One at a time, since the next may have its turn then: those whose time is up before those who
            // leave.
            let over = self.line.iter().position(|it| it.deadline <= now);
            let over = over.or_else(|| self.line.iter().position(|it| it.leaves <= now));
            if let Some(over) = over {
                let it = self.line.remove(over);
                self.fates[it.index] = if it.deadline <= now { Fate::TimedOut(now) } else { Fate::Left };
            }
        }
    }

    /// When one that joins with `cost` has its turn, if nobody leaves.
    fn turn(&self, cost: Cost, now: Timestamp) -> Option<Timestamp> {
        let (index, far) = (usize::MAX, now + Duration::from_secs(100));
        let mut line = self.line.clone();
        line.push(InLine { index, cost, deadline: far, leaves: far });
        let mut state = self.state.clone();
        let mut at = now;
        for waiter in line {
            let model = Model { quota: self.quota, state, line: Vec::new(), fates: Vec::new() };
            at = model.due(waiter.cost, at)?;
            state = model.state;
            assert!(self.quota.take(&mut state, waiter.cost, at).is_admitted());
        }
        Some(at)
    }
}

fn check(rule: &str, is_exact: bool, callers: &[Caller]) {
    let text = format!("{{domain: d, descriptors: [{{key: k, rate_limit: {{{rule}}}}}]}}");
    let policy = policy(&text);
    let quota = &policy.rules().next().expect("a rule").limits[0].quota;
    let fates = play(rule, callers);
    let mut model =
        Model { quota, state: quota.fresh(), line: Vec::new(), fates: vec![Fate::Denied; callers.len()] };
    let mut now = NOON;
    for (index, caller) in callers.iter().enumerate() {
        let arrives = now + Duration::from_millis(caller.after_ms);
        model.run(now, arrives);
        now = arrives;
        let (cost, fate) = (Cost(caller.cost), fates[index]);
        let deadline = now + MAX_WAIT.min(Duration::from_millis(caller.longest_ms));
        let turn = model.turn(cost, now);
        let leaves = caller.leaves_ms.map_or(Timestamp::NEVER, |leaves| now + Duration::from_millis(leaves));
        if model.line.is_empty() && turn == Some(now) {
            assert_eq!(fate, Fate::Passed(now), "{index} needs no wait");
            assert!(quota.take(&mut model.state, cost, now).is_admitted());
            model.fates[index] = fate;
            continue;
        }
        if fate == Fate::Denied {
            assert!(turn.is_none_or(|turn| turn > deadline), "{index} is denied needlessly: {turn:?}");
            continue;
        }
        if is_exact {
            assert!(turn.is_some_and(|turn| turn <= deadline), "{index} waits in vain: {turn:?}");
        }
        model.line.push(InLine { index, cost, deadline, leaves });
        model.run(now, now);
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
