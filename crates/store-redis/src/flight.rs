//! A flight: what one round trip carries. Callers of one key are merged into one script call, and its answers dealt out in the order of
//! arrival. Not here: the connection, and when a flight leaves.

mod land;

pub(crate) use land::Redirect;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use redis::Value;
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant};
use tollgate_core::Timestamp;
use tollgate_store::{StoreError, StoreName};

use crate::ask::{Answer, Ask, Fault};
use crate::call::{self, Call, Next};
use crate::config::StoreTime;
use crate::connection::{array, bulk};
use crate::figures::{Counters, add};
use crate::script::Script;
use crate::trouble::Trouble;

/// Somebody who waits for an answer.
#[derive(Debug)]
pub(crate) struct Rider<T> {
    to: oneshot::Sender<Result<T, StoreError>>,
    /// Until when.
    by: Instant,
}

impl<T> Rider<T> {
    pub(crate) const fn new(to: oneshot::Sender<Result<T, StoreError>>, by: Instant) -> Self {
        Self { to, by }
    }

    fn answer(self, answer: Result<T, StoreError>) {
        self.to.send(answer).ok(); // a caller who waits no longer disturbs nobody
    }
}

/// What waits to be sent.
#[derive(Debug)]
pub(crate) enum Item {
    /// One ask, to be merged with others of its key.
    Ask(Box<Ask>, Timestamp, Rider<Answer>),
    /// Takes or holds, all or none.
    Together(Vec<Ask>, Timestamp, Rider<Vec<Answer>>),
    /// A call of which only the caller knows what it means.
    Call(Call, Rider<Value>),
    /// One that was under way before and has to be sent again: nothing was taken by then.
    Trip(Box<Trip>),
}

impl Item {
    /// Until when anybody waits for it; `None` when nobody does.
    pub(crate) fn waits_until(&self) -> Option<Instant> {
        let open = |closed: bool, by: Instant| (!closed).then_some(by);
        match self {
            Self::Ask(_, _, rider) => open(rider.to.is_closed(), rider.by),
            Self::Together(_, _, rider) => open(rider.to.is_closed(), rider.by),
            Self::Call(_, rider) => open(rider.to.is_closed(), rider.by),
            Self::Trip(trip) => trip.waits_until(),
        }
    }

    /// Ends it: nothing was sent, nothing taken.
    pub(crate) fn refuse(self, ctx: &Context, why: &Trouble) {
        match self {
            Self::Ask(_, _, rider) => rider.answer(Err(ctx.unreachable(why))),
            Self::Together(_, _, rider) => rider.answer(Err(ctx.unreachable(why))),
            Self::Call(_, rider) => rider.answer(Err(ctx.unreachable(why))),
            Self::Trip(mut trip) => trip.fail(|| ctx.unreachable(why)),
        }
    }
}

/// What errors and replies need to know.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) name: StoreName,
    pub(crate) time: StoreTime,
    pub(crate) deadline: Duration,
    pub(crate) counters: Counters,
}

impl Context {
    pub(crate) fn unreachable(&self, why: &Trouble) -> StoreError {
        StoreError::Unreachable { store: self.name.clone(), source: why.to_io() }
    }

    pub(crate) fn silent(&self, waited: Duration) -> StoreError {
        add(&self.counters.silent, 1);
        StoreError::Silent { store: self.name.clone(), waited }
    }

    pub(crate) fn refused(&self, reason: impl Into<String>) -> StoreError {
        add(&self.counters.refused, 1);
        StoreError::Refused { store: self.name.clone(), reason: reason.into() }
    }

    fn fault(&self, fault: &Fault) -> StoreError {
        match fault {
            Fault::Unsupported { algorithm, .. } => {
                StoreError::Unsupported { store: self.name.clone(), algorithm }
            }
            Fault::Foreign { .. } | Fault::Reply(_) => self.refused(fault.to_string()),
        }
    }
}

/// One script call, and who waits for what it answers.
#[derive(Debug)]
pub(crate) struct Trip {
    work: Work,
    /// `None` until it is first planned.
    call: Option<Call>,
    /// Replies that asked for another call.
    calls: u32,
    /// Times it was sent to no avail: unknown scripts, other nodes.
    detours: u32,
    /// The node takes it only as an exception (ASK).
    asking: bool,
}

