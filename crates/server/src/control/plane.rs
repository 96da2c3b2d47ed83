//! Parts of a control plane before it listens: the database, the nodes, the console.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate_console::{Console, ConsoleSettings};
use tollgate_control::events::Topic;
use tollgate_control::{Control, ControlError};
use tollgate_core::Clock;
use tollgate_db::TimeSource;
use tollgate_fleet_hub::{Fleet, FleetService, HubSettings, MissingApps, Past, Seams};
use tollgate_http_kit::{HttpSurface, SurfaceSettings};
use tollgate_net::Tls;
use tollgate_rule_files::language_level;
use tollgate_shares::Places;

use super::api::PlaneApi;
use super::fleet_nodes::{self, FleetNodes};
use super::identities::StoredIdentities;
use super::metrics::{Consoles, FleetMetrics, LoadMetrics, PlaneMetrics};
use super::node_token::IssuedTokens;
use super::port::{MOST_CONNECTIONS, Port};
use super::reports::StoredReports;
use super::surroundings;

/// Changes of nodes within this time are one event.
const NODES: Duration = Duration::from_millis(200);
/// Bytes of bodies that have not arrived whole: of all users 192 MiB, of others 16 MiB, and large heads.
const MOST_BUFFERED: usize = 256 << 20;
/// Interval at which tokens of nodes are read again.
const TOKENS: Duration = Duration::from_secs(10);

/// The parts, and the channels between them.
pub(crate) struct Plane {
    pub(crate) control: Arc<Control>,
    pub(crate) fleet: Fleet,
    pub(crate) metrics: Arc<PlaneMetrics>,
    publications: Arc<AtomicU64>,
    folder: PathBuf,
    /// One for each port.
    consoles: Arc<Consoles>,
}

impl Plane {
    /// Opens the database in `folder`.
    pub(crate) async fn open(
        folder: &Path,
        clock: Arc<dyn Clock>,
        node_wait: Duration,
    ) -> Result<Self, ControlError> {
        let nodes = Arc::new(FleetNodes::default());
        let shown = Arc::clone(&nodes);
        let control = Arc::new(Control::open(folder, TimeSource::Database, shown).await?);
        control.wait_for_nodes(node_wait).await?;
        let replica = tollgate_control::secret()?;
        // Apps are disabled and never deleted: one that only nodes know was made after the copy from which
        // the database was restored.
        let missing_apps = MissingApps::Kept;
        let settings = HubSettings {
            missing_apps,
            bindings: control.bound_nodes().await?,
            past: past(&control).await?,
            known: control.known_nodes().await?.into_iter().map(fleet_nodes::known).collect(),
            level: language_level,
            ..HubSettings::new(control.epoch().await?, &replica[..16])
        };
        let reports = Arc::new(StoredReports(Arc::clone(&control)));
        let identities = Arc::new(StoredIdentities(Arc::clone(&control)));
        let tokens = Arc::new(IssuedTokens { tokens: control.node_tokens(), clock: Arc::clone(&clock) });
        let fleet = Fleet::new(settings, Seams { clock, reports, tokens, identities });
        let _ = nodes.0.set(fleet.clone()); // it is empty: nothing else has set it
        let metrics = Arc::<PlaneMetrics>::default();
        let publications = Arc::<AtomicU64>::default();
        metrics.add(FleetMetrics { fleet: fleet.clone(), publications: Arc::clone(&publications) });
        let consoles = Arc::<Consoles>::default();
        metrics.add(LoadMetrics {
            control: Arc::clone(&control),
            consoles: Arc::clone(&consoles),
            fleet: fleet.clone(),
        });
        Ok(Self { control, fleet, metrics, publications, folder: folder.to_owned(), consoles })
    }

    /// The surfaces of the port.
    pub(crate) fn port(&self, console: ConsoleSettings, is_local: bool, needs_certificate: bool) -> Port {
        let mut settings = SurfaceSettings::default();
        settings.admin.is_loopback = is_local;
        // More than the shares of users and others together.
        settings.max_buffered_bytes = MOST_BUFFERED;
        let console = Arc::new(Console::new(Arc::clone(&self.control), console));
        self.consoles.lock().push(Arc::clone(&console));
        let api =
            PlaneApi { console, control: Arc::clone(&self.control), metrics: Arc::clone(&self.metrics) };
        let http = Arc::new(HttpSurface::new(api, settings));
        let connections = Places::of(MOST_CONNECTIONS, 0);
        Port { http, nodes: FleetService::new(self.fleet.clone()), needs_certificate, connections }
    }

    /// Sends published rules to nodes and stores their reports, until the future is dropped. `tls` is the
    /// port's certificate.
    pub(crate) async fn run(&self, disk_reserve: u64, tls: Option<&Tls>) {
        let mut changes = self.control.published();
        let counting = async {
            while changes.changed().await.is_ok() {
                self.publications.fetch_add(1, Relaxed);
            }
        };
        let mut acknowledgements = self.fleet.changes();
        let noting = async {
            while acknowledgements.changed().await.is_ok() {
                self.control.live().events.note(Topic::Nodes);
                tokio::time::sleep(NODES).await;
            }
        };
        tokio::join!(
            noting,
            self.fleet.run(self.control.published(), self.control.overrides()),
            counting,
            self.control.keep_history(),
            self.control.roll(),
            self.control.keep_nodes(),
            self.control.compare_rows_hourly(),
            self.keep_tokens(),
            surroundings::watch(&self.control, &self.folder, disk_reserve, tls),
        );
    }

    /// Reads tokens that another process has changed, and records when tokens were used.
    async fn keep_tokens(&self) {
        let mut ticks = tokio::time::interval(TOKENS);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.control.read_node_tokens().await {
                tracing::warn!(%error, "the tokens of nodes cannot be read; those before stay in force");
            }
        }
    }
}

/// Every version that the database has published.
async fn past(control: &Control) -> Result<Past, ControlError> {
    let mut past = Past::of_database();
    for app in control.past().await? {
        past.begins_at(&app.app, app.from);
        for (version, sha256) in &app.versions {
            past.add(&app.app, *version, sha256);
        }
    }
    Ok(past)
}
