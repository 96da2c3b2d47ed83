//! The waiters of a limiter in order: a line for each key, and the lines by the turn of their first waiter.
//!
//! Plain values: reads no clock, wakes no waiter, knows no quota. Every operation costs the same however long
//! a line is, except [`Queue::line_in_order`].

use std::collections::{BTreeSet, HashMap};
use std::mem::replace;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tollgate_core::{State, Timestamp};

use super::waiter::{InLine, Leaving, Standing, Taken, Waiter, WaiterKind};

/// A clock that falls behind real time by more than this was set back: more than a timer is late.
const LAG: Duration = Duration::from_millis(10);

/// Index that stands for no place.
const NIL: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    places: Vec<WaiterNode>,
    free: Vec<u32>,
    lines: Vec<Line>,
    free_lines: Vec<u32>,
    by_key: HashMap<Arc<[u8]>, u32>,
    /// The lines by the turn of their first waiter.
    turns: BTreeSet<(Timestamp, u32)>,
    /// Number of waiters that a task wakes.
    tasks: usize,
    waiting: usize,
    /// The next look of the task with the timer, while it lives.
    pub(crate) driven_at: Option<Timestamp>,
    /// Real time and the limiter's time, when they last ran apart.
    began: Option<(Timestamp, Timestamp)>,
}

/// The place of a waiter. A place is used again with another turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    place: u32,
    turn: u32,
}

#[derive(Debug)]
struct WaiterNode {
    turn: u32,
    line: u32,
    before: u32,
    behind: u32,
    waiter: Option<Waiter>,
}

#[derive(Debug)]
struct Line {
    key: Arc<[u8]>,
    /// The tier of the key, where keys have quotas of their own.
    tier: u16,
    first: u32,
    last: u32,
    /// Permits of all its waiters.
    permits: u64,
    turn_at: Timestamp,
    /// The plan, if permits are taken only when a turn comes.
    plan: Option<Box<LinePlan>>,
}

/// The plan of a line that owes nothing until its turns come: the state after the turns of all its waiters.
#[derive(Debug)]
pub(crate) struct LinePlan {
    pub(crate) state: State,
    /// The latest time of the last turn.
    pub(crate) at: Timestamp,
    /// False once a waiter has left: turns may come earlier than planned, never later.
    pub(crate) is_exact: bool,
}

/// A waiter's place in a line, its cost and its last moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stands {
    pub(crate) ticket: Ticket,
    pub(crate) cost: u64,
    pub(crate) deadline: Timestamp,
    /// The deadline in real time.
    pub(crate) gives_up: Timestamp,
}

/// The first waiter of a line.
#[derive(Clone, Debug)]
pub(crate) struct First {
    pub(crate) line: u32,
    pub(crate) ticket: Ticket,
    pub(crate) key: Arc<[u8]>,
    pub(crate) cost: u64,
    /// Permits of the waiters behind it.
    pub(crate) behind: u64,
    pub(crate) turn_at: Timestamp,
    pub(crate) deadline: Timestamp,
}

impl Stands {
    /// The latest turn in time by the limiter's clock, which shows `now` while real time is `real`.
    pub(crate) fn latest(&self, real: Timestamp, now: Timestamp) -> Timestamp {
        if self.gives_up == Timestamp::NEVER {
            return self.deadline;
        }
        self.deadline.min(now + self.gives_up.since(real) + LAG)
    }
}