#[derive(Debug)]
enum Work {
    Each { asks: Vec<Ask>, now: Timestamp, riders: Vec<Option<Rider<Answer>>> },
    Together { asks: Vec<Ask>, now: Timestamp, rider: Option<Rider<Vec<Answer>>> },
    Call { rider: Option<Rider<Value>> },
}

impl Trip {
    /// Until when anybody waits for it, the first who gives up; `None` when nobody does.
    fn waits_until(&self) -> Option<Instant> {
        match &self.work {
            Work::Each { riders, .. } => riders.iter().flatten().map(|rider| rider.by).min(),
            Work::Together { rider, .. } => rider.as_ref().map(|rider| rider.by),
            Work::Call { rider } => rider.as_ref().map(|rider| rider.by),
        }
    }

    /// Answers all who still wait with an error.
    fn fail(&mut self, error: impl Fn() -> StoreError) {
        self.fail_where(|_| true, |_| error());
    }

    /// Answers those whose time is over that nobody knows what became of their permits.
    fn expire(&mut self, now: Instant, ctx: &Context) {
        self.fail_where(|by| by <= now, |by| ctx.silent(ctx.deadline + now.saturating_duration_since(by)));
    }

    fn fail_where(&mut self, which: impl Fn(Instant) -> bool, error: impl Fn(Instant) -> StoreError) {
        fn one<T>(
            rider: &mut Option<Rider<T>>,
            which: impl Fn(Instant) -> bool,
            error: impl Fn(Instant) -> StoreError,
        ) {
            if let Some(rider) = rider.take_if(|rider| which(rider.by)) {
                let error = error(rider.by);
                rider.answer(Err(error));
            }
        }
        match &mut self.work {
            Work::Each { riders, .. } => riders.iter_mut().for_each(|rider| one(rider, &which, &error)),
            Work::Together { rider, .. } => one(rider, which, error),
            Work::Call { rider } => one(rider, which, error),
        }
    }
}

/// What a reply on the wire belongs to.
#[derive(Clone, Copy, Debug)]
enum Expect {
    /// The script was loaded.
    Loaded,
    /// The node makes an exception.
    Asking,
    /// The next trip's.
    Trip,
}

/// A flight. Used again and again, so that its buffers are allocated once.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    trips: Vec<Trip>,
    expects: Vec<Expect>,
    bytes: Vec<u8>,
    /// By the hash of a key: the last trip with it, to merge with.
    last: HashMap<u64, usize>,
    hasher: RandomState,
    /// Scripts that the server said it does not know.
    unknown: Vec<&'static Script>,
}

impl Flight {
    /// Plans what `items` need; those whose time is over are answered, and those nobody waits for are left out: neither is sent.
    pub(crate) fn plan(&mut self, items: &mut Vec<Item>, now: Instant, ctx: &Context) {
        self.trips.clear();
        self.last.clear();
        for item in items.drain(..) {
            match item.waits_until() {
                None => continue,
                Some(by) if by <= now && !matches!(item, Item::Trip(_)) => {
                    add(&ctx.counters.unsent, 1);
                    item.refuse(ctx, &late(ctx.deadline));
                    continue;
                }
                Some(_) => {}
            }
            self.add(item, now, ctx);
        }
        self.first_calls(ctx);
        self.write();
    }

    fn add(&mut self, item: Item, now: Instant, ctx: &Context) {
        match item {
            Item::Ask(ask, at, rider) => {
                let place = self.trips.len();
                let last = self.last.entry(self.hasher.hash_one(&ask.key)).or_insert(place);
                if let Some(Trip { work: Work::Each { asks, now, riders }, .. }) = self.trips.get_mut(*last)
                    && asks[0].joins(&ask)
                {
                    asks.push(*ask);
                    riders.push(Some(rider));
                    *now = at.max(*now);
                    add(&ctx.counters.merged, 1);
                    return;
                }
                *last = place;
                self.trips.push(Trip::new(Work::Each {
                    asks: vec![*ask],
                    now: at,
                    riders: vec![Some(rider)],
                }));
            }
            Item::Together(asks, at, rider) => {
                self.trips.push(Trip::new(Work::Together { asks, now: at, rider: Some(rider) }));
            }
            Item::Call(call, rider) => {
                self.trips.push(Trip { call: Some(call), ..Trip::new(Work::Call { rider: Some(rider) }) });
            }
            Item::Trip(mut trip) => {
                trip.expire(now, ctx);
                if trip.waits_until().is_some() {
                    self.trips.push(*trip);
                }
            }
        }
    }

