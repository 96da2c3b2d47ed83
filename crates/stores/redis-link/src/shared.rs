//! The shared state of one client's connections: settings, health, topology, counters. Not here: queues, and
//! anything that a call waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant};
use tollgate_store::StoreName;
use tollgate_store::remote::{ConfigError, Failure, Health, patience};

use crate::dial::{Dialer, Network};
use crate::server_error::{Cause, ServerError};
use crate::settings::LinkSettings;
use crate::slow::{Calls, Slowness};
use crate::stats::LinkCounters;
use crate::topology::Topology;

/// The shared state of one client's connections.
#[derive(Debug)]
pub struct Shared {
    id: u64,
    name: StoreName,
    settings: Arc<LinkSettings>,
    dialer: Dialer,
    health: Health,
    slowness: Slowness,
    topology: Topology,
    counters: LinkCounters,
    /// Keys of different slots must not share a command: a Cluster, or a proxy in front of one.
    keeps_slots_apart: AtomicBool,
    /// The reason, while the servers must not be used.
    barred: Mutex<Option<ServerError>>,
    is_barred: AtomicBool,
    is_watched: AtomicBool,
    ended: AtomicBool,
    /// Notified at the end, for the watcher.
    pub(crate) ending: Notify,
}

impl Shared {
    pub(crate) fn new(
        settings: LinkSettings,
        name: StoreName,
        network: Option<Arc<dyn Network>>,
    ) -> Result<Self, ConfigError> {
        static CLIENTS: AtomicU64 = AtomicU64::new(0);
        let settings = Arc::new(settings);
        Ok(Self {
            id: CLIENTS.fetch_add(1, Relaxed),
            dialer: Dialer::new(settings.clone(), network)?,
            health: Health::new([name.as_str()]),
            slowness: Slowness::new(name.clone()),
            topology: Topology::new(settings.servers.clone()),
            counters: LinkCounters::default(),
            keeps_slots_apart: AtomicBool::new(settings.is_cluster()),
            settings,
            name,
            barred: Mutex::default(),
            is_barred: AtomicBool::new(false),
            is_watched: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            ending: Notify::new(),
        })
    }

    /// A number that no other client of the process has.
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// The name of the servers in messages.
    #[must_use]
    pub const fn name(&self) -> &StoreName {
        &self.name
    }

    /// The settings of the client.
    #[must_use]
    pub fn settings(&self) -> &LinkSettings {
        &self.settings
    }

    /// Opens connections to the servers.
    #[must_use]
    pub const fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// Whether the servers answer, as their connections report it.
    #[must_use]
    pub const fn health(&self) -> &Health {
        &self.health
    }

    /// A warning about servers that are up and answer more than 1 % of the calls too late; `None` where all
    /// is well, or they are down.
    #[must_use]
    pub fn slow(&self) -> Option<Arc<str>> {
        self.slowness.why(self.health.state().is_up())
    }

    pub(crate) fn report_calls(&self, calls: Calls) {
        self.slowness.report(self.health.state().is_up(), calls);
    }

    /// The node of each key.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The counters of the client's work.
    #[must_use]
    pub const fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// The wait for an answer with which a call ends at its deadline.
    #[must_use]
    pub fn patience(&self) -> Duration {
        patience(self.settings.deadline)
    }

    /// The failure of a call that was sent and not answered within `waited`; counts it.
    #[must_use]
    pub fn silent(&self, waited: Duration) -> Failure {
        self.counters.conn.silent.add(1);
        Failure::Silent { waited }
    }

    /// The failure of a call that the server rejected; counts it.
    #[must_use]
    pub fn rejected(&self, reason: impl Into<Arc<str>>) -> Failure {
        self.counters.conn.rejected.add(1);
        Failure::Rejected(reason.into())
    }

    /// The time that a caller with the deadline `by` has waited.
    pub(crate) fn waited(&self, by: Instant, now: Instant) -> Duration {
        // From when the call was made; both readings are of one clock, so this is never negative.
        let made = by.checked_sub(self.patience());
        made.map_or(self.settings.deadline, |made| now.saturating_duration_since(made))
    }

    /// The reason why a call that could not be sent in time was taken back.
    pub(crate) fn not_sent_in_time(&self) -> ServerError {
        ServerError::new(Cause::Silent, format!("could not be sent within {:?}", self.settings.deadline))
    }

    pub(crate) fn keeps_slots_apart(&self) -> bool {
        self.keeps_slots_apart.load(Relaxed)
    }

    /// From now on each key has a command of its own; true when that was so before.
    pub(crate) fn keep_slots_apart(&self) -> bool {
        self.keeps_slots_apart.swap(true, Relaxed)
    }

    /// The servers must not be used because of `why`, or may be used again.
    pub(crate) fn bar(&self, why: Option<ServerError>) {
        self.is_barred.store(why.is_some(), Relaxed);
        *self.barred.lock() = why;
    }

    /// The reason why the servers must not be used; `None` if they may.
    pub(crate) fn barred(&self) -> Option<ServerError> {
        if !self.is_barred.load(Relaxed) {
            return None;
        }
        self.barred.lock().clone()
    }

    /// Whether a task watches the servers.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Relaxed)
    }

    /// Records whether a task watches the servers; true when one did before.
    pub(crate) fn set_watched(&self, is_watched: bool) -> bool {
        self.is_watched.swap(is_watched, Relaxed)
    }

    /// True when the last user of the client has gone.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    pub(crate) fn end(&self) {
        self.ended.store(true, Relaxed);
        self.ending.notify_one();
    }
}
