//! The limiters of a vector, and the public calls for each operation of the file.

mod waiting;

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use tollgate::{
    Algorithm, Clock as _, Decision, Inherit, ManualClock, Period, RateLimiter, Refill, Reservation,
    RetryAfter, Timestamp, check_all,
};
use tollgate_core::Quota;

use super::case::{Fields, MOST_CALLS, PATIENCE, StepAnswer, Stop, Vector, lacks, skip};
use super::quotas::{self, instant};
use crate::table::MIDNIGHT;

const MOST_KEYS: usize = 100_000;

type Limiter = RateLimiter<ManualClock>;

pub(super) struct Subject<'v> {
    /// Quotas of the limiters, one each.
    quotas: Vec<Quota>,
    clock: ManualClock,
    /// When the vector begins.
    began: Timestamp,
    /// One limiter for each quota, by key; most vectors have one key without a name.
    keys: HashMap<String, Vec<Limiter>>,
    /// Reservations by handle.
    reserved: HashMap<String, Vec<Reservation>>,
    /// Promises of windows: when, and how many permits.
    promised: Vec<(Timestamp, u64)>,
    vector: &'v Vector,
    created: Timestamp,
    /// Expected answer of the step in play.
    expected: Value,
}

impl<'v> Subject<'v> {
    pub(super) fn new(vector: &'v Vector) -> Result<Self, Stop> {
        let quotas = quotas::of(vector)?;
        if quotas.is_empty() {
            return skip("a limiter without a quota");
        }
        // Windows that begin at multiples of their length do so at the beginning of the vector.
        let grid = quotas::grid(&quotas);
        let began = Timestamp::from_nanos(MIDNIGHT.as_nanos().next_multiple_of(grid));
        let created = instant(began, vector.params.maybe_number("created_at_ns")?.unwrap_or(0))?;
        let mut subject = Self {
            quotas,
            clock: ManualClock::at(created),
            began,
            keys: HashMap::new(),
            reserved: HashMap::new(),
            promised: Vec::new(),
            vector,
            created,
            expected: Value::Null,
        };
        if !vector.algorithm.ends_with("_keyed") {
            let _ = subject.limiters("")?;
        }
        let counts =
            (vector.params.maybe_number("current_count")?, vector.params.maybe_number("previous_count")?);
        match counts {
            (None, None) => {}
            (Some(current), Some(previous)) => {
                let window = vector.params.number("window_ns")?;
                for (count, ns) in [(previous, 0), (current, window)] {
                    subject.clock.set(subject.at(ns)?);
                    subject.each("", |limiter| limiter.penalise(count))?;
                }
            }
            _ => return skip("the count of one window of two"),
        }
        Ok(subject)
    }

    /// The instant so long after the beginning of the vector.
    fn at(&self, ns: u64) -> Result<Timestamp, Stop> {
        instant(self.began, ns)
    }

    fn ns_of(&self, at: Timestamp) -> u64 {
        at.since(self.began).as_nanos() as u64
    }

