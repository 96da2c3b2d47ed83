//! The quotas of a vector with their states, and what each operation of the file means to them.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Map, Value};
use tollgate_core::{Cost, Decision, Inherit, Quota, RetryAfter, Shape, State, Step, Timestamp};

use super::case::{Seen, Stop, Vector, text};
use super::quotas::{self, lacks, number, skip};
use crate::table::MIDNIGHT;

/// What a step may say. One that says more means something that we would not look at.
const KNOWN: [&str; 19] = [
    "t_ns",
    "op",
    "n",
    "key",
    "expect",
    "count",
    "counts",
    "every_ns",
    "until_ns",
    "handle",
    "max_wait_ns",
    "deadline_ns",
    "cancelled_before",
    "cancel_at_ns",
    "inheritance",
    "bandwidths",
    "rate_per_s",
    "burst",
    "fresh_run",
];

pub(super) struct Subject {
    quotas: Vec<Quota>,
    /// By key; most vectors have one key without a name.
    keys: HashMap<String, Vec<State>>,
    /// Reservations by handle: permits, and when they act.
    reserved: HashMap<String, (u64, Timestamp)>,
    params: Map<String, Value>,
    created: Timestamp,
}

impl Subject {
    pub(super) fn new(vector: &Vector) -> Result<Self, Stop> {
        let created_ns = vector.params.get("created_at_ns").and_then(Value::as_u64).unwrap_or(0);
        let quotas = quotas::of(vector)?;
        if quotas.is_empty() {
            return skip("a limiter without a quota");
        }
        let mut subject = Self {
            quotas,
            keys: HashMap::new(),
            reserved: HashMap::new(),
            params: vector.params.clone(),
            created: MIDNIGHT + Duration::from_nanos(created_ns),
        };
        if let (Some(current), Some(previous)) =
            (vector.params.get("current_count"), vector.params.get("previous_count"))
        {
            let window = number(&vector.params, "window_ns")?;
            let counts = [(previous, MIDNIGHT), (current, MIDNIGHT + Duration::from_nanos(window))];
            for (count, at) in counts {
                let cost = Cost(count.as_u64().ok_or_else(|| lacks("current_count"))?);
                subject.each("", |quota, state| quota.charge(state, cost, at));
            }
        }
        Ok(subject)
    }

