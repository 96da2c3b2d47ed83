//! A control plane that runs: its runtime, its port, its end.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tollgate_clock::SystemClock;
use tollgate_console::{ConsoleSettings, traces_in};
use tollgate_control::ControlError;
use tollgate_net::{
    AcceptLimits, Address, ConnectionStats, Listeners, Socket, Sockets, Tls, TlsError, TlsFiles, accept,
};

use super::banner::{self, ControlBanner};
use super::damage;
use super::metrics::PortMetrics;
use super::node_token;
use super::plane::Plane;
use super::port::Port;
use crate::folder_lock;
use crate::settings::ControlSettings;
use crate::surfaces::http::reachable;

/// Threads of its runtime, at most: pages and the hub share them.
const MOST_THREADS: usize = 4;
/// Interval of checking certificates for changes.
const CERTIFICATE_CHECK: Duration = Duration::from_secs(5);

/// Why a control plane does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The folder cannot be used.
    #[error("data-dir {folder} cannot be used: {cause}; give another folder by --data-dir")]
    Folder {
        /// As it was given.
        folder: String,
        cause: io::Error,
    },
    /// Another process has it.
    #[error(
        "data-dir {0} is in use by another tollgate; stop that one, or give another folder by --data-dir"
    )]
    InUse(String),
    /// The token of the nodes cannot be written.
    #[error("{folder}/{} cannot be written", node_token::FILE)]
    Token {
        /// As it was given.
        folder: String,
        source: io::Error,
    },
    /// The database was lost.
    #[error("the database in {folder} is damaged: {what}")]
    Damaged {
        /// As it was given.
        folder: String,
        /// The damage, and the way out.
        what: String,
    },
    /// The database cannot be used.
    #[error("the database in {folder} cannot be used")]
    Database {
        /// As it was given.
        folder: String,
        source: ControlError,
    },
    /// The port cannot be used.
    #[error(
        "cannot listen on {address}: {cause}\nif another program has the port (`ss -ltnp` shows it), stop it, or give \
         another address: --listen 127.0.0.1:0 picks a free port"
    )]
    Address {
        /// As it was given.
        address: String,
        cause: io::Error,
    },
    /// Others could read what travels.
    #[error(
        "{0} can be reached from other machines, and without TLS passwords, cookies and node tokens could be read on \
         the way: give --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy that encrypts"
    )]
    Exposed(Address),
    /// The certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] TlsError),
    /// The system gives no thread.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A control plane on threads of its own. It is cut off when this is dropped.
#[derive(Debug)]
pub(crate) struct RunningControl {
    /// Lines for the start screen.
    pub(crate) banner: ControlBanner,
    /// Where a node in this process finds it: a port without TLS that only this machine reaches.
    pub(crate) own_url: String,
    tls: Option<Arc<Tls>>,
    drain: watch::Sender<bool>,
    ended: oneshot::Receiver<()>,
    runtime: Option<Runtime>,
    _lock: File,
}

/// A listener and its surface.
struct Listening {
    socket: Socket,
    port: Port,
    tls: Option<Arc<Tls>>,
    stats: Arc<ConnectionStats>,
}

/// A control plane over its database.
struct Opened {
    plane: Plane,
    /// Until there is a user.
    setup_code: Option<String>,
}

