//! One server's connection with its breaker: opened, given up after failures, and reported as up or down.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate_store::remote::{Breaker, Failed, Health, HostPort, Reporter};

use crate::config::MemcacheConfig;
use crate::connection::Connection;
use crate::stats::Counters;

/// One server's connection with its breaker.
pub(crate) struct GuardedConnection {
    pub(crate) connection: Option<Connection>,
    at: usize,
    config: Arc<MemcacheConfig>,
    counters: Arc<Counters>,
    health: Arc<Health>,
    reporter: Reporter,
    breaker: Breaker,
    /// The breaker, for callers to see.
    is_open: Arc<AtomicBool>,
    why: io::Error,
}

impl GuardedConnection {
    pub(crate) fn new(
        at: usize,
        config: Arc<MemcacheConfig>,
        counters: Arc<Counters>,
        health: Arc<Health>,
        is_open: Arc<AtomicBool>,
    ) -> Self {
        Self {
            connection: None,
            at,
            breaker: Breaker::new(config.breaker.clone()),
            config,
            counters,
            reporter: health.reporter(at),
            health,
            is_open,
            why: not_connected(),
        }
    }

    fn server(&self) -> &HostPort {
        &self.config.servers[self.at]
    }

    /// Connects once. While the breaker is closed callers wait for it, so it may take only as long as they
    /// do.
    pub(crate) async fn connect(&mut self) -> io::Result<()> {
        let connect = self.config.connect_timeout;
        let answer = self.config.deadline;
        let connect = if self.is_broken() { connect } else { connect.min(answer) };
        match Connection::to(self.server(), connect, answer).await {
            Ok(connection) => {
                self.connection = Some(connection);
                self.counters.conn.connects.add(1);
                self.counters.conn.connections.add(1);
                if self.breaker.close() {
                    self.is_open.store(false, Ordering::Relaxed);
                    self.counters.conn.breakers_open.sub(1);
                }
                self.health.up(self.reporter);
                Ok(())
            }
            Err(why) => {
                self.counters.conn.connect_failures.add(1);
                let why = io::Error::new(why.kind(), format!("{}: {why}", self.server()));
                self.failed(&why);
                Err(why)
            }
        }
    }

    /// Waits until the connection is closed.
    pub(crate) async fn closed(&mut self) -> io::Error {
        match &mut self.connection {
            Some(connection) => connection.closed().await,
            None => std::future::pending().await,
        }
    }

    pub(crate) const fn is_broken(&self) -> bool {
        self.breaker.is_open()
    }

    /// A round trip succeeded.
    pub(crate) fn succeeded(&mut self) {
        self.breaker.answered();
    }

    /// The connection ended while no call waited.
    pub(crate) fn lost(&mut self, why: &io::Error) {
        if self.connection.take().is_some() {
            self.counters.conn.connections.sub(1);
        }
        self.why = copy(why);
    }

    /// A round trip or an attempt to connect failed.
    pub(crate) fn failed(&mut self, why: &io::Error) {
        self.lost(why);
        match self.breaker.failed() {
            Failed::StillClosed => return,
            Failed::Opened => {
                self.is_open.store(true, Ordering::Relaxed);
                self.counters.conn.breaker_opened.add(1);
                self.counters.conn.breakers_open.add(1);
            }
            Failed::StillOpen => {}
        }
        self.health.down(self.reporter, &why.to_string().into());
    }

    /// The wait until the next attempt.
    pub(crate) fn pause(&self) -> Duration {
        self.breaker.pause()
    }

    /// The last error.
    pub(crate) fn why(&self) -> io::Error {
        copy(&self.why)
    }
}

impl Drop for GuardedConnection {
    /// This also happens when the runtime ends: the state of this connection means nothing any more.
    fn drop(&mut self) {
        if self.connection.is_some() {
            self.counters.conn.connections.sub(1);
        }
        if self.breaker.is_open() {
            self.counters.conn.breakers_open.sub(1);
        }
        self.health.gone(self.reporter);
    }
}

pub(crate) fn not_connected() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "there is no connection")
}

fn copy(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}
