//! The limiters of a vector, and what each operation of the file is in their public calls.

mod waiting;

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Map, Value};
use tollgate::{
    Algorithm, Clock as _, Decision, Inherit, ManualClock, Period, RateLimiter, Refill, Reservation,
    RetryAfter, Timestamp, check_all,
};
use tollgate_core::Quota;

use super::case::{Seen, Stop, Vector, text};
use super::quotas::{self, lacks, number, skip};
use crate::table::MIDNIGHT;

/// What a step may say. One that says more means something that we would not look at.
const KNOWN: [&str; 21] = [
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
    "tasks",
    "timeout_us",
];

type Limiter = RateLimiter<ManualClock>;

pub(super) struct Subject {
    /// What each limiter counts by.
    quotas: Vec<Quota>,
    clock: ManualClock,
    /// One limiter for each quota, by key; most vectors have one key without a name.
    keys: HashMap<String, Vec<Limiter>>,
    /// Reservations by handle.
    reserved: HashMap<String, Vec<Reservation>>,
    params: Map<String, Value>,
    created: Timestamp,
    /// What the step in play expects.
    expected: Map<String, Value>,
}

fn instant(ns: u64) -> Timestamp {
    MIDNIGHT + Duration::from_nanos(ns)
}

fn since_midnight_ns(at: Timestamp) -> u64 {
    at.since(MIDNIGHT).as_nanos() as u64
}

impl Subject {
    pub(super) fn new(vector: &Vector) -> Result<Self, Stop> {
        let created = instant(vector.params.get("created_at_ns").and_then(Value::as_u64).unwrap_or(0));
        let quotas = quotas::of(vector)?;
        if quotas.is_empty() {
            return skip("a limiter without a quota");
        }
        let clock = ManualClock::at(created);
        let params = vector.params.clone();
        let (keys, reserved, expected) = (HashMap::new(), HashMap::new(), Map::new());
        let mut subject = Self { quotas, clock, keys, reserved, params, created, expected };
        if !vector.algorithm.ends_with("_keyed") {
            let _ = subject.limiters("")?;
        }
        if let (Some(current), Some(previous)) =
            (vector.params.get("current_count"), vector.params.get("previous_count"))
        {
            let window = number(&vector.params, "window_ns")?;
            for (count, at) in [(previous, MIDNIGHT), (current, instant(window))] {
                subject.clock.set(at);
                let count = count.as_u64().ok_or_else(|| lacks("current_count"))?;
                subject.each("", |limiter| limiter.penalise(count))?;
            }
        }
        Ok(subject)
    }

