//! Flying: which flight leaves when and on which connection, what becomes of those that land, come late or never. One poll does what
//! can be done at that instant; what it waits for are replies, room to send, items put into the queue, and one timer.

use std::task::{Context, Poll};

use tokio::time::{Duration, Instant};

use super::drive::{Driver, Landed, Opening, open};
use super::earlier;
use super::line::{Aloft, Line};
use super::pace::Pace;
use crate::figures::add;
use crate::flight::{Ahead, Flight, Item, Redirect};
use crate::reply::Reply;
use crate::script::Script;
use crate::trouble::{Kind, Trouble};
use tollgate_store::remote::jittered;

/// Pause before a call is sent again whose keys are moving to another node.
const KEYS_ON_THEIR_WAY: Duration = Duration::from_millis(1);
/// Most connections of a link. All but the first serve while answers on others are late.
const MOST_LINES: usize = 4;
/// How long a connection that is not needed stays open.
const KEPT_IDLE: Duration = Duration::from_secs(10);
/// This many late answers in a row are as bad as one that does not come at all.
const LATE_A_FAILURE: u32 = 10;
/// Most flights whose buffers are kept.
const MOST_PARKED: usize = 4;
/// A second flight to a server nearby leaves only with so many calls that wait: fewer do better to share calls with those that come
/// until the first has landed.
const WORTH_A_SECOND: usize = 32;

/// What flights need besides connections.
pub(super) struct Deck {
    parked: Vec<(Flight, Vec<Reply>)>,
    items: Vec<Item>,
    /// Scripts to load before the next calls.
    unknown: Vec<&'static Script>,
    /// Which flight last loaded a script.
    loads: Vec<(&'static Script, u64)>,
    /// Flights that have left.
    departures: u64,
    /// When the last one left.
    departed: Instant,
    /// Nothing leaves before.
    not_before: Option<Instant>,
    /// Nothing leaves any more, once what is in the air is down: why.
    leaving: Option<Landed>,
    opening: Option<Opening>,
    /// Another connection may be tried from then on.
    may_open: Instant,
}

impl Deck {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            parked: Vec::new(),
            items: Vec::new(),
            unknown: Vec::new(),
            loads: Vec::new(),
            departures: 0,
            departed: now,
            not_before: None,
            leaving: None,
            opening: None,
            may_open: now,
        }
    }
}

/// What may let the next flight leave, besides one that lands.
struct Waits {
    /// So many calls that wait.
    count: usize,
    /// This instant.
    until: Option<Instant>,
}

impl Waits {
    const fn for_calls(count: usize) -> Self {
        Self { count, until: None }
    }

    const fn until(until: Option<Instant>) -> Self {
        Self { count: usize::MAX, until }
    }
}

impl Driver {
    /// Flies until something is out of order.
    pub(super) fn poll_fly(&mut self, cx: &mut Context<'_>, epoch: u64) -> Poll<Landed> {
        loop {
            let now = Instant::now();
            self.poll_lines(cx, now);
            self.poll_opening(cx, now);
            self.expire(now);
            if self.link.has_ended() {
                self.deck.leaving = Some(Landed::Ended);
            } else if self.link.hub.topology().epoch() != epoch && self.deck.leaving.is_none() {
                self.deck.leaving = Some(Landed::Elsewhere);
            }
            if self.lines.iter().all(|line| line.gives_up().is_none())
                && let Some(landed) = self.deck.leaving.take()
            {
                self.deck.opening = None;
                return Poll::Ready(landed);
            }
            if self.open || self.lines.is_empty() {
                (self.deck.leaving, self.deck.opening) = (None, None);
                return Poll::Ready(Landed::Grounded);
            }
            let before = (self.deck.departures, self.lines.len(), self.deck.opening.is_some());
            let waits = self.depart(now);
            self.tend_lines(now);
            if before != (self.deck.departures, self.lines.len(), self.deck.opening.is_some()) {
                continue; // what has left is sent at once
            }
            if !self.link.rest(cx.waker(), waits.count) {
                continue;
            }
            let alarm = self.next_alarm(now, &waits);
            if !self.alarm.poll(cx, alarm) {
                return Poll::Pending;
            }
        }
    }