impl Queue {
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting
    }

    pub(crate) const fn has_tasks(&self) -> bool {
        self.tasks > 0
    }

    /// The next turn of all lines.
    pub(crate) fn next_turn(&self) -> Option<Timestamp> {
        self.turns.first().map(|(at, _)| *at)
    }

    /// Permits that waiters of `key` have reserved.
    pub(crate) fn permits_of(&self, key: &[u8]) -> u64 {
        self.line_of(key).map_or(0, |line| self.lines[line as usize].permits)
    }

    fn line_of(&self, key: &[u8]) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    /// Joins the line of `key` at its end; `turn_at` counts if it is the first.
    pub(crate) fn join(&mut self, key: &[u8], waiter: Waiter, turn_at: Timestamp) -> Ticket {
        let ticket = self.enlist(key, waiter, turn_at);
        let line = &mut self.lines[self.places[ticket.place as usize].line as usize];
        let before = line.last;
        line.last = ticket.place;
        match before {
            NIL => line.first = ticket.place,
            before => self.places[before as usize].behind = ticket.place,
        }
        self.places[ticket.place as usize].before = before;
        ticket
    }

    /// Joins the line of `key` in front of all others, which wait without a known turn.
    pub(crate) fn join_in_front(&mut self, key: &[u8], waiter: Waiter) -> Ticket {
        let ticket = self.enlist(key, waiter, Timestamp::NEVER);
        let line = &mut self.lines[self.places[ticket.place as usize].line as usize];
        let behind = line.first;
        line.first = ticket.place;
        match behind {
            NIL => line.last = ticket.place,
            behind => self.places[behind as usize].before = ticket.place,
        }
        self.places[ticket.place as usize].behind = behind;
        ticket
    }

    /// A place that counts in the line of `key`, but is not linked to the others yet.
    fn enlist(&mut self, key: &[u8], waiter: Waiter, turn_at: Timestamp) -> Ticket {
        self.tasks += usize::from(waiter.kind() == Some(WaiterKind::Task));
        self.waiting += 1;
        let line_number = self.line_of(key).unwrap_or_else(|| self.open(key, turn_at));
        let line = &mut self.lines[line_number as usize];
        line.permits = line.permits.saturating_add(waiter.cost);
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                if self.places.len() == self.places.capacity() {
                    // Grows by an eighth: doubling would leave half of the room unused.
                    self.places.reserve_exact(self.places.len() / 8 + 16);
                }
                self.places.push(WaiterNode { turn: 0, line: NIL, before: NIL, behind: NIL, waiter: None });
                (self.places.len() - 1) as u32
            }
        };
        let entry = &mut self.places[place as usize];
        *entry = WaiterNode {
            turn: entry.turn,
            line: line_number,
            before: NIL,
            behind: NIL,
            waiter: Some(waiter),
        };
        Ticket { place, turn: entry.turn }
    }

    fn open(&mut self, key: &[u8], turn_at: Timestamp) -> u32 {
        let key: Arc<[u8]> = key.into();
        let line =
            Line { key: Arc::clone(&key), tier: 0, first: NIL, last: NIL, permits: 0, turn_at, plan: None };
        let number = match self.free_lines.pop() {
            Some(number) => {
                self.lines[number as usize] = line;
                number
            }
            None => {
                self.lines.push(line);
                (self.lines.len() - 1) as u32
            }
        };
        self.by_key.insert(key, number);
        self.turns.insert((turn_at, number));
        number
    }

    /// True if the limiter's clock has fallen behind real time since the last call.
    pub(crate) fn is_set_back(&mut self, real: Timestamp, now: Timestamp) -> bool {
        let (real_then, then) = *self.began.get_or_insert((real, now));
        let expected = then + real.since(real_then);
        let is_set_back = expected.since(now) > LAG;
        if is_set_back || now > expected {
            self.began = Some((real, now));
        }
        is_set_back
    }

    /// The tier that the line of `key` is counted by, if there is a line.
    pub(crate) fn tier_of(&self, key: &[u8]) -> Option<u16> {
        self.line_of(key).map(|line| self.lines[line as usize].tier)
    }

    pub(crate) fn set_tier(&mut self, key: &[u8], tier: u16) {
        if let Some(line) = self.line_of(key) {
            self.lines[line as usize].tier = tier;
        }
    }

    /// Takes out the plan of the line of `key`.
    pub(crate) fn take_plan(&mut self, key: &[u8]) -> Option<Box<LinePlan>> {
        let line = self.line_of(key)?;
        self.lines[line as usize].plan.take()
    }

    /// Puts a plan in, if there is a line.
    pub(crate) fn set_plan(&mut self, key: &[u8], plan: Box<LinePlan>) {
        if let Some(line) = self.line_of(key) {
            self.lines[line as usize].plan = Some(plan);
        }
    }

    /// The waiter with this ticket; `None` once it was [collected](Self::collect).
    pub(crate) fn waiter(&mut self, ticket: Ticket) -> Option<&mut Waiter> {
        let place = self.places.get_mut(ticket.place as usize)?;
        if place.turn == ticket.turn { place.waiter.as_mut() } else { None }
    }

    /// Takes a waiter out, wherever it stands, and frees its place.
    pub(crate) fn collect(&mut self, ticket: Ticket) -> Option<Waiter> {
        let _is_there = self.waiter(ticket)?;
        self.leave(ticket.place);
        self.vacate(ticket.place)
    }

    /// Takes a waiter out of its line without its permits; its place stays, for it to find out.
    pub(crate) fn fail(&mut self, ticket: Ticket, why: Leaving) -> Option<Waker> {
        let _is_there = self.waiter(ticket)?;
        self.leave(ticket.place);
        self.settle(ticket.place, Standing::Left(why))
    }

    /// Takes out the first waiter of a line, whose turn has come; its place stays until it has noticed that.
    pub(crate) fn serve(&mut self, line: u32, taken: Taken) -> Option<Waker> {
        let first = self.lines.get(line as usize)?.first;
        if first == NIL {
            return None;
        }
        self.unlink(first);
        self.settle(first, Standing::Served(taken))
    }

    fn settle(&mut self, place: u32, state: Standing) -> Option<Waker> {
        let waiter = self.places[place as usize].waiter.as_mut()?;
        let Standing::InLine(was) = replace(&mut waiter.state, state) else { return None };
        if was.kind == WaiterKind::Committed {
            self.vacate(place);
        }
        was.waker
    }

    /// Notes that a waiter has used `cost` of its permits: it keeps its place in the line until its turn
    /// comes. `false` if its turn has come.
    pub(crate) fn commit(&mut self, ticket: Ticket, cost: u64) -> bool {
        let Some(Waiter { cost: reserved, state: Standing::InLine(in_line) }) = self.waiter(ticket) else {
            return false;
        };
        let less = *reserved - cost.min(*reserved);
        *reserved -= less;
        in_line.kind = WaiterKind::Committed;
        let line = &mut self.lines[self.places[ticket.place as usize].line as usize];
        line.permits -= less;
        line.is_shorter_than_planned();
        true
    }

    fn vacate(&mut self, place: u32) -> Option<Waiter> {
        let entry = &mut self.places[place as usize];
        entry.turn = entry.turn.wrapping_add(1);
        self.free.push(place);
        entry.waiter.take()
    }

    /// Takes a waiter whose turn has not come out of its line.
    fn leave(&mut self, place: u32) {
        if let Some(line) = self.lines.get_mut(self.places[place as usize].line as usize) {
            line.is_shorter_than_planned();
        }
        self.unlink(place);
    }

    fn unlink(&mut self, place: u32) {
        let WaiterNode { line, before, behind, ref mut waiter, .. } = self.places[place as usize];
        let Some(waiter) = waiter.as_ref().filter(|_| line != NIL) else { return };
        self.tasks -= usize::from(waiter.kind() == Some(WaiterKind::Task));
        self.waiting -= 1;
        let cost = waiter.cost;
        let number = line;
        let line = &mut self.lines[number as usize];
        line.permits = line.permits.saturating_sub(cost);
        match before {
            NIL => line.first = behind,
            before => self.places[before as usize].behind = behind,
        }
        match behind {
            NIL => line.last = before,
            behind => self.places[behind as usize].before = before,
        }
        if line.first == NIL {
            self.turns.remove(&(line.turn_at, number));
            self.by_key.remove(&line.key);
            (line.key, line.plan) = (Arc::default(), None);
            self.free_lines.push(number);
        }
        let entry = &mut self.places[place as usize];
        (entry.line, entry.before, entry.behind) = (NIL, NIL, NIL);
    }

    /// The first waiter of the line whose turn is next.
    pub(crate) fn next(&self) -> Option<First> {
        self.turns.first().map(|(_, line)| self.first(*line))
    }

    /// The first waiter in the line of `key`.
    pub(crate) fn first_of(&self, key: &[u8]) -> Option<First> {
        self.line_of(key).map(|line| self.first(line))
    }

    fn first(&self, number: u32) -> First {
        let line = &self.lines[number as usize];
        let WaiterNode { turn, ref waiter, .. } = self.places[line.first as usize];
        let waiter = waiter.as_ref();
        let cost = waiter.map_or(0, |waiter| waiter.cost);
        First {
            line: number,
            ticket: Ticket { place: line.first, turn },
            deadline: waiter.and_then(Waiter::in_line).map_or(Timestamp::NEVER, |in_line| in_line.deadline),
            key: Arc::clone(&line.key),
            cost,
            behind: line.permits.saturating_sub(cost),
            turn_at: line.turn_at,
        }
    }

    /// Changes the turn of the first waiter in a line.
    pub(crate) fn set_turn(&mut self, number: u32, at: Timestamp) {
        let line = &mut self.lines[number as usize];
        if line.first != NIL && line.turn_at != at {
            self.turns.remove(&(line.turn_at, number));
            self.turns.insert((at, number));
            line.turn_at = at;
        }
    }

    /// The waker of the first waiter in a line, if that is a thread that looks too late by itself; it counts
    /// as woken.
    pub(crate) fn late_thread(&mut self, number: u32) -> Option<Waker> {
        let Line { first, turn_at, .. } = *self.lines.get(number as usize)?;
        let in_line = self.places.get_mut(first as usize)?.waiter.as_mut()?.in_line_mut()?;
        if in_line.kind != WaiterKind::Thread || in_line.looks_at <= turn_at {
            return None;
        }
        in_line.looks_at = turn_at;
        in_line.waker.clone()
    }

    /// All waiters in the line of `key`, from the first on.
    pub(crate) fn line_in_order(&self, key: &[u8]) -> Vec<Stands> {
        let mut all = Vec::new();
        let mut place = self.line_of(key).map_or(NIL, |line| self.lines[line as usize].first);
        while let Some(WaiterNode { turn, behind, waiter: Some(waiter), .. }) =
            self.places.get(place as usize)
            && let Waiter { cost, state: Standing::InLine(InLine { deadline, gives_up, .. }) } = *waiter
        {
            all.push(Stands { ticket: Ticket { place, turn: *turn }, cost, deadline, gives_up });
            place = *behind;
        }
        all
    }

    /// The keys with waiters.
    pub(crate) fn keys(&self) -> Vec<Arc<[u8]>> {
        self.by_key.keys().cloned().collect()
    }

    /// All waiters that the task with the timer wakes: ticket, key, cost.
    #[cfg(feature = "tokio")]
    pub(crate) fn tasks(&self) -> Vec<(Ticket, Arc<[u8]>, u64)> {
        let mut tasks = Vec::new();
        for (number, place) in self.places.iter().enumerate() {
            let Some(waiter) = &place.waiter else { continue };
            if waiter.kind() == Some(WaiterKind::Task) {
                let ticket = Ticket { place: number as u32, turn: place.turn };
                tasks.push((ticket, Arc::clone(&self.lines[place.line as usize].key), waiter.cost));
            }
        }
        tasks
    }

    /// The wakers of all waiters that the task with the timer wakes.
    #[cfg(feature = "tokio")]
    pub(crate) fn task_wakers(&self) -> Vec<Waker> {
        let waiters = self.places.iter().filter_map(|place| place.waiter.as_ref()?.in_line());
        waiters.filter(|it| it.kind == WaiterKind::Task).filter_map(|it| it.waker.clone()).collect()
    }
}

