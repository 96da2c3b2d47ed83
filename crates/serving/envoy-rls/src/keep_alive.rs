//! Ends idle, old and dead connections. Each connection has one timer, which fires when the first of these
//! may be due; calls are only counted, so a busy connection never touches it.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use h2::{Ping, PingPong};
use tokio::time::Instant;
use tollgate_net::LazyTimer;

use crate::limits::Limits;

/// The peer did not respond in time.
#[derive(Debug)]
pub(crate) struct Dead;

/// Action to take when the timer has fired.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// Ask the peer to go away.
    Leave,
    /// It was asked, and its time is over.
    End,
}

/// Current activity of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activity {
    /// Calls so far.
    pub(crate) calls: u64,
    /// Streams are open.
    pub(crate) has_streams: bool,
    /// Calls are being answered; streams without them wait for the peer to read its replies.
    pub(crate) has_answers_due: bool,
}

pub(crate) struct KeepAlive {
    timer: LazyTimer,
    /// When something may be due.
    due: Instant,
    pings: Option<PingPong>,
    is_leaving: bool,
    /// End of the connection's age, or of the grace period once it is leaving.
    end: Instant,
    calls: u64,
    /// Last seen activity.
    idle_since: Instant,
    /// Last seen busy, or answering a ping.
    alive_at: Instant,
    ping_sent: Option<Instant>,
}

impl KeepAlive {
    pub(crate) fn new(limits: &Limits, pings: Option<PingPong>) -> Self {
        let now = Instant::now();
        let mut keep_alive = Self {
            timer: LazyTimer::new(),
            due: now,
            pings,
            is_leaving: false,
            end: after(now, limits.max_connection_age),
            calls: 0,
            idle_since: now,
            alive_at: now,
            ping_sent: None,
        };
        keep_alive.rearm(limits, now);
        keep_alive
    }

    /// From now on the connection ends after `grace`, if not before.
    pub(crate) fn leave(&mut self, grace: Duration) {
        let end = after(Instant::now(), grace);
        self.end = if self.is_leaving { self.end.min(end) } else { end };
        self.is_leaving = true;
        self.due = self.due.min(self.end);
    }

    /// Ready when the timer has fired, with what is to be done.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        limits: &Limits,
        activity: Activity,
    ) -> Poll<Result<Due, Dead>> {
        if let (Some(_), Some(pings)) = (self.ping_sent, &mut self.pings)
            && pings.poll_pong(cx).is_ready()
        {
            self.ping_sent = None;
            self.alive_at = Instant::now();
        }
        ready!(self.timer.poll(cx, self.due));
        let now = Instant::now();
        let due = self.on_timer(limits, activity, now);
        self.rearm(limits, now);
        Poll::Ready(due)
    }

    fn on_timer(&mut self, limits: &Limits, activity: Activity, now: Instant) -> Result<Due, Dead> {
        if now >= self.end {
            return Ok(if self.is_leaving { Due::End } else { Due::Leave });
        }
        if activity.calls != self.calls {
            self.calls = activity.calls;
            self.idle_since = now;
            self.alive_at = now;
            self.ping_sent = None;
        }
        let idle_for = now - self.idle_since;
        if self.ping_sent.is_some_and(|sent| now - sent >= limits.keep_alive_timeout) {
            return Err(Dead);
        }
        if activity.has_streams && !activity.has_answers_due && idle_for >= limits.request_timeout {
            return Err(Dead);
        }
        let is_silent = self.ping_sent.is_none() && now - self.alive_at >= limits.keep_alive_interval;
        if let (true, Some(pings)) = (is_silent, &mut self.pings) {
            pings.send_ping(Ping::opaque()).map_err(|_| Dead)?;
            self.ping_sent = Some(now);
        }
        let is_idle = !activity.has_streams && idle_for >= limits.idle_timeout;
        Ok(if is_idle && !self.is_leaving { Due::Leave } else { Due::Nothing })
    }

    /// Sets the timer to the first instant at which something may be due.
    fn rearm(&mut self, limits: &Limits, now: Instant) {
        let signs = match self.ping_sent {
            Some(sent) => after(sent, limits.keep_alive_timeout),
            None => after(self.alive_at, limits.keep_alive_interval),
        };
        let idle = after(self.idle_since, limits.idle_timeout);
        let idle = if idle > now { idle } else { after(now, limits.idle_timeout) };
        let first = signs.min(idle).min(self.end).max(now + Duration::from_millis(10));
        self.due = first;
    }
}

/// `span` later; at most 30 years, which is as good as never.
fn after(instant: Instant, span: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(30 * 365 * 86_400);
    instant + span.min(NEVER)
}
