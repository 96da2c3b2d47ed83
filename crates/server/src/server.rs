//! One server, from its settings to its end: what is made, in which order, and how it stops.
//!
//! Every surface is answered by worker threads; signals, reload and certificates live on one small runtime here. Nothing
//! but the shared node goes between them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tollgate_net::{Listeners, Sockets, TlsError};

use crate::certificates::Certificates;
use crate::node::Node;
use crate::observe;
use crate::settings::{Listen, Settings, Surface};
use crate::signals::Signals;
use crate::surfaces::Surfaces;
use crate::telemetry::otlp::Counts;
use crate::worker::{self, small_runtime};

/// How often certificates are looked at.
const LOOK_AT_CERTIFICATES: Duration = Duration::from_secs(5);

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct Server {
    node: Arc<Node>,
    settings: Settings,
    certificates: Certificates,
    bound: Bound,
}

/// The sockets of each surface that is on.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) grpc: Option<Listeners>,
    pub(crate) http: Option<Listeners>,
    pub(crate) resp: Option<Listeners>,
}

impl Bound {
    fn of(&self, surface: Surface) -> Option<&Listeners> {
        match surface {
            Surface::Grpc => self.grpc.as_ref(),
            Surface::Http => self.http.as_ref(),
            Surface::Resp => self.resp.as_ref(),
        }
    }
}

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// An address could not be had.
    #[error("{surface} cannot listen on {address}: {source}")]
    Address {
        /// Which surface.
        surface: &'static str,
        /// Its address as set.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// A certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] TlsError),
}

impl Server {
    /// Takes the ports and reads the certificates that `settings` name.
    ///
    /// # Errors
    /// [`BindError`] names the surface whose port could not be had, or the file that cannot be used.
    pub fn bind(settings: Settings, node: Arc<Node>) -> Result<Self, BindError> {
        tollgate_net::raise_descriptor_limit();
        let certificates = Certificates::load(&settings.tls)?;
        let bound = Bound {
            grpc: bind(Surface::Grpc, &settings.grpc, &settings)?,
            http: bind(Surface::Http, &settings.http, &settings)?,
            resp: bind(Surface::Resp, &settings.resp, &settings)?,
        };
        Ok(Self { node, settings, certificates, bound })
    }

    /// Where `surface` listens, where it is on.
    #[must_use]
    pub fn address(&self, surface: Surface) -> Option<SocketAddr> {
        self.bound.of(surface).map(|listeners| listeners.address)
    }

    /// Answers until a signal ends it. `up` is called once every surface can be asked; `traces` are what was sent of them.
    ///
    /// # Errors
    /// When the system gives no thread or no signal handler, when `up` fails, or when a worker ends by itself.
    pub fn run(self, traces: Option<Arc<Counts>>, up: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let Self { node, settings, certificates, bound } = self;
        let (close, closing) = watch::channel(false);
        let (ends, mut ended) = mpsc::unbounded_channel();
        let surfaces = Surfaces::new(&node, &settings, &certificates, &bound);
        node.limiter.metrics().register(|registry| {
            observe::register(registry, surfaces.observed(&node, &certificates), traces)
        });
        let workers = surfaces.workers(bound);
        let number_of_workers = workers.len();
        for (number, doors) in workers.into_iter().enumerate() {
            worker::start(number, Arc::clone(&node), doors, closing.clone(), ends.clone())?;
        }
        small_runtime()?.block_on(async {
            let mut signals = Signals::new()?;
            let waiting = Arc::clone(&node);
            tokio::spawn(async move { waiting.await_rules().await });
            let watching = Arc::clone(&node);
            tokio::spawn(async move { watching.watch_store().await });
            node.limiter.store().first_news().await;
            up()?;
            let outcome = tokio::select! {
                () = signals.told_to_go(&node, &certificates) => Ok(()),
                () = watch_certificates(&certificates) => Ok(()),
                Some(worker) = ended.recv() => Err(io::Error::other(format!("worker {worker} ended by itself"))),
            };
            node.drain();
            tracing::info!(delay = ?settings.drain_delay, "draining: not ready any more, calls are still taken; a second signal ends that");
            tokio::select! {
                () = tokio::time::sleep(settings.drain_delay) => {}
                () = signals.told_to_go(&node, &certificates) => {}
            }
            tracing::info!(timeout = ?settings.drain_timeout, "closing: calls under way finish");
            close.send_replace(true);
            let finished = tokio::time::timeout(settings.drain_timeout, async {
                for _ in 0..number_of_workers {
                    ended.recv().await;
                }
            });
            let is_finished = tokio::select! {
                finished = finished => finished.is_ok(),
                () = signals.told_to_go(&node, &certificates) => false,
            };
            match is_finished {
                true => tracing::info!("stopped"),
                false => tracing::warn!("stopped; calls under way are cut off"),
            }
            outcome
        })
    }
}

/// Never ends.
async fn watch_certificates(certificates: &Certificates) {
    let mut ticks = tokio::time::interval(LOOK_AT_CERTIFICATES);
    loop {
        ticks.tick().await;
        certificates.look();
    }
}

fn bind(surface: Surface, listen: &Listen, settings: &Settings) -> Result<Option<Listeners>, BindError> {
    let Listen::At(address) = listen else { return Ok(None) };
    let sockets = Sockets { count: settings.workers, backlog: settings.backlog };
    match Listeners::bind(address, sockets) {
        Ok(listeners) => {
            warn_if_exposed(surface, listeners.address, settings);
            Ok(Some(listeners))
        }
        Err(source) => Err(BindError::Address { surface: surface.name(), address: address.clone(), source }),
    }
}

/// One line for a surface that others than this machine can reach, and that lacks what should be there then.
fn warn_if_exposed(surface: Surface, address: SocketAddr, settings: &Settings) {
    let mut lacks = Vec::new();
    if settings.tls.of(surface).is_none() {
        lacks.push("in cleartext (set tls_cert and tls_key)");
    }
    match surface {
        Surface::Http if settings.admin_token.is_none() => {
            lacks.push("without an admin token, so /v1/keys, /v1/rules and /debug answer nobody (set TOLLGATE_ADMIN_TOKEN)");
        }
        Surface::Resp if settings.resp_password.is_none() => {
            lacks.push("for everybody who can reach it (set TOLLGATE_RESP_PASSWORD)");
        }
        Surface::Grpc | Surface::Http | Surface::Resp => {}
    }
    if !address.ip().is_loopback() && !lacks.is_empty() {
        tracing::warn!(surface = surface.name(), %address, "listens beyond this machine, {}", lacks.join(", and "));
    }
}
