//! What ends a quiet, an old or a dead connection. One timer a connection, which rings when the first of these may be
//! due; calls only count themselves, so a busy connection never touches it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use h2::{Ping, PingPong};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::limits::Limits;

/// The peer gave no sign of life.
#[derive(Debug)]
pub(crate) struct Dead;

/// What is to be done after a ring.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// Ask the peer to go away.
    Leave,
    /// It was asked, and its time is over.
    End,
}

/// What a connection is busy with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy {
    /// Calls so far.
    pub(crate) calls: u64,
    /// Streams are open.
    pub(crate) has_streams: bool,
    /// Calls are being answered; streams without them wait for the peer to take its replies.
    pub(crate) has_answers_due: bool,
}

pub(crate) struct Clocks {
    sleep: Pin<Box<Sleep>>,
    pings: Option<PingPong>,
    is_leaving: bool,
    /// Of the connection's age, or of the grace once it is leaving.
    end: Instant,
    calls: u64,
    /// Last seen busy.
    quiet_since: Instant,
    /// Last seen busy or heard of.
    heard: Instant,
    ping_sent: Option<Instant>,
}

impl Clocks {
    pub(crate) fn new(limits: &Limits, pings: Option<PingPong>) -> Self {
        let now = Instant::now();
        let mut clocks = Self {
            sleep: Box::pin(sleep_until(now)),
            pings,
            is_leaving: false,
            end: after(now, limits.max_connection_age),
            calls: 0,
            quiet_since: now,
            heard: now,
            ping_sent: None,
        };
        clocks.wind(limits, now);
        clocks
    }

    /// From now on the connection ends after `grace`, if not before.
    pub(crate) fn leave(&mut self, grace: Duration) {
        let end = after(Instant::now(), grace);
        self.end = if self.is_leaving { self.end.min(end) } else { end };
        self.is_leaving = true;
        if self.sleep.deadline() > self.end {
            self.sleep.as_mut().reset(self.end);
        }
    }

    /// Ready when it has rung, with what is to be done.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        limits: &Limits,
        busy: Busy,
    ) -> Poll<Result<Due, Dead>> {
        if let (Some(_), Some(pings)) = (self.ping_sent, &mut self.pings)
            && pings.poll_pong(cx).is_ready()
        {
            self.ping_sent = None;
            self.heard = Instant::now();
        }
        if self.sleep.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        let now = Instant::now();
        let due = self.ring(limits, busy, now);
        self.wind(limits, now);
        Poll::Ready(due)
    }

    fn ring(&mut self, limits: &Limits, busy: Busy, now: Instant) -> Result<Due, Dead> {
        if now >= self.end {
            return Ok(if self.is_leaving { Due::End } else { Due::Leave });
        }
        if busy.calls != self.calls {
            self.calls = busy.calls;
            self.quiet_since = now;
            self.heard = now;
            self.ping_sent = None;
        }
        let quiet = now - self.quiet_since;
        if self.ping_sent.is_some_and(|sent| now - sent >= limits.keep_alive_timeout) {
            return Err(Dead);
        }
        if busy.has_streams && !busy.has_answers_due && quiet >= limits.request_timeout {
            return Err(Dead);
        }
        let is_unheard = self.ping_sent.is_none() && now - self.heard >= limits.keep_alive_interval;
        if let (true, Some(pings)) = (is_unheard, &mut self.pings) {
            pings.send_ping(Ping::opaque()).map_err(|_| Dead)?;
            self.ping_sent = Some(now);
        }
        let is_idle = !busy.has_streams && quiet >= limits.idle_timeout;
        Ok(if is_idle && !self.is_leaving { Due::Leave } else { Due::Nothing })
    }

    /// Sets the timer to the first instant at which something may be due.
    fn wind(&mut self, limits: &Limits, now: Instant) {
        let signs = match self.ping_sent {
            Some(sent) => after(sent, limits.keep_alive_timeout),
            None => after(self.heard, limits.keep_alive_interval),
        };
        let idle = after(self.quiet_since, limits.idle_timeout);
        let idle = if idle > now { idle } else { after(now, limits.idle_timeout) };
        let first = signs.min(idle).min(self.end).max(now + Duration::from_millis(10));
        self.sleep.as_mut().reset(first);
    }
}

/// So much later, or as good as never.
fn after(instant: Instant, span: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(30 * 365 * 86_400);
    instant + span.min(NEVER)
}
