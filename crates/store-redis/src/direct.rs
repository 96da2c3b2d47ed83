//! A store for tests: each ask is one call over a plain connection, at once. What it shows is the scripts', not the wire's.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::Connection;
use tollgate_core::{Cost, Decision, Quota, Timestamp};
use tollgate_redis_link::Value;
use tollgate_store::{Charge, Inspection, Key, Store, StoreError, StoreName, Take, Verdicts};

use crate::ask::{Answer, Ask, Fault, Kind};
use crate::call::{
    Call, MOST_CALLS, Next, Part, Replied, answers, argument, first, together, together_answers,
};
use crate::config::{HashTag, StoreTime};
use crate::keys::redis_key;
use crate::script::{Step, Swap, each};
use crate::translate::instant;

pub(crate) struct Direct {
    url: String,
    pub(crate) prefix: String,
    pub(crate) time: StoreTime,
    /// Of a batch without `charge: together`, equal keys in a row go as one call.
    pub(crate) merges: bool,
    idle: Mutex<Vec<Connection>>,
}

impl Direct {
    pub(crate) fn new(url: &str, prefix: &str, time: StoreTime) -> Self {
        Self { url: url.into(), prefix: prefix.into(), time, merges: true, idle: Mutex::default() }
    }

    pub(crate) fn with<T>(&self, use_it: impl FnOnce(&mut Connection) -> T) -> T {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection =
            idle.unwrap_or_else(|| redis::Client::open(self.url.as_str()).unwrap().get_connection().unwrap());
        let result = use_it(&mut connection);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        result
    }

    /// Runs one command.
    pub(crate) fn command(&self, words: &[&str]) -> redis::Value {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        self.with(|connection| command.query(connection)).expect("an answer")
    }

    pub(crate) fn key(&self, key: &[u8]) -> Vec<u8> {
        redis_key(&self.prefix, HashTag::Counter, key)
    }

    pub(crate) fn ask(&self, key: &[u8], quota: &Quota, kind: Kind) -> Ask {
        Ask { key: self.key(key), quota: quota.clone(), kind }
    }

    fn eval(&self, call: &Call) -> Result<redis::Value, redis::RedisError> {
        let command = |name: &str, script: &str| {
            let mut command = redis::cmd(name);
            command.arg(script).arg(call.keys.len()).arg(&call.keys).arg(&call.args);
            command
        };
        self.with(|connection| match command("EVALSHA", call.script.sha()).query(connection) {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                command("EVAL", call.script.source()).query(connection)
            }
            other => other,
        })
    }

    /// Runs calls until all is answered.
    pub(crate) fn run(&self, asks: &[Ask], now: Timestamp) -> Result<Vec<Answer>, Fault> {
        let mut out = Vec::new();
        let mut next = first(asks, now, &mut out);
        for _ in 0..=MOST_CALLS {
            let call = match next {
                Next::Done => return Ok(out),
                Next::Step(step, hint) => self.step(asks, step, hint)?,
                Next::Again(call) => call,
            };
            let reply = self.reply(&call, asks)?;
            let replied = Replied::read(&reply)?;
            let part = replied.part(0)?;
            if let Part::Failed(error) = &part {
                return Err(failed(asks, error.split(' ').next(), error));
            }
            next = answers(asks, now, self.time, replied.at, &part, &mut out)?;
        }
        Err(Fault::Reply("asked again and again".into()))
    }

    pub(crate) fn run_together(&self, asks: &[Ask], now: Timestamp) -> Result<Vec<Answer>, Fault> {
        let mut out = Vec::new();
        let mut next = together(asks, now, self.time, &mut out)?;
        for _ in 0..=MOST_CALLS {
            let Next::Again(call) = next else { return Ok(out) };
            let reply = self.reply(&call, asks)?;
            next = together_answers(asks, now, self.time, &reply, &mut out)?;
        }
        Err(Fault::Reply("asked again and again".into()))
    }

    fn step(&self, asks: &[Ask], step: Step, hint: Timestamp) -> Result<Call, Fault> {
        let mut args = vec![Vec::new()];
        argument(&mut args[0], asks, hint)?;
        if self.time == StoreTime::Node {
            args.push(instant(hint));
        }
        Ok(Call { script: each(step, Swap::None), keys: vec![asks[0].key.clone()], args })
    }

    fn reply(&self, call: &Call, asks: &[Ask]) -> Result<Value, Fault> {
        match self.eval(call) {
            Ok(value) => Ok(own(value)),
            Err(error) => Err(failed(asks, error.code(), &error.to_string())),
        }
    }

    fn refused(&self, fault: &Fault) -> StoreError {
        StoreError::Refused { store: self.name(), reason: fault.to_string() }
    }

    fn decide(&self, asks: &[Ask], now: Timestamp, verdicts: &mut Verdicts, all: bool) {
        let answers = if all { self.run_together(asks, now) } else { self.run(asks, now) };
        match answers {
            Ok(answers) => verdicts.extend(answers.into_iter().map(|answer| Ok(decision(answer)))),
            Err(fault) => verdicts.extend(asks.iter().map(|_| Err(self.refused(&fault)))),
        }
    }

    fn one(&self, key: Key<'_>, quota: &Quota, kind: Kind, now: Timestamp) -> Result<Answer, StoreError> {
        let answers = self.run(&[self.ask(key.0, quota, kind)], now).map_err(|fault| self.refused(&fault))?;
        Ok(answers.into_iter().next().expect("one ask, one answer"))
    }
}

