//! One connection of a link and the flights that are in the air on it. Replies come in the order of the calls, so the oldest flight
//! has the next reply, however late: a flight stays until all of its replies have come, also when nobody waits for them any more.
//! Not here: when a flight leaves, and what its replies mean.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::{Duration, Instant};

use crate::connection::Connection;
use crate::figures::{add, sub};
use crate::flight::Flight;
use crate::hub::Hub;
use crate::reply::Reply;
use crate::trouble::{Kind, Trouble};

/// A flight in the air.
#[derive(Debug)]
pub(super) struct Aloft {
    pub(super) flight: Flight,
    pub(super) replies: Vec<Reply>,
    /// Which one of its link.
    pub(super) number: u64,
    /// When it left.
    pub(super) left: Instant,
}

pub(super) struct Line {
    hub: Arc<Hub>,
    connection: Connection,
    aloft: VecDeque<Aloft>,
    /// How many of them were sent as a whole, and how much of the next.
    sent: usize,
    written: usize,
    is_flushed: bool,
    /// The least round trip seen, the usual one, and how much it varies.
    base: Duration,
    usual: Duration,
    varies: Duration,
    /// When a flight last landed.
    heard: Instant,
    /// When a flight last left.
    used: Instant,
}

impl Line {
    pub(super) fn new(hub: &Arc<Hub>, connection: Connection, now: Instant) -> Self {
        let counters = &hub.context().counters;
        add(&counters.connects, 1);
        add(&counters.connections, 1);
        Self {
            hub: hub.clone(),
            aloft: VecDeque::new(),
            sent: 0,
            written: 0,
            is_flushed: true,
            base: connection.round_trip,
            usual: connection.round_trip,
            varies: connection.round_trip / 2,
            heard: now,
            used: now,
            connection,
        }
    }

    pub(super) fn name(&self) -> &str {
        self.connection.name()
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    pub(super) fn base(&self) -> Duration {
        self.base
    }

    pub(super) fn in_the_air(&self) -> usize {
        self.aloft.len()
    }

    pub(super) fn flights(&mut self) -> impl Iterator<Item = &mut Flight> {
        self.aloft.iter_mut().map(|aloft| &mut aloft.flight)
    }

    /// When the first caller who waits for any of its flights gives up.
    pub(super) fn gives_up(&self) -> Option<Instant> {
        self.aloft.iter().filter_map(|aloft| aloft.flight.gives_up()).min()
    }

    /// From when on its oldest flight is overdue: nothing else should leave behind it.
    pub(super) fn overdue_at(&self, patience: Duration) -> Option<Instant> {
        let oldest = self.aloft.front()?;
        Some((oldest.left + self.usual).max(self.heard) + (4 * self.varies).max(patience / 4))
    }

    /// Since when nothing has been heard though something is due.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        self.aloft.front().map(|oldest| oldest.left.max(self.heard))
    }

    /// Since when it has nothing to do.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.aloft.is_empty().then(|| self.used.max(self.heard))
    }

    /// True when nothing has arrived that was not asked for, as far as can be told while nothing is in the air.
    pub(super) fn is_quiet(&self) -> bool {
        !self.aloft.is_empty() || self.connection.is_quiet()
    }

    pub(super) fn launch(&mut self, aloft: Aloft) {
        self.used = aloft.left;
        self.aloft.push_back(aloft);
    }

    /// Sends and receives what it can; ready with a flight whose replies have all come. After an error it must be abandoned.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Aloft, Trouble>> {
        if let Err(trouble) = self.send(cx) {
            return Poll::Ready(Err(trouble));
        }
        loop {
            if let Some(oldest) = self.aloft.front_mut().filter(|_| self.sent + self.written > 0) {
                while oldest.replies.len() < oldest.flight.replies() {
                    let Some(reply) = self.connection.next_reply()? else { break };
                    if !oldest.flight.believes(oldest.replies.len(), &reply) {
                        let why = format!("{}: its answers are not those to our questions", self.name());
                        return Poll::Ready(Err(Trouble::new(Kind::Wrong, why)));
                    }
                    oldest.replies.push(reply);
                }
                if oldest.replies.len() == oldest.flight.replies() {
                    return Poll::Ready(self.landed().ok_or_else(|| self.connection.unasked()));
                }
            } else if !self.connection.is_quiet() {
                return Poll::Ready(Err(self.connection.unasked()));
            }
            match pin!(self.connection.fill()).poll(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(trouble)) => return Poll::Ready(Err(trouble)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn send(&mut self, cx: &mut Context<'_>) -> Result<(), Trouble> {
        while let Some(next) = self.aloft.get(self.sent) {
            let bytes = &next.flight.bytes()[self.written..];
            if bytes.is_empty() {
                (self.sent, self.written, self.is_flushed) = (self.sent + 1, 0, false);
                continue;
            }
            match pin!(self.connection.write(bytes)).poll(cx) {
                Poll::Ready(written) => self.written += written?,
                Poll::Pending => return Ok(()),
            }
        }
        if !self.is_flushed && pin!(self.connection.flush()).poll(cx)?.is_ready() {
            self.is_flushed = true;
        }
        Ok(())
    }

    fn landed(&mut self) -> Option<Aloft> {
        self.sent = self.sent.checked_sub(1)?; // or all was answered before all was asked
        let aloft = self.aloft.pop_front()?;
        let now = Instant::now();
        let took = now - aloft.left;
        self.heard = now;
        self.base = self.base.min(took);
        // A late one, or one behind it, says nothing of the usual way.
        if aloft.flight.gives_up().is_some() {
            self.varies = (3 * self.varies + self.usual.abs_diff(took)) / 4;
            self.usual = (7 * self.usual + took) / 8;
        }
        Some(aloft)
    }

    /// Its flights, each with whether any of it was sent. Nothing more will be heard of them.
    pub(super) fn abandon(&mut self) -> impl Iterator<Item = (Aloft, bool)> + use<> {
        let (whole, part) = (std::mem::take(&mut self.sent), std::mem::take(&mut self.written) > 0);
        let sent = whole + usize::from(part);
        std::mem::take(&mut self.aloft).into_iter().enumerate().map(move |(nth, aloft)| (aloft, nth < sent))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        sub(&self.hub.context().counters.connections, 1);
    }
}
