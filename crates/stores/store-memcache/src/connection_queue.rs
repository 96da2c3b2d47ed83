//! The requests of one runtime that wait for one server, the connection behind them, and the task that drives
//! it.
//!
//! At most one round trip is in flight. Requests that arrive meanwhile wait for the next one; all requests
//! for one key are one [`Transaction`]. When answers fail to come, the connection is closed and made anew;
//! after a few failures in a row the breaker opens: callers fail at once, while the task keeps trying, with
//! pauses. A new connection counts once it answers. Not here: the commands (`transaction`), the choice of
//! server and runtime (`client`).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use tollgate_store::remote::{Health, patience};

use crate::config::MemcacheConfig;
use crate::guarded::{GuardedConnection, not_connected};
use crate::request::KeyRequest;
use crate::stats::Counters;
use crate::transaction::{Next, Transaction};

/// The callers' end of a queue.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionQueue {
    requests: mpsc::Sender<(Box<[u8]>, KeyRequest)>,
    is_open: Arc<AtomicBool>,
}

/// The reason why a request was not accepted: nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// The breaker is open.
    Breaker,
    /// Too many requests wait.
    Full,
    /// Its runtime is shutting down.
    Gone,
}

impl ConnectionQueue {
    /// A queue whose task runs on the runtime that this is called in, and connects at once.
    pub(crate) fn start(
        at: usize,
        config: &Arc<MemcacheConfig>,
        counters: &Arc<Counters>,
        health: &Arc<Health>,
    ) -> Self {
        let (requests, incoming) = mpsc::channel(config.max_queued);
        let is_open = Arc::new(AtomicBool::new(false));
        let server =
            GuardedConnection::new(at, config.clone(), counters.clone(), health.clone(), is_open.clone());
        let driver = Driver {
            incoming,
            server,
            config: config.clone(),
            counters: counters.clone(),
            transactions: HashMap::new(),
            parked: HashMap::new(),
        };
        tokio::spawn(driver.run());
        Self { requests, is_open }
    }

    pub(crate) fn push(&self, item: Box<[u8]>, request: KeyRequest) -> Result<(), Rejected> {
        if self.is_open.load(Ordering::Relaxed) {
            return Err(Rejected::Breaker);
        }
        self.requests.try_send((item, request)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Rejected::Full,
            mpsc::error::TrySendError::Closed(_) => Rejected::Gone,
        })
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.requests.is_closed()
    }
}

/// The task's end of a queue.
struct Driver {
    incoming: mpsc::Receiver<(Box<[u8]>, KeyRequest)>,
    server: GuardedConnection,
    config: Arc<MemcacheConfig>,
    counters: Arc<Counters>,
    transactions: HashMap<Box<[u8]>, Transaction>,
    /// Requests for a key whose transaction has begun.
    parked: HashMap<Box<[u8]>, Vec<KeyRequest>>,
}

impl Driver {
    /// Runs until the store is dropped.
    async fn run(mut self) {
        loop {
            if self.server.connection.is_none() {
                if let Err(why) = self.server.connect().await
                    && self.server.is_broken()
                {
                    self.fail_all(&why);
                    self.pause().await;
                }
                if self.incoming.is_closed() && self.incoming.is_empty() {
                    return;
                }
                continue;
            }
            if self.transactions.is_empty() {
                tokio::select! {
                    biased;
                    request = self.incoming.recv() => match request {
                        Some((item, request)) => self.admit(item, request),
                        None => return,
                    },
                    why = self.server.closed() => {
                        self.server.lost(&why); // no call waits: not a failure
                        continue;
                    }
                }
            }
            while self.transactions.len() < self.config.max_flight
                && let Ok((item, request)) = self.incoming.try_recv()
            {
                self.admit(item, request);
            }
            if let Err(why) = self.exchange().await {
                self.server.failed(&why);
                self.transactions.retain(|_, transaction| {
                    let goes_on = transaction.interrupted(&why);
                    self.counters.left_counted.add(std::mem::take(&mut transaction.left_counted));
                    goes_on
                });
                self.unpark();
                if self.server.is_broken() {
                    self.fail_all(&why);
                }
            }
        }
    }

    fn admit(&mut self, item: Box<[u8]>, request: KeyRequest) {
        match self.transactions.entry(item) {
            Entry::Vacant(place) => {
                let transaction = Transaction::new(place.key().clone(), request, self.config.keep);
                place.insert(transaction);
            }
            Entry::Occupied(mut place) if place.get().is_open() => {
                self.counters.conn.merged.add(1);
                place.get_mut().join(request);
            }
            Entry::Occupied(place) => self.parked.entry(place.key().clone()).or_default().push(request),
        }
    }

    /// One round trip for all transactions.
    async fn exchange(&mut self) -> io::Result<()> {
        let mut out = Vec::with_capacity(self.transactions.len() * 64);
        let mut order = Vec::with_capacity(self.transactions.len());
        let mut expected = 0;
        self.transactions.retain(|item, transaction| match transaction.send(&mut out) {
            0 => false,
            replies => {
                expected += replies;
                order.push((item.clone(), replies));
                true
            }
        });
        if expected > 0 {
            let Some(connection) = &mut self.server.connection else { return Err(not_connected()) };
            let conn = &self.counters.conn;
            conn.flights.add(1);
            conn.calls.add(expected as u64);
            conn.keys.add(expected as u64);
            let replies = connection.exchange(&out, expected, patience(self.config.deadline)).await?;
            self.server.succeeded();
            let mut rest = replies.as_slice();
            for (item, replies) in order {
                let (own, others) = rest.split_at(replies.min(rest.len()));
                rest = others;
                if let Some(transaction) = self.transactions.get_mut(&item) {
                    let next = transaction.receive(own);
                    self.counters.lost_races.add(std::mem::take(&mut transaction.lost_races));
                    self.counters.left_counted.add(std::mem::take(&mut transaction.left_counted));
                    if next == Next::Done {
                        self.transactions.remove(&item);
                    }
                }
            }
        }
        self.unpark();
        Ok(())
    }

    /// Transactions for the requests that waited for the end of another.
    fn unpark(&mut self) {
        if self.parked.is_empty() {
            return;
        }
        let transactions = &mut self.transactions;
        let keep = self.config.keep;
        let mut merged = 0;
        self.parked.retain(|item, requests| {
            if transactions.contains_key(item) {
                return true;
            }
            let mut requests = requests.drain(..);
            if let Some(first) = requests.next() {
                let mut transaction = Transaction::new(item.clone(), first, keep);
                requests.for_each(|request| transaction.join(request));
                merged += transaction.len() as u64 - 1;
                transactions.insert(item.clone(), transaction);
            }
            false
        });
        self.counters.conn.merged.add(merged);
    }

    /// The breaker is open: no call waits for a server that does not answer.
    fn fail_all(&mut self, why: &io::Error) {
        self.transactions.drain().for_each(|(_, mut transaction)| transaction.fail(why));
        let parked = self.parked.drain().flat_map(|(_, requests)| requests);
        parked.for_each(|request| request.fail_silent(why));
        while let Ok((_, request)) = self.incoming.try_recv() {
            request.fail_silent(why);
        }
    }

    /// Waits until the next probe; requests meanwhile fail.
    async fn pause(&mut self) {
        let until = Instant::now() + self.server.pause();
        let why = self.server.why();
        loop {
            tokio::select! {
                () = sleep(until.saturating_duration_since(Instant::now())) => return,
                request = self.incoming.recv() => match request {
                    Some((_, request)) => request.fail_silent(&why),
                    None => return,
                },
            }
        }
    }
}
