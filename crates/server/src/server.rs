//! One server, from its settings to its end: what is made, in which order, and how it stops.
//!
//! gRPC is answered by worker threads, each with its own runtime and its own socket; everything else (HTTP, signals,
//! reload) lives on one small runtime here. Nothing but the shared node goes between them.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tollgate_envoy_rls::{Limits, RateLimitService};
use tollgate_store_memory::MemoryStore;

use crate::http::{self, routes::Routes};
use crate::listen::Listeners;
use crate::node::Node;
use crate::observe::{self, Connections};
use crate::settings::{Listen, Settings};
use crate::signals::Signals;

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct Server {
    node: Arc<Node>,
    settings: Settings,
    grpc: Option<Listeners>,
    http: Option<Listeners>,
}

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("{surface} cannot listen on {address}: {source}")]
pub struct BindError {
    surface: &'static str,
    address: String,
    source: io::Error,
}

impl Server {
    /// Takes the ports that `settings` name.
    ///
    /// # Errors
    /// [`BindError`] names the surface whose port could not be had.
    pub fn bind(settings: Settings, node: Arc<Node>) -> Result<Self, BindError> {
        crate::listen::raise_descriptor_limit();
        let grpc = bind("grpc", &settings.grpc, settings.workers)?;
        let http = bind("http", &settings.http, 1)?;
        Ok(Self { node, settings, grpc, http })
    }

    /// Where gRPC listens.
    #[must_use]
    pub fn grpc(&self) -> Option<std::net::SocketAddr> {
        self.grpc.as_ref().map(|listeners| listeners.address)
    }

    /// Where HTTP listens.
    #[must_use]
    pub fn http(&self) -> Option<std::net::SocketAddr> {
        self.http.as_ref().map(|listeners| listeners.address)
    }

    /// Answers until a signal ends it. `up` is called once every surface can be asked.
    ///
    /// # Errors
    /// When the system gives no thread or no signal handler, when `up` fails, or when a worker ends by itself.
    pub fn run(self, up: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let Self { node, settings, grpc, http } = self;
        let (close, closing) = watch::channel(false);
        let (ends, mut ended) = mpsc::unbounded_channel();
        let (mut workers, mut services, served) = (0, Vec::new(), Arc::new(Connections::default()));
        for socket in grpc.into_iter().flat_map(|listeners| listeners.sockets) {
            let service = service(&node, &settings);
            services.push(Arc::clone(&service));
            start_worker(workers, socket, service, closing.clone(), ends.clone())?;
            workers += 1;
        }
        node.limiter
            .metrics()
            .register(|registry| observe::register(registry, services, Arc::clone(&served)));
        small_runtime()?.block_on(async {
            let mut signals = Signals::new()?;
            let mut surfaces = JoinSet::new();
            if let Some((address, socket)) = http.and_then(Listeners::into_one) {
                let routes = Arc::new(Routes::new(Arc::clone(&node), service(&node, &settings), address.ip().is_loopback()));
                let listener = tokio::net::TcpListener::from_std(socket)?;
                surfaces.spawn(http::serve(listener, routes, settings.max_connections, served, closing));
            }
            let waiting = Arc::clone(&node);
            tokio::spawn(async move { waiting.await_rules().await });
            up()?;
            let outcome = tokio::select! {
                () = signals.told_to_go(&node) => Ok(()),
                Some(worker) = ended.recv() => Err(io::Error::other(format!("gRPC worker {worker} ended by itself"))),
            };
            node.drain();
            tracing::info!(delay = ?settings.drain_delay, "draining: not ready any more, calls are still taken; a second signal ends that");
            tokio::select! {
                () = tokio::time::sleep(settings.drain_delay) => {}
                () = signals.told_to_go(&node) => {}
            }
            tracing::info!(timeout = ?settings.drain_timeout, "closing: calls under way finish");
            close.send_replace(true);
            let finished = tokio::time::timeout(settings.drain_timeout, async {
                while surfaces.join_next().await.is_some() {}
                for _ in 0..workers {
                    ended.recv().await;
                }
            });
            let is_finished = tokio::select! {
                finished = finished => finished.is_ok(),
                () = signals.told_to_go(&node) => false,
            };
            match is_finished {
                true => tracing::info!("stopped"),
                false => tracing::warn!("stopped; calls under way are cut off"),
            }
            outcome
        })
    }
}

fn bind(surface: &'static str, listen: &Listen, sockets: usize) -> Result<Option<Listeners>, BindError> {
    let Listen::At(address) = listen else { return Ok(None) };
    match Listeners::bind(address, sockets) {
        Ok(listeners) => {
            if !listeners.address.ip().is_loopback() {
                tracing::warn!(
                    surface,
                    address = %listeners.address,
                    "listens beyond this machine, in cleartext and for everybody who can reach it"
                );
            }
            Ok(Some(listeners))
        }
        Err(source) => Err(BindError { surface, address: address.clone(), source }),
    }
}

fn service(node: &Node, settings: &Settings) -> Arc<RateLimitService<MemoryStore>> {
    let limits = Limits {
        max_connections: settings.max_connections.div_ceil(settings.workers),
        max_connection_age: settings.max_connection_age.unwrap_or(Duration::MAX),
        max_connection_age_grace: settings.max_connection_age_grace,
        drain_timeout: settings.drain_timeout,
        ..Limits::default()
    };
    let (limiter, clock) = (Arc::clone(&node.limiter), Arc::clone(&node.clock));
    Arc::new(RateLimitService::new(limiter, clock, node.ready(), settings.replies.clone(), limits))
}

fn small_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Starts the thread that answers what comes in on `socket`; it says its number to `ended` when it is through.
fn start_worker(
    number: usize,
    socket: TcpListener,
    service: Arc<RateLimitService<MemoryStore>>,
    closing: watch::Receiver<bool>,
    ended: mpsc::UnboundedSender<usize>,
) -> io::Result<()> {
    let runtime = small_runtime()?;
    std::thread::Builder::new().name(format!("grpc-{number}")).spawn(move || {
        let _said = Ended { number, ended };
        runtime.block_on(async {
            match tokio::net::TcpListener::from_std(socket) {
                Ok(listener) => tollgate_envoy_rls::serve(listener, service, closing).await,
                Err(error) => tracing::error!(%error, number, "a gRPC worker has no socket"),
            }
        });
    })?;
    Ok(())
}

/// Says that a worker has ended, also when it has panicked.
struct Ended {
    number: usize,
    ended: mpsc::UnboundedSender<usize>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.ended.send(self.number); // nobody listens any more when the drain took too long
    }
}