/// Opens the database and the port. With `for_own_node`, a node of this process can connect without TLS.
///
/// # Errors
/// [`StartError`]; each says what to do.
pub(crate) fn start(settings: &ControlSettings, for_own_node: bool) -> Result<RunningControl, StartError> {
    tollgate_net::raise_descriptor_limit();
    let folder = settings.data_dir.display().to_string();
    let lock = lock(&settings.data_dir, &folder)?;
    let tls = tls(settings)?.map(Arc::new);
    let (address, socket) = bind(&settings.listen)?;
    let is_local = address.is_local();
    if tls.is_none() && !is_local {
        return Err(StartError::Exposed(address));
    }
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MOST_THREADS);
    let runtime =
        Builder::new_multi_thread().worker_threads(threads).thread_name("console").enable_all().build()?;
    let Opened { plane, setup_code } = open(settings, &runtime)?;
    let node_url = url(tls.is_some(), &address);
    let url = match &settings.public_url {
        Some(url) => url.to_string().trim_end_matches('/').to_owned(),
        None => node_url.clone(),
    };
    let hosts =
        settings.public_url.iter().filter_map(|url| url.authority()).map(ToString::to_string).collect();
    let is_secure = tls.is_some() || url.starts_with("https://");
    let traces = Some(traces_in(&settings.data_dir));
    let proxy_hops = settings.proxy_hops;
    // A page is read on another machine than the one with the folder: the path is whole.
    let whole = std::path::absolute(&settings.data_dir).unwrap_or_else(|_| settings.data_dir.clone());
    let join = banner::join(settings.public_url.as_ref().map_or(&node_url, |_| &url), &whole);
    let console =
        ConsoleSettings { hosts, proxy_hops, is_secure, join, traces, ..ConsoleSettings::default() };
    let stats = Arc::<ConnectionStats>::default();
    plane.metrics.add(PortMetrics(Arc::clone(&stats)));
    let needs_certificate = settings.node_client_ca.is_some();
    // Behind a proxy a peer on this machine may be any client.
    let port = plane.port(console.clone(), is_local && proxy_hops == 0, needs_certificate);
    let mut listening = vec![Listening { socket, port, tls: tls.clone(), stats: Arc::clone(&stats) }];
    let mut own_url = node_url.clone();
    if for_own_node && tls.is_some() {
        let (address, socket) = bind("127.0.0.1:0")?;
        own_url = self::url(false, &address);
        listening.push(Listening {
            socket,
            port: plane.port(ConsoleSettings { proxy_hops: 0, ..console }, true, false),
            tls: None,
            stats,
        });
    }
    let node_url = settings.public_url.as_ref().map_or(node_url, |_| url.clone());
    let (drain, draining) = watch::channel(false);
    let (at_end, ended) = oneshot::channel();
    let certificates = tls.clone();
    let disk_reserve = settings.disk_reserve;
    let (accepting, accepts) = mpsc::channel();
    runtime.spawn(async move {
        match listen(listening, &draining) {
            Ok(mut served) => {
                let _ = accepting.send(Ok(())); // the start waits for it
                tokio::select! {
                    () = async { while served.join_next().await.is_some() {} } => {}
                    () = plane.run(disk_reserve, certificates.as_deref()) => {}
                    () = watch_certificate(certificates.clone()) => {}
                }
                let _ = at_end.send(()); // without a receiver when the process is cut off
            }
            Err(error) => drop(accepting.send(Err(error))),
        }
    });
    accepts.recv().map_err(io::Error::other)??;
    let banner = ControlBanner { url, node_url, data_dir: folder, setup_code };
    Ok(RunningControl { banner, own_url, tls, drain, ended, runtime: Some(runtime), _lock: lock })
}

impl RunningControl {
    /// Reads the certificate again when it is called.
    pub(crate) fn reloader(&self) -> impl Fn() + use<> {
        let tls = self.tls.clone();
        move || tls.iter().for_each(|tls| reload(tls))
    }

    /// Whether it has ended by itself, which it never should.
    pub(crate) async fn ended(&mut self) {
        let _ = (&mut self.ended).await; // a task that is gone has ended too
    }

    /// Lets requests finish, at most for this long. Returns whether they did.
    pub(crate) async fn drain(&mut self, patience: Duration) -> bool {
        self.drain.send_replace(true);
        tokio::time::timeout(patience, self.ended()).await.is_ok()
    }
}

