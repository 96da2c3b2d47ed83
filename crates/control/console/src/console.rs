//! The console and how it is reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::Semaphore;
use tollgate_control::{Actor, Committed, Control, ControlError, OldNodes, Role, Who};
use tollgate_db::Tx;
use tollgate_http_kit::Request;

use crate::explained::Explained;
use crate::rooms::Rooms;
use crate::settings::ConsoleSettings;
use crate::web::{Failure, Visit};

/// Parameter and field that say what becomes of nodes that cannot read the rules.
pub(crate) const OLD_NODES: &str = "old_nodes";

/// Console and REST API; serve it by [`HttpSurface`](tollgate_http_kit::HttpSurface).
#[derive(Debug)]
pub struct Console {
    pub(crate) control: Arc<Control>,
    pub(crate) settings: ConsoleSettings,
    requests: AtomicU64,
    /// Places that the visitors share.
    pub(crate) rooms: Rooms,
    /// The rules that were explained last.
    pub(crate) explained: Explained,
    /// One trace is replayed at a time.
    pub(crate) replays: Arc<Semaphore>,
    /// The turn of an import.
    pub(crate) imports: Semaphore,
    /// Distinguishes the requests of this process from those of others.
    prefix: String,
}

/// `old_nodes=leave` in the query or the form.
pub(crate) fn old_nodes_of(visit: &Visit) -> OldNodes {
    match [visit.parameter(OLD_NODES), visit.field(OLD_NODES)].contains(&"leave") {
        true => OldNodes::Leave,
        false => OldNodes::Reject,
    }
}

impl Console {
    /// The console of `control`.
    #[must_use]
    pub fn new(control: Arc<Control>, settings: ConsoleSettings) -> Self {
        let prefix = tollgate_control::secret().map_or_else(|_| "r".to_owned(), |it| it[..8].to_owned());
        let requests = AtomicU64::new(0);
        let imports = Semaphore::new(1);
        let replays = Arc::new(Semaphore::new(1));
        let rooms = Rooms::new();
        let explained = Explained::default();
        Self { control, settings, requests, rooms, explained, imports, replays, prefix }
    }

    /// Runs a change that may publish rules. `old_nodes=leave` in the query or the form publishes them also
    /// where a live node cannot read them.
    pub(crate) fn commit<T: Send + 'static>(
        &self,
        visit: &Visit,
        work: impl Fn(&mut dyn Tx, &Actor) -> Result<Committed<T>, ControlError> + Send + 'static,
    ) -> impl Future<Output = Result<T, ControlError>> + Send {
        let claim = visit.claim();
        let old_nodes = old_nodes_of(visit);
        async move {
            let claim = claim.map_err(|_| ControlError::NoLogin)?;
            self.control.commit_beside_as(&claim, old_nodes, work).await
        }
    }

    /// Who visits, as of now, and the time in milliseconds UTC: for what is in memory and is shown at once.
    pub(crate) async fn who(&self, visit: &Visit) -> Result<(Who, i64), Failure> {
        let claim = visit.claim()?;
        Ok(self.control.read_as(&claim, |tx, actor| Ok((Who::clone(actor), tx.now_ms()))).await?)
    }

    /// Whether the visitor has this right now: before work that no transaction guards, and again after it.
    pub(crate) async fn must(&self, visit: &Visit, need: Role, app: &str) -> Result<(), Failure> {
        let claim = visit.claim()?;
        let app = app.to_owned();
        Ok(self.control.read_as(&claim, move |_, actor| actor.must(need, &app)).await?)
    }

    /// The address of the client that sent `request`: behind proxies, what they say; empty where connections
    /// have no address.
    #[must_use]
    pub fn client_of(&self, request: &Request<'_>) -> String {
        self.settings.client_of(request)
    }

    /// Readers of events that wait now.
    #[must_use]
    pub fn event_readers(&self) -> usize {
        self.rooms.event_readers()
    }

    /// The name of the login cookie: with the prefix that browsers guard where they may.
    pub(crate) const fn cookie_name(&self) -> &'static str {
        if self.settings.is_secure { "__Host-tollgate" } else { "tollgate" }
    }

    /// The name of the next request in the log.
    pub(crate) fn next_request(&self) -> String {
        format!("{}-{}", self.prefix, self.requests.fetch_add(1, Relaxed))
    }
}
