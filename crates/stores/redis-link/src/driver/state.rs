//! The state of the task behind a queue.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;

use tokio::time::{Instant, Sleep, sleep_until};
use tollgate_store::remote::Breaker;

use super::departures::Departures;
use crate::connection::Connection;
use crate::pipelined::PipelinedConnection;
use crate::queue::{ConnectionQueue, Traffic};
use crate::server_error::ServerError;
use crate::shared::Shared;
use crate::topology::ServerIndex;
use crate::workload::Workload;

/// Finds the queue of another node, which a server has redirected a call to; `None` where the thread has
/// ended.
pub(crate) type Route<W> = Box<dyn Fn(ServerIndex, Traffic) -> Option<Arc<ConnectionQueue<W>>> + Send>;

/// The task behind a queue.
pub(crate) struct Driver<W: Workload> {
    pub(super) queue: Arc<ConnectionQueue<W>>,
    pub(super) workload: W,
    pub(super) route: Route<W>,
    pub(super) breaker: Breaker,
    /// The instant at which calls last failed for want of an answer, unless one has come in time since: this
    /// counted as a failure then.
    pub(super) missed: Option<Instant>,
    /// Late answers in a row.
    pub(super) late: u32,
    pub(super) connections: Vec<PipelinedConnection<W>>,
    pub(super) departures: Departures<W>,
    /// The reason why no more is sent; the task ends once all flights are answered.
    pub(super) stopping: Option<Stopped>,
    pub(super) spares: Spares,
    pub(super) alarm: Alarm,
}

/// Another connection to the same server, while it is opened.
pub(super) type Opening = Pin<Box<dyn Future<Output = Result<Connection, ServerError>> + Send>>;

/// Connections beside the first.
pub(super) struct Spares {
    pub(super) opening: Option<Opening>,
    /// Another connection may be tried from this instant on.
    pub(super) may_open: Instant,
}

/// The reason why no more flights are sent.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The queue has ended.
    Ended,
    /// Another server is the master; nothing is wrong with this one.
    OtherMaster,
    /// The server cannot continue: a new connection is needed.
    Error(ServerError),
    /// The breaker is open, or there is no connection any longer.
    NoConnection,
}

impl<W: Workload> Driver<W> {
    pub(crate) fn new(queue: &Arc<ConnectionQueue<W>>, workload: W, route: Route<W>) -> Self {
        Self {
            workload,
            route,
            breaker: Breaker::new(queue.shared().settings().breaker.clone()),
            missed: None,
            late: 0,
            connections: Vec::new(),
            departures: Departures::new(),
            stopping: None,
            spares: Spares { opening: None, may_open: Instant::now() },
            alarm: Alarm::default(),
            queue: queue.clone(),
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        self.queue.shared()
    }
}

/// A timer that is set again only when it must fire earlier than it would.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
    /// The instant at which it fires; `None` for never.
    at: Option<Instant>,
}

impl Alarm {
    /// True when it has fired, which may be earlier than `at`; else it wakes the task then.
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
        let has_fired = sleep.as_mut().poll(cx).is_ready();
        if has_fired {
            self.at = None;
        }
        has_fired
    }
}
