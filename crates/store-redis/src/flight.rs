//! A flight: what one round trip carries. Callers of one key become one step, whose answers are dealt out in the order of arrival; steps
//! of one algorithm become one script call. Not here: the connection, and when a flight leaves.

mod land;

pub(crate) use land::Redirect;

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use foldhash::fast::RandomState;
use redis::Value;
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant};
use tollgate_core::Timestamp;
use tollgate_store::remote::patience;
use tollgate_store::{StoreError, StoreName};

use crate::ask::{Answer, Ask, Fault};
use crate::call::{self, Call, Next};
use crate::config::StoreTime;
use crate::connection::{array, bulk};
use crate::figures::{Counters, add};
use crate::reply::Reply;
use crate::script::{Script, Step, Swap, each};
use crate::translate::instant;
use crate::trouble::Trouble;

/// Most keys of one script call: nobody else is served meanwhile.
const MOST_KEYS: usize = 64;
/// Most emptied lists that are kept for the next flight, and the most places that one may have.
const MOST_SPARE: usize = 256;
const SPARE_PLACES: usize = 4;

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

    /// Until when it may wait at most, whether anybody still does or not.
    pub(crate) fn gives_up(&self) -> Option<Instant> {
        match self {
            Self::Ask(_, _, rider) => Some(rider.by),
            Self::Together(_, _, rider) => Some(rider.by),
            Self::Call(_, rider) => Some(rider.by),
            Self::Trip(trip) => trip.waits_until(),
        }
    }

    /// Ends it for those whose time is over by `now`: nothing was sent, nothing taken. Gives it back where others still wait for it.
    /// Also says how many were told.
    pub(crate) fn expire(self, now: Instant, ctx: &Context) -> (Option<Self>, u64) {
        let Some(by) = self.waits_until() else { return (None, 0) };
        if by > now {
            return (Some(self), 0);
        }
        match self {
            Self::Trip(mut trip) => {
                let mut told = 0;
                let late = |_| {
                    told += 1;
                    ctx.unreachable(&late(ctx.deadline))
                };
                trip.fail_where(|by| by <= now, late);
                (trip.waits_until().is_some().then_some(Self::Trip(trip)), told)
            }
            item => {
                item.refuse(ctx, &late(ctx.deadline));
                (None, 1)
            }
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
    /// The longest that a call takes.
    pub(crate) deadline: Duration,
    pub(crate) counters: Counters,
    /// Keys of different slots may not share a call: a Cluster, or what stands for one.
    pub(crate) keeps_slots_apart: AtomicBool,
}

impl Context {
    /// How long an answer is waited for.
    pub(crate) fn patience(&self) -> Duration {
        patience(self.deadline)
    }

    /// How long somebody has waited who gives up at `by`.
    fn waited(&self, by: Instant, now: Instant) -> Duration {
        // From when it was asked; a clock that both readings share never makes this negative.
        by.checked_sub(self.patience()).map_or(self.deadline, |asked| now.saturating_duration_since(asked))
    }

    pub(crate) fn unreachable(&self, why: &Trouble) -> StoreError {
        StoreError::Unreachable { store: self.name.clone(), source: why.to_io() }
    }

    pub(crate) fn silent(&self, waited: Duration) -> StoreError {
        add(&self.counters.silent, 1);
        StoreError::Silent { store: self.name.clone(), waited }
    }

    pub(crate) fn refused(&self, reason: impl Into<String>) -> StoreError {
        add(&self.counters.refused, 1);
        StoreError::Failed { store: self.name.clone(), reason: reason.into() }
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

/// What is asked of one key, or of keys together, and who waits for the answers.
#[derive(Debug)]
pub(crate) struct Trip {
    work: Work,
    sends: Sends,
    /// Replies that asked for another call.
    calls: u32,
    /// Times it was sent to no avail: unknown scripts, other nodes.
    detours: u32,
    /// The node takes it only as an exception (ASK).
    asking: bool,
}

/// What a trip sends next.
#[derive(Debug)]
enum Sends {
    /// It is not planned yet.
    Unknown,
    /// A step on its key, for this instant; its argument is there in the flight's bytes.
    Step(Step, Timestamp, Range<usize>),
    /// A call of its own.
    Call(Call),
}

impl Sends {
    /// Steps of one algorithm stand together.
    fn rank(&self) -> Option<Step> {
        if let Self::Step(step, ..) = self { Some(*step) } else { None }
    }
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
        self.fail_where(|by| by <= now, |by| ctx.silent(ctx.waited(by, now)));
    }

    fn fail_where(&mut self, which: impl Fn(Instant) -> bool, mut error: impl FnMut(Instant) -> StoreError) {
        fn one<T>(
            rider: &mut Option<Rider<T>>,
            which: impl Fn(Instant) -> bool,
            mut error: impl FnMut(Instant) -> StoreError,
        ) {
            if let Some(rider) = rider.take_if(|rider| which(rider.by)) {
                let error = error(rider.by);
                rider.answer(Err(error));
            }
        }
        match &mut self.work {
            Work::Each { riders, .. } => riders.iter_mut().for_each(|rider| one(rider, &which, &mut error)),
            Work::Together { rider, .. } => one(rider, which, error),
            Work::Call { rider } => one(rider, which, error),
        }
    }
}

/// The lists of a trip that is over.
type Emptied = (Vec<Ask>, Vec<Option<Rider<Answer>>>);

/// What a reply on the wire belongs to.
#[derive(Clone, Copy, Debug)]
enum Expect {
    /// This number, sent back: what follows answers this flight, and what came before was the last of the one before it.
    Mark(u64),
    /// The script was loaded.
    Loaded,
    /// The node makes an exception.
    Asking,
    /// The steps of the next so many trips.
    Steps(usize),
    /// The next trip's own call.
    Call,
}

/// A flight. Used again and again, so that its buffers are allocated once.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    trips: Vec<Trip>,
    expects: Vec<Expect>,
    bytes: Vec<u8>,
    /// Arguments of steps.
    arguments: Vec<u8>,
    /// By the hash of a key: the last trip with it, to merge with.
    last: HashMap<u64, usize, RandomState>,
    hasher: RandomState,
    /// When the first who waits gives up, or earlier.
    gives_up: Option<Instant>,
    answers: Vec<Answer>,
    spare: Vec<Emptied>,
}

impl Flight {
    /// Plans what `items` need; those whose time is over are answered, and those nobody waits for are left out: neither is sent.
    /// `ahead` is sent first, if anything is.
    pub(crate) fn plan(&mut self, items: &mut Vec<Item>, now: Instant, ctx: &Context, ahead: Ahead<'_>) {
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
        self.decide_what_to_send(ctx);
        self.write(ctx, ahead);
        self.gives_up = self.trips.iter().filter_map(Trip::waits_until).min();
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
                let (mut asks, mut riders) = self.spare.pop().unwrap_or_default();
                asks.push(*ask);
                riders.push(Some(rider));
                self.trips.push(Trip::new(Work::Each { asks, now: at, riders }));
            }
            Item::Together(asks, at, rider) => {
                self.trips.push(Trip::new(Work::Together { asks, now: at, rider: Some(rider) }));
            }
            Item::Call(call, rider) => {
                let work = Work::Call { rider: Some(rider) };
                self.trips.push(Trip { sends: Sends::Call(call), ..Trip::new(work) });
            }
            Item::Trip(mut trip) => {
                trip.expire(now, ctx);
                if trip.waits_until().is_some() {
                    self.trips.push(*trip);
                }
            }
        }
    }

    /// What each trip sends, steps of one algorithm after another; what needs no server is answered and leaves the flight.
    fn decide_what_to_send(&mut self, ctx: &Context) {
        self.arguments.clear();
        let (arguments, answers, spare) = (&mut self.arguments, &mut self.answers, &mut self.spare);
        self.trips.retain_mut(|trip| {
            answers.clear();
            match trip.prepare(arguments, answers, ctx) {
                Ok(true) => return true,
                Ok(false) => trip.done(answers, spare, ctx),
                Err(fault) => trip.fail(|| ctx.fault(&fault)),
            }
            false
        });
        if !self.trips.is_sorted_by_key(|trip| trip.sends.rank()) {
            self.trips.sort_by_key(|trip| trip.sends.rank()); // of one key, the first stays the first
        }
    }

    fn write(&mut self, ctx: &Context, ahead: Ahead<'_>) {
        self.bytes.clear();
        self.bytes.shrink_to(1 << 20);
        self.expects.clear();
        if self.trips.is_empty() {
            return;
        }
        if let Some(mark) = ahead.mark {
            array(&mut self.bytes, 2);
            bulk(&mut self.bytes, b"PING");
            bulk(&mut self.bytes, &mark.to_be_bytes());
            self.expects.push(Expect::Mark(mark));
        }
        for script in ahead.scripts.drain(..) {
            array(&mut self.bytes, 3);
            [b"SCRIPT", b"LOAD".as_slice(), script.source().as_bytes()]
                .into_iter()
                .for_each(|word| bulk(&mut self.bytes, word));
            self.expects.push(Expect::Loaded);
        }
        let most = if ctx.keeps_slots_apart.load(Relaxed) { 1 } else { MOST_KEYS };
        let mut trips = &self.trips[..];
        while let Some(trip) = trips.first() {
            if trip.asking {
                self.bytes.extend_from_slice(b"*1\r\n$6\r\nASKING\r\n");
                self.expects.push(Expect::Asking);
            }
            let count = match &trip.sends {
                Sends::Step(step, hint, _) => {
                    let count = if trip.asking { 1 } else { shared(trips, most, ctx.time) };
                    let time = if ctx.time == StoreTime::Node { Some(*hint) } else { None };
                    write_steps(&mut self.bytes, *step, &trips[..count], &self.arguments, time);
                    self.expects.push(Expect::Steps(count));
                    count
                }
                Sends::Call(call) => {
                    write_call(&mut self.bytes, call);
                    self.expects.push(Expect::Call);
                    1
                }
                Sends::Unknown => 1,
            };
            trips = &trips[count..];
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.trips.is_empty()
    }

    /// Script calls that it carries.
    pub(crate) fn calls(&self) -> usize {
        self.expects.iter().filter(|expect| matches!(expect, Expect::Steps(_) | Expect::Call)).count()
    }

    /// Keys, or keys together, that these calls are about.
    pub(crate) fn trips(&self) -> usize {
        self.trips.len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Replies to wait for.
    pub(crate) fn replies(&self) -> usize {
        self.expects.len()
    }

    /// When the first who waits gives up; `None` when nobody waits.
    pub(crate) fn gives_up(&self) -> Option<Instant> {
        self.gives_up
    }

    /// Answers those whose time is over; the others go on waiting. True when there were any.
    pub(crate) fn expire(&mut self, now: Instant, ctx: &Context) -> bool {
        if self.gives_up.is_none_or(|by| by > now) {
            return false;
        }
        self.trips.iter_mut().for_each(|trip| trip.expire(now, ctx));
        self.gives_up = self.trips.iter().filter_map(Trip::waits_until).min();
        true
    }

    /// Whether its `nth` reply can be that: a mark must come back as it was sent, or be refused as any command would be.
    pub(crate) fn believes(&self, nth: usize, reply: &Reply) -> bool {
        match (self.expects.get(nth), reply) {
            (Some(Expect::Mark(mark)), Reply::Value(Value::BulkString(bytes))) => {
                bytes[..] == mark.to_be_bytes()
            }
            (Some(Expect::Mark(_)), Reply::Error(error)) => {
                matches!(crate::trouble::code(error), "NOPERM" | "LOADING" | "BUSY" | "MASTERDOWN" | "NOAUTH")
            }
            (Some(Expect::Mark(_)), Reply::Value(_)) | (None, _) => false,
            (Some(_), _) => true,
        }
    }
}

/// What a flight sends before its calls.
#[derive(Debug)]
pub(crate) struct Ahead<'a> {
    /// A number to be sent back, where another flight's replies come before this one's.
    pub(crate) mark: Option<u64>,
    /// Scripts to load.
    pub(crate) scripts: &'a mut Vec<&'static Script>,
}