/// The same value as this project reads it.
pub(crate) fn own(value: redis::Value) -> Value {
    match value {
        redis::Value::Nil => Value::Nil,
        redis::Value::Int(number) => Value::Int(number),
        redis::Value::BulkString(bytes) => Value::BulkString(bytes),
        redis::Value::Array(values) => Value::Array(values.into_iter().map(own).collect()),
        redis::Value::SimpleString(text) => Value::SimpleString(text),
        redis::Value::Okay => Value::Okay,
        other => panic!("no script replies {other:?}"),
    }
}

fn failed(asks: &[Ask], code: Option<&str>, error: &str) -> Fault {
    match code {
        Some("WRONGTYPE") => {
            let key = String::from_utf8_lossy(&asks[0].key).into_owned();
            Fault::Foreign { key, found: "a value of another type".into() }
        }
        _ => Fault::Reply(error.to_owned()),
    }
}

fn decision(answer: Answer) -> Decision {
    match answer {
        Answer::Decision(decision) => decision,
        other => panic!("{other:?}"),
    }
}

impl Store for Direct {
    fn name(&self) -> StoreName {
        StoreName::new("redis")
    }

    async fn take(&self, batch: &[Take<'_>], charge: Charge, now: Timestamp, verdicts: &mut Verdicts) {
        let asks: Vec<Ask> =
            batch.iter().map(|take| self.ask(take.key.0, take.quota, Kind::Take(take.cost))).collect();
        match charge {
            Charge::Together => self.decide(&asks, now, verdicts, true),
            Charge::Each => asks
                .chunk_by(|a, b| self.merges && a.joins(b))
                .for_each(|asks| self.decide(asks, now, verdicts, false)),
        }
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        let asks: Vec<Ask> = batch
            .iter()
            .map(|take| self.ask(take.key.0, take.quota, Kind::Hold(take.cost, max_wait)))
            .collect();
        self.decide(&asks, now, verdicts, asks.len() > 1);
    }

    async fn charge(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.one(key, quota, Kind::Charge(cost), now).map(decision)
    }

    async fn give_back(
        &self,
        key: Key<'_>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.one(key, quota, Kind::GiveBack(cost), now).map(decision)
    }

    async fn reset(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Result<bool, StoreError> {
        match self.one(key, quota, Kind::Reset, now)? {
            Answer::Reset(was) => Ok(was),
            other => panic!("{other:?}"),
        }
    }

    async fn inspect(&self, key: Key<'_>, quota: &Quota, now: Timestamp) -> Result<Inspection, StoreError> {
        match self.one(key, quota, Kind::Inspect, now)? {
            Answer::Inspection(inspection) => Ok(inspection),
            other => panic!("{other:?}"),
        }
    }
}