    fn params(&self) -> &'v Fields {
        &self.vector.params
    }

    /// Plays one step, and returns its answers.
    pub(super) fn step(&mut self, step: &Fields, op: &str) -> Result<StepAnswer, Stop> {
        let now = self.at(step.number("t_ns")?)?;
        self.clock.set(now);
        self.expected = step.get("expect").cloned().unwrap_or_default();
        let key = step.text("key")?.to_owned();
        let n = || step.number("n");
        match op {
            "try_acquire" if step.has("timeout_us") => self.try_acquire(step, n()?),
            "allow" | "try_consume" | "try_wait" | "try_acquire" | "check" | "check_key" | "hit" | "call" => {
                self.take(&key, n()?)
            }
            "try_consume_probe" => Ok(zero_when_admitted(self.take(&key, n()?)?)),
            "test" => {
                let n = n()?;
                self.aside(|subject| subject.test(&key, n))
            }
            "estimate" | "delay_for" => {
                let n = n()?;
                self.aside(|subject| Ok(zero_when_admitted(subject.take(&key, n)?)))
            }
            "poll_ready" => {
                let seen = self.aside(|subject| subject.take(&key, 1))?;
                Ok(StepAnswer::from([("ready", seen["ok"].clone())]))
            }
            "rate_limit" => self.rate_limit(&key, n()?),
            "allow_n" => self.allow(&key, n()?, n()?),
            "allow_at_most" => {
                let most = self.remaining(&key)?.min(n()?);
                self.allow(&key, most, n()?)
            }
            "allow_many" => self.allow_many(&key, n()?, step.calls("count")?),
            "allow_every" => self.allow_every(step, n()?, now),
            "available" | "remaining" => {
                let level = self.level(&key)?;
                Ok(StepAnswer::from([("available", level.into()), ("remaining", level.into())]))
            }
            "inspect" => self.inspect(&key),
            "full_refill_time" => {
                let reset = self.each(&key, |limiter| limiter.peek().reset_after().as_nanos() as u64)?;
                Ok(StepAnswer::from([("wait_ns", reset.into_iter().max().into())]))
            }
            "consume_as_much" => self.consume_as_much(&key, step.maybe_number("n")?),
            "consume_ignoring_limits" => self.consume_ignoring_limits(&key, n()?),
            "add_tokens" => {
                let n = n()?;
                self.each(&key, |limiter| limiter.give_back(n))?;
                let level = self.level(&key)?;
                Ok(StepAnswer::from([("available_after", level.into())]))
            }
            "force_add_tokens" => skip("permits above the burst"),
            "acquire_begin" => {
                let seen = self.reserve(step, n()?, now)?;
                let is_pending = seen["ok"] == true && seen["wait_ns"] != 0;
                Ok(StepAnswer::from([("pending", is_pending.into())]))
            }
            "acquire_total" => self.acquire_total(step, now),
            "acquire_begin_many" if self.params().has("timeout_ns") => self.acquire_many(step, n()?, now),
            "acquire_begin_many" => skip("callers that wait behind one that is never served"),
            "reserve" if self.takes_one_by_one() => self.one_by_one(step, now),
            "reserve" | "consume_blocking" | "wait" | "take" | "acquire" => self.reserve(step, n()?, now),
            "cancel" | "drop_waiter" => self.cancel(step.text("handle")?, now),
            "set_rate" | "set_burst" | "replace_config" => self.change(step),
            "evict_idle" => {
                step.is("fresh_run", true)?; // as if no step before had looked: ours looks at nothing
                self.evict_idle()
            }
            "count_taken_before" => self.count_taken_before(step.number("t_ns")?),
            "admit" => self.admit_with_counts(step, n()?),
            other => skip(format!("no such operation: {other}")),
        }
    }

    fn allow_many(&mut self, key: &str, n: u64, calls: u64) -> Result<StepAnswer, Stop> {
        let mut passed = 0_u64;
        for _ in 0..calls {
            passed += u64::from(self.take(key, n)?["ok"] == true);
        }
        Ok(StepAnswer::from([("ok_count", passed.into())]))
    }

    /// Without a number, all that there is.
    fn consume_as_much(&mut self, key: &str, most: Option<u64>) -> Result<StepAnswer, Stop> {
        let most = most.unwrap_or(u64::MAX);
        let granted = match &self.limiters(key)?[..] {
            [only] => only.take_at_most(most),
            _ => return skip("as much as there is of several limiters at once"),
        };
        Ok(StepAnswer::from([("granted", granted.into())]))
    }

    fn consume_ignoring_limits(&mut self, key: &str, n: u64) -> Result<StepAnswer, Stop> {
        self.each(key, |limiter| limiter.penalise(n))?;
        let waits = self.each(key, |limiter| wait_ns(limiter.peek().retry_after()).unwrap_or(0))?;
        let level = self.level(key)?;
        let violation = waits.into_iter().max();
        Ok(StepAnswer::from([("violation_ns", violation.into()), ("available_after", level.into())]))
    }

    fn cancel(&mut self, handle: &str, now: Timestamp) -> Result<StepAnswer, Stop> {
        let Some(reservations) = self.reserved.remove(handle) else {
            return skip(format!("a handle that names nothing: {handle:?}"));
        };
        for reservation in reservations {
            // Only what has not begun can be given back.
            if reservation.act_at() >= now {
                reservation.cancel();
            } else {
                let permits = reservation.permits();
                reservation.commit(permits);
            }
        }
        Ok(StepAnswer::new())
    }

    /// All or nothing over every limiter.
    fn take(&mut self, key: &str, n: u64) -> Result<StepAnswer, Stop> {
        let tokens_before =
            if self.expected.get("tokens_before").is_some() { Some(self.level(key)?) } else { None };
        let limiters = self.limiters(key)?.clone();
        let (decisions, ok) = match &limiters[..] {
            [only] => {
                let decision = check(only, n);
                (vec![decision], decision.is_admitted())
            }
            _ => {
                let asked: Vec<_> = limiters.iter().map(|limiter| limiter.request(n)).collect();
                match check_all(&asked) {
                    Ok(()) => (Vec::new(), true),
                    Err(_) => (self.aside(|subject| subject.each(key, |limiter| check(limiter, n)))?, false),
                }
            }
        };
        let remaining = self.remaining(key)?;
        let wait = decisions.iter().map(Decision::retry_after).max();
        let mut seen = StepAnswer::from([
            ("ok", ok.into()),
            ("remaining", remaining.into()),
            ("wait_ns", wait.and_then(wait_ns).into()),
            ("tokens_before", tokens_before.into()),
        ]);
        if decisions.iter().any(Decision::never_fits) {
            seen.insert("reason", "exceeds_capacity");
        }
        Ok(seen)
    }

    fn test(&mut self, key: &str, n: u64) -> Result<StepAnswer, Stop> {
        let limit = self.quotas.iter().map(Quota::limit).fold(0, u64::saturating_add);
        let weighted = limit - self.remaining(key)?.min(limit);
        let mut seen = self.take(key, n)?;
        seen.insert("weighted", weighted);
        Ok(seen)
    }

    fn rate_limit(&mut self, key: &str, n: u64) -> Result<StepAnswer, Stop> {
        let decision = check(self.only(key)?, n);
        let retry = if decision.is_admitted() { None } else { wait_ns(decision.retry_after()) };
        Ok(StepAnswer::from([
            ("limited", (!decision.is_admitted()).into()),
            ("limit", self.params().get("burst").cloned().unwrap_or_default()),
            ("remaining", decision.remaining().into()),
            ("reset_after_ns", (decision.reset_after().as_nanos() as u64).into()),
            ("retry_after_ns", retry.into()),
        ]))
    }

    fn allow(&mut self, key: &str, n: u64, asked: u64) -> Result<StepAnswer, Stop> {
        let mut seen = self.rate_limit(key, n)?;
        let allowed = if seen["limited"] == true { 0 } else { n };
        if allowed == 0 && asked > 0 && n == 0 {
            // Nothing was to be had: the wait is that for one.
            let one = self.aside(|subject| subject.rate_limit(key, 1))?;
            seen.insert("retry_after_ns", one["retry_after_ns"].clone());
        }
        seen.insert("allowed", allowed);
        Ok(seen)
    }

    fn allow_every(&mut self, step: &Fields, n: u64, now: Timestamp) -> Result<StepAnswer, Stop> {
        let every = Duration::from_nanos(step.number("every_ns")?);
        let until = self.at(step.number("until_ns")?)?;
        if until.since(now).as_nanos() / every.as_nanos().max(1) > u128::from(MOST_CALLS) || every.is_zero() {
            return skip("more than a million calls in one step");
        }
        let mut passed = 0_u64;
        let mut at = now;
        while at <= until {
            self.clock.set(at);
            passed += u64::from(self.take("", n)?["ok"] == true);
            at = at + every;
        }
        // A range cannot be observed directly: where the answer is within the expected bound, the bound
        // itself is recorded.
        let bound = |name: &str, is_met: fn(f64, f64) -> bool| match self.expected.get(name) {
            Some(bound) if bound.as_f64().is_some_and(|bound| is_met(passed as f64, bound)) => bound.clone(),
            _ => passed.into(),
        };
        Ok(StepAnswer::from([
            ("ok_count_min", bound("ok_count_min", |passed, min| passed >= min)),
            ("ok_count_max", bound("ok_count_max", |passed, max| passed <= max)),
        ]))
    }

    fn inspect(&mut self, key: &str) -> Result<StepAnswer, Stop> {
        if self.expected.get("states").is_some() {
            return skip("the parts of a permit inside a state");
        }
        let level = self.level(key)?;
        let wait_for_one = match self.only(key)? {
            only if only.waiting() > 0 => {
                let Ok(next) = only.reserve(1, PATIENCE) else {
                    return skip("a queue that is full");
                };
                let act_at = next.act_at();
                next.cancel();
                Value::from(act_at.since(self.clock.now()).as_nanos() as u64)
            }
            _ => zero_when_admitted(self.aside(|subject| subject.take(key, 1))?)["wait_ns"].clone(),
        };
        Ok(StepAnswer::from([("available", level.into()), ("wait_for_one_ns", wait_for_one)]))
    }

    fn change(&mut self, step: &Fields) -> Result<StepAnswer, Stop> {
        let how = match step.text("inheritance")? {
            "" => Inherit::Taken,
            "ADDITIVE" => Inherit::Additive,
            "AS_IS" => Inherit::AsIs,
            "PROPORTIONALLY" => Inherit::Proportional,
            "RESET" => Inherit::Reset,
            other => return skip(format!("counts that a change of the quota inherits {other}")),
        };
        let [old] = self.quotas.as_slice() else { return skip("a change of several quotas at once") };
        let new = quotas::changed(old, self.params(), step)?;
        let is_limited = [old, &new].iter().all(|quota| !matches!(quota.algorithm(), Algorithm::Unlimited));
        if how == Inherit::Taken && is_limited && new.shape() != old.shape() {
            return skip("counts that go from one kind of refill to another");
        }
        for limiter in self.keys.values().flatten() {
            limiter
                .reconfigure_as(quotas::of_library(&new), how)
                .map_err(|it| Stop::Broken(it.to_string()))?;
        }
        self.quotas = vec![new];
        Ok(StepAnswer::new())
    }

    fn evict_idle(&mut self) -> Result<StepAnswer, Stop> {
        let says_something = |limiter: &Limiter| !limiter.peek().reset_after().is_zero();
        let keys = self.keys.iter().filter(|(_, limiters)| limiters.iter().any(says_something));
        let mut left: Vec<_> = keys.map(|(key, _)| key.clone()).collect();
        left.sort();
        Ok(StepAnswer::from([("keys_left", left.into())]))
    }

    /// A decision over windows that hold `counts` already.
    fn admit_with_counts(&mut self, step: &Fields, n: u64) -> Result<StepAnswer, Stop> {
        let counts = step.numbers("counts")?.ok_or_else(|| lacks("counts"))?;
        if counts.len() != self.quotas.len() {
            return skip("other than one count for each quota");
        }
        self.keys.clear();
        let limiters = self.limiters("")?;
        for (limiter, count) in limiters.iter().zip(counts) {
            limiter.penalise(count);
        }
        let asked: Vec<_> = limiters.iter().map(|limiter| limiter.request(n)).collect();
        let failing = check_all(&asked).err().map(|denied| denied.index);
        Ok(StepAnswer::from([("ok", failing.is_none().into()), ("failing_rate_index", failing.into())]))
    }

    /// Available permits; below zero, those that are owed.
    fn level(&mut self, key: &str) -> Result<i64, Stop> {
        let remaining = self.remaining(key)?;
        if remaining > 0 {
            return Ok(i64::try_from(remaining).unwrap_or(i64::MAX));
        }
        if !self.promised.is_empty() {
            return Ok(self.owed_by_windows());
        }
        if self.limiters(key)?.iter().any(|limiter| limiter.waiting() > 0) {
            return self.level_by_time(key);
        }
        if self.quotas.iter().any(|quota| matches!(quota.algorithm(), Algorithm::FixedWindow { .. })) {
            return Ok(0); // a window that counts denied takes owes nothing for them
        }
        // Owed is one less than what must be given back to have one.
        let mut has_one_after = |permits: u64| {
            self.aside(|subject| {
                subject.each(key, |limiter| limiter.give_back(permits))?;
                Ok(subject.remaining(key)? > 0)
            })
        };
        let mut too_few = 0;
        let mut enough = 1;
        while !has_one_after(enough)? {
            (too_few, enough) = (enough, enough.saturating_mul(2));
            if enough >= u64::MAX / 2 {
                return skip("what is left of what never holds a permit");
            }
        }
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            if has_one_after(middle)? { enough = middle } else { too_few = middle }
        }
        Ok(-i64::try_from(enough - 1).unwrap_or(i64::MAX))
    }

    /// The same of a bucket, by how long it takes to fill: what waiters have reserved is owed.
    fn level_by_time(&mut self, key: &str) -> Result<i64, Stop> {
        let [quota] = &self.quotas[..] else { return skip("what several limiters owe to waiters") };
        let (Algorithm::TokenBucket { refill: Refill::Continuous, .. }, Period::Span(period)) =
            (quota.algorithm(), quota.period())
        else {
            return skip("what is owed to waiters by what is no bucket");
        };
        let limit = u128::from(quota.limit());
        let burst = quota.burst();
        let period_ns = period.as_nanos();
        let missing = self.only(key)?.peek().reset_after().as_nanos() * limit / period_ns;
        Ok(i64::try_from(i128::from(burst) - missing as i128).unwrap_or(i64::MIN))
    }

    fn remaining(&mut self, key: &str) -> Result<u64, Stop> {
        let remaining = self.each(key, |limiter| limiter.peek().remaining())?;
        Ok(remaining.into_iter().min().unwrap_or(0))
    }

    /// Runs `what` and leaves no trace.
    fn aside<T>(&mut self, what: impl FnOnce(&mut Self) -> Result<T, Stop>) -> Result<T, Stop> {
        let mut before = Vec::new();
        for limiter in self.keys.values().flatten() {
            if limiter.waiting() > 0 {
                return skip("a look at what would be, while callers wait");
            }
            before.push((limiter.clone(), limiter.snapshot()));
        }
        let seen = what(self)?;
        for (limiter, snapshot) in before {
            limiter.restore(&snapshot).map_err(|error| Stop::Broken(error.to_string()))?;
        }
        Ok(seen)
    }

    fn each<T>(&mut self, key: &str, call: impl Fn(&Limiter) -> T) -> Result<Vec<T>, Stop> {
        Ok(self.limiters(key)?.iter().map(call).collect())
    }

    fn only(&mut self, key: &str) -> Result<&Limiter, Stop> {
        match &self.limiters(key)?[..] {
            [only] => Ok(only),
            _ => skip("several quotas, where one is asked"),
        }
    }

    /// The limiters of a key, which were all made when the vector's limiter was.
    fn limiters(&mut self, key: &str) -> Result<&Vec<Limiter>, Stop> {
        if !self.keys.contains_key(key) {
            if self.keys.len() >= MOST_KEYS {
                return skip("more keys than a vector has");
            }
            let now = self.clock.now();
            self.clock.set(self.created);
            let make = |quota| RateLimiter::direct_with_clock(quotas::of_library(quota), self.clock.clone());
            let limiters = self.quotas.iter().map(make).collect::<Result<Vec<_>, _>>();
            self.clock.set(now);
            let limiters = limiters.map_err(|error| Stop::Skip(format!("rejected when made: {error}")))?;
            self.keys.insert(key.to_owned(), limiters);
        }
        self.keys.get(key).ok_or_else(|| lacks("key"))
    }
}

fn check(limiter: &Limiter, n: u64) -> Decision {
    limiter.check_n(n).map_or_else(|denied| denied.decision(), |admitted| admitted.decision())
}

/// `None`: not denied, or for good.
fn wait_ns(retry_after: RetryAfter) -> Option<u64> {
    match retry_after {
        RetryAfter::After(wait) => Some(wait.as_nanos() as u64),
        RetryAfter::Now | RetryAfter::Never => None,
    }
}

/// The file says 0 for the wait of an admitted request, where it asks for waits.
fn zero_when_admitted(mut seen: StepAnswer) -> StepAnswer {
    if seen["ok"] == true {
        seen.insert("wait_ns", 0);
    }
    seen
}