impl Trip {
    fn new(work: Work) -> Self {
        Self { work, sends: Sends::Unknown, calls: 0, detours: 0, asking: false }
    }

    /// Decides what to send where that is open, and adds the argument of a step. False when all is answered without.
    fn prepare(
        &mut self,
        arguments: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
        ctx: &Context,
    ) -> Result<bool, Fault> {
        if matches!(self.sends, Sends::Unknown) {
            let next = match &self.work {
                Work::Each { asks, now, .. } => call::first(asks, *now, answers),
                Work::Together { asks, now, .. } => call::together(asks, *now, ctx.time, answers)?,
                Work::Call { .. } => Next::Done,
            };
            self.sends = match next {
                Next::Done => return Ok(false),
                Next::Step(step, hint) => Sends::Step(step, hint, 0..0),
                Next::Again(call) => Sends::Call(call),
            };
        }
        if let (Sends::Step(_, hint, place), Work::Each { asks, .. }) = (&mut self.sends, &self.work) {
            let from = arguments.len();
            call::argument(arguments, asks, *hint).inspect_err(|_| arguments.truncate(from))?;
            *place = from..arguments.len();
        }
        Ok(true)
    }

    fn script(&self) -> Option<&'static Script> {
        match &self.sends {
            Sends::Unknown => None,
            Sends::Step(step, ..) => Some(each(*step, Swap::None)),
            Sends::Call(call) => Some(call.script),
        }
    }

    /// For messages.
    fn keys(&self) -> String {
        let text = |key: &Vec<u8>| String::from_utf8_lossy(key).into_owned();
        match (&self.work, &self.sends) {
            (Work::Each { asks, .. }, _) => asks.first().map(|ask| text(&ask.key)).unwrap_or_default(),
            (_, Sends::Call(call)) => call.keys.iter().map(text).collect::<Vec<_>>().join(" or "),
            _ => String::new(),
        }
    }

    /// Deals out the answers, in the order of arrival.
    fn done(&mut self, answers: &mut Vec<Answer>, spare: &mut Vec<Emptied>, ctx: &Context) {
        match &mut self.work {
            Work::Each { asks, riders, .. } => {
                if answers.len() != riders.len() {
                    return self.fail(|| ctx.refused("a script answered for another number of callers"));
                }
                for (rider, answer) in riders.drain(..).zip(answers.drain(..)) {
                    if let Some(rider) = rider {
                        rider.answer(Ok(answer));
                    }
                }
                if spare.len() < MOST_SPARE && asks.capacity() <= SPARE_PLACES {
                    asks.clear();
                    spare.push((std::mem::take(asks), std::mem::take(riders)));
                }
            }
            Work::Together { rider, .. } => {
                if let Some(rider) = rider.take() {
                    rider.answer(Ok(std::mem::take(answers)));
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

/// How many trips, from the first on, may share its script call.
fn shared(trips: &[Trip], most: usize, time: StoreTime) -> usize {
    let alike = |a: &Trip, b: &Trip| match (&a.sends, &b.sends) {
        // With clocks of the callers', a call has one instant.
        (Sends::Step(a, at, _), Sends::Step(b, then, _)) => {
            a == b && (time == StoreTime::Store || at == then)
        }
        _ => false,
    };
    let first = &trips[0];
    trips.iter().take(most).take_while(|trip| alike(first, trip) && !trip.asking).count()
}

/// One call that takes the step on each trip's key. An argument that is the one before it is left empty.
fn write_steps(bytes: &mut Vec<u8>, step: Step, trips: &[Trip], arguments: &[u8], time: Option<Timestamp>) {
    begin_call(bytes, each(step, Swap::None), trips.len(), trips.len() + usize::from(time.is_some()));
    for trip in trips {
        if let Work::Each { asks, .. } = &trip.work {
            bulk(bytes, &asks[0].key);
        }
    }
    let mut last: &[u8] = &[];
    for trip in trips {
        if let Sends::Step(_, _, place) = &trip.sends {
            let argument = &arguments[place.clone()];
            bulk(bytes, if argument == last { &[] } else { argument });
            last = argument;
        }
    }
    if let Some(time) = time {
        bulk(bytes, &instant(time));
    }
}

fn write_call(bytes: &mut Vec<u8>, call: &Call) {
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
