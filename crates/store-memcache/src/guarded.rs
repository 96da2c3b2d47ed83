//! Whether a lane's server can be asked: its connection, its breaker, and who is told.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Connection, told};
use tollgate_store::remote::{HostPort, jittered};

use crate::config::MemcacheConfig;
use crate::figures::{Counters, add, sub};
use crate::health::{Health, Said};

/// The first pause; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(25);

pub(super) struct Link {
    pub(super) connection: Option<Connection>,
    at: usize,
    config: Arc<MemcacheConfig>,
    counters: Arc<Counters>,
    health: Arc<Health>,
    /// The breaker, for callers to see.
    is_open: Arc<AtomicBool>,
    failures: u32,
    pause: Duration,
    said: Said,
    why: io::Error,
}

impl Link {
    pub(super) fn new(
        at: usize,
        config: Arc<MemcacheConfig>,
        counters: Arc<Counters>,
        health: Arc<Health>,
        is_open: Arc<AtomicBool>,
    ) -> Self {
        Self {
            connection: None,
            at,
            config,
            counters,
            health,
            is_open,
            failures: 0,
            pause: FIRST_PAUSE,
            said: Said::Nothing,
            why: super::gone(),
        }
    }

    fn server(&self) -> &HostPort {
        &self.config.servers[self.at]
    }

    /// Connects once. While the breaker is closed callers wait for it, so it may take only as long as they do.
    pub(super) async fn connect(&mut self) -> io::Result<()> {
        let (connect, answer) = (self.config.connect_timeout, self.config.deadline);
        let connect = if self.is_broken() { connect } else { connect.min(answer) };
        match Connection::to(self.server(), connect, answer).await {
            Ok(connection) => {
                self.connection = Some(connection);
                add(&self.counters.connects, 1);
                add(&self.counters.connections, 1);
                if self.is_open.swap(false, Ordering::Relaxed) {
                    sub(&self.counters.breakers_open, 1);
                    self.failures = self.config.breaker.failures - 1; // one more opens it again
                }
                self.say(Said::Answers, None);
                Ok(())
            }
            Err(why) => {
                add(&self.counters.connect_failures, 1);
                let why = told(self.server(), &why);
                self.failed(&why);
                Err(why)
            }
        }
    }

    /// Waits until the connection is closed.
    pub(super) async fn closed(&mut self) -> io::Error {
        match &mut self.connection {
            Some(connection) => connection.closed().await,
            None => std::future::pending().await,
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.failures >= self.config.breaker.failures
    }

    /// A round trip went well.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
        self.pause = FIRST_PAUSE;
    }

    /// The connection ended while nobody waited.
    pub(super) fn lost(&mut self, why: &io::Error) {
        if self.connection.take().is_some() {
            sub(&self.counters.connections, 1);
        }
        self.why = super::copy(why);
    }

    /// A round trip or an attempt to connect went wrong.
    pub(super) fn failed(&mut self, why: &io::Error) {
        self.lost(why);
        self.failures = self.failures.saturating_add(1);
        if self.is_broken() {
            if !self.is_open.swap(true, Ordering::Relaxed) {
                add(&self.counters.breaker_opened, 1);
                add(&self.counters.breakers_open, 1);
            }
            self.say(Said::Silent, Some(why.to_string().into()));
        }
    }

    /// How long to wait until the next attempt.
    pub(super) fn pause(&mut self) -> Duration {
        let longest = self.config.breaker.longest_pause;
        let pause = jittered(self.pause.min(longest));
        self.pause = (self.pause * 2).min(longest);
        pause
    }

    /// What was the matter last.
    pub(super) fn why(&self) -> io::Error {
        super::copy(&self.why)
    }

    fn say(&mut self, said: Said, why: Option<Arc<str>>) {
        self.health.change(self.at, self.said, said, why);
        self.said = said;
    }
}

impl Drop for Link {
    /// Also when the runtime ends: what this lane knew says nothing any more.
    fn drop(&mut self) {
        if self.connection.is_some() {
            sub(&self.counters.connections, 1);
        }
        if self.is_open.load(Ordering::Relaxed) {
            sub(&self.counters.breakers_open, 1);
        }
        self.health.change(self.at, self.said, Said::Nothing, None);
    }
}
