//! The contents of flights: asks of keys. Callers of one key become one step, whose answers are given out in
//! the order of arrival; steps of one algorithm become one script call. Not here: the moment when a flight is
//! sent (`redis-link`), the work of a step (`call`).

mod buffers;
mod replies;
mod request;

use std::hash::BuildHasher as _;
use std::thread::LocalKey;

use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_redis_link::{
    Item, PerThread, Planned, Replies, Script, Shared, ThreadMap, Value, Waiter, Workload, array, bulk,
};
use tollgate_store::remote::Failure;

use self::buffers::Buffers;
use self::request::{CounterRequest, NextCall, Work};
use crate::ask::{Answer, Ask};
use crate::call::ScriptCall;
use crate::config::StoreTime;
use crate::script::{Step, Swap, each};
use crate::translate::instant;

/// Most keys of one script call: the server serves no other client meanwhile.
const MOST_KEYS: usize = 64;

/// Counting as a workload of a Redis client.
#[derive(Clone, Debug)]
pub(crate) struct Counting {
    /// The clock that counts.
    pub(crate) time: StoreTime,
}

/// One caller's request.
#[derive(Debug)]
pub(crate) enum CountItem {
    /// One ask, to be merged with others of its key.
    Ask(Box<Ask>, Timestamp, Waiter<Answer>),
    /// Takes or holds, all or none.
    Together(Vec<Ask>, Timestamp, Waiter<Vec<Answer>>),
    /// A call whose reply only the caller can read.
    Call(ScriptCall, Waiter<Value>),
}

impl Item for CountItem {
    fn deadline(&self) -> Instant {
        match self {
            Self::Ask(_, _, waiter) => waiter.deadline(),
            Self::Together(_, _, waiter) => waiter.deadline(),
            Self::Call(_, waiter) => waiter.deadline(),
        }
    }

    fn waits_until(&self) -> Option<Instant> {
        match self {
            Self::Ask(_, _, waiter) => waiter.waits_until(),
            Self::Together(_, _, waiter) => waiter.waits_until(),
            Self::Call(_, waiter) => waiter.waits_until(),
        }
    }

    fn fail(self, failure: Failure) {
        match self {
            Self::Ask(_, _, waiter) => waiter.answer(Err(failure)),
            Self::Together(_, _, waiter) => waiter.answer(Err(failure)),
            Self::Call(_, waiter) => waiter.answer(Err(failure)),
        }
    }
}

impl PerThread for Counting {
    fn threads() -> &'static LocalKey<ThreadMap<Self>> {
        thread_local! {
            static THREADS: ThreadMap<Counting> = const { ThreadMap::new() };
        }
        &THREADS
    }
}

impl Workload for Counting {
    type Item = CountItem;
    type Request = CounterRequest;
    type Buffers = Buffers;

    fn begin(&self, buffers: &mut Buffers) {
        buffers.last.clear();
        buffers.arguments.clear();
    }

    fn add(
        &self,
        item: CountItem,
        requests: &mut Vec<Planned<CounterRequest>>,
        buffers: &mut Buffers,
    ) -> bool {
        let work = match item {
            CountItem::Ask(ask, at, waiter) => {
                let place = requests.len();
                let last = buffers.last.entry(buffers.hasher.hash_one(&ask.key)).or_insert(place);
                if let Some(Planned {
                    request: CounterRequest { work: Work::Each { asks, now, waiters }, .. },
                    ..
                }) = requests.get_mut(*last)
                    && asks[0].joins(&ask)
                {
                    asks.push(*ask);
                    waiters.push(Some(waiter));
                    *now = at.max(*now);
                    return true;
                }
                *last = place;
                let (mut asks, mut waiters) = buffers.lists();
                asks.push(*ask);
                waiters.push(Some(waiter));
                Work::Each { asks, now: at, waiters }
            }
            CountItem::Together(asks, now, waiter) => Work::Together { asks, now, waiter: Some(waiter) },
            CountItem::Call(call, waiter) => {
                let next = NextCall::Call(call);
                requests.push(Planned::new(CounterRequest {
                    next,
                    ..CounterRequest::new(Work::Call { waiter: Some(waiter) })
                }));
                return false;
            }
        };
        requests.push(Planned::new(CounterRequest::new(work)));
        false
    }

