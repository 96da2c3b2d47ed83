//! Connections beside the first: opened while answers on the others are late, or ahead of that where the
//! server is far away; closed when they are not needed. Also the next time at which there is something to do
//! although nothing arrives.

use std::task::{Context, Poll};

use tokio::time::{Duration, Instant};
use tollgate_store::remote::jittered;

use super::send::Waits;
use super::state::{Driver, Opening};
use crate::pace::Pace;
use crate::pipelined::PipelinedConnection;
use crate::queue::earlier;
use crate::workload::Workload;

/// Most connections of a queue. All except the first are used while answers on others are late.
const MOST_CONNECTIONS: usize = 4;
/// Lifetime of an unneeded connection.
const KEPT_IDLE: Duration = Duration::from_secs(10);

impl<W: Workload> Driver<W> {
    /// Opens another connection where answers on the open ones are overdue, or soon may be; closes
    /// connections that are not needed.
    pub(super) fn tend_connections(&mut self, now: Instant) {
        let patience = self.shared().patience();
        let silence = self.longest_silence();
        // A connection that has been silent for this long is given up.
        let is_dead = |connection: &PipelinedConnection<W>| {
            connection.silent_since().is_some_and(|since| since + silence <= now)
        };
        while let Some(nth) = self.connections.iter().position(is_dead) {
            self.lose(nth, None);
        }
        let wanted = self.wanted(now, patience);
        if wanted > 0
            && self.spares.opening.is_none()
            && self.spares.may_open <= now
            && self.connections.len() < MOST_CONNECTIONS
        {
            self.spares.opening = Some(self.open());
        }
        let is_idle = |connection: &PipelinedConnection<W>| {
            connection.idle_since().is_some_and(|since| since + KEPT_IDLE <= now)
        };
        if self.connections.len() > self.ready()
            && let Some(nth) = self.connections.iter().rposition(is_idle)
        {
            self.connections.remove(nth);
        }
    }

    fn open(&self) -> Opening {
        let shared = self.shared().clone();
        let node = self.queue.node();
        Box::pin(async move {
            let address = shared.topology().find(node, shared.dialer()).await?;
            shared.dialer().open(&address).await
        })
    }

    /// The number of connections that are kept ready.
    fn ready(&self) -> usize {
        let base = self.connections.iter().map(PipelinedConnection::base).min().unwrap_or_default();
        Pace::of(base, self.shared().patience()).ready
    }

    /// The number of connections that are missing now.
    fn wanted(&self, now: Instant, patience: Duration) -> usize {
        let is_free = |it: &&PipelinedConnection<W>| it.overdue_at(patience).is_none_or(|at| at > now);
        let free = self.connections.iter().filter(is_free).count();
        let ready = self.ready();
        let has_demand = ready > 1 || self.queue.waiting().0 > 0;
        if has_demand { ready.saturating_sub(free) } else { 0 }
    }

    pub(super) fn poll_opening(&mut self, cx: &mut Context<'_>, now: Instant) {
        let Some(opening) = &mut self.spares.opening else { return };
        let Poll::Ready(opened) = opening.as_mut().poll(cx) else { return };
        self.spares.opening = None;
        match opened {
            Ok(connection) => {
                self.connections.push(PipelinedConnection::new(self.queue.shared(), connection, now));
            }
            Err(_) => {
                // A fault of the server shows on the other connections, too, or it passes.
                let shared = self.shared();
                shared.counters().conn.connect_failures.add(1);
                self.spares.may_open = now + jittered(shared.settings().breaker.longest_pause);
            }
        }
    }

    /// The next instant at which there is something to do although nothing arrives.
    pub(super) fn next_alarm(&self, now: Instant, waits: &Waits) -> Option<Instant> {
        let patience = self.shared().patience();
        let silence = self.longest_silence();
        let (waiting, mut next) = self.queue.waiting();
        next = earlier(next, waits.until);
        let ready = self.ready();
        let mut may_open = false;
        for connection in &self.connections {
            next = earlier(next, connection.deadline());
            next = earlier(next, connection.silent_since().map(|since| since + silence));
            match connection.overdue_at(patience) {
                Some(at) if at > now && (waiting > 0 || ready > 1) => next = earlier(next, Some(at)),
                Some(at) if at <= now => may_open = true,
                _ => {}
            }
            if self.connections.len() > ready {
                next = earlier(next, connection.idle_since().map(|since| since + KEPT_IDLE));
            }
        }
        let can_open = self.spares.opening.is_none()
            && self.connections.len() < MOST_CONNECTIONS
            && self.spares.may_open > now;
        if (may_open || self.connections.len() < ready) && can_open {
            next = earlier(next, Some(self.spares.may_open));
        }
        next
    }
}
