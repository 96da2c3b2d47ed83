//! A store for tests: each ask is one call over a plain connection, at once. It shows the effect of the
//! scripts, without the flights.

use std::net::SocketAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::{Cost, Decision, Quota, Timestamp};
use tollgate_redis_link::Value;
use tollgate_store::{Charge, Counter, Inspection, Payment, Store, StoreError, StoreName, Take, Verdicts};
use tollgate_store_redis::internals::{
    Answer, Ask, AskError, KeyOperation, MOST_CALLS, Next, Replied, ReplyPart, ScriptCall, Step, Swap,
    answers, argument, each, first, instant, redis_key, together, together_answers,
};
use tollgate_store_redis::{HashTag, StoreTime};
use tollgate_testkit::redis::{RedisConnection, RedisReply};

/// A store with keys of its own.
pub(crate) struct Direct {
    server: SocketAddr,
    prefix: String,
    time: StoreTime,
    idle: Mutex<Vec<RedisConnection>>,
}

impl Direct {
    pub(crate) fn new(server: SocketAddr, prefix: String, time: StoreTime) -> Self {
        Self { server, prefix, time, idle: Mutex::default() }
    }

    /// Runs one command.
    pub(crate) fn command<T: AsRef<[u8]>>(&self, words: &[T]) -> RedisReply {
        let reply = self.ask_server(words);
        assert_eq!(reply.error(), None);
        reply
    }

    /// Runs a script by its source.
    pub(crate) fn eval(&self, call: &ScriptCall) -> Value {
        value(self.command(&words(b"EVAL", call.script.source(), call)))
    }

    pub(crate) fn key(&self, key: &[u8]) -> Vec<u8> {
        redis_key(&self.prefix, HashTag::Counter, key)
    }

    /// The same as text.
    pub(crate) fn text_key(&self, key: &[u8]) -> String {
        String::from_utf8(self.key(key)).expect("text")
    }

    pub(crate) fn ask(&self, key: &[u8], quota: &Quota, kind: KeyOperation) -> Ask {
        Ask { key: self.key(key), quota: quota.clone(), kind }
    }

    /// Runs calls until everything is answered.
    pub(crate) fn run(&self, asks: &[Ask], now: Timestamp) -> Result<Vec<Answer>, AskError> {
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
            if let ReplyPart::Failed(error) = &part {
                return Err(failed(asks, error));
            }
            next = answers(asks, now, self.time, replied.at, &part, &mut out)?;
        }
        Err(AskError::Reply("asked again and again".into()))
    }

    pub(crate) fn run_together(&self, asks: &[Ask], now: Timestamp) -> Result<Vec<Answer>, AskError> {
        let mut out = Vec::new();
        let mut next = together(asks, now, self.time, &mut out)?;
        for _ in 0..=MOST_CALLS {
            let Next::Again(call) = next else { return Ok(out) };
            let reply = self.reply(&call, asks)?;
            next = together_answers(asks, now, self.time, &reply, &mut out)?;
        }
        Err(AskError::Reply("asked again and again".into()))
    }

    fn step(&self, asks: &[Ask], step: Step, hint: Timestamp) -> Result<ScriptCall, AskError> {
        let mut args = vec![Vec::new()];
        argument(&mut args[0], asks, hint)?;
        if self.time == StoreTime::Node {
            args.push(instant(hint));
        }
        Ok(ScriptCall { script: each(step, Swap::None), keys: vec![asks[0].key.clone()], args })
    }

    fn reply(&self, call: &ScriptCall, asks: &[Ask]) -> Result<Value, AskError> {
        let mut reply = self.ask_server(&words(b"EVALSHA", call.script.sha(), call));
        if reply.error().is_some_and(|error| error.starts_with("NOSCRIPT")) {
            reply = self.ask_server(&words(b"EVAL", call.script.source(), call));
        }
        match reply.error() {
            Some(error) => Err(failed(asks, error)),
            None => Ok(value(reply)),
        }
    }

    fn ask_server<T: AsRef<[u8]>>(&self, words: &[T]) -> RedisReply {
        let idle = self.idle.lock().pop();
        let mut client = idle.unwrap_or_else(|| RedisConnection::connect(self.server).expect("a connection"));
        let reply = client.command(words).expect("an answer");
        self.idle.lock().push(client);
        reply
    }

    fn rejected(&self, fault: &AskError) -> StoreError {
        StoreError::Failed { store: self.name(), reason: fault.to_string() }
    }

    fn decide(&self, asks: &[Ask], now: Timestamp, verdicts: &mut Verdicts, all: bool) {
        let answers = if all { self.run_together(asks, now) } else { self.run(asks, now) };
        match answers {
            Ok(answers) => verdicts.extend(answers.into_iter().map(|answer| Ok(decision(answer)))),
            Err(fault) => verdicts.extend(asks.iter().map(|_| Err(self.rejected(&fault)))),
        }
    }

    fn one(&self, counter: Counter<'_>, kind: KeyOperation, now: Timestamp) -> Result<Answer, StoreError> {
        let asks = [self.ask(counter.key.0, counter.quota, kind)];
        let answers = self.run(&asks, now).map_err(|fault| self.rejected(&fault))?;
        Ok(answers.into_iter().next().expect("one ask, one answer"))
    }
}