    fn poll_lines(&mut self, cx: &mut Context<'_>, now: Instant) {
        let mut nth = 0;
        while nth < self.lines.len() {
            match self.lines[nth].poll(cx) {
                Poll::Ready(Ok(aloft)) => self.land(nth, aloft, now),
                Poll::Ready(Err(trouble)) => self.lose(nth, Some(&trouble)),
                Poll::Pending => nth += 1,
            }
        }
    }

    /// Deals with a flight whose replies have come.
    pub(super) fn land(&mut self, line: usize, aloft: Aloft, now: Instant) {
        let hub = self.link.hub.clone();
        let context = hub.context();
        let Aloft { mut flight, mut replies, number, left } = aloft;
        let took = now.saturating_duration_since(left);
        context.counters.round_trip(took);
        let user = hub.config().login.username.as_deref();
        let landing = flight.land(&mut replies, true, self.lines[line].name(), user, context);
        self.load(landing.unknown, number);
        landing.redirects.into_iter().for_each(|redirect| self.redirect(redirect));
        landing.again.into_iter().rev().for_each(|item| self.link.push_front(item));
        if landing.doubt {
            hub.topology().doubted.notify_one();
        }
        if landing.pause {
            self.deck.not_before = Some(now + KEYS_ON_THEIR_WAY);
        }
        self.park(flight, replies);
        match landing.trouble {
            Some(trouble) => {
                self.deck.leaving.get_or_insert(Landed::Trouble(trouble));
            }
            None if !self.open => self.answered(took),
            None => {}
        }
        if !self.lines[line].is_quiet() {
            let name = self.lines[line].name();
            let trouble = Trouble::new(Kind::Wrong, format!("{name}: says more than it was asked"));
            self.lose(line, Some(&trouble));
        }
    }

    /// A flight was answered. A late answer also shows that the server lives, but not one after another for ever.
    fn answered(&mut self, took: Duration) {
        let hub = &self.link.hub;
        let allowed = hub.config().breaker.failures;
        (self.failures, self.missed) = (0, None);
        if took <= hub.context().patience() {
            self.late = 0;
            return;
        }
        self.late = self.late.saturating_add(1);
        if self.late >= allowed.saturating_mul(LATE_A_FAILURE) {
            let name = hub.config().servers.to_string();
            let deadline = hub.context().deadline;
            let why = format!(
                "{name}: too slow: answered after {took:.0?}, and the deadline of a call is {deadline:?}"
            );
            self.failures = allowed;
            self.failed(&Trouble::new(Kind::Silent, why));
        }
    }

    /// Notes which scripts to load: what a flight found missing that left after the last load of it, or before there was any.
    fn load(&mut self, unknown: Vec<&'static Script>, number: u64) {
        for script in unknown {
            let is = |known: &&'static Script| std::ptr::eq(*known, script);
            let is_on_its_way = self.deck.loads.iter().any(|(known, by)| is(known) && *by > number);
            if !is_on_its_way && !self.deck.unknown.iter().any(is) {
                add(&self.link.hub.context().counters.reloads, 1);
                self.deck.unknown.push(script);
            }
        }
    }

    fn park(&mut self, flight: Flight, replies: Vec<Reply>) {
        if self.deck.parked.len() < MOST_PARKED {
            self.deck.parked.push((flight, replies));
        }
    }

    fn redirect(&self, redirect: Redirect) {
        let hub = &self.link.hub;
        let target = hub.topology().number(&redirect.to).filter(|_| hub.config().is_cluster());
        let (Some(node), Some(lane)) = (target, self.lane.upgrade()) else {
            let why = format!("is asked to go to {}, and cannot", redirect.to);
            return redirect.item.refuse(hub.context(), &Trouble::new(Kind::Wrong, why));
        };
        if let Some(slot) = redirect.moved {
            hub.topology().moved(slot, node);
        }
        lane.link(node, self.link.traffic).push_front(redirect.item);
    }