impl Drop for RunningControl {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Accepts connections, in the runtime that this is called in.
fn listen(listening: Vec<Listening>, draining: &watch::Receiver<bool>) -> io::Result<JoinSet<()>> {
    let mut served = JoinSet::new();
    for Listening { socket, port, tls, stats } in listening {
        let socket = socket.listen()?;
        let limits = Arc::new(AcceptLimits::default());
        served.spawn(accept(socket, Arc::new(port), tls, limits, stats, draining.clone()));
    }
    Ok(served)
}

/// Opens the database; what a start prints of it.
fn open(settings: &ControlSettings, runtime: &Runtime) -> Result<Opened, StartError> {
    let folder = || settings.data_dir.display().to_string();
    if let Some(what) = damage::of(&settings.data_dir) {
        return Err(StartError::Damaged { folder: folder(), what });
    }
    close_to_others(&settings.data_dir, &folder())?;
    let clock = Arc::new(SystemClock::new());
    let opened = runtime.block_on(async {
        let plane = Plane::open(&settings.data_dir, clock, settings.node_wait).await?;
        let setup_code = plane.control.setup_code().await?;
        let token = node_token::needed(&plane.control, &settings.data_dir).await?;
        Ok((plane, setup_code, token))
    });
    let (plane, setup_code, token) =
        opened.map_err(|source| StartError::Database { folder: folder(), source })?;
    if let Some(token) = token {
        node_token::write(&settings.data_dir, &token)
            .map_err(|source| StartError::Token { folder: folder(), source })?;
    }
    Ok(Opened { plane, setup_code })
}

/// Makes the folder, for its owner only, and locks it for this process.
fn lock(path: &Path, folder: &str) -> Result<File, StartError> {
    let unusable = |cause| StartError::Folder { folder: folder.to_owned(), cause };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
    folder_lock::lock(path).map_err(unusable)?.ok_or_else(|| StartError::InUse(folder.to_owned()))
}

/// Makes the database for its owner only, unless it is there already.
fn close_to_others(path: &Path, folder: &str) -> Result<(), StartError> {
    let unusable = |cause| StartError::Folder { folder: folder.to_owned(), cause };
    ["control.db", "control.db-wal", "control.db-shm"]
        .into_iter()
        .try_for_each(|name| for_its_owner_only(&path.join(name), name == "control.db").map_err(unusable))
}

/// The folder may have been made by another user, for all to read. SQLite gives the files that it adds the
/// mode of the database.
fn for_its_owner_only(file: &Path, is_made: bool) -> io::Result<()> {
    match File::options().append(true).create(is_made).mode(0o600).open(file) {
        Ok(file) => file.set_permissions(fs::Permissions::from_mode(0o600)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// The address with the port that was chosen, and the socket.
fn bind(address: &str) -> Result<(Address, Socket), StartError> {
    let unusable = |cause| StartError::Address { address: address.to_owned(), cause };
    let Listeners { address: bound, mut sockets } =
        Listeners::bind(address, Sockets::default()).map_err(unusable)?;
    let socket = sockets.pop().ok_or_else(|| unusable(io::ErrorKind::AddrNotAvailable.into()))?;
    Ok((bound, socket))
}

fn tls(settings: &ControlSettings) -> Result<Option<Tls>, TlsError> {
    let Some(files) = &settings.tls else { return Ok(None) };
    let files = TlsFiles {
        cert: files.cert.clone(),
        key: files.key.clone(),
        client_ca: settings.node_client_ca.clone(),
        client_name: None,
        is_client_optional: true, // browsers have none
    };
    // Browsers offer both, and pages are served by HTTP/1.1; nodes offer HTTP/2 alone.
    Tls::load(files, &["http/1.1", "h2"]).map(Some)
}

fn url(has_tls: bool, address: &Address) -> String {
    let scheme = if has_tls { "https" } else { "http" };
    match address {
        Address::Tcp(address) => format!("{scheme}://{}", reachable(*address)),
        Address::Unix(_) => format!("{scheme}://{address}"),
    }
}

/// Watches for changes, and never ends.
async fn watch_certificate(tls: Option<Arc<Tls>>) {
    let mut ticks = tokio::time::interval(CERTIFICATE_CHECK);
    loop {
        ticks.tick().await;
        if let Some(tls) = &tls {
            reload(tls);
        }
    }
}

fn reload(tls: &Tls) {
    match tls.reload_if_changed() {
        Ok(true) => tracing::info!("certificate reloaded for new connections"),
        Ok(false) => {}
        Err(error) => tracing::error!(%error, "certificate reload failed; keeping the current one"),
    }
}
