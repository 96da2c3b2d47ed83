//! Asks become one script call, and its reply becomes their answers.
//!
//! A script changes the state atomically and returns the state before the change and the instant. The answers
//! are then computed by `core`, from that state, in the order of the asks. So a script has only the
//! transition, and no answers. Not here: the way of a call to a server, and the waits of callers
//! ([`counting`](crate::counting)).
//!
//! Use: [`first`] (or [`together`]) returns the script call or, where no server is needed, the answers. The
//! reply goes to [`answers`] (or [`together_answers`]) with the same asks, until that returns `Done`. More
//! than two calls are needed only while other nodes change the same key's rule at the same time: give up
//! after [`MOST_CALLS`].

mod replied;

pub use replied::{Replied, ReplyPart};

use tollgate_core::{Cost, Quota, State, Timestamp};
use tollgate_redis_link::Value;
use tollgate_store::Inspection;

use crate::ask::{Answer, Ask, AskError, KeyOperation};
use crate::config::StoreTime;
use crate::script::{Script, Step, Swap, all, each};
use crate::translate::{self, StepReply, StoredValue, instant, int, read, step_of};

/// The most calls for one group of asks before it fails; nothing was taken by then.
pub const MOST_CALLS: u32 = 5;

/// The step cannot read the key's value; nothing was changed.
const ODD: i64 = -1;
/// The server's clock is outside the window that the caller named; nothing was changed.
const OUTSIDE: i64 = -2;

/// One `EVALSHA`: `sha numkeys keys… args…`.
#[derive(Clone, Debug)]
pub struct ScriptCall {
    /// The script that runs.
    pub script: &'static Script,
    /// The keys, as the script's `KEYS`.
    pub keys: Vec<Vec<u8>>,
    /// The arguments, as the script's `ARGV`.
    pub args: Vec<Vec<u8>>,
}

/// The next action for a group of asks.
#[derive(Clone, Debug)]
pub enum Next {
    /// Everything is answered: one answer per ask, in their order.
    Done,
    /// Run this step on the key, with the [`argument`] for this instant; other keys may share the script
    /// call.
    Step(Step, Timestamp),
    /// Run this call, and pass its reply to `answers`.
    Again(ScriptCall),
}

/// The first action for `asks`, which are of one key and by quotas that [join](Ask::joins), in order of
/// arrival. `out` takes the answers.
pub fn first(asks: &[Ask], now: Timestamp, out: &mut Vec<Answer>) -> Next {
    match asks.first().and_then(|ask| step_of(&ask.quota)) {
        Some(step) => Next::Step(step, now),
        None => {
            uncounted(asks, now, out);
            Next::Done
        }
    }
}

/// Appends the argument of a step on the key of `asks`; on an error, only a part of it.
pub fn argument(bytes: &mut Vec<u8>, asks: &[Ask], hint: Timestamp) -> Result<(), AskError> {
    match asks {
        [only] => translate::argument(bytes, &[only], hint),
        _ => translate::argument(bytes, &asks.iter().collect::<Vec<_>>(), hint),
    }
}

/// The answers that follow from a step's reply about the key of `asks`, or the next call. `at`: the instant
/// that counted. `now`: as in [`first`].
pub fn answers(
    asks: &[Ask],
    now: Timestamp,
    time: StoreTime,
    at: Timestamp,
    part: &ReplyPart<'_>,
    out: &mut Vec<Answer>,
) -> Result<Next, AskError> {
    let Some(first) = asks.first() else { return Ok(Next::Done) };
    let ReplyPart::Held { status, first: expiry, second: value } = part else {
        return Err(AskError::Reply("an error".to_owned()));
    };
    let Some(step) = step_of(&first.quota) else { return Err(AskError::Reply("a step".to_owned())) };
    if *status == OUTSIDE {
        return Ok(Next::Step(step, at));
    }
    let reply = StepReply { status: *status, first: expiry, second: value };
    match read(&first.quota, reply, at)? {
        StoredValue::State(mut state, mut existed) if *status != ODD => {
            out.extend(asks.iter().map(|ask| replay(ask, &mut state, &mut existed, at)));
            Ok(Next::Done)
        }
        StoredValue::State(..) => Err(foreign(&first.key, "what no counter of this kind holds".to_owned())),
        StoredValue::Odd(swap, words) => {
            let mut args = alone(asks, now, time)?;
            push_groups(&mut args, [vec![b"1".to_vec()], words].concat());
            Ok(Next::Again(ScriptCall { script: each(step, swap), keys: vec![first.key.clone()], args }))
        }
        StoredValue::Foreign(found) => Err(foreign(&first.key, found)),
    }
}