impl Line {
    fn is_shorter_than_planned(&mut self) {
        if let Some(plan) = &mut self.plan {
            plan.is_exact = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Timestamp = Timestamp::from_unix_seconds(60);

    fn waiter(cost: u64) -> Waiter {
        Waiter::without_deadline(cost, WaiterKind::Task)
    }

    /// Serves the line that is next; returns the cost of its first waiter.
    fn serve(queue: &mut Queue) -> Option<u64> {
        let first = queue.next()?;
        let _ = queue.serve(first.line, Taken { at: LATER, reset_ns: 0, limit: 7 });
        Some(first.cost)
    }

    #[test]
    fn a_waiter_takes_little_memory() {
        let of_a_place = size_of::<WaiterNode>() + size_of::<u32>();
        assert!(of_a_place <= 84, "{of_a_place} bytes");
    }

    #[test]
    fn each_line_is_in_order_wherever_waiters_leave_it() {
        let mut queue = Queue::default();
        let key = |at: u64| if at.is_multiple_of(2) { b"a" } else { b"b" };
        let tickets: Vec<_> = (0..10).map(|at| queue.join(key(at), waiter(at), LATER)).collect();
        assert_eq!((queue.waiting(), queue.permits_of(b"a"), queue.permits_of(b"b")), (10, 20, 25));
        for gone in [0, 4, 8] {
            assert_eq!(queue.collect(tickets[gone]).map(|waiter| waiter.cost), Some(gone as u64));
            assert!(queue.collect(tickets[gone]).is_none(), "once");
        }
        let order: Vec<u64> = queue.line_in_order(b"a").into_iter().map(|stands| stands.cost).collect();
        assert_eq!(order, [2, 6]);
        let first = queue.first_of(b"a").map(|first| (first.cost, first.behind));
        assert_eq!(first, Some((2, 6)));
        for ticket in [1, 3, 5, 7, 9] {
            assert!(queue.collect(tickets[ticket]).is_some());
        }
        assert_eq!((serve(&mut queue), serve(&mut queue), serve(&mut queue)), (Some(2), Some(6), None));
        assert_eq!((queue.waiting(), queue.next_turn(), queue.has_tasks()), (0, None, false));
        assert_eq!(
            queue.waiter(tickets[2]).and_then(|waiter| waiter.taken()).map(|taken| (
                taken.at,
                taken.reset_ns,
                taken.limit
            )),
            Some((LATER, 0, 7))
        );
    }

    #[test]
    fn a_place_that_is_used_again_is_not_the_old_waiters() {
        let mut queue = Queue::default();
        let old = queue.join(b"a", waiter(1), LATER);
        let _ = queue.collect(old);
        let new = queue.join(b"b", waiter(2), LATER);
        assert!(queue.waiter(old).is_none() && queue.collect(old).is_none());
        assert_eq!(queue.waiter(new).map(|waiter| waiter.cost), Some(2));
        assert_eq!((queue.places.len(), queue.lines.len()), (1, 1), "both are used again");
    }

    #[test]
    fn lines_are_served_by_their_turns() {
        let mut queue = Queue::default();
        for (key, cost) in [(b"a", 3), (b"b", 1), (b"c", 2)] {
            queue.join(key, waiter(cost), Timestamp::from_unix_seconds(cost));
        }
        let a = queue.first_of(b"a").map_or(NIL, |first| first.line);
        queue.set_turn(a, Timestamp::ZERO);
        let served: Vec<_> = std::iter::from_fn(|| serve(&mut queue)).collect();
        assert_eq!(served, [3, 1, 2]);
    }

    #[test]
    fn a_waiter_that_failed_finds_out_and_holds_up_no_other() {
        let mut queue = Queue::default();
        let failed = queue.join(b"a", waiter(5), LATER);
        let next = queue.join(b"a", waiter(1), LATER);
        let _ = queue.fail(failed, Leaving::Late);
        assert_eq!(queue.first_of(b"a").map(|first| (first.cost, first.behind)), Some((1, 0)));
        let state = queue.collect(failed).map(|waiter| waiter.state);
        assert!(matches!(state, Some(Standing::Left(Leaving::Late))), "{state:?}");
        assert!(queue.collect(next).is_some());
        assert_eq!((queue.waiting(), queue.has_tasks()), (0, false));
    }
}
