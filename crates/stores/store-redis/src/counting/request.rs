//! Requests for one key, or for keys together, and the callers that wait for the answers.

use std::ops::Range;

use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_redis_link::{Request as RequestOfLink, Script, Shared, Value, Waiter};
use tollgate_store::remote::Failure;

use super::buffers::Buffers;
use crate::ask::{Answer, Ask, AskError};
use crate::call::{self, ScriptCall};
use crate::config::StoreTime;
use crate::script::{Step, Swap, each};

/// A request for one key, or for keys together, and the callers that wait for the answers.
#[derive(Debug)]
pub(crate) struct CounterRequest {
    pub(super) work: Work,
    pub(super) next: NextCall,
    /// Replies that asked for another call.
    pub(super) calls: u32,
}

/// The next call of a request.
#[derive(Debug)]
pub(super) enum NextCall {
    /// The next call is not decided yet.
    Unknown,
    /// A step on its key, for this instant, with the place of its argument in the flight's arguments.
    Step(Step, Timestamp, Range<usize>),
    /// A call of its own.
    Call(ScriptCall),
}

#[derive(Debug)]
pub(super) enum Work {
    Each { asks: Vec<Ask>, now: Timestamp, waiters: Vec<Option<Waiter<Answer>>> },
    Together { asks: Vec<Ask>, now: Timestamp, waiter: Option<Waiter<Vec<Answer>>> },
    Call { waiter: Option<Waiter<Value>> },
}

impl RequestOfLink for CounterRequest {
    /// Sorts steps of one algorithm next to each other.
    type Order = Option<Step>;

    fn order(&self) -> Option<Step> {
        if let NextCall::Step(step, ..) = self.next { Some(step) } else { None }
    }

    fn shares_a_command(&self) -> bool {
        self.order().is_some()
    }

    fn waits_until(&self) -> Option<Instant> {
        match &self.work {
            Work::Each { waiters, .. } => waiters.iter().flatten().map(Waiter::deadline).min(),
            Work::Together { waiter, .. } => waiter.as_ref().map(Waiter::deadline),
            Work::Call { waiter } => waiter.as_ref().map(Waiter::deadline),
        }
    }

    fn fail_where(&mut self, which: impl Fn(Instant) -> bool, mut failure: impl FnMut(Instant) -> Failure) {
        match &mut self.work {
            Work::Each { waiters, .. } => {
                waiters.iter_mut().for_each(|waiter| Waiter::fail_where(waiter, &which, &mut failure));
            }
            Work::Together { waiter, .. } => Waiter::fail_where(waiter, which, failure),
            Work::Call { waiter } => Waiter::fail_where(waiter, which, failure),
        }
    }

    fn script(&self) -> Option<&'static Script> {
        match &self.next {
            NextCall::Unknown => None,
            NextCall::Step(step, ..) => Some(each(*step, Swap::None)),
            NextCall::Call(call) => Some(call.script),
        }
    }

    fn wrong_type(&self) -> String {
        AskError::Foreign { key: self.keys(), found: "a value of another type".to_owned() }.to_string()
    }
}

impl CounterRequest {
    pub(super) const fn new(work: Work) -> Self {
        Self { work, next: NextCall::Unknown, calls: 0 }
    }

    /// Decides the next call where that is open, and adds the argument of a step. False when all is answered
    /// without a call.
    pub(super) fn prepare(
        &mut self,
        arguments: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
        time: StoreTime,
    ) -> Result<bool, AskError> {
        if matches!(self.next, NextCall::Unknown) {
            let next = match &self.work {
                Work::Each { asks, now, .. } => call::first(asks, *now, answers),
                Work::Together { asks, now, .. } => call::together(asks, *now, time, answers)?,
                Work::Call { .. } => call::Next::Done,
            };
            match NextCall::of(next) {
                Some(next) => self.next = next,
                None => return Ok(false),
            }
        }
        if let (NextCall::Step(_, hint, place), Work::Each { asks, .. }) = (&mut self.next, &self.work) {
            let from = arguments.len();
            call::argument(arguments, asks, *hint).inspect_err(|_| arguments.truncate(from))?;
            *place = from..arguments.len();
        }
        Ok(true)
    }

    /// Gives out the answers, in the order of arrival.
    pub(super) fn done(&mut self, buffers: &mut Buffers, shared: &Shared) {
        match &mut self.work {
            Work::Each { asks, waiters, .. } => {
                if buffers.answers.len() != waiters.len() {
                    return self.fail(|| shared.rejected("a script answered for another number of callers"));
                }
                for (waiter, answer) in waiters.drain(..).zip(buffers.answers.drain(..)) {
                    if let Some(waiter) = waiter {
                        waiter.answer(Ok(answer));
                    }
                }
                buffers.keep(asks, waiters);
            }
            Work::Together { waiter, .. } => {
                if let Some(waiter) = waiter.take() {
                    waiter.answer(Ok(std::mem::take(&mut buffers.answers)));
                }
            }
            Work::Call { .. } => {}
        }
    }

    /// Fails all callers because of a fault of the asks or of the key's value.
    pub(super) fn fault(&mut self, fault: &AskError, shared: &Shared) {
        self.fail(|| match fault {
            AskError::Unsupported { algorithm, .. } => Failure::Unsupported { algorithm },
            AskError::Foreign { .. } | AskError::Reply(_) => shared.rejected(fault.to_string()),
        });
    }

    /// The keys, as messages show them.
    fn keys(&self) -> String {
        let text = |key: &Vec<u8>| String::from_utf8_lossy(key).into_owned();
        match (&self.work, &self.next) {
            (Work::Each { asks, .. }, _) => asks.first().map(|ask| text(&ask.key)).unwrap_or_default(),
            (_, NextCall::Call(call)) => call.keys.iter().map(text).collect::<Vec<_>>().join(" or "),
            _ => String::new(),
        }
    }
}

impl NextCall {
    /// `None` when all is answered.
    pub(super) fn of(next: call::Next) -> Option<Self> {
        match next {
            call::Next::Done => None,
            call::Next::Step(step, hint) => Some(Self::Step(step, hint, 0..0)),
            call::Next::Again(call) => Some(Self::Call(call)),
        }
    }
}
