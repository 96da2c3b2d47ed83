//! One server, from its settings to its end: the order in which its parts are created, and how it stops.
//!
//! Worker threads serve every surface; signals, reload and certificates have one small runtime here. They
//! share nothing but the node.

use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use tokio::sync::{mpsc, watch};
use tollgate_human_text::with_causes;
use tollgate_net::{AcceptLimits, Address, ConnectionStats, Listeners, Sockets, TlsError};
use tollgate_telemetry::Reported;

use crate::acceptor::{BoundSurface, ListenerOptions};
use crate::certificates::Certificates;
use crate::node::ServerNode;
use crate::node_control::Controlled;
use crate::observe::{
    CertificateMetrics, ConnectionMetrics, LogMetrics, ProcessMetrics, StoreMetrics, TraceMetrics,
};
use crate::settings::{Listen, Settings, Surface};
use crate::signals::{EndSignal, Signals};
use crate::surface::MountContext;
use crate::worker::{self, small_runtime};

/// Interval of checking certificates for changes.
const CERTIFICATE_CHECK: Duration = Duration::from_secs(5);

/// A server that listens and does not accept yet.
#[derive(Debug)]
pub(crate) struct Server {
    node: Arc<ServerNode>,
    settings: Settings,
    certificates: Certificates,
    /// The sockets of each surface, in the order of the settings; `None` for one that is off.
    listeners: Vec<Option<Listeners>>,
}

/// A surface and where it listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listening<'a> {
    pub(crate) surface: &'a Surface,
    /// `None` if it is off.
    pub(crate) address: Option<&'a Address>,
}

impl std::fmt::Display for Listening<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.address {
            Some(address) => write!(f, "{} {address}", self.surface.name()),
            None => write!(f, "{} off", self.surface.name()),
        }
    }
}

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    /// Addresses cannot be used; at least one.
    #[error("{}", with_hint(.0))]
    Addresses(Vec<AddressError>),
    /// A certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] TlsError),
}

/// Why a surface cannot listen on its address.
#[derive(Debug, thiserror::Error)]
#[error("{surface} cannot listen on {address}")]
pub(crate) struct AddressError {
    surface: &'static str,
    address: String,
    source: io::Error,
}

/// One error per line, and what to do if another program has a port.
fn with_hint(errors: &[AddressError]) -> String {
    let mut text = errors.iter().map(|error| with_causes(error).to_string()).collect::<Vec<_>>().join("\n");
    let taken = |is_socket: bool| {
        let is_taken = |error: &&AddressError| error.source.kind() == io::ErrorKind::AddrInUse;
        let mut taken = errors.iter().filter(is_taken);
        taken.find(|error| error.address.starts_with("unix:") == is_socket).map(|error| error.surface)
    };
    if let Some(surface) = taken(false) {
        text += &format!(
            "\nstop the program that has the port (`ss -ltnp` shows it), or give another address: --{surface} \
             127.0.0.1:0 picks a free port, --{surface} off needs none"
        );
    }
    if let Some(surface) = taken(true) {
        text += &format!(
            "\nstop the program that has the socket (`ss -lxp` shows it), or give another path: --{surface} \
             unix:/run/tollgate/other.sock"
        );
    }
    text
}

impl Server {
    /// Opens the ports and reads the certificates of `settings`.
    ///
    /// # Errors
    /// [`BindError`] names every surface whose port cannot be opened, or the file that cannot be used.
    pub(crate) fn bind(settings: Settings, node: Arc<ServerNode>) -> Result<Self, BindError> {
        tollgate_net::raise_descriptor_limit();
        let certificates = Certificates::load(&settings)?;
        let mut listeners = Vec::new();
        let mut errors = Vec::new();
        for surface in &settings.surfaces {
            match bind(surface, &settings) {
                Ok(bound) => listeners.push(bound),
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(BindError::Addresses(errors));
        }
        Ok(Self { node, settings, certificates, listeners })
    }

    /// Every surface and where it listens.
    pub(crate) fn listening(&self) -> Vec<Listening<'_>> {
        let addresses = self.listeners.iter().map(|it| it.as_ref().map(|listeners| &listeners.address));
        let surfaces = self.settings.surfaces.iter().zip(addresses);
        surfaces.map(|(surface, address)| Listening { surface, address }).collect()
    }

