//! A control plane and nodes with real limiters, over real sockets.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tollgate_clock::MonotonicClock;
use tollgate_core::{Clock, Timestamp};
use tollgate_fleet_agent::{
    AgentSettings, Apply, Endpoint, FollowApply, Parser, Seams, Start, StateDir, Status, rule_files_parser,
    run, sample,
};
use tollgate_fleet_hub::{
    AnyToken, Fleet, FleetService, HubSettings, IdentitiesInMemory, MissingApps, NodeState, Reports,
    ReportsError, Tokens,
};
use tollgate_fleet_proto::published::Published;
use tollgate_fleet_proto::{Command, Label, Overrides, Reply, Report};
use tollgate_limiter::follow::FollowSettings;
use tollgate_limiter::{Descriptor, Entry, Limiter, LimiterSettings, Policy, Request, Scratch};
use tollgate_mistakes::Mistakes;
use tollgate_rule_files::{Options, RuleFile};
use tollgate_store::block_on;
use tollgate_store_memory::{MemoryConfig, MemoryStore};

/// Far beyond what any machine needs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The number of the last report of one process, and the denials of its rules.
type Stored = (u64, BTreeMap<String, u64>);

/// Reports in memory.
#[derive(Debug, Default)]
pub struct ReportsInMemory(Mutex<BTreeMap<(String, u64), Stored>>);

impl ReportsInMemory {
    /// Denied of each rule, over all nodes.
    #[must_use]
    pub fn denied(&self) -> u64 {
        let stored = self.0.lock();
        stored.values().flat_map(|(_, rules)| rules.values()).sum()
    }

    /// Stores a report as [`Reports::store`] says.
    pub fn store_now(&self, node: &str, incarnation: u64, report: &Report) {
        let mut stored = self.0.lock();
        let (last, rules) = stored.entry((node.to_owned(), incarnation)).or_default();
        if report.sequence > *last {
            *last = report.sequence;
            for rule in &report.rules {
                *rules.entry(rule.rule.clone()).or_default() += rule.denied;
            }
        }
    }
}

impl Reports for ReportsInMemory {
    fn store<'a>(
        &'a self,
        node: &'a str,
        incarnation: u64,
        report: Report,
        _: Timestamp,
    ) -> Pin<Box<dyn Future<Output = Result<(), ReportsError>> + Send + 'a>> {
        self.store_now(node, incarnation, &report);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A control plane on a port of the loopback interface.