    /// Does one step; what it answered.
    pub(super) fn step(&mut self, step: &Map<String, Value>) -> Result<Seen, Stop> {
        if let Some(name) = step.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            return Err(Stop::Skip(format!("`{name}` of `{}`", text(step, "op"))));
        }
        let now = MIDNIGHT + Duration::from_nanos(number(step, "t_ns")?);
        let permits = step.get("n").and_then(Value::as_u64).unwrap_or(u64::MAX);
        let cost = Cost(permits);
        let key = text(step, "key").to_owned();
        match text(step, "op") {
            "allow" | "try_consume" | "try_wait" | "try_acquire" | "check" | "check_key" | "hit" | "call" => {
                Ok(self.take(&key, cost, now))
            }
            "try_consume_probe" => Ok(zero_when_admitted(self.take(&key, cost, now))),
            "test" => Ok(self.aside(|subject| subject.test(&key, cost, now))),
            "estimate" | "delay_for" => {
                Ok(self.aside(|subject| zero_when_admitted(subject.take(&key, cost, now))))
            }
            "poll_ready" => {
                let seen = self.aside(|subject| subject.take(&key, Cost::ONE, now));
                Ok(Seen::from([("ready", seen["ok"].clone())]))
            }
            "rate_limit" => Ok(self.rate_limit(&key, cost, now)),
            "allow_n" => Ok(self.allow(&key, cost, permits, now)),
            "allow_at_most" => {
                let most = self.remaining(&key, now).min(permits);
                Ok(self.allow(&key, Cost(most), permits, now))
            }
            "allow_many" => {
                let count = number(step, "count")?;
                let passed = (0..count).filter(|_| self.take(&key, cost, now)["ok"] == true).count();
                Ok(Seen::from([("ok_count", passed.into())]))
            }
            "allow_every" => self.allow_every(step, cost, now),
            "available" | "remaining" => {
                let level = self.level(&key, step, now);
                Ok(Seen::from([("available", level.into()), ("remaining", level.into())]))
            }
            "inspect" => self.inspect(&key, step, now),
            "full_refill_time" => {
                let decisions = self.peek(&key, now);
                let reset = decisions.iter().map(|decision| decision.reset_after().as_nanos() as u64).max();
                Ok(Seen::from([("wait_ns", reset.into())]))
            }
            "consume_as_much" => {
                let granted = self.remaining(&key, now).min(permits);
                let _ = self.take(&key, Cost(granted), now);
                Ok(Seen::from([("granted", granted.into())]))
            }
            "consume_ignoring_limits" => {
                self.each(&key, |quota, state| quota.charge(state, cost, now));
                let violation = zero_when_admitted(self.aside(|subject| subject.take(&key, Cost::PEEK, now)));
                let level = self.level(&key, step, now);
                Ok(Seen::from([
                    ("violation_ns", violation["wait_ns"].clone()),
                    ("available_after", level.into()),
                ]))
            }
            "add_tokens" => {
                self.each(&key, |quota, state| quota.give_back(state, cost, now));
                let level = self.level(&key, step, now);
                Ok(Seen::from([("available_after", level.into())]))
            }
            "force_add_tokens" => skip("permits above the burst"),
            "reserve" | "consume_blocking" | "wait" | "take" => self.reserve(step, cost, now),
            "acquire" if self.quotas.iter().all(|quota| quota.shape() == Shape::Wide) => {
                // Waiting for an interval is being charged ahead of it.
                self.each(&key, |quota, state| quota.charge(state, cost, now));
                Ok(zero_when_admitted(self.aside(|subject| subject.take(&key, Cost::PEEK, now))))
            }
            "acquire" if self.params.contains_key("timeout_ns") => skip("callers that wait, with a deadline"),
            "acquire" => self.reserve(step, cost, now),
            "cancel" => {
                let reserved = self.reserved.remove(text(step, "handle"));
                // Only what has not begun can be given back.
                if let Some((permits, _)) = reserved.filter(|&(_, act_at)| act_at >= now) {
                    self.each(&key, |quota, state| quota.give_back(state, Cost(permits), now));
                }
                Ok(Seen::new())
            }
            "set_rate" | "set_burst" | "replace_config" => self.change(step, now),
            "evict_idle" => self.evict_idle(now),
            "count_taken_before" => self.count_taken_before(number(step, "t_ns")?),
            "admit" => self.admit_with_counts(step, cost, now),
            other => Err(Stop::Skip(format!("no such operation: {other}"))),
        }
    }

    /// All or nothing over every quota.
    fn take(&mut self, key: &str, cost: Cost, now: Timestamp) -> Seen {
        let before = self.states(key).clone();
        let tokens_before = self.level(key, &Map::new(), now);
        let decisions = self.each(key, |quota, state| quota.take(state, cost, now));
        let ok = decisions.iter().all(Decision::is_admitted);
        if !ok && decisions.len() > 1 {
            self.keys.insert(key.to_owned(), before);
        }
        let remaining = decisions.iter().map(Decision::remaining).min();
        let wait = decisions.iter().map(|decision| decision.retry_after()).max();
        let wait_ns = match wait {
            Some(RetryAfter::After(wait)) => Value::from(wait.as_nanos() as u64),
            _ => Value::Null,
        };
        let mut seen = Seen::from([
            ("ok", ok.into()),
            ("remaining", remaining.into()),
            ("wait_ns", wait_ns),
            ("tokens_before", tokens_before.into()),
        ]);
        if decisions.iter().any(Decision::never_fits) {
            seen.insert("reason", "exceeds_capacity".into());
        }
        seen
    }

    fn test(&mut self, key: &str, cost: Cost, now: Timestamp) -> Seen {
        let limit: u64 = self.quotas.iter().map(Quota::limit).sum();
        let weighted = limit - self.remaining(key, now).min(limit);
        let mut seen = self.take(key, cost, now);
        seen.insert("weighted", weighted.into());
        seen
    }

    fn rate_limit(&mut self, key: &str, cost: Cost, now: Timestamp) -> Seen {
        let decision = self.each(key, |quota, state| quota.take(state, cost, now))[0];
        let retry = match decision.retry_after() {
            RetryAfter::After(wait) => Value::from(wait.as_nanos() as u64),
            _ => Value::Null,
        };
        Seen::from([
            ("limited", (!decision.is_admitted()).into()),
            ("limit", self.params.get("burst").cloned().unwrap_or_default()),
            ("remaining", decision.remaining().into()),
            ("reset_after_ns", (decision.reset_after().as_nanos() as u64).into()),
            ("retry_after_ns", retry),
        ])
    }

    fn allow(&mut self, key: &str, cost: Cost, asked: u64, now: Timestamp) -> Seen {
        let mut seen = self.rate_limit(key, cost, now);
        let allowed = if seen["limited"] == true { 0 } else { cost.permits() };
        if allowed == 0 && asked > 0 && cost.is_peek() {
            // Nothing was to be had: the wait is that for one.
            let one = self.aside(|subject| subject.rate_limit(key, Cost::ONE, now));
            seen.insert("retry_after_ns", one["retry_after_ns"].clone());
        }
        seen.insert("allowed", allowed.into());
        seen
    }

    fn allow_every(&mut self, step: &Map<String, Value>, cost: Cost, now: Timestamp) -> Result<Seen, Stop> {
        let (every, until) =
            (number(step, "every_ns")?, MIDNIGHT + Duration::from_nanos(number(step, "until_ns")?));
        let (mut passed, mut at) = (0_u64, now);
        while at <= until {
            passed += u64::from(self.take("", cost, at)["ok"] == true);
            at = at + Duration::from_nanos(every);
        }
        let expect = &step["expect"];
        let within = expect["ok_count_min"].as_f64() <= Some(passed as f64)
            && Some(passed as f64) <= expect["ok_count_max"].as_f64();
        // A range cannot be seen, only met: where it is met, what is seen is what is expected.
        let seen = |bound: &str| if within { expect[bound].clone() } else { passed.into() };
        Ok(Seen::from([("ok_count_min", seen("ok_count_min")), ("ok_count_max", seen("ok_count_max"))]))
    }

    fn inspect(&mut self, key: &str, step: &Map<String, Value>, now: Timestamp) -> Result<Seen, Stop> {
        if step["expect"].get("states").is_some() {
            return skip("the parts of a permit inside a state");
        }
        let level = self.level(key, step, now);
        let one = zero_when_admitted(self.aside(|subject| subject.take(key, Cost::ONE, now)));
        Ok(Seen::from([("available", level.into()), ("wait_for_one_ns", one["wait_ns"].clone())]))
    }

    fn reserve(&mut self, step: &Map<String, Value>, cost: Cost, now: Timestamp) -> Result<Seen, Stop> {
        if step.get("cancelled_before").is_some() {
            // Given up before it was asked: nothing reaches us.
            return Ok(Seen::from([("ok", false.into()), ("reason", "cancelled".into())]));
        }
        if self.params.get("timeout_ns") == Some(&Value::from(0)) {
            let mut seen = zero_when_admitted(self.take("", cost, now));
            if seen["ok"] == false {
                seen.insert("wait_ns", Value::Null); // not within a timeout of zero
            }
            return Ok(seen);
        }
        let longest = step.get("max_wait_ns").and_then(Value::as_u64);
        // A deadline is an instant, as that of a cancellation is.
        let deadline = step.get("deadline_ns").map(|_| number(step, "deadline_ns")).transpose()?;
        let until_deadline = deadline.map(|at| (MIDNIGHT + Duration::from_nanos(at)).since(now));
        let longest = longest.map(Duration::from_nanos).into_iter().chain(until_deadline).min();
        let is_over = deadline.is_some_and(|at| MIDNIGHT + Duration::from_nanos(at) < now);
        if is_over {
            return Ok(Seen::from([
                ("ok", false.into()),
                ("wait_ns", 0.into()),
                ("reason", "deadline".into()),
            ]));
        }
        let max_wait = longest.unwrap_or(Duration::MAX);
        let mut answers = Vec::new();
        for (quota, state) in self.quotas.clone().iter().zip(self.states("").iter_mut()) {
            let (Step::Word(algorithm), State::Word(word)) = (quota.step(), state) else {
                return skip("reservations of intervals");
            };
            let reservation = algorithm.promise(*word, cost, max_wait, now);
            *word = reservation.word;
            answers.push((reservation.granted, reservation.act_at));
        }
        // Vectors of several quotas here say that all of them answer alike.
        let (granted, act_at) = answers[0];
        if answers.iter().any(|answer| *answer != answers[0]) {
            return Err(Stop::Broken(format!("not alike: {answers:?}")));
        }
        if granted && let Some(handle) = step.get("handle").and_then(Value::as_str) {
            self.reserved.insert(handle.to_owned(), (cost.permits(), act_at));
        }
        if let (true, Some(cancel_at)) = (granted, step.get("cancel_at_ns").and_then(Value::as_u64)) {
            let at = MIDNIGHT + Duration::from_nanos(cancel_at);
            if act_at > at {
                self.each("", |quota, state| quota.give_back(state, cost, at));
                return Ok(Seen::from([
                    ("ok", false.into()),
                    ("reason", "cancelled".into()),
                    ("returned_at_ns", cancel_at.into()),
                ]));
            }
        }
        let wait_ns = if granted { act_at.since(now).as_nanos() as u64 } else { 0 };
        let act_at_ns = act_at.since(MIDNIGHT).as_nanos() as u64;
        let mut seen = Seen::from([("ok", granted.into()), ("wait_ns", wait_ns.into())]);
        if granted {
            seen.extend([("act_at_ns", act_at_ns.into()), ("at_ns", act_at_ns.into())]);
        } else {
            let reason = if act_at == Timestamp::NEVER { "exceeds_burst" } else { "deadline" };
            seen.insert("reason", reason.into());
        }
        Ok(seen)
    }

    fn change(&mut self, step: &Map<String, Value>, now: Timestamp) -> Result<Seen, Stop> {
        let how = match step.get("inheritance").and_then(Value::as_str) {
            None => Inherit::Taken,
            Some("ADDITIVE") => Inherit::Additive,
            Some("AS_IS") => Inherit::AsIs,
            Some("PROPORTIONALLY") => Inherit::Proportional,
            Some("RESET") => Inherit::Reset,
            Some(other) => {
                return Err(Stop::Skip(format!("counts that a change of the quota inherits {other}")));
            }
        };
        let _ = self.states(""); // begins the key at its creation
        let [old] = self.quotas.as_slice() else { return skip("a change of several quotas at once") };
        let new = quotas::changed(old, step)?;
        if how == Inherit::Taken && new.shape() != old.shape() {
            return skip("counts that go from one kind of refill to another");
        }
        let new = if new.counts_as(old) { new.migrated_from(old, now) } else { new };
        for state in self.keys.values_mut().flatten() {
            *state = new.inherit(state.clone(), old, how, now);
        }
        self.quotas = vec![new];
        Ok(Seen::new())
    }

    fn evict_idle(&mut self, now: Timestamp) -> Result<Seen, Stop> {
        let mut left = Vec::new();
        for key in self.keys.keys().cloned().collect::<Vec<_>>() {
            if self.peek(&key, now).iter().any(|decision| !decision.reset_after().is_zero()) {
                left.push(key);
            }
        }
        left.sort();
        Ok(Seen::from([("keys_left", left.into())]))
    }

    /// Plays callers that each wait for one quota after another, and counts those that were through before
    /// `end_ns`.
    fn count_taken_before(&mut self, end_ns: u64) -> Result<Seen, Stop> {
        let mut states: Vec<_> = self.quotas.iter().map(Quota::fresh).collect();
        let mut reserve = |which: usize, at_ns: u64| {
            let (Step::Word(algorithm), State::Word(word)) = (self.quotas[which].step(), &mut states[which])
            else {
                return u64::MAX;
            };
            let now = MIDNIGHT + Duration::from_nanos(at_ns);
            let reservation = algorithm.promise(*word, Cost::ONE, Duration::MAX, now);
            *word = reservation.word;
            reservation.act_at.since(MIDNIGHT).as_nanos() as u64
        };
        let mut count = 0_u64;
        if let Some(takes) = self.params.get("single_takes_at_ns").and_then(Value::as_array) {
            for at_ns in takes.iter().filter_map(Value::as_u64) {
                count += u64::from(reserve(0, at_ns) < end_ns);
            }
            return Ok(Seen::from([("count", count.into())]));
        }
        if self.quotas.len() != 2 {
            return skip("callers that take from other than one limiter, or two in turn");
        }
        // One caller takes slow, then fast; from 2 s on two more take only fast. (when, takes slow, is at
        // fast)
        let mut callers = [(0, true, false), (2_000_000_000, false, true), (2_000_000_000, false, true)];
        while let Some(next) = callers.iter_mut().filter(|(at, ..)| *at < end_ns).min_by_key(|(at, ..)| *at) {
            let (at, takes_slow, is_at_fast) = *next;
            let through = reserve(usize::from(is_at_fast), at);
            count += u64::from(is_at_fast && through < end_ns);
            *next = (through, takes_slow, !takes_slow || !is_at_fast);
        }
        Ok(Seen::from([("count", count.into())]))
    }

    /// A decision over windows that hold `counts` already.
    fn admit_with_counts(
        &mut self,
        step: &Map<String, Value>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Seen, Stop> {
        let counts = step.get("counts").and_then(Value::as_array).ok_or_else(|| lacks("counts"))?;
        if counts.len() != self.quotas.len() {
            return Err(lacks("counts"));
        }
        self.keys.clear();
        for (turn, count) in counts.iter().filter_map(Value::as_u64).enumerate() {
            let quota = self.quotas[turn].clone();
            let _ = quota.charge(&mut self.states("")[turn], Cost(count), now);
        }
        let decisions = self.each("", |quota, state| quota.take(state, cost, now));
        let failing = decisions.iter().position(|decision| !decision.is_admitted());
        Ok(Seen::from([("ok", failing.is_none().into()), ("failing_rate_index", failing.into())]))
    }

    /// What is there, in permits; below zero what is owed.
    fn level(&mut self, key: &str, step: &Map<String, Value>, now: Timestamp) -> i64 {
        let remaining = self.remaining(key, now);
        let expected =
            step.get("expect").and_then(|expect| expect.get("available_after").or(expect.get("available")));
        if remaining > 0 || !(expected.is_none() || expected.and_then(Value::as_i64) < Some(0)) {
            return i64::try_from(remaining).unwrap_or(i64::MAX);
        }
        // Owed is one less than what must be given back to have one.
        let has_one_after = |subject: &mut Self, permits: u64| {
            subject.aside(|subject| {
                subject.each(key, |quota, state| quota.give_back(state, Cost(permits), now));
                subject.remaining(key, now) > 0
            })
        };
        let owed = (0..100_000).find(|&owed| has_one_after(self, owed + 1)).unwrap_or(0);
        -i64::try_from(owed).unwrap_or(0)
    }

    fn remaining(&mut self, key: &str, now: Timestamp) -> u64 {
        self.peek(key, now).iter().map(Decision::remaining).min().unwrap_or(0)
    }

    fn peek(&mut self, key: &str, now: Timestamp) -> Vec<Decision> {
        self.each(key, |quota, state| quota.take(state, Cost::PEEK, now))
    }

    /// Does what leaves no trace.
    fn aside<T>(&mut self, what: impl FnOnce(&mut Self) -> T) -> T {
        let keys = self.keys.clone();
        let seen = what(self);
        self.keys = keys;
        seen
    }

    fn each(&mut self, key: &str, step: impl Fn(&Quota, &mut State) -> Decision) -> Vec<Decision> {
        let quotas = self.quotas.clone();
        let states = self.states(key);
        quotas.iter().zip(states).map(|(quota, state)| step(quota, state)).collect()
    }

    /// The states of a key; a new key began to fill when the vector's limiter was created.
    fn states(&mut self, key: &str) -> &mut Vec<State> {
        let (quotas, created) = (&self.quotas, self.created);
        self.keys.entry(key.to_owned()).or_insert_with(|| {
            let born = |quota: &Quota| {
                let mut state = quota.fresh();
                let burst = match quota.algorithm() {
                    tollgate_core::Algorithm::TokenBucket { burst, .. } => burst.unwrap_or(quota.limit()),
                    _ => return state,
                };
                if quota.take(&mut state.clone(), Cost::PEEK, created).remaining() < burst {
                    // Denied, and remembered as its birth.
                    let _ = quota.take(&mut state, Cost(burst), created);
                }
                state
            };
            quotas.iter().map(born).collect()
        })
    }
}

/// The file says 0 for the wait of what is admitted, where it asks for waits.
fn zero_when_admitted(mut seen: Seen) -> Seen {
    if seen["ok"] == true {
        seen.insert("wait_ns", 0.into());
    }
    seen
}