    fn prepare(&self, request: &mut CounterRequest, buffers: &mut Buffers, shared: &Shared) -> bool {
        buffers.answers.clear();
        match request.prepare(&mut buffers.arguments, &mut buffers.answers, self.time) {
            Ok(true) => return true,
            Ok(false) => request.done(buffers, shared),
            Err(fault) => request.fault(&fault, shared),
        }
        false
    }

    fn write(
        &self,
        requests: &[Planned<CounterRequest>],
        one_slot: bool,
        buffers: &Buffers,
        bytes: &mut Vec<u8>,
    ) -> usize {
        let Some(first) = requests.first() else { return 1 };
        match &first.request.next {
            NextCall::Step(step, hint, _) => {
                let most = if one_slot { 1 } else { MOST_KEYS };
                let count = alike(requests, most, self.time);
                let time = if self.time == StoreTime::Node { Some(*hint) } else { None };
                write_steps(bytes, *step, &requests[..count], &buffers.arguments, time);
                count
            }
            NextCall::Call(call) => {
                write_call(bytes, call);
                1
            }
            NextCall::Unknown => 1,
        }
    }

    fn on_reply(
        &self,
        requests: impl Iterator<Item = Planned<CounterRequest>>,
        count: usize,
        value: Value,
        buffers: &mut Buffers,
        replies: &mut Replies<'_, CounterRequest>,
    ) {
        replies::on_reply(self.time, requests, count, value, buffers, replies);
    }
}

/// The number of requests, from the first on, that may share its script call.
fn alike(requests: &[Planned<CounterRequest>], most: usize, time: StoreTime) -> usize {
    let Some((first, others)) = requests.split_first() else { return 0 };
    let alike = |other: &&Planned<CounterRequest>| match (&first.request.next, &other.request.next) {
        // With the callers' clocks, a call has one instant.
        (NextCall::Step(a, at, _), NextCall::Step(b, then, _)) => {
            a == b && (time == StoreTime::Store || at == then)
        }
        _ => false,
    };
    1 + others.iter().take(most - 1).take_while(alike).count()
}

/// One call that takes the step on each request's key. An argument equal to the previous one is left empty.
fn write_steps(
    bytes: &mut Vec<u8>,
    step: Step,
    requests: &[Planned<CounterRequest>],
    arguments: &[u8],
    time: Option<Timestamp>,
) {
    let count = requests.len();
    begin_call(bytes, each(step, Swap::None), count, count + usize::from(time.is_some()));
    for planned in requests {
        if let Work::Each { asks, .. } = &planned.request.work {
            bulk(bytes, &asks[0].key);
        }
    }
    let mut last: &[u8] = &[];
    for planned in requests {
        if let NextCall::Step(_, _, place) = &planned.request.next {
            let argument = &arguments[place.clone()];
            bulk(bytes, if argument == last { &[] } else { argument });
            last = argument;
        }
    }
    if let Some(time) = time {
        bulk(bytes, &instant(time));
    }
}

fn write_call(bytes: &mut Vec<u8>, call: &ScriptCall) {
    begin_call(bytes, call.script, call.keys.len(), call.args.len());
    call.keys.iter().chain(&call.args).for_each(|word| bulk(bytes, word));
}

fn begin_call(bytes: &mut Vec<u8>, script: &Script, keys: usize, args: usize) {
    array(bytes, 3 + keys + args);
    bytes.extend_from_slice(b"$7\r\nEVALSHA\r\n");
    bulk(bytes, script.sha().as_bytes());
    match keys {
        1 => bytes.extend_from_slice(b"$1\r\n1\r\n"),
        _ => bulk(bytes, keys.to_string().as_bytes()),
    }
}