#[derive(Debug)]
pub struct Control {
    pub address: SocketAddr,
    pub fleet: Fleet,
    /// Channel of the published rules.
    pub published: watch::Sender<Arc<Published>>,
    /// Reports of nodes.
    pub reports: Arc<ReportsInMemory>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Control {
    /// Starts on `address`, on threads of its own.
    #[must_use]
    pub fn start(address: SocketAddr, reports: &Arc<ReportsInMemory>) -> Self {
        Self::with_tokens(address, reports, Arc::new(AnyToken))
    }

    /// As [`Control::start`], on the address of one that has ended: a node that is back before the rules are
    /// published keeps its own, as it does with `tollgate control`.
    #[must_use]
    pub fn start_again(address: SocketAddr, reports: &Arc<ReportsInMemory>) -> Self {
        let new = HubSettings::new("e", "r");
        let settings =
            HubSettings { report_every: Duration::from_secs(1), missing_apps: MissingApps::Kept, ..new };
        Self::with(settings, address, reports, Arc::new(AnyToken))
    }

    /// As [`Control::start`], with reports as rare as this.
    #[must_use]
    pub fn reporting_every(
        address: SocketAddr,
        reports: &Arc<ReportsInMemory>,
        report_every: Duration,
    ) -> Self {
        let settings = HubSettings { report_every, ..HubSettings::new("e", "r") };
        Self::with(settings, address, reports, Arc::new(AnyToken))
    }

    /// As [`Control::start`], for nodes with one of these tokens.
    #[must_use]
    pub fn with_tokens(address: SocketAddr, reports: &Arc<ReportsInMemory>, tokens: Arc<dyn Tokens>) -> Self {
        let settings = HubSettings { report_every: Duration::from_secs(1), ..HubSettings::new("e", "r") };
        Self::with(settings, address, reports, tokens)
    }

    fn with(
        settings: HubSettings,
        address: SocketAddr,
        reports: &Arc<ReportsInMemory>,
        tokens: Arc<dyn Tokens>,
    ) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::new());
        let seams = tollgate_fleet_hub::Seams {
            clock,
            reports: Arc::clone(reports) as _,
            tokens,
            identities: Arc::new(IdentitiesInMemory),
        };
        let fleet = Fleet::new(settings, seams);
        let (published, watched) = watch::channel(Arc::<Published>::default());
        let (_, overrides) = watch::channel(Arc::<Overrides>::default());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let running = fleet.clone();
        runtime.spawn(async move { running.run(watched, overrides).await });
        let listener = runtime.block_on(TcpListener::bind(address)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let service = FleetService::new(fleet.clone());
        runtime.spawn(async move {
            let incoming = tonic::transport::server::TcpIncoming::from(listener).with_nodelay(Some(true));
            tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming).await
        });
        Self { address, fleet, published, reports: Arc::clone(reports), runtime: Some(runtime) }
    }

    /// Serves the same nodes with TLS as well. Returns the address.
    #[must_use]
    pub fn encrypted(&self, certificate: &[u8], key: &[u8]) -> SocketAddr {
        let runtime = self.runtime.as_ref().expect("running");
        let certificate = CertificateDer::from_pem_slice(certificate).expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(key).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key);
        let mut config = config.expect("a certificate and its key");
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).expect("a port");
        let address = listener.local_addr().expect("an address");
        let service = FleetService::new(self.fleet.clone());
        let incoming = futures_util::stream::unfold(listener, move |listener| {
            let acceptor = acceptor.clone();
            async move {
                loop {
                    let (tcp, _) = listener.accept().await.ok()?;
                    if let Ok(tls) = acceptor.accept(tcp).await {
                        return Some((Ok::<_, std::io::Error>(tls), listener));
                    }
                }
            }
        });
        runtime.spawn(async move {
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming.map_ok(Encrypted))
                .await
        });
        address
    }

    /// Waits until the nodes satisfy `condition`.
    ///
    /// # Panics
    /// They do not within [`PATIENCE`].
    pub fn wait(&self, what: &str, condition: impl Fn(&[NodeState]) -> bool) {
        self.wait_for(what, || condition(&self.fleet.nodes()));
    }

    fn wait_for(&self, what: &str, condition: impl Fn() -> bool) {
        let mut changes = self.fleet.changes();
        let waited = async {
            while !condition() {
                changes.changed().await.expect("the fleet is there");
                if self.fleet.nodes_known() > 100 {
                    // Looking at every acknowledgement of a large fleet would be most of the work.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        };
        let runtime = self.runtime.as_ref().expect("running");
        let waited = runtime.block_on(async { tokio::time::timeout(PATIENCE, waited).await });
        waited.unwrap_or_else(|_| panic!("{what}: {:#?}", self.fleet.nodes()));
    }

    /// Waits until every node holds every published version; `nodes` is their number.
    pub fn wait_in_force(&self, nodes: usize) {
        let published = Arc::clone(&self.published.borrow());
        // Computing the states of all nodes would be most of the work.
        self.wait_for("everything is acknowledged", || self.fleet.nodes_with(&published) == nodes);
        self.wait("everything is in force", |states| {
            let holds = |node: &NodeState| {
                let acked = |app: &str| node.apps.iter().find(|it| &*it.app == app).and_then(|it| it.acked);
                node.connected && published.apps.iter().all(|app| acked(&app.app) == Some(app.version))
            };
            states.len() == nodes && states.iter().all(holds)
        });
    }
}

impl Drop for Control {
    /// As if the process was killed: nothing is said to the nodes.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

type Tls = tokio_rustls::server::TlsStream<tokio::net::TcpStream>;

/// An encrypted connection, as the transport takes it.
struct Encrypted(Tls);

impl tonic::transport::server::Connected for Encrypted {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A node with a limiter over a store in memory.
#[derive(Debug)]
pub struct RealNode {
    limiter: Arc<Limiter<MemoryStore>>,
    clock: MonotonicClock,
    /// Channel of its status.
    pub status: watch::Receiver<Status>,
    /// Its own rule files, when they change.
    pub local: mpsc::Sender<Vec<RuleFile>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Settings of a node.
pub struct NodeOptions {
    /// Where the control plane is.
    pub endpoint: Endpoint,
    /// Its own rule files.
    pub local: Vec<RuleFile>,
    pub parser: Arc<Parser>,
}

impl std::fmt::Debug for NodeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeOptions").finish_non_exhaustive()
    }
}

impl NodeOptions {
    /// A node of the control plane at `control`, without rules of its own.
    #[must_use]
    pub fn at(control: SocketAddr) -> Self {
        let uri = format!("http://{control}").parse().expect("an address");
        let endpoint = Endpoint { uri, tls: None, token_file: None };
        Self { endpoint, local: Vec::new(), parser: rule_files_parser(Options::default()) }
    }
}

impl RealNode {
    /// Starts with the state folder `folder`, on a thread of its own.
    #[must_use]
    pub fn start(folder: &Path, name: &str, options: NodeOptions) -> Self {
        let mut state_dir = StateDir::open(folder).expect("a folder");
        // Id and secret follow from the name, so a node has the same ones in every process.
        let hex: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
        let fresh = format!("{hex:0>32}");
        let mut secret = [0; 32];
        secret.iter_mut().zip(fresh.bytes()).for_each(|(to, from)| *to = from);
        let identity = state_dir.identify(&fresh, &secret).expect("a state folder");
        let settings = AgentSettings {
            identity,
            name: name.to_owned(),
            labels: vec![Label { key: "zone".into(), value: "a".into() }],
            software: "tollgate test".into(),
            seed: 7,
            mistakes: Mistakes::none(),
        };
        let marker = state_dir.marker().expect("a marker or none");
        let NodeOptions { endpoint, local, parser } = options;
        let start = Start { saved: state_dir.load().expect("saved rules or none"), marker, local };
        let store = MemoryStore::new(MemoryConfig { max_bytes: 16 << 20, ..MemoryConfig::default() });
        let limiter = Arc::new(Limiter::new(Policy::empty(), store, LimiterSettings::default()));
        let clock = MonotonicClock::new();
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let apply = FollowApply::new(Arc::clone(&limiter), Arc::clone(&shared), FollowSettings::default());
        let apply: Arc<dyn Apply> = Arc::new(apply.expect("a thread"));
        let sampled = Arc::clone(&limiter);
        let (status, shown) = watch::channel(Status::default());
        let (local, local_files) = mpsc::channel(1);
        let seams = Seams {
            clock: shared,
            parser,
            apply,
            sample: Box::new(move |now| sample(&sampled, now)),
            overrides: Box::new(|_| {}),
            judge: Box::new(|_| {}),
            command: Arc::new(|Command { command, body, .. }| {
                Box::pin(async move { Reply { command, error: String::new(), body } })
            }),
            local: local_files,
            status,
        };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                tokio::select! {
                    () = run(settings, start, state_dir, endpoint, seams) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { limiter, clock, status: shown, local, stop: Some(stop), thread: Some(thread) }
    }

    /// Whether a request of `domain` with this entry is admitted.
    #[must_use]
    pub fn admits(&self, domain: &str, key: &str, value: &str) -> bool {
        let entries = [Entry::new(key, value)];
        let request = Request { domain, descriptors: &[Descriptor::new(&entries)], hits: 1 };
        let mut scratch = Scratch::new();
        let answer = block_on(self.limiter.decide(&request, self.clock.now(), &mut scratch));
        answer.is_ok_and(|answer| answer.is_admitted())
    }

    /// Waits until the status satisfies `condition`.
    ///
    /// # Panics
    /// It does not within [`PATIENCE`].
    pub fn wait(&mut self, what: &str, condition: impl Fn(&Status) -> bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let waited = async { tokio::time::timeout(PATIENCE, self.status.wait_for(|it| condition(it))).await };
        assert!(matches!(runtime.block_on(waited), Ok(Ok(_))), "{what}");
    }
}

impl Drop for RealNode {
    /// As if the process was killed: nothing is said to the control plane.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