    /// Serves until a signal ends it. `up` is called once every surface accepts connections.
    ///
    /// # Errors
    /// When the system gives no thread or signal handler, when `up` fails, or when a worker ends by itself.
    pub(crate) fn run(
        mut self,
        reported: Reported,
        up: impl FnOnce(&Settings, &[Listening<'_>]) -> io::Result<()>,
    ) -> io::Result<()> {
        let workers = self.mount(reported);
        let node = &self.node;
        let settings = &self.settings;
        let certificates = &self.certificates;
        let (close, closing) = watch::channel(false);
        let (ends, mut ended) = mpsc::unbounded_channel();
        let number_of_workers = workers.len();
        for (number, surfaces) in workers.into_iter().enumerate() {
            worker::start(number, Arc::clone(node), surfaces, closing.clone(), ends.clone())?;
        }
        small_runtime()?.block_on(async {
            let mut signals = Signals::new()?;
            let reload = || {
                node.rules.reload();
                certificates.reload();
            };
            let waiting = Arc::clone(node);
            tokio::spawn(async move { waiting.await_rules().await });
            let controlled = Arc::clone(node);
            tokio::spawn(async move { controlled.watch_control().await });
            let watching = Arc::clone(node);
            tokio::spawn(async move { watching.watch_store().await });
            node.limiter.store().first_state().await;
            up(settings, &self.listening())?;
            let outcome = tokio::select! {
                signal = signals.end(reload) => Ok(signal),
                never = watch_certificates(certificates) => match never {},
                Some(worker) = ended.recv() => Err(io::Error::other(format!("worker {worker} ended by itself"))),
            };
            node.drain();
            // There is no load balancer in front of a server that is tried out at a terminal.
            if !(matches!(outcome, Ok(EndSignal::Interrupt)) && io::stdin().is_terminal()) {
                let delay = settings.serving.drain_delay;
                tracing::info!(
                    "draining: not ready, still accepting requests for {delay:?} (signal again to skip)"
                );
                tokio::select! {
                    () = tokio::time::sleep(delay) => {}
                    _ = signals.end(reload) => {}
                }
            }
            let timeout = settings.serving.drain_timeout;
            tracing::info!(?timeout, "waiting for in-flight requests");
            close.send_replace(true);
            // No request may wait for a turn that could come too late.
            node.limiter.end_queue();
            let finished = tokio::time::timeout(timeout, async {
                for _ in 0..number_of_workers {
                    ended.recv().await;
                }
            });
            let is_finished = tokio::select! {
                finished = finished => finished.is_ok(),
                _ = signals.end(reload) => false,
            };
            match is_finished {
                true => tracing::info!("stopped"),
                false => tracing::warn!("stopped; in-flight requests were cut off"),
            }
            outcome.map(drop)
        })
    }

    /// Makes every surface: acceptors for each worker of those that are on, and the metrics of all.
    pub(crate) fn mount(&mut self, reported: Reported) -> Vec<Vec<BoundSurface>> {
        let Self { node, settings, certificates, listeners } = self;
        let Settings { serving, decisions, surfaces, .. } = &*settings;
        let limits = Arc::new(AcceptLimits {
            max_connections: serving.max_connections.div_ceil(serving.workers),
            ..AcceptLimits::default()
        });
        let mut workers: Vec<Vec<BoundSurface>> = (0..serving.workers).map(|_| Vec::new()).collect();
        let mut connections = Vec::new();
        let mut metrics: Vec<Box<dyn Collector>> = Vec::new();
        for (surface, listeners) in surfaces.iter().zip(listeners) {
            let address = listeners.as_ref().map(|listeners| &listeners.address);
            let mounted = surface.mount().mount(&MountContext { node, serving, decisions, address });
            let stats = Arc::new(ConnectionStats::default());
            connections.push((surface.name(), Arc::clone(&stats)));
            metrics.extend(mounted.metrics);
            let options =
                ListenerOptions { tls: certificates.of(surface.name()), limits: Arc::clone(&limits), stats };
            let sockets = listeners.iter_mut().flat_map(|listeners| listeners.sockets.drain(..));
            for ((worker, socket), acceptor) in workers.iter_mut().zip(sockets).zip(mounted.acceptors) {
                worker.push(acceptor.bind(socket, options.clone()));
            }
        }
        metrics.push(Box::new(ProcessMetrics { started: node.clock.now() }));
        metrics.push(Box::new(ConnectionMetrics(connections)));
        metrics.push(Box::new(CertificateMetrics(certificates.clone())));
        metrics.push(Box::new(StoreMetrics(Arc::clone(node))));
        metrics.push(Box::new(LogMetrics(reported.lines)));
        metrics.extend(node.rules.control().map(Controlled::metrics));
        metrics.extend(reported.spans.map(|counts| Box::new(TraceMetrics(counts)) as Box<dyn Collector>));
        node.limiter.metrics().register(|registry| {
            metrics.into_iter().for_each(|collector| registry.register_collector(collector));
        });
        workers
    }
}

/// Watches for changes, and never ends.
async fn watch_certificates(certificates: &Certificates) -> Infallible {
    let mut ticks = tokio::time::interval(CERTIFICATE_CHECK);
    loop {
        ticks.tick().await;
        certificates.reload();
    }
}

fn bind(surface: &Surface, settings: &Settings) -> Result<Option<Listeners>, AddressError> {
    let Listen::At(address) = surface.listen() else { return Ok(None) };
    let serving = &settings.serving;
    let sockets =
        Sockets { count: serving.workers, backlog: serving.backlog, file_mode: serving.socket_mode };
    match Listeners::bind(address, sockets) {
        Ok(listeners) => {
            warn_if_exposed(surface, &listeners.address, settings);
            Ok(Some(listeners))
        }
        Err(source) => Err(AddressError { surface: surface.name(), address: address.clone(), source }),
    }
}

/// One line for a surface that other machines can reach and that is not protected.
fn warn_if_exposed(surface: &Surface, address: &Address, settings: &Settings) {
    let name = surface.name();
    let has_tls = settings.tls.of(name).is_some();
    let lacks: Vec<&str> =
        [(!has_tls).then_some("without TLS (set tls_cert and tls_key)"), surface.mount().unprotected()]
            .into_iter()
            .flatten()
            .collect();
    if !address.is_local() && !lacks.is_empty() {
        tracing::warn!(surface = name, %address, "listening on a non-loopback address {}", lacks.join(" and "));
    }
}
