//! The time of the next flight, and its connection.

use tokio::time::{Duration, Instant};

use super::state::Driver;
use crate::flight::Ahead;
use crate::pace::Pace;
use crate::pipelined::InFlight;
use crate::workload::Workload;

/// A second flight to a server nearby is sent only when this many calls wait: fewer calls had better share
/// commands with those that come until the first is answered.
const WORTH_A_SECOND: usize = 32;

/// The conditions, besides an answered flight, under which the next flight may be sent.
pub(super) struct Waits {
    /// At least this many calls wait.
    pub(super) count: usize,
    /// This instant has come, with any number of calls.
    pub(super) until: Option<Instant>,
}

impl Waits {
    const fn for_calls(count: usize) -> Self {
        Self { count, until: None }
    }

    const fn until(until: Option<Instant>) -> Self {
        Self { count: usize::MAX, until }
    }
}

impl<W: Workload> Driver<W> {
    /// Sends flights while there are calls and room.
    pub(super) fn send_flights(&mut self, now: Instant) -> Waits {
        let queue = self.queue.clone();
        let shared = queue.shared();
        loop {
            if self.stopping.is_some() {
                return Waits::until(None);
            }
            let (waiting, _) = queue.waiting();
            if waiting == 0 {
                return Waits::for_calls(1);
            }
            if let Some(at) = self.departures.not_before.filter(|at| *at > now) {
                return Waits::until(Some(at));
            }
            let place = match self.place(now, waiting) {
                Ok(place) => place,
                Err(waits) => return waits,
            };
            let departures = &mut self.departures;
            queue.take(&mut departures.entries, shared.settings().max_flight);
            let (mut flight, replies) = departures.unpark();
            let number = departures.sent + 1;
            let connection = &mut self.connections[place];
            let mark = (connection.in_flight() > 0).then_some(number);
            let scripts = departures.unknown.clone();
            let ahead = Ahead { mark, scripts: &mut departures.unknown };
            flight.plan(&self.workload, &mut departures.entries, now, shared, ahead);
            if flight.is_empty() {
                departures.park(flight, replies);
                continue;
            }
            if !scripts.is_empty() {
                departures.loaded(scripts, number);
            }
            shared.counters().flight(flight.calls() as u64, flight.requests() as u64);
            (departures.sent, departures.sent_at) = (number, now);
            connection.launch(InFlight { flight, replies, number, sent_at: now });
        }
    }

    /// The connection for the next flight: of those whose answers are not overdue, the one with the fewest in
    /// flight.
    fn place(&self, now: Instant, waiting: usize) -> Result<usize, Waits> {
        let patience = self.shared().patience();
        let mut in_flight = 0;
        let mut best = None;
        let mut base = Duration::MAX;
        for (nth, connection) in self.connections.iter().enumerate() {
            if connection.overdue_at(patience).is_some_and(|at| at <= now) {
                continue;
            }
            let sent = connection.in_flight();
            in_flight += sent;
            base = base.min(connection.base());
            if best.is_none_or(|(_, least)| sent < least) {
                best = Some((nth, sent));
            }
        }
        let Some((nth, least)) = best else { return Err(Waits::until(None)) };
        let pace = Pace::of(base, patience);
        if least >= pace.per_connection {
            return Err(Waits::until(None));
        }
        if in_flight < pace.at_once {
            let worth = if in_flight == 0 || pace.ready > 1 { 1 } else { WORTH_A_SECOND };
            return if waiting >= worth { Ok(nth) } else { Err(Waits::for_calls(worth)) };
        }
        let next = self.departures.sent_at + pace.gap;
        match in_flight < pace.most {
            true if next <= now => Ok(nth),
            true => Err(Waits::until(Some(next))),
            false => Err(Waits::until(None)),
        }
    }
}
