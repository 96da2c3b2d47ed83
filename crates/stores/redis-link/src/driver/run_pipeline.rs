//! One poll of the pipeline does all work that is possible at that instant: handles replies, sends flights,
//! fails callers whose time is over. It waits for replies, room to send, new calls in the queue, and one
//! timer.

use std::task::{Context, Poll};

use tokio::time::{Duration, Instant};

use super::state::{Driver, Stopped};
use crate::flight::QueueEntry;
use crate::pipelined::{InFlight, PipelinedConnection};
use crate::replies::Redirect;
use crate::request::Request as _;
use crate::server_error::{Cause, ServerError};
use crate::workload::Workload;

/// Pause before a call is repeated because its keys are moving to another node.
const MOVING_KEYS: Duration = Duration::from_millis(1);
/// This many late answers in a row are as bad as one that does not come at all.
const LATE_A_FAILURE: u32 = 10;

impl<W: Workload> Driver<W> {
    /// Sends and receives until something breaks.
    pub(super) fn run_pipeline(&mut self, cx: &mut Context<'_>, epoch: u64) -> Poll<Stopped> {
        loop {
            let now = Instant::now();
            self.poll_connections(cx, now);
            self.poll_opening(cx, now);
            self.expire(now);
            if self.queue.has_ended() {
                self.stopping = Some(Stopped::Ended);
            } else if self.shared().topology().epoch() != epoch && self.stopping.is_none() {
                self.stopping = Some(Stopped::OtherMaster);
            }
            if self.connections.iter().all(|connection| connection.deadline().is_none())
                && let Some(stopped) = self.stopping.take()
            {
                self.spares.opening = None;
                return Poll::Ready(stopped);
            }
            if self.breaker.is_open() || self.connections.is_empty() {
                (self.stopping, self.spares.opening) = (None, None);
                return Poll::Ready(Stopped::NoConnection);
            }
            let before = self.progress();
            let waits = self.send_flights(now);
            self.tend_connections(now);
            if before != self.progress() {
                continue; // the launched flight is sent at once
            }
            if !self.queue.rest(cx.waker(), waits.count) {
                continue;
            }
            let alarm = self.next_alarm(now, &waits);
            if !self.alarm.poll(cx, alarm) {
                return Poll::Pending;
            }
        }
    }

    /// A value that changes when there is something new to send, or a new connection to send on.
    fn progress(&self) -> (u64, usize, bool) {
        (self.departures.sent, self.connections.len(), self.spares.opening.is_some())
    }

    fn poll_connections(&mut self, cx: &mut Context<'_>, now: Instant) {
        let mut nth = 0;
        while nth < self.connections.len() {
            match self.connections[nth].poll(cx) {
                Poll::Ready(Ok(answered)) => self.on_replies(nth, answered, now),
                Poll::Ready(Err(error)) => self.lose(nth, Some(&error)),
                Poll::Pending => nth += 1,
            }
        }
    }

    /// Handles a flight whose replies have come.
    pub(super) fn on_replies(&mut self, connection: usize, answered: InFlight<W>, now: Instant) {
        let shared = self.shared().clone();
        let InFlight { mut flight, mut replies, number, sent_at } = answered;
        let took = now.saturating_duration_since(sent_at);
        shared.counters().conn.round_trip(took);
        let name = self.connections[connection].name();
        let outcome = flight.on_replies(&self.workload, &mut replies, true, name, &shared);
        self.departures.load(outcome.unknown, number, &shared);
        outcome.redirects.into_iter().for_each(|redirect| self.redirect(redirect));
        for planned in outcome.again.into_iter().rev() {
            self.queue.push_front(QueueEntry::Again(Box::new(planned)));
        }
        if outcome.doubt {
            shared.topology().doubted.notify_one();
        }
        if outcome.pause {
            self.departures.not_before = Some(now + MOVING_KEYS);
        }
        self.departures.park(flight, replies);
        match outcome.error {
            Some(error) => {
                self.stopping.get_or_insert(Stopped::Error(error));
            }
            None if !self.breaker.is_open() => self.answered(took),
            None => {}
        }
        if !self.connections[connection].is_quiet() {
            let why = format!("{}: sends more than it was asked", self.connections[connection].name());
            self.lose(connection, Some(&ServerError::new(Cause::Misconfigured, why)));
        }
    }

