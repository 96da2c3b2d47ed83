//! The task behind a queue: connects, sends flights until something breaks, and begins anew; the breaker. Not
//! here: the time of each flight (`run_pipeline`, `send`), and the number of connections (`spares`).

mod departures;
mod run_pipeline;
mod send;
mod spares;
mod state;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use tokio::time::{Duration, Instant, sleep};
use tollgate_store::remote::Failed;

use self::state::Stopped;
use crate::pipelined::PipelinedConnection;
use crate::queue::{Attempt, earlier};
use crate::server_error::{Cause, ServerError};
use crate::workload::Workload;

pub(crate) use self::state::Driver;

/// An attempt to connect counts as one failure if calls have waited for it, and as one more whenever it has
/// lasted this many deadlines of a call.
const LONG_ATTEMPT: u32 = 4;

/// The queue has ended.
struct QueueEnded;

impl<W: Workload> Driver<W> {
    /// Runs until the queue ends.
    pub(crate) async fn run(mut self) {
        loop {
            let epoch = self.shared().topology().epoch();
            if self.breaker.is_open() && !self.connections.is_empty() {
                match self.recover().await {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(QueueEnded) => return,
                }
            } else if self.connections.is_empty() && self.connect().await.is_err() {
                return;
            }
            match poll_fn(|cx| self.run_pipeline(cx, epoch)).await {
                Stopped::Ended => return,
                Stopped::OtherMaster => self.abandon_all(),
                Stopped::NoConnection => {}
                Stopped::Error(error) => {
                    self.abandon_all();
                    self.failed(&error);
                }
            }
        }
    }

    /// Waits for a connection without a limit of time; meanwhile callers whose time is over fail.
    async fn connect(&mut self) -> Result<(), QueueEnded> {
        let shared = self.shared().clone();
        let node = self.queue.node();
        if !self.breaker.is_open() {
            self.queue.report_attempt(Attempt::Connecting);
        }
        loop {
            let failures = self.breaker.failures();
            let tried = self.meanwhile(async {
                let address = shared.topology().find(node, shared.dialer()).await?;
                shared.dialer().open(&address).await
            });
            match tried.await? {
                Ok(connection) => {
                    let now = Instant::now();
                    self.connections.push(PipelinedConnection::new(&shared, connection, now));
                    self.close_breaker();
                    self.queue.report_attempt(Attempt::Connected);
                    return Ok(());
                }
                Err(error) => {
                    shared.counters().conn.connect_failures.add(1);
                    self.queue.fail_all(&error);
                    self.queue.report_attempt(Attempt::Failed(error.clone()));
                    if self.breaker.failures() > failures {
                        self.breaker.uncount(); // it has counted already: for callers that waited for it
                    }
                    self.failed(&error);
                    shared.topology().doubted.notify_one();
                    if !shared.topology().keeps_any(node) {
                        self.queue.end();
                        return Err(QueueEnded);
                    }
                }
            }
            let pause = self.breaker.pause();
            self.meanwhile(sleep(pause)).await?;
        }
    }