    /// Closes a connection. What was sent on it and not answered is lost; what was not sent is sent again, in order. It counts as a
    /// failure, except of one that had nothing to do beside others, and of one that was silent: there each miss has counted.
    pub(super) fn lose(&mut self, line: usize, trouble: Option<&Trouble>) {
        let mut line = self.lines.remove(line);
        let is_spare = line.in_the_air() == 0 && !self.lines.is_empty();
        let hub = self.link.hub.clone();
        let user = hub.config().login.username.as_deref();
        let mut again = Vec::new();
        for (mut aloft, sent) in line.abandon() {
            let landing = aloft.flight.land(&mut aloft.replies, sent, line.name(), user, hub.context());
            self.load(landing.unknown, aloft.number);
            landing.redirects.into_iter().for_each(|redirect| self.redirect(redirect));
            again.extend(landing.again);
        }
        again.into_iter().rev().for_each(|item| self.link.push_front(item));
        if let Some(trouble) = trouble.filter(|trouble| !is_spare || trouble.kind == Kind::Wrong) {
            self.failed(trouble);
        }
    }

    /// Closes all connections, in order.
    pub(super) fn abandon_all(&mut self) {
        while !self.lines.is_empty() {
            self.lose(0, None);
        }
        self.deck.opening = None;
    }

    /// Answers those whose time is over, in the air and in the queue. Where nothing was answered in time for as long as a call may
    /// take, that is one failure, however many calls it concerns.
    pub(super) fn expire(&mut self, now: Instant) {
        let link = self.link.clone();
        let context = link.hub.context();
        let mut any = link.expire(now);
        for flight in self.lines.iter_mut().flat_map(Line::flights) {
            any |= flight.expire(now, context);
        }
        let patience = context.patience();
        if any && self.missed.is_none_or(|at| now >= at + patience) {
            self.missed = Some(now);
            let name = self
                .lines
                .first()
                .map_or_else(|| link.hub.config().servers.to_string(), |it| it.name().to_owned());
            let why = format!("{name}: no answer within {:?}", context.deadline);
            self.failed(&Trouble::new(Kind::Silent, why));
        }
    }

    /// Lets flights leave while there are calls and room.
    fn depart(&mut self, now: Instant) -> Waits {
        let link = self.link.clone();
        let (hub, context) = (&link.hub, link.hub.context());
        loop {
            if self.deck.leaving.is_some() {
                return Waits::until(None);
            }
            let (waiting, _) = link.waiting();
            if waiting == 0 {
                return Waits::for_calls(1);
            }
            if let Some(at) = self.deck.not_before.filter(|at| *at > now) {
                return Waits::until(Some(at));
            }
            let place = match self.place(now, waiting) {
                Ok(place) => place,
                Err(waits) => return waits,
            };
            link.take(&mut self.deck.items, hub.config().max_flight);
            let (mut flight, replies) = self.deck.parked.pop().unwrap_or_default();
            let number = self.deck.departures + 1;
            let line = &mut self.lines[place];
            let mark = (line.in_the_air() > 0).then_some(number);
            let unknown = self.deck.unknown.len();
            let scripts = self.deck.unknown.iter().map(|script| (*script, number)).collect::<Vec<_>>();
            flight.plan(&mut self.deck.items, now, context, Ahead { mark, scripts: &mut self.deck.unknown });
            if flight.is_empty() {
                self.park(flight, replies);
                continue;
            }
            if unknown > 0 {
                self.deck
                    .loads
                    .retain(|(known, _)| !scripts.iter().any(|(script, _)| std::ptr::eq(*known, *script)));
                self.deck.loads.extend(scripts);
            }
            context.counters.flight(flight.calls() as u64, flight.trips() as u64);
            (self.deck.departures, self.deck.departed) = (number, now);
            line.launch(Aloft { flight, replies, number, left: now });
        }
    }

