//! The task behind a link: connects, flies, and when something is out of order begins anew; the breaker. Not here: flying (`fly`).

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::{Duration, Instant, Sleep, sleep, sleep_until};

use super::Link;
use super::fly::Deck;
use super::line::Line;
use crate::figures::{add, sub};
use crate::hub::Hub;
use crate::lane::Lane;
use crate::trouble::{Kind, Trouble};
use tollgate_store::remote::jittered;

/// Pause after a first failure; doubled by each that follows.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// An attempt to connect for which calls have waited in vain counts as one failure, and as one more whenever it has lasted this many
/// deadlines of a call.
const LONG_ATTEMPT: u32 = 4;

pub(super) struct Driver {
    pub(super) link: Arc<Link>,
    pub(super) lane: std::sync::Weak<Lane>,
    /// Failures in a row.
    pub(super) failures: u32,
    /// When calls last failed for want of an answer, unless one has come in time since: this counted as a failure then.
    pub(super) missed: Option<Instant>,
    /// Late answers in a row.
    pub(super) late: u32,
    /// The breaker is open.
    pub(super) open: bool,
    pub(super) lines: Vec<Line>,
    pub(super) deck: Deck,
    pub(super) alarm: Alarm,
}

/// The link has ended.
pub(super) struct Ended;

/// Why flying ended.
#[derive(Debug)]
pub(super) enum Landed {
    /// The link has ended.
    Ended,
    /// Another master; nothing is wrong with this one.
    Elsewhere,
    /// The server cannot go on: a new connection.
    Trouble(Trouble),
    /// The breaker is open, or there is no connection any longer.
    Grounded,
}

impl Driver {
    pub(super) fn new(link: &Arc<Link>, lane: &Arc<Lane>) -> Self {
        Self {
            link: link.clone(),
            lane: Arc::downgrade(lane),
            failures: 0,
            missed: None,
            late: 0,
            open: false,
            lines: Vec::new(),
            deck: Deck::new(),
            alarm: Alarm::default(),
        }
    }

    /// Until the link ends.
    pub(super) async fn run(mut self) {
        loop {
            let epoch = self.link.hub.topology().epoch();
            if self.open && !self.lines.is_empty() {
                match self.recover().await {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(Ended) => return,
                }
            } else if self.lines.is_empty() && self.connect().await.is_err() {
                return;
            }
            let landed = poll_fn(|cx| self.poll_fly(cx, epoch)).await;
            match landed {
                Landed::Ended => return,
                Landed::Elsewhere => self.abandon_all(),
                Landed::Grounded => {}
                Landed::Trouble(trouble) => {
                    self.abandon_all();
                    self.failed(&trouble);
                }
            }
        }
    }

    /// A connection, however long it takes; meanwhile those whose time is over are told so.
    async fn connect(&mut self) -> Result<(), Ended> {
        let (hub, node) = (self.link.hub.clone(), self.link.node);
        loop {
            let failures = self.failures;
            let tried = self.meanwhile(async {
                let address = hub.topology().find(node, hub.dialer()).await?;
                hub.dialer().open(&address).await
            });
            match tried.await? {
                Ok(connection) => {
                    self.lines.push(Line::new(&hub, connection, Instant::now()));
                    self.close_breaker();
                    return Ok(());
                }
                Err(trouble) => {
                    add(&hub.context().counters.connect_failures, 1);
                    self.link.refuse_all(&trouble, false);
                    if self.failures > failures {
                        self.failures -= 1; // it has counted already: for those who waited for it in vain
                    }
                    self.failed(&trouble);
                    hub.topology().doubted.notify_one();
                    if !hub.topology().keeps_any(node) {
                        self.link.end();
                        return Err(Ended);
                    }
                }
            }
            let pause = self.pause();
            self.meanwhile(sleep(pause)).await?;
        }
    }