    /// Runs `what`, and fails callers in the queue when their time is over.
    async fn meanwhile<T>(&mut self, what: impl Future<Output = T>) -> Result<T, QueueEnded> {
        let mut what = pin!(what);
        let queue = self.queue.clone();
        let mut counted: Option<Instant> = None;
        poll_fn(move |cx| {
            loop {
                if queue.has_ended() {
                    return Poll::Ready(Err(QueueEnded));
                }
                if let Poll::Ready(done) = what.as_mut().poll(cx) {
                    return Poll::Ready(Ok(done));
                }
                let now = Instant::now();
                let settings = queue.shared().settings();
                let deadline = settings.deadline;
                if queue.expire(now) && counted.is_none_or(|at| now >= at + LONG_ATTEMPT * deadline) {
                    counted = Some(now);
                    let why = format!("{}: no connection within {deadline:?}", settings.servers);
                    self.failed(&ServerError::new(Cause::Silent, why));
                }
                queue.rest(cx.waker(), usize::MAX);
                if !self.alarm.poll(cx, queue.waiting().1) {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// The breaker is open because nothing was answered, and the connections are still open: their replies
    /// may still come, as from a server that was paused. Then one of them is probed. True when it may be used
    /// again; otherwise all are closed, as are connections that stay silent.
    async fn recover(&mut self) -> Result<bool, QueueEnded> {
        let found = poll_fn(|cx| self.poll_owed(cx)).await;
        self.abandon_all();
        let Some(mut connection) = found else {
            return if self.queue.has_ended() { Err(QueueEnded) } else { Ok(false) };
        };
        let shared = self.shared().clone();
        let probe = async { (shared.dialer().probe(connection.connection()).await, connection) };
        match self.meanwhile(probe).await? {
            (Ok(()), connection) => {
                self.connections.push(connection);
                self.close_breaker();
                Ok(true)
            }
            (Err(error), _) => {
                self.failed(&error);
                Ok(false)
            }
        }
    }

    /// Waits until one connection has received all replies it is owed; `None` when no connection is left that
    /// may.
    fn poll_owed(&mut self, cx: &mut Context<'_>) -> Poll<Option<PipelinedConnection<W>>> {
        let silence = self.longest_silence();
        loop {
            if self.queue.has_ended() {
                return Poll::Ready(None);
            }
            let now = Instant::now();
            self.expire(now);
            let mut nth = 0;
            while nth < self.connections.len() {
                match self.connections[nth].poll(cx) {
                    Poll::Ready(Ok(answered)) => {
                        self.on_replies(nth, answered, now);
                        continue;
                    }
                    Poll::Ready(Err(error)) => {
                        self.lose(nth, Some(&error));
                        continue;
                    }
                    Poll::Pending => {}
                }
                match self.connections[nth].silent_since() {
                    None => return Poll::Ready(Some(self.connections.swap_remove(nth))),
                    Some(since) if since + silence <= now => self.lose(nth, None),
                    Some(_) => nth += 1,
                }
            }
            if self.connections.is_empty() {
                return Poll::Ready(None);
            }
            self.queue.rest(cx.waker(), usize::MAX);
            let silent = self.connections.iter().filter_map(PipelinedConnection::silent_since);
            let over = silent.min().map(|since| since + silence);
            let deadline = self.connections.iter().filter_map(PipelinedConnection::deadline).min();
            if !self.alarm.poll(cx, earlier(over, deadline)) {
                return Poll::Pending;
            }
        }
    }

    /// The longest time for which a connection may owe a reply.
    fn longest_silence(&self) -> Duration {
        let shared = self.shared();
        shared.settings().breaker.longest_pause.max(shared.patience())
    }

    /// Counts a failure; opens the breaker at the number in a row that the settings state.
    fn failed(&mut self, error: &ServerError) {
        let failed = self.breaker.failed();
        self.after_failure(failed, error);
    }

    /// A failure that opens the breaker by itself.
    fn tripped(&mut self, error: &ServerError) {
        let failed = self.breaker.trip();
        self.after_failure(failed, error);
    }

    fn after_failure(&self, failed: Failed, error: &ServerError) {
        match failed {
            Failed::StillClosed => return,
            Failed::Opened => {
                let counters = &self.shared().counters().conn;
                counters.breaker_opened.add(1);
                counters.breakers_open.add(1);
            }
            Failed::StillOpen => {}
        }
        self.queue.open_breaker(error);
    }

    /// A probe was answered in time: calls go through again; one more failure opens the breaker anew.
    fn close_breaker(&mut self) {
        (self.missed, self.late) = (None, 0);
        if self.breaker.close() {
            self.shared().counters().conn.breakers_open.sub(1);
        }
        self.queue.close_breaker();
    }
}

/// The runtime may end before the client: callers that wait fail.
impl<W: Workload> Drop for Driver<W> {
    fn drop(&mut self) {
        self.queue.task_ended();
        if self.breaker.is_open() {
            self.shared().counters().conn.breakers_open.sub(1);
        }
    }
}

#[cfg(test)]
mod tests;