/// The arguments of a call on this key alone: its step's, and the time.
fn alone(asks: &[Ask], now: Timestamp, time: StoreTime) -> Result<Vec<Vec<u8>>, AskError> {
    let mut bytes = Vec::new();
    argument(&mut bytes, asks, now)?;
    Ok(vec![bytes, if time == StoreTime::Node { instant(now) } else { Vec::new() }])
}

/// The first call for takes or reservations (nothing else) that are charged together: all or none. The keys
/// share a hash slot; their order does not matter, and a key may occur several times.
pub fn together(
    asks: &[Ask],
    now: Timestamp,
    time: StoreTime,
    out: &mut Vec<Answer>,
) -> Result<Next, AskError> {
    let keys = by_key(asks);
    if keys.is_empty() {
        uncounted(asks, now, out);
        return Ok(Next::Done);
    }
    all_call(&keys, now, time, Swap::None, Vec::new())
}

/// The answers that follow from the reply to a call of [`together`], or the next call.
pub fn together_answers(
    asks: &[Ask],
    now: Timestamp,
    time: StoreTime,
    reply: &Value,
    out: &mut Vec<Answer>,
) -> Result<Next, AskError> {
    let keys = by_key(asks);
    let Some(first) = keys.first() else { return Err(AskError::Reply(format!("{reply:?}"))) };
    let (status, at, parts) = opened(reply)?;
    if status == OUTSIDE {
        return all_call(&keys, at, time, Swap::None, Vec::new());
    }
    let mut states = Vec::with_capacity(keys.len());
    let mut strings = Vec::new();
    let mut lists = Vec::new();
    for (nth, (key, part)) in keys.iter().zip(parts).enumerate() {
        let Value::Array(part) = part else { return Err(AskError::Reply(format!("{part:?}"))) };
        let [status, first, second] = [0, 1, 2].map(|nth| part.get(nth).unwrap_or(&Value::Nil));
        let reply = StepReply { status: int(status)?, first, second };
        match read(key.quota(), reply, at)? {
            StoredValue::State(state, existed) => states.push((state, existed)),
            StoredValue::Odd(swap, words) => {
                let groups = if swap == Swap::Lists { &mut lists } else { &mut strings };
                groups.push((nth + 1).to_string().into_bytes());
                groups.extend(words);
            }
            StoredValue::Foreign(found) => return Err(foreign(key.key(), found)),
        }
    }
    // A call swaps keys of one kind: strings first, lists in the call after it.
    if states.len() < keys.len() {
        let (swap, groups) = if strings.is_empty() { (Swap::Lists, lists) } else { (Swap::Strings, strings) };
        return all_call(&keys, now, time, swap, groups);
    }
    if status == ODD {
        return Err(foreign(first.key(), "what no counter of this kind holds".to_owned()));
    }
    let from = out.len();
    uncounted(asks, at, out);
    for (key, (mut state, mut existed)) in keys.iter().zip(states) {
        for (ask, place) in key.asks.iter().zip(&key.places) {
            out[from + *place] = replay(ask, &mut state, &mut existed, at);
        }
    }
    Ok(Next::Done)
}

fn foreign(key: &[u8], found: String) -> AskError {
    AskError::Foreign { key: String::from_utf8_lossy(key).into_owned(), found }
}