    /// Runs `what`, and tells those in the queue when their time is over.
    async fn meanwhile<T>(&mut self, what: impl Future<Output = T>) -> Result<T, Ended> {
        let mut what = pin!(what);
        let link = self.link.clone();
        let mut counted: Option<Instant> = None;
        poll_fn(move |cx| {
            loop {
                if link.has_ended() {
                    return Poll::Ready(Err(Ended));
                }
                if let Poll::Ready(done) = what.as_mut().poll(cx) {
                    return Poll::Ready(Ok(done));
                }
                let now = Instant::now();
                let deadline = link.hub.context().deadline;
                if link.expire(now) && counted.is_none_or(|at| now >= at + LONG_ATTEMPT * deadline) {
                    counted = Some(now);
                    let why = format!("{}: no connection within {deadline:?}", link.hub.config().servers);
                    self.failed(&Trouble::new(Kind::Silent, why));
                }
                link.rest(cx.waker(), usize::MAX);
                if !self.alarm.poll(cx, link.waiting().1) {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// The breaker is open because nothing was answered, and the connections stand: what is owed may still come, as from a server that
    /// stood still. Then one of them is probed. True when it may fly again; else all are closed, as those are that stay silent.
    async fn recover(&mut self) -> Result<bool, Ended> {
        let found = poll_fn(|cx| self.poll_owed(cx)).await;
        let Some(mut line) = found else {
            self.abandon_all();
            return if self.link.has_ended() { Err(Ended) } else { Ok(false) };
        };
        self.abandon_all();
        let hub = self.link.hub.clone();
        let probed = self.meanwhile(async { (hub.dialer().probe(line.connection()).await, line) }).await?;
        match probed {
            (Ok(()), line) => {
                self.lines.push(line);
                self.close_breaker();
                Ok(true)
            }
            (Err(trouble), _) => {
                self.failed(&trouble);
                Ok(false)
            }
        }
    }

    /// Waits until one line has landed all it owes; `None` when there is none left that may.
    fn poll_owed(&mut self, cx: &mut Context<'_>) -> Poll<Option<Line>> {
        let silence = self.longest_silence();
        loop {
            if self.link.has_ended() {
                return Poll::Ready(None);
            }
            let now = Instant::now();
            self.expire(now);
            let mut nth = 0;
            while nth < self.lines.len() {
                match self.lines[nth].poll(cx) {
                    Poll::Ready(Ok(aloft)) => {
                        self.land(nth, aloft, now);
                        continue;
                    }
                    Poll::Ready(Err(trouble)) => {
                        self.lose(nth, Some(&trouble));
                        continue;
                    }
                    Poll::Pending => {}
                }
                match self.lines[nth].silent_since() {
                    None => return Poll::Ready(Some(self.lines.swap_remove(nth))),
                    Some(since) if since + silence <= now => self.lose(nth, None),
                    Some(_) => nth += 1,
                }
            }
            if self.lines.is_empty() {
                return Poll::Ready(None);
            }
            self.link.rest(cx.waker(), usize::MAX);
            let over = self.lines.iter().filter_map(Line::silent_since).min().map(|since| since + silence);
            let gives_up = self.lines.iter().filter_map(Line::gives_up).min();
            if !self.alarm.poll(cx, super::earlier(over, gives_up)) {
                return Poll::Pending;
            }
        }
    }

    /// How long a connection may owe a reply.
    pub(super) fn longest_silence(&self) -> Duration {
        self.link.hub.config().breaker.longest_pause.max(self.link.hub.context().patience())
    }

    /// Counts a failure; opens the breaker at as many in a row as the settings say.
    pub(super) fn failed(&mut self, trouble: &Trouble) {
        let (hub, link) = (self.link.hub.clone(), self.link.clone());
        self.failures = self.failures.saturating_add(1);
        if self.failures < hub.config().breaker.failures && !self.open {
            return;
        }
        link.refuse_all(trouble, true);
        if !std::mem::replace(&mut self.open, true) {
            let counters = &hub.context().counters;
            add(&counters.breaker_opened, 1);
            add(&counters.breakers_open, 1);
        }
        hub.health().down(link.witness, &trouble.why);
    }

    /// A probe was answered in time: calls go through again; one failure more opens the breaker anew.
    pub(super) fn close_breaker(&mut self) {
        let hub = &self.link.hub;
        self.link.lock().open = None;
        (self.missed, self.late) = (None, 0);
        if std::mem::take(&mut self.open) {
            sub(&hub.context().counters.breakers_open, 1);
            self.failures = hub.config().breaker.failures - 1;
        }
        hub.health().up(self.link.witness);
    }

    /// Before the next try: twice as long each time up to the longest, less a chance part, so that nodes do not come all at once.
    pub(super) fn pause(&self) -> Duration {
        let longest = self.link.hub.config().breaker.longest_pause;
        jittered(FIRST_PAUSE.saturating_mul(1 << self.failures.min(16)).min(longest))
    }
}

/// The runtime may end before the store: those who wait hear of it.
impl Drop for Driver {
    fn drop(&mut self) {
        self.link.end();
        self.link.hub.health().gone(self.link.witness);
        if self.open {
            sub(&self.link.hub.context().counters.breakers_open, 1);
        }
    }
}

/// A timer that is set again only when it must ring earlier than it would.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
    /// When it rings; not at all where there is no such instant.
    at: Option<Instant>,
}

impl Alarm {
    /// True when it has rung, which may be earlier than `at`; else it wakes the task then.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, at: Option<Instant>) -> bool {
        if let Some(at) = at
            && self.at.is_none_or(|set| at < set)
        {
            match &mut self.sleep {
                Some(sleep) => sleep.as_mut().reset(at),
                none => *none = Some(Box::pin(sleep_until(at))),
            }
            self.at = Some(at);
        }
        let Some(sleep) = self.sleep.as_mut().filter(|_| self.at.is_some()) else { return false };
        let has_rung = sleep.as_mut().poll(cx).is_ready();
        if has_rung {
            self.at = None;
        }
        has_rung
    }
}

/// Another connection to the same server, as it is made.
pub(super) type Opening =
    Pin<Box<dyn Future<Output = Result<crate::connection::Connection, Trouble>> + Send>>;

pub(super) fn open(hub: &Arc<Hub>, node: crate::topology::Node) -> Opening {
    let hub = hub.clone();
    Box::pin(async move {
        let address = hub.topology().find(node, hub.dialer()).await?;
        hub.dialer().open(&address).await
    })
}

#[cfg(test)]
mod tests;