    /// On which connection the next flight leaves: of those whose answers are not overdue, the one with the fewest in the air.
    fn place(&self, now: Instant, waiting: usize) -> Result<usize, Waits> {
        let patience = self.link.hub.context().patience();
        let (mut in_the_air, mut best, mut base) = (0, None, Duration::MAX);
        for (nth, line) in self.lines.iter().enumerate() {
            if line.overdue_at(patience).is_some_and(|at| at <= now) {
                continue;
            }
            let aloft = line.in_the_air();
            in_the_air += aloft;
            base = base.min(line.base());
            if best.is_none_or(|(_, least)| aloft < least) {
                best = Some((nth, aloft));
            }
        }
        let Some((nth, least)) = best else { return Err(Waits::until(None)) };
        let pace = Pace::of(base, patience);
        if least >= pace.a_line {
            return Err(Waits::until(None));
        }
        if in_the_air < pace.at_once {
            let worth = if in_the_air == 0 || pace.ready > 1 { 1 } else { WORTH_A_SECOND };
            return if waiting >= worth { Ok(nth) } else { Err(Waits::for_calls(worth)) };
        }
        let next = self.deck.departed + pace.gap;
        match in_the_air < pace.most {
            true if next <= now => Ok(nth),
            true => Err(Waits::until(Some(next))),
            false => Err(Waits::until(None)),
        }
    }

    /// Opens another connection where answers on those that are open are overdue, or may be for long; closes what is not needed.
    fn tend_lines(&mut self, now: Instant) {
        let patience = self.link.hub.context().patience();
        let silence = self.longest_silence();
        // One that was silent for so long is given up.
        while let Some(nth) =
            self.lines.iter().position(|line| line.silent_since().is_some_and(|since| since + silence <= now))
        {
            self.lose(nth, None);
        }
        let wanted = self.wanted(now, patience);
        if wanted > 0
            && self.deck.opening.is_none()
            && self.deck.may_open <= now
            && self.lines.len() < MOST_LINES
        {
            self.deck.opening = Some(open(&self.link.hub, self.link.node));
        }
        let ready = self.ready();
        if self.lines.len() > ready
            && let Some(nth) = self
                .lines
                .iter()
                .rposition(|line| line.idle_since().is_some_and(|since| since + KEPT_IDLE <= now))
        {
            self.lines.remove(nth);
        }
    }

    fn ready(&self) -> usize {
        let base = self.lines.iter().map(Line::base).min().unwrap_or_default();
        Pace::of(base, self.link.hub.context().patience()).ready
    }

    /// How many connections are missing now.
    fn wanted(&self, now: Instant, patience: Duration) -> usize {
        let is_free = |line: &&Line| line.overdue_at(patience).is_none_or(|at| at > now);
        let free = self.lines.iter().filter(is_free).count();
        let ready = self.ready();
        let has_demand = ready > 1 || self.link.waiting().0 > 0;
        if has_demand { ready.saturating_sub(free) } else { 0 }
    }

    fn poll_opening(&mut self, cx: &mut Context<'_>, now: Instant) {
        let Some(opening) = &mut self.deck.opening else { return };
        let Poll::Ready(opened) = opening.as_mut().poll(cx) else { return };
        self.deck.opening = None;
        match opened {
            Ok(connection) => self.lines.push(Line::new(&self.link.hub, connection, now)),
            Err(_) => {
                // What is wrong shows on the others, too, or it passes.
                add(&self.link.hub.context().counters.connect_failures, 1);
                self.deck.may_open = now + jittered(self.link.hub.config().breaker.longest_pause);
            }
        }
    }

    /// When there is something to do though nothing comes.
    fn next_alarm(&self, now: Instant, waits: &Waits) -> Option<Instant> {
        let patience = self.link.hub.context().patience();
        let silence = self.longest_silence();
        let (waiting, mut next) = self.link.waiting();
        next = earlier(next, waits.until);
        let ready = self.ready();
        let mut may_open = false;
        for line in &self.lines {
            next = earlier(next, line.gives_up());
            next = earlier(next, line.silent_since().map(|since| since + silence));
            match line.overdue_at(patience) {
                Some(at) if at > now && (waiting > 0 || ready > 1) => next = earlier(next, Some(at)),
                Some(at) if at <= now => may_open = true,
                _ => {}
            }
            if self.lines.len() > ready {
                next = earlier(next, line.idle_since().map(|since| since + KEPT_IDLE));
            }
        }
        let can_open =
            self.deck.opening.is_none() && self.lines.len() < MOST_LINES && self.deck.may_open > now;
        if (may_open || self.lines.len() < ready) && can_open {
            next = earlier(next, Some(self.deck.may_open));
        }
        next
    }
}