    /// Does one step; what it answered.
    pub(super) fn step(&mut self, step: &Map<String, Value>) -> Result<Seen, Stop> {
        if let Some(name) = step.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            return Err(Stop::Skip(format!("`{name}` of `{}`", text(step, "op"))));
        }
        let now = instant(number(step, "t_ns")?);
        self.clock.set(now);
        self.expected = step.get("expect").and_then(Value::as_object).cloned().unwrap_or_default();
        let n = step.get("n").and_then(Value::as_u64).unwrap_or(u64::MAX);
        let key = text(step, "key").to_owned();
        match text(step, "op") {
            "try_acquire" if step.contains_key("timeout_us") => self.try_acquire(step, n),
            "allow" | "try_consume" | "try_wait" | "try_acquire" | "check" | "check_key" | "hit" | "call" => {
                self.take(&key, n)
            }
            "try_consume_probe" => Ok(zero_when_admitted(self.take(&key, n)?)),
            "test" => self.aside(|subject| subject.test(&key, n)),
            "estimate" | "delay_for" => self.aside(|subject| Ok(zero_when_admitted(subject.take(&key, n)?))),
            "poll_ready" => {
                let seen = self.aside(|subject| subject.take(&key, 1))?;
                Ok(Seen::from([("ready", seen["ok"].clone())]))
            }
            "rate_limit" => self.rate_limit(&key, n),
            "allow_n" => self.allow(&key, n, n),
            "allow_at_most" => {
                let most = self.remaining(&key)?.min(n);
                self.allow(&key, most, n)
            }
            "allow_many" => {
                let mut passed = 0_u64;
                for _ in 0..number(step, "count")? {
                    passed += u64::from(self.take(&key, n)?["ok"] == true);
                }
                Ok(Seen::from([("ok_count", passed.into())]))
            }
            "allow_every" => self.allow_every(step, n, now),
            "available" | "remaining" => {
                let level = self.level(&key)?;
                Ok(Seen::from([("available", level.into()), ("remaining", level.into())]))
            }
            "inspect" => self.inspect(&key, step),
            "full_refill_time" => {
                let reset = self.each(&key, |limiter| limiter.peek().reset_after().as_nanos() as u64)?;
                Ok(Seen::from([("wait_ns", reset.into_iter().max().into())]))
            }
            "consume_as_much" => {
                let granted = match &self.limiters(&key)?[..] {
                    [only] => only.take_at_most(n),
                    _ => return skip("as much as there is of several limiters at once"),
                };
                Ok(Seen::from([("granted", granted.into())]))
            }
            "consume_ignoring_limits" => {
                self.each(&key, |limiter| limiter.penalise(n))?;
                let waits = self.each(&key, |limiter| wait_ns(limiter.peek().retry_after()).unwrap_or(0))?;
                let level = self.level(&key)?;
                let violation = waits.into_iter().max();
                Ok(Seen::from([("violation_ns", violation.into()), ("available_after", level.into())]))
            }
            "add_tokens" => {
                self.each(&key, |limiter| limiter.give_back(n))?;
                let level = self.level(&key)?;
                Ok(Seen::from([("available_after", level.into())]))
            }
            "force_add_tokens" => skip("permits above the burst"),
            "acquire_begin" => {
                let seen = self.reserve(step, n, now)?;
                let is_pending = seen["ok"] == true && seen["wait_ns"] != 0;
                Ok(Seen::from([("pending", is_pending.into())]))
            }
            "acquire_total" => self.acquire_total(n, now),
            "acquire_begin_many" if self.params.contains_key("timeout_ns") => self.acquire_many(step, n, now),
            "reserve" | "consume_blocking" | "wait" | "take" | "acquire" => self.reserve(step, n, now),
            "cancel" | "drop_waiter" => {
                for reservation in self.reserved.remove(text(step, "handle")).unwrap_or_default() {
                    // Only what has not begun can be given back.
                    if reservation.act_at() >= now {
                        reservation.cancel();
                    } else {
                        let permits = reservation.permits();
                        reservation.commit(permits);
                    }
                }
                Ok(Seen::new())
            }
            "set_rate" | "set_burst" | "replace_config" => self.change(step),
            "evict_idle" => self.evict_idle(),
            "count_taken_before" => self.count_taken_before(number(step, "t_ns")?),
            "admit" => self.admit_with_counts(step, n),
            other => Err(Stop::Skip(format!("no such operation: {other}"))),
        }
    }

    /// All or nothing over every limiter.
    fn take(&mut self, key: &str, n: u64) -> Result<Seen, Stop> {
        let tokens_before =
            if self.expected.contains_key("tokens_before") { Some(self.level(key)?) } else { None };
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
        let mut seen = Seen::from([
            ("ok", ok.into()),
            ("remaining", remaining.into()),
            ("wait_ns", wait.and_then(wait_ns).into()),
            ("tokens_before", tokens_before.into()),
        ]);
        if decisions.iter().any(Decision::never_fits) {
            seen.insert("reason", "exceeds_capacity".into());
        }
        Ok(seen)
    }

    fn test(&mut self, key: &str, n: u64) -> Result<Seen, Stop> {
        let limit: u64 = self.quotas.iter().map(Quota::limit).sum();
        let weighted = limit - self.remaining(key)?.min(limit);
        let mut seen = self.take(key, n)?;
        seen.insert("weighted", weighted.into());
        Ok(seen)
    }

    fn rate_limit(&mut self, key: &str, n: u64) -> Result<Seen, Stop> {
        let decision = check(self.only(key)?, n);
        let retry = if decision.is_admitted() { None } else { wait_ns(decision.retry_after()) };
        Ok(Seen::from([
            ("limited", (!decision.is_admitted()).into()),
            ("limit", self.params.get("burst").cloned().unwrap_or_default()),
            ("remaining", decision.remaining().into()),
            ("reset_after_ns", (decision.reset_after().as_nanos() as u64).into()),
            ("retry_after_ns", retry.into()),
        ]))
    }

    fn allow(&mut self, key: &str, n: u64, asked: u64) -> Result<Seen, Stop> {
        let mut seen = self.rate_limit(key, n)?;
        let allowed = if seen["limited"] == true { 0 } else { n };
        if allowed == 0 && asked > 0 && n == 0 {
            // Nothing was to be had: the wait is that for one.
            let one = self.aside(|subject| subject.rate_limit(key, 1))?;
            seen.insert("retry_after_ns", one["retry_after_ns"].clone());
        }
        seen.insert("allowed", allowed.into());
        Ok(seen)
    }

    fn allow_every(&mut self, step: &Map<String, Value>, n: u64, now: Timestamp) -> Result<Seen, Stop> {
        let every = Duration::from_nanos(number(step, "every_ns")?);
        let until = instant(number(step, "until_ns")?);
        let (mut passed, mut at) = (0_u64, now);
        while at <= until {
            self.clock.set(at);
            passed += u64::from(self.take("", n)?["ok"] == true);
            at = at + every;
        }
        let expect = &step["expect"];
        let within = expect["ok_count_min"].as_f64() <= Some(passed as f64)
            && Some(passed as f64) <= expect["ok_count_max"].as_f64();
        // A range cannot be seen, only met: where it is met, what is seen is what is expected.
        let seen = |bound: &str| if within { expect[bound].clone() } else { passed.into() };
        Ok(Seen::from([("ok_count_min", seen("ok_count_min")), ("ok_count_max", seen("ok_count_max"))]))
    }

    fn inspect(&mut self, key: &str, step: &Map<String, Value>) -> Result<Seen, Stop> {
        if step["expect"].get("states").is_some() {
            return skip("the parts of a permit inside a state");
        }
        let level = self.level(key)?;
        let one = zero_when_admitted(self.aside(|subject| subject.take(key, 1))?);
        Ok(Seen::from([("available", level.into()), ("wait_for_one_ns", one["wait_ns"].clone())]))
    }

    fn change(&mut self, step: &Map<String, Value>) -> Result<Seen, Stop> {
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
        let [old] = self.quotas.as_slice() else { return skip("a change of several quotas at once") };
        let new = quotas::changed(old, &self.params, step)?;
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
        Ok(Seen::new())
    }

    fn evict_idle(&mut self) -> Result<Seen, Stop> {
        let says_something = |limiter: &Limiter| !limiter.peek().reset_after().is_zero();
        let keys = self.keys.iter().filter(|(_, limiters)| limiters.iter().any(says_something));
        let mut left: Vec<_> = keys.map(|(key, _)| key.clone()).collect();
        left.sort();
        Ok(Seen::from([("keys_left", left.into())]))
    }

    /// A decision over windows that hold `counts` already.
    fn admit_with_counts(&mut self, step: &Map<String, Value>, n: u64) -> Result<Seen, Stop> {
        let counts = step.get("counts").and_then(Value::as_array).ok_or_else(|| lacks("counts"))?;
        if counts.len() != self.quotas.len() {
            return Err(lacks("counts"));
        }
        self.keys.clear();
        let limiters = self.limiters("")?;
        for (limiter, count) in limiters.iter().zip(counts.iter().filter_map(Value::as_u64)) {
            limiter.penalise(count);
        }
        let asked: Vec<_> = limiters.iter().map(|limiter| limiter.request(n)).collect();
        let failing = check_all(&asked).err().map(|denied| denied.index);
        Ok(Seen::from([("ok", failing.is_none().into()), ("failing_rate_index", failing.into())]))
    }

    /// What is there, in permits; below zero what is owed.
    fn level(&mut self, key: &str) -> Result<i64, Stop> {
        let remaining = self.remaining(key)?;
        let names = ["tokens_before", "available_after", "available"];
        let expected = names.iter().find_map(|name| self.expected.get(*name)).and_then(Value::as_i64);
        if remaining > 0 || expected >= Some(0) {
            return Ok(i64::try_from(remaining).unwrap_or(i64::MAX));
        }
        if self.limiters(key)?.iter().any(|limiter| limiter.waiting() > 0) {
            return self.level_by_time(key);
        }
        // Owed is one less than what must be given back to have one.
        let has_one_after = |subject: &mut Self, permits: u64| {
            subject.aside(|subject| {
                subject.each(key, |limiter| limiter.give_back(permits))?;
                Ok(subject.remaining(key)? > 0)
            })
        };
        for owed in 0..100_000 {
            if has_one_after(self, owed + 1)? {
                return Ok(-i64::try_from(owed).unwrap_or(0));
            }
        }
        Ok(0)
    }

    /// The same of a bucket, by how long it takes to fill: what waiters have reserved is owed.
    fn level_by_time(&mut self, key: &str) -> Result<i64, Stop> {
        let [quota] = &self.quotas[..] else { return skip("what several limiters owe to waiters") };
        let (Algorithm::TokenBucket { refill: Refill::Continuous, .. }, Period::Span(period)) =
            (quota.algorithm(), quota.period())
        else {
            return skip("what is owed to waiters by what is no bucket");
        };
        let (limit, burst, period_ns) = (u128::from(quota.limit()), quota.burst(), period.as_nanos());
        let missing = self.only(key)?.peek().reset_after().as_nanos() * limit / period_ns;
        Ok(i64::try_from(i128::from(burst) - missing as i128).unwrap_or(i64::MIN))
    }

    fn remaining(&mut self, key: &str) -> Result<u64, Stop> {
        let remaining = self.each(key, |limiter| limiter.peek().remaining())?;
        Ok(remaining.into_iter().min().unwrap_or(0))
    }

    /// Does what leaves no trace.
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

/// The file says 0 for the wait of what is admitted, where it asks for waits.
fn zero_when_admitted(mut seen: Seen) -> Seen {
    if seen["ok"] == true {
        seen.insert("wait_ns", 0.into());
    }
    seen
}
