//! The task behind a link: connect, fly, and when something is out of order begin anew; the breaker.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;

use tokio::time::{Duration, Instant, sleep, sleep_until};

use super::Link;
use crate::connection::Connection;
use crate::figures::{Raised, add, sub};
use crate::flight::{Flight, Item};
use crate::lane::Lane;
use crate::reply::Reply;
use crate::trouble::{Kind, Trouble};
use tollgate_store::remote::jittered;

/// Pause after a first failure; doubled by each that follows.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// Pause before a call is sent again whose keys are moving to another node.
const KEYS_ON_THEIR_WAY: Duration = Duration::from_millis(1);

pub(super) struct Driver {
    link: Arc<Link>,
    lane: std::sync::Weak<Lane>,
    /// Failures in a row.
    failures: u32,
    /// The breaker is open.
    open: bool,
    flight: Flight,
    items: Vec<Item>,
    replies: Vec<Reply>,
}

/// The link has ended.
struct Ended;

impl Driver {
    pub(super) fn new(link: &Arc<Link>, lane: &Arc<Lane>) -> Self {
        Self {
            link: link.clone(),
            lane: Arc::downgrade(lane),
            failures: 0,
            open: false,
            flight: Flight::default(),
            items: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// Until the link ends.
    pub(super) async fn run(mut self) {
        while let Ok((mut connection, epoch)) = self.connect().await {
            let hub = self.link.hub.clone();
            let _open = Raised::new(&hub.context().counters.connections);
            match self.fly(&mut connection, epoch).await {
                Ok(Ended) => return,
                Err(None) => {} // another master; nothing is wrong with this one
                Err(Some(trouble)) => self.failed(&trouble),
            }
        }
    }

    /// A connection, however long it takes; meanwhile those whose time is over are told so.
    async fn connect(&mut self) -> Result<(Connection, u64), Ended> {
        let (hub, node) = (self.link.hub.clone(), self.link.node);
        loop {
            let epoch = hub.topology().epoch();
            let tried = self.meanwhile(async {
                let address = hub.topology().find(node, hub.dialer()).await?;
                hub.dialer().open(&address).await
            });
            match tried.await? {
                Ok(connection) => {
                    add(&hub.context().counters.connects, 1);
                    self.close_breaker();
                    return Ok((connection, epoch));
                }
                Err(trouble) => {
                    add(&hub.context().counters.connect_failures, 1);
                    let waiting = std::mem::take(&mut self.link.lock().items);
                    self.link.refuse(waiting, &trouble);
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
        loop {
            if link.has_ended() {
                return Err(Ended);
            }
            let first = link.waits_until();
            let over = async {
                match first {
                    Some(by) => sleep_until(by).await,
                    None => link.wake.notified().await,
                }
            };
            tokio::select! {
                done = &mut what => return Ok(done),
                () = over => {}
            }
            if first.is_some() && link.expire(Instant::now()) {
                let waited = link.hub.context().deadline;
                self.failed(&Trouble::new(
                    Kind::Silent,
                    format!("{}: no connection within {waited:?}", link.hub.config().servers),
                ));
            }
        }
    }

    /// One flight after another, until something is out of order; `Err(None)` when the master is another now.
    async fn fly(&mut self, connection: &mut Connection, epoch: u64) -> Result<Ended, Option<Trouble>> {
        let hub = self.link.hub.clone();
        let context = hub.context();
        loop {
            if self.link.has_ended() {
                return Ok(Ended);
            }
            if hub.topology().epoch() != epoch {
                return Err(None);
            }
            self.link.take(&mut self.items, hub.config().max_flight);
            if self.items.is_empty() {
                tokio::select! {
                    () = self.link.wake.notified() => {}
                    trouble = poll_fn(|cx| connection.poll_closed(cx)) => return Err(Some(trouble)),
                }
                continue;
            }
            self.flight.plan(&mut self.items, Instant::now(), context);
            if self.flight.is_empty() {
                continue;
            }
            context.counters.flight(self.flight.calls() as u64, self.flight.trips() as u64);
            let (sent, mut trouble) = self.exchange(connection).await;
            let user = hub.config().login.username.as_deref();
            let landing = self.flight.land(&mut self.replies, sent, connection.name(), user, context);
            for redirect in landing.redirects {
                self.redirect(redirect);
            }
            for item in landing.again.into_iter().rev() {
                self.link.push_front(item);
            }
            if trouble.is_none() && !connection.is_quiet() {
                let why = format!("{}: says more than it was asked", connection.name());
                trouble = Some(Trouble::new(Kind::Wrong, why));
            }
            if landing.doubt {
                hub.topology().doubted.notify_one();
            }
            if landing.pause {
                self.meanwhile(sleep(KEYS_ON_THEIR_WAY)).await.map_err(|Ended| None)?;
            }
            if let Some(trouble) = trouble.or(landing.trouble) {
                return Err(Some(trouble));
            }
            self.failures = 0;
        }
    }

    /// Sends the flight and collects the replies. True when any of it was sent; the trouble where not all replies came.
    async fn exchange(&mut self, connection: &mut Connection) -> (bool, Option<Trouble>) {
        let context = self.link.hub.context();
        let (wanted, length) = (self.flight.replies(), self.flight.bytes().len());
        let limit = Instant::now() + context.patience();
        let mut timer = pin!(sleep_until(self.flight.waits_until().map_or(limit, |by| by.min(limit))));
        let (mut sent, mut flushed) = (0, false);
        loop {
            while self.replies.len() < wanted {
                match connection.next_reply() {
                    Ok(Some(reply)) => self.replies.push(reply),
                    Ok(None) => break,
                    Err(trouble) => return (true, Some(trouble)),
                }
            }
            if self.replies.len() == wanted {
                return (true, None);
            }
            let bytes = self.flight.bytes();
            let progress = async {
                if sent < length {
                    sent += connection.write(&bytes[sent..]).await?;
                } else if !flushed {
                    connection.flush().await?;
                    flushed = true;
                } else {
                    connection.fill().await?;
                }
                Ok(())
            };
            tokio::select! {
                biased;
                made = progress => if let Err(trouble) = made {
                    return (sent > 0, Some(trouble));
                },
                () = &mut timer => {
                    let now = Instant::now();
                    self.flight.expire(now, context);
                    if now >= limit {
                        let why = format!("{}: no answer within {:?}", connection.name(), context.deadline);
                        return (sent > 0, Some(Trouble::new(Kind::Silent, why)));
                    }
                    timer.as_mut().reset(self.flight.waits_until().map_or(limit, |by| by.min(limit)));
                }
            }
        }
    }

    fn redirect(&self, redirect: crate::flight::Redirect) {
        let hub = &self.link.hub;
        let target = hub.topology().number(&redirect.to).filter(|_| hub.config().is_cluster());
        let (Some(node), Some(lane)) = (target, self.lane.upgrade()) else {
            let why = format!("is asked to go to {}, and cannot", redirect.to);
            return redirect.item.refuse(hub.context(), &Trouble::new(Kind::Wrong, why));
        };
        if let Some(slot) = redirect.moved {
            hub.topology().moved(slot, node);
        }
        lane.link(node).push_front(redirect.item);
    }

    /// Counts a failure; opens the breaker at as many in a row as the settings say.
    fn failed(&mut self, trouble: &Trouble) {
        let (hub, link) = (self.link.hub.clone(), self.link.clone());
        self.failures = self.failures.saturating_add(1);
        if self.failures < hub.config().breaker.failures && !self.open {
            return;
        }
        let mut queue = link.lock();
        queue.open = Some(trouble.clone());
        let waiting = std::mem::take(&mut queue.items);
        drop(queue);
        self.link.refuse(waiting, trouble);
        if !std::mem::replace(&mut self.open, true) {
            let counters = &hub.context().counters;
            add(&counters.breaker_opened, 1);
            add(&counters.breakers_open, 1);
        }
        hub.health().down(link.witness, &trouble.why);
    }

    /// A probe was answered in time: calls go through again; one failure more opens the breaker anew.
    fn close_breaker(&mut self) {
        let hub = &self.link.hub;
        self.link.lock().open = None;
        if std::mem::take(&mut self.open) {
            sub(&hub.context().counters.breakers_open, 1);
            self.failures = hub.config().breaker.failures - 1;
        }
        hub.health().up(self.link.witness);
    }

    /// Before the next try: twice as long each time up to the longest, less a chance part, so that nodes do not come all at once.
    fn pause(&self) -> Duration {
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

#[cfg(test)]
mod tests;