    /// The first call of each trip that has none; what needs no server is answered and leaves the flight.
    fn first_calls(&mut self, ctx: &Context) {
        self.trips.retain_mut(|trip| {
            let next = match &trip.work {
                Work::Each { asks, now, .. } if trip.is_new() => call::call(asks, *now, ctx.time),
                Work::Together { asks, now, .. } if trip.is_new() => call::together(asks, *now, ctx.time),
                _ => return true,
            };
            match next {
                Ok(Next::Again(call)) => {
                    trip.call = Some(call);
                    true
                }
                Ok(Next::Done(answers)) => {
                    trip.done(answers, ctx);
                    false
                }
                Err(fault) => {
                    trip.fail(|| ctx.fault(&fault));
                    false
                }
            }
        });
    }

    fn write(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(1 << 20);
        self.expects.clear();
        for script in self.unknown.drain(..) {
            array(&mut self.bytes, 3);
            [b"SCRIPT", b"LOAD".as_slice(), script.source().as_bytes()]
                .into_iter()
                .for_each(|word| bulk(&mut self.bytes, word));
            self.expects.push(Expect::Loaded);
        }
        for trip in &self.trips {
            let Some(call) = &trip.call else { continue };
            if trip.asking {
                self.bytes.extend_from_slice(b"*1\r\n$6\r\nASKING\r\n");
                self.expects.push(Expect::Asking);
            }
            write_call(&mut self.bytes, call);
            self.expects.push(Expect::Trip);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.trips.is_empty()
    }

    /// Calls that it carries.
    pub(crate) fn calls(&self) -> usize {
        self.trips.len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Replies to wait for.
    pub(crate) fn replies(&self) -> usize {
        self.expects.len()
    }

    /// When the first who waits gives up.
    pub(crate) fn waits_until(&self) -> Option<Instant> {
        self.trips.iter().filter_map(Trip::waits_until).min()
    }

    /// Answers those whose time is over; the others go on waiting.
    pub(crate) fn expire(&mut self, now: Instant, ctx: &Context) {
        self.trips.iter_mut().for_each(|trip| trip.expire(now, ctx));
    }
}

impl Trip {
    fn new(work: Work) -> Self {
        Self { work, call: None, calls: 0, detours: 0, asking: false }
    }

    fn is_new(&self) -> bool {
        self.call.is_none()
    }

    /// Deals out the answers, in the order of arrival.
    fn done(&mut self, answers: Vec<Answer>, ctx: &Context) {
        match &mut self.work {
            Work::Each { riders, .. } => {
                if answers.len() != riders.len() {
                    return self.fail(|| ctx.refused("a script answered for another number of callers"));
                }
                for (rider, answer) in riders.iter_mut().zip(answers) {
                    if let Some(rider) = rider.take() {
                        rider.answer(Ok(answer));
                    }
                }
            }
            Work::Together { rider, .. } => {
                if let Some(rider) = rider.take() {
                    rider.answer(Ok(answers));
                }
            }
            Work::Call { .. } => {}
        }
    }
}

/// Why a call that could not be sent in time was taken back.
pub(crate) fn late(deadline: Duration) -> Trouble {
    Trouble::new(crate::trouble::Kind::Silent, format!("could not be sent within {deadline:?}"))
}

fn write_call(bytes: &mut Vec<u8>, call: &Call) {
    array(bytes, 3 + call.keys.len() + call.args.len());
    bytes.extend_from_slice(b"$7\r\nEVALSHA\r\n");
    bulk(bytes, call.script.sha().as_bytes());
    match call.keys.len() {
        1 => bytes.extend_from_slice(b"$1\r\n1\r\n"),
        keys => bulk(bytes, keys.to_string().as_bytes()),
    }
    call.keys.iter().chain(&call.args).for_each(|word| bulk(bytes, word));
}