fn all_call(
    keys: &[OfKey<'_>],
    hint: Timestamp,
    time: StoreTime,
    swap: Swap,
    groups: Vec<Vec<u8>>,
) -> Result<Next, AskError> {
    let mut args = Vec::with_capacity(keys.len() + 2);
    for key in keys {
        let mut bytes = Vec::new();
        match key.is_mixed {
            true => translate::argument_of_classes(&mut bytes, &key.asks, hint)?,
            false => translate::argument(&mut bytes, &key.asks, hint)?,
        }
        args.push(bytes);
    }
    args.push(if time == StoreTime::Node { instant(hint) } else { Vec::new() });
    let steps: Vec<Step> = keys.iter().map(|key| key.step).collect();
    args.push(steps.iter().map(|step| step.letter()).collect::<String>().into_bytes());
    push_groups(&mut args, groups);
    let keys = keys.iter().map(|key| key.key().to_vec()).collect();
    Ok(Next::Again(ScriptCall { script: all(&steps, swap), keys, args }))
}

/// Appends the states to swap before the step, and the place where they begin.
fn push_groups(args: &mut Vec<Vec<u8>>, groups: Vec<Vec<u8>>) {
    if !groups.is_empty() {
        let from = args.len() + 1;
        args.extend(groups);
        args.push(from.to_string().into_bytes());
    }
}

/// The asks of one key, and their places in the batch.
struct OfKey<'a> {
    step: Step,
    asks: Vec<&'a Ask>,
    places: Vec<usize>,
    /// True when they are of several classes of a bucket.
    is_mixed: bool,
}

impl OfKey<'_> {
    fn key(&self) -> &[u8] {
        &self.asks[0].key
    }

    fn quota(&self) -> &Quota {
        &self.asks[0].quota
    }
}

/// The asks that count anything, by key. Batches are small, so a map would cost more than it saves.
fn by_key(asks: &[Ask]) -> Vec<OfKey<'_>> {
    let mut keys: Vec<OfKey<'_>> = Vec::with_capacity(asks.len());
    for (place, ask) in asks.iter().enumerate() {
        let Some(step) = step_of(&ask.quota) else { continue };
        match keys.iter_mut().find(|of| of.key() == ask.key) {
            Some(of) => {
                of.is_mixed |= !of.quota().is_equivalent_to(&ask.quota);
                of.asks.push(ask);
                of.places.push(place);
            }
            None => keys.push(OfKey { step, asks: vec![ask], places: vec![place], is_mixed: false }),
        }
    }
    keys
}

/// Status, instant and the rest of a reply of `all.lua`.
fn opened(reply: &Value) -> Result<(i64, Timestamp, &[Value]), AskError> {
    let Value::Array(values) = reply else { return Err(AskError::Reply(format!("{reply:?}"))) };
    let [status, ms, ns, parts @ ..] = &values[..] else {
        return Err(AskError::Reply(format!("{reply:?}")));
    };
    let nanos = |value| Ok(u64::try_from(int(value)?).unwrap_or(0));
    let at = nanos(ms)?.saturating_mul(1_000_000).saturating_add(nanos(ns)?);
    Ok((int(status)?, Timestamp::from_nanos(at), parts))
}

/// The answer to an ask, and the state after it.
fn replay(ask: &Ask, state: &mut State, existed: &mut bool, at: Timestamp) -> Answer {
    let quota = &ask.quota;
    let decision = match ask.kind {
        KeyOperation::Take(cost) => quota.take(state, cost, at),
        KeyOperation::Reserve(cost, max_wait) => quota.reserve(state, cost, max_wait, at),
        KeyOperation::GiveBack(cost) => quota.give_back(state, cost, at),
        KeyOperation::Charge(cost) => quota.charge(state, cost, at),
        KeyOperation::Pay(cost) => quota.pay(state, cost, at),
        KeyOperation::Reset => {
            let was = inspected(quota, state, *existed, at).is_tracked;
            (*state, *existed) = (quota.fresh(), false);
            return Answer::Reset(was);
        }
        KeyOperation::Inspect => return Answer::Inspection(inspected(quota, state, *existed, at)),
    };
    *existed = true;
    Answer::Decision(decision)
}

/// The result of a peek. A state that equals that of an unseen key does not count as tracked.
fn inspected(quota: &Quota, state: &State, existed: bool, at: Timestamp) -> Inspection {
    let decision = quota.take(&mut state.clone(), Cost::PEEK, at);
    let says_something = quota.starts_partial() || !decision.reset_after().is_zero();
    Inspection { decision, is_tracked: existed && says_something }
}

/// The answers where nothing is counted.
fn uncounted(asks: &[Ask], now: Timestamp, out: &mut Vec<Answer>) {
    out.extend(asks.iter().map(|ask| replay(ask, &mut ask.quota.fresh(), &mut false, now)));
}
