//! A lane: one connection of one runtime to one server, the queue before it, and the task that drives it.
//!
//! At most one round trip is under way. What arrives meanwhile waits, and rides the next one; all that is asked of one key goes as one
//! [`Work`]. When answers fail to come, the connection is given up and made anew; after a few failures in a row the breaker opens:
//! callers are refused at once, while the task goes on trying, with pauses. A new connection is believed when it answers.
//! Not here: what is sent (`work`), which server and which runtime (`store`).

mod connection;
mod link;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use self::connection::Connection;
use self::link::Link;
use tollgate_store::remote::{HostPort, patience};

use crate::ask::{Ask, copy};
use crate::config::MemcacheConfig;
use crate::figures::{Counters, add};
use crate::health::Health;
use crate::work::{Next, Work};

/// The callers' end.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    queue: mpsc::Sender<(Box<[u8]>, Ask)>,
    is_open: Arc<AtomicBool>,
}

/// Why an ask was not taken on: nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The breaker is open.
    Breaker,
    /// Too many wait.
    Full,
    /// Its runtime is shutting down.
    Gone,
}

impl Lane {
    /// A lane whose task runs on the runtime that this is called in, and connects at once.
    pub(crate) fn start(
        at: usize,
        config: &Arc<MemcacheConfig>,
        counters: &Arc<Counters>,
        health: &Arc<Health>,
    ) -> Self {
        let (queue, asks) = mpsc::channel(config.max_queued);
        let is_open = Arc::new(AtomicBool::new(false));
        let link = Link::new(at, config.clone(), counters.clone(), health.clone(), is_open.clone());
        let driver = Driver {
            asks,
            link,
            config: config.clone(),
            counters: counters.clone(),
            works: HashMap::new(),
            parked: HashMap::new(),
        };
        tokio::spawn(driver.run());
        Self { queue, is_open }
    }

    pub(crate) fn ask(&self, item: Box<[u8]>, ask: Ask) -> Result<(), Refusal> {
        if self.is_open.load(Ordering::Relaxed) {
            return Err(Refusal::Breaker);
        }
        self.queue.try_send((item, ask)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Refusal::Full,
            mpsc::error::TrySendError::Closed(_) => Refusal::Gone,
        })
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.queue.is_closed()
    }
}

/// The task's end.
struct Driver {
    asks: mpsc::Receiver<(Box<[u8]>, Ask)>,
    link: Link,
    config: Arc<MemcacheConfig>,
    counters: Arc<Counters>,
    works: HashMap<Box<[u8]>, Work>,
    /// Asks of a key whose work is under way.
    parked: HashMap<Box<[u8]>, Vec<Ask>>,
}

impl Driver {
    /// Until the store is dropped.
    async fn run(mut self) {
        loop {
            if self.link.connection.is_none() {
                if let Err(why) = self.link.connect().await
                    && self.link.is_broken()
                {
                    self.refuse_all(&why);
                    self.pause().await;
                }
                if self.asks.is_closed() && self.asks.is_empty() {
                    return;
                }
                continue;
            }
            if self.works.is_empty() {
                tokio::select! {
                    biased;
                    ask = self.asks.recv() => match ask {
                        Some((item, ask)) => self.admit(item, ask),
                        None => return,
                    },
                    why = self.link.closed() => {
                        self.link.lost(&why); // nobody waits: no failure of anybody's
                        continue;
                    }
                }
            }
            while self.works.len() < self.config.max_flight
                && let Ok((item, ask)) = self.asks.try_recv()
            {
                self.admit(item, ask);
            }
            if let Err(why) = self.fly().await {
                self.link.failed(&why);
                self.works.retain(|_, work| {
                    let goes_on = work.interrupted(&why);
                    add(&self.counters.left_counted, std::mem::take(&mut work.left_counted));
                    goes_on
                });
                self.unpark();
                if self.link.is_broken() {
                    self.refuse_all(&why);
                }
            }
        }
    }

    fn admit(&mut self, item: Box<[u8]>, ask: Ask) {
        match self.works.entry(item) {
            Entry::Vacant(place) => {
                let work = Work::new(place.key().clone(), ask, self.config.keep);
                place.insert(work);
            }
            Entry::Occupied(mut place) if place.get().is_open() => {
                add(&self.counters.merged, 1);
                place.get_mut().join(ask);
            }
            Entry::Occupied(place) => self.parked.entry(place.key().clone()).or_default().push(ask),
        }
    }

    /// One round trip for all works.
    async fn fly(&mut self) -> io::Result<()> {
        let mut out = Vec::with_capacity(self.works.len() * 64);
        let mut order = Vec::with_capacity(self.works.len());
        let mut expected = 0;
        self.works.retain(|item, work| match work.send(&mut out) {
            0 => false,
            replies => {
                expected += replies;
                order.push((item.clone(), replies));
                true
            }
        });
        if expected > 0 {
            let Some(connection) = &mut self.link.connection else { return Err(gone()) };
            add(&self.counters.flights, 1);
            add(&self.counters.calls, expected as u64);
            let replies = connection.exchange(&out, expected, patience(self.config.deadline)).await?;
            self.link.succeeded();
            let mut rest = replies.as_slice();
            for (item, replies) in order {
                let (own, others) = rest.split_at(replies.min(rest.len()));
                rest = others;
                if let Some(work) = self.works.get_mut(&item) {
                    let next = work.receive(own);
                    add(&self.counters.lost_races, std::mem::take(&mut work.lost_races));
                    add(&self.counters.left_counted, std::mem::take(&mut work.left_counted));
                    if next == Next::Done {
                        self.works.remove(&item);
                    }
                }
            }
        }
        self.unpark();
        Ok(())
    }

    /// Works for the asks that waited for the end of another.
    fn unpark(&mut self) {
        if self.parked.is_empty() {
            return;
        }
        let (works, keep) = (&mut self.works, self.config.keep);
        let mut merged = 0;
        self.parked.retain(|item, asks| {
            if works.contains_key(item) {
                return true;
            }
            let mut asks = asks.drain(..);
            if let Some(first) = asks.next() {
                let mut work = Work::new(item.clone(), first, keep);
                asks.for_each(|ask| work.join(ask));
                merged += work.len() as u64 - 1;
                works.insert(item.clone(), work);
            }
            false
        });
        add(&self.counters.merged, merged);
    }

    /// The breaker is open: nobody waits for a server that does not answer.
    fn refuse_all(&mut self, why: &io::Error) {
        self.works.drain().for_each(|(_, mut work)| work.fail(why));
        self.parked.drain().flat_map(|(_, asks)| asks).for_each(|ask| ask.fail_silent(why));
        while let Ok((_, ask)) = self.asks.try_recv() {
            ask.fail_silent(why);
        }
    }

    /// Until the next probe; who asks meanwhile is refused.
    async fn pause(&mut self) {
        let until = Instant::now() + self.link.pause();
        let why = self.link.why();
        loop {
            tokio::select! {
                () = sleep(until.saturating_duration_since(Instant::now())) => return,
                ask = self.asks.recv() => match ask {
                    Some((_, ask)) => ask.fail_silent(&copy(&why)),
                    None => return,
                },
            }
        }
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "there is no connection")
}

/// One server's name for messages.
fn told(server: &HostPort, why: &io::Error) -> io::Error {
    io::Error::new(why.kind(), format!("{server}: {why}"))
}