    /// A flight was answered. A late answer also shows that the server works, but not if late answers follow
    /// one another for ever.
    fn answered(&mut self, took: Duration) {
        let shared = self.shared().clone();
        self.missed = None;
        self.breaker.answered();
        if took <= shared.patience() {
            self.late = 0;
            return;
        }
        self.late = self.late.saturating_add(1);
        let settings = shared.settings();
        if self.late >= settings.breaker.failures.saturating_mul(LATE_A_FAILURE) {
            let why = format!(
                "{}: too slow: answered after {took:.0?}, and the deadline of a call is {:?}",
                settings.servers, settings.deadline
            );
            self.tripped(&ServerError::new(Cause::Silent, why));
        }
    }

    fn redirect(&self, Redirect { to, moved, mut planned }: Redirect<W::Request>) {
        let shared = self.shared();
        let node = shared.topology().number(&to).filter(|_| shared.settings().is_cluster());
        let target = node.and_then(|node| Some((node, (self.route)(node, self.queue.traffic())?)));
        let Some((node, queue)) = target else {
            let why = format!("is asked to go to {to}, and cannot");
            let failure = ServerError::new(Cause::Misconfigured, why).to_failure();
            return planned.request.fail(|| failure.clone());
        };
        if let Some(slot) = moved {
            shared.topology().moved(slot, node);
        }
        queue.push_front(QueueEntry::Again(Box::new(planned)));
    }

    /// Closes a connection. Requests sent on it without a reply are lost; requests not yet sent are sent
    /// again, in order. It counts as a failure, except for a connection that had nothing to do beside others,
    /// and for one that was silent: there each miss has counted.
    pub(super) fn lose(&mut self, connection: usize, error: Option<&ServerError>) {
        let mut lost = self.connections.remove(connection);
        let is_spare = lost.in_flight() == 0 && !self.connections.is_empty();
        let shared = self.shared().clone();
        let mut again = Vec::new();
        for (mut sent, any_sent) in lost.abandon() {
            let InFlight { flight, replies, number, .. } = &mut sent;
            let outcome = flight.on_replies(&self.workload, replies, any_sent, lost.name(), &shared);
            self.departures.load(outcome.unknown, *number, &shared);
            outcome.redirects.into_iter().for_each(|redirect| self.redirect(redirect));
            again.extend(outcome.again);
        }
        for planned in again.into_iter().rev() {
            self.queue.push_front(QueueEntry::Again(Box::new(planned)));
        }
        if let Some(error) = error.filter(|error| !is_spare || error.cause == Cause::Misconfigured) {
            self.failed(error);
        }
    }

    /// Closes all connections, in order.
    pub(super) fn abandon_all(&mut self) {
        while !self.connections.is_empty() {
            self.lose(0, None);
        }
        self.spares.opening = None;
    }

    /// Fails callers whose time is over, in flight and in the queue. If no reply came in time for as long as
    /// a call may take, that is one failure, for any number of calls.
    pub(super) fn expire(&mut self, now: Instant) {
        let shared = self.shared().clone();
        let mut any = self.queue.expire(now);
        for flight in self.connections.iter_mut().flat_map(PipelinedConnection::flights) {
            any |= flight.expire(now, &shared);
        }
        let patience = shared.patience();
        if any && self.missed.is_none_or(|at| now >= at + patience) {
            self.missed = Some(now);
            let settings = shared.settings();
            let first = self.connections.first();
            let name = first.map_or_else(|| settings.servers.to_string(), |it| it.name().to_owned());
            let why = format!("{name}: no answer within {:?}", settings.deadline);
            self.failed(&ServerError::new(Cause::Silent, why));
        }
    }
}