fn kind(take: &Take<'_>) -> KeyOperation {
    match take.payment {
        Payment::Ahead => KeyOperation::Take(take.cost),
        Payment::After => KeyOperation::Pay(take.cost),
        Payment::Consumed => KeyOperation::Charge(take.cost),
    }
}

fn words(command: &[u8], script: &str, call: &ScriptCall) -> Vec<Vec<u8>> {
    let keys = call.keys.len().to_string();
    let mut words = vec![command.to_vec(), script.into(), keys.into()];
    words.extend(call.keys.iter().chain(&call.args).cloned());
    words
}

/// The same reply as the store reads it.
pub(crate) fn value(reply: RedisReply) -> Value {
    match reply {
        RedisReply::Nil => Value::Nil,
        RedisReply::Int(number) => Value::Int(number),
        RedisReply::Bulk(bytes) => Value::BulkString(bytes),
        RedisReply::Array(items) => Value::Array(items.into_iter().map(value).collect()),
        RedisReply::Status(text) => Value::SimpleString(text),
        RedisReply::Error(error) => panic!("{error}"),
    }
}

fn failed(asks: &[Ask], error: &str) -> AskError {
    if error.starts_with("WRONGTYPE") {
        let key = String::from_utf8_lossy(&asks[0].key).into_owned();
        return AskError::Foreign { key, found: "a value of another type".into() };
    }
    AskError::Reply(error.to_owned())
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
            batch.iter().map(|take| self.ask(take.counter.key.0, take.counter.quota, kind(take))).collect();
        match charge {
            Charge::Together => self.decide(&asks, now, verdicts, true),
            Charge::Each => {
                asks.chunk_by(|a, b| a.joins(b)).for_each(|asks| self.decide(asks, now, verdicts, false))
            }
        }
    }

    async fn reserve(&self, batch: &[Take<'_>], max_wait: Duration, now: Timestamp, verdicts: &mut Verdicts) {
        let asks: Vec<Ask> = batch
            .iter()
            .map(|take| {
                self.ask(take.counter.key.0, take.counter.quota, KeyOperation::Reserve(take.cost, max_wait))
            })
            .collect();
        self.decide(&asks, now, verdicts, asks.len() > 1);
    }

    async fn charge(&self, counter: Counter<'_>, cost: Cost, now: Timestamp) -> Result<Decision, StoreError> {
        self.one(counter, KeyOperation::Charge(cost), now).map(decision)
    }

    async fn give_back(
        &self,
        counter: Counter<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.one(counter, KeyOperation::GiveBack(cost), now).map(decision)
    }

    async fn reset(&self, counter: Counter<'_>, now: Timestamp) -> Result<bool, StoreError> {
        match self.one(counter, KeyOperation::Reset, now)? {
            Answer::Reset(was) => Ok(was),
            other => panic!("{other:?}"),
        }
    }

    async fn inspect(&self, counter: Counter<'_>, now: Timestamp) -> Result<Inspection, StoreError> {
        match self.one(counter, KeyOperation::Inspect, now)? {
            Answer::Inspection(inspection) => Ok(inspection),
            other => panic!("{other:?}"),
        }
    }
}
