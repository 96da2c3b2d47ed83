//! The task that watches servers: whether they are up and fit, the address of the master, and the node of
//! each slot. Not here: calls, which have connections of their own, and the conditions for a fit server (a
//! [`Probe`] has them).

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::time::{Duration, sleep, timeout};
use tollgate_store::remote::{Reporter, jittered};

use crate::connection::Connection;
use crate::dial::Address;
use crate::server_error::{Cause, ServerError};
use crate::settings::Servers;
use crate::shared::Shared;
use crate::slow::Calls;

/// Shortest time between two rounds, even if more are requested.
const SHORTEST: Duration = Duration::from_millis(100);

/// The questions that a watcher asks a server.
pub trait Probe: Send + 'static {
    /// A key by which the server to ask is chosen.
    fn key(&self) -> &[u8];

    /// Time between two heartbeats.
    fn interval(&self) -> Duration;

    /// Called once per connection: is the server fit? An error bars the servers until one is fit.
    fn check(&mut self, connection: &mut Connection) -> impl Future<Output = Result<(), Unfit>> + Send;

    /// Called each time: a sign of life, and any other exchange.
    fn heartbeat(
        &mut self,
        connection: &mut Connection,
    ) -> impl Future<Output = Result<(), ServerError>> + Send;

    /// Called when the client ends.
    fn leave(&mut self, connection: &mut Connection) -> impl Future<Output = ()> + Send;
}

/// The reason why a check found no fit server.
#[derive(Debug)]
pub enum Unfit {
    /// It could not be checked.
    Unknown(ServerError),
    /// It must not be used: no call is sent until a check finds it fit.
    Barred(ServerError),
}

impl From<ServerError> for Unfit {
    fn from(error: ServerError) -> Self {
        Self::Unknown(error)
    }
}

/// Starts to watch, in the runtime that the caller is in; does nothing when a task does already, or outside
/// of a runtime.
#[inline]
pub fn watch<P: Probe>(shared: &Arc<Shared>, probe: impl FnOnce() -> P) {
    if !shared.is_watched() {
        start(shared, probe);
    }
}

#[cold]
fn start<P: Probe>(shared: &Arc<Shared>, probe: impl FnOnce() -> P) {
    let Ok(runtime) = Handle::try_current() else { return };
    if shared.set_watched(true) {
        return;
    }
    let watcher = Watcher {
        reporter: shared.health().reporter(0),
        shared: shared.clone(),
        probe: probe(),
        connection: None,
        master: None,
        is_checked: false,
        pause: SHORTEST,
    };
    runtime.spawn(watcher.run());
}

struct Watcher<P: Probe> {
    shared: Arc<Shared>,
    reporter: Reporter,
    probe: P,
    connection: Option<Connection>,
    /// The server that the sentinels named last.
    master: Option<Address>,
    /// True when this connection's server was checked.
    is_checked: bool,
    pause: Duration,
}

/// Calls that were counted before a report.
#[derive(Clone, Copy, Default)]
struct SeenCalls {
    requests: u64,
    silent: u64,
}

/// The task ends with its runtime; another may start.
impl<P: Probe> Drop for Watcher<P> {
    fn drop(&mut self) {
        self.shared.set_watched(false);
        self.shared.health().gone(self.reporter);
    }
}

impl<P: Probe> Watcher<P> {
    async fn run(mut self) {
        let interval = self.probe.interval();
        let mut seen = SeenCalls::default();
        while !self.shared.has_ended() {
            let had_connection = self.connection.is_some();
            let mut round = self.round().await;
            if round.is_err() && had_connection {
                // A connection that was open may have been closed long ago; that alone means nothing.
                self.connection = None;
                round = self.round().await;
            }
            self.report_calls(&mut seen);
            let wait = match &round {
                Ok(()) => {
                    self.shared.health().up(self.reporter);
                    self.pause = SHORTEST;
                    interval
                }
                Err(error) => {
                    self.connection = None;
                    self.shared.health().down(self.reporter, &error.why);
                    let longest = self.shared.settings().breaker.longest_pause;
                    self.pause = (self.pause * 2).min(longest).max(SHORTEST);
                    jittered(self.pause)
                }
            };
            tokio::select! {
                () = sleep(wait) => {}
                () = self.shared.ending.notified() => {}
                () = async {
                    self.shared.topology().doubted.notified().await;
                    sleep(SHORTEST).await;
                } => {}
            }
        }
        if let Some(connection) = &mut self.connection {
            timeout(SHORTEST, self.probe.leave(connection)).await.ok();
        }
    }

    /// Reports whether calls are answered in time, though the server answers. `seen`: those of earlier
    /// reports.
    fn report_calls(&self, seen: &mut SeenCalls) {
        let conn = &self.shared.counters().conn;
        let now = SeenCalls { requests: conn.requests.get(), silent: conn.silent.get() };
        let calls = Calls {
            requests: now.requests.saturating_sub(seen.requests),
            silent: now.silent.saturating_sub(seen.silent),
            round_trip: Duration::from_micros(conn.round_trip_us.get()),
            deadline: self.shared.settings().deadline,
        };
        *seen = now;
        self.shared.report_calls(calls);
    }

    async fn round(&mut self) -> Result<(), ServerError> {
        let shared = self.shared.clone();
        let dialer = shared.dialer();
        let topology = shared.topology();
        topology.learn(dialer).await?;
        let node = topology
            .node_of(topology.slot(self.probe.key()))
            .ok_or_else(|| ServerError::new(Cause::Unavailable, "the Cluster has slots without a node"))?;
        let has_sentinels = matches!(shared.settings().servers, Servers::Sentinel { .. });
        if self.connection.is_none() || has_sentinels {
            let address = topology.find(node, dialer).await?;
            if self.master.as_ref() != Some(&address) {
                if self.master.is_some() && has_sentinels {
                    tracing::info!(store = %shared.name(), "the master is {address} now");
                    topology.new_master();
                }
                self.master = Some(address.clone());
                self.connection = None;
            }
            if self.connection.is_none() {
                self.connection = Some(dialer.open(&address).await?);
                self.is_checked = false;
            }
        }
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let limit = dialer.patience();
        let silent = || {
            let why = format!("{}: no answer within {limit:?}", shared.settings().servers);
            ServerError::new(Cause::Silent, why)
        };
        if !self.is_checked {
            let checked = timeout(limit, self.probe.check(connection)).await.map_err(|_| silent())?;
            match checked {
                Ok(()) => shared.bar(None),
                Err(Unfit::Unknown(error)) => return Err(error),
                Err(Unfit::Barred(error)) => {
                    shared.bar(Some(error.clone()));
                    return Err(error);
                }
            }
            self.is_checked = true;
        }
        timeout(limit, self.probe.heartbeat(connection)).await.map_err(|_| silent())?
    }
}
