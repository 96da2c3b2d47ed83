//! Opening a connection: network, TLS, login, protocol, database, and whether the server can work at all.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Duration, Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tollgate_store::remote::{ConfigError, HostPort, patience};
use tollgate_tls::TlsClient;

use crate::connection::{Connection, Wire};
use crate::identify::{closed_at_hello, closes_at_hello_only, identify};
use crate::reply::Reply;
use crate::server_error::{Cause, ServerError, code, explain};
use crate::settings::{CONNECT_SETTING, DEADLINE_SETTING, LinkSettings, Login};
use crate::value::Value;

/// The address of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Over TCP, encrypted where the settings say so.
    Tcp(HostPort),
    /// Over a socket of this machine.
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(at) => write!(f, "{at}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A source of connections in place of the network, for tests.
pub trait Network: std::fmt::Debug + Send + Sync {
    /// Opens a connection to `at`.
    fn connect<'a>(&'a self, at: &'a Address) -> Connecting<'a>;
}

/// A connection that is being opened.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Wire>>> + Send + 'a>>;

/// Opens connections by the settings.
#[derive(Debug)]
pub struct Dialer {
    settings: Arc<LinkSettings>,
    tls: Option<TlsClient>,
    network: Option<Arc<dyn Network>>,
}

/// The login, read from files where the settings name any.
pub(crate) struct Credentials {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
}

impl Credentials {
    /// The command that logs in without `HELLO`, if there is a password.
    fn auth(&self) -> Option<Vec<&[u8]>> {
        let password = self.password.as_ref()?;
        let user = self.username.as_ref().map(|user| user.as_bytes());
        Some([b"AUTH".as_slice()].into_iter().chain(user).chain([password.as_bytes()]).collect())
    }
}

impl Dialer {
    /// Reads the TLS files that the settings name. `network` replaces the real one.
    pub(crate) fn new(
        settings: Arc<LinkSettings>,
        network: Option<Arc<dyn Network>>,
    ) -> Result<Self, ConfigError> {
        let tls = settings.tls.clone().map(TlsClient::load).transpose();
        let tls = tls.map_err(|error| ConfigError::Tls { what: error.to_string() })?;
        Ok(Self { settings, tls, network })
    }

    /// The wait for an answer outside of calls.
    #[must_use]
    pub fn patience(&self) -> Duration {
        // A deadline above the usual time to connect means that the server is far away.
        self.settings.connect_timeout.max(2 * self.settings.deadline)
    }

    /// Connects, logs in and sees that the server can work and answers within the deadline of a call.
    pub(crate) async fn open(&self, at: &Address) -> Result<Connection, ServerError> {
        let mut connection = self.open_master(at).await?;
        self.probe(&mut connection).await?;
        Ok(connection)
    }

    /// Connects and logs in to a server that is not a replica, even if it is slow.
    ///
    /// # Errors
    /// [`ServerError`] when that fails.
    pub async fn open_master(&self, at: &Address) -> Result<Connection, ServerError> {
        let (connection, replica) = self.open_any(at).await?;
        if replica {
            return Err(ServerError::new(
                Cause::Unavailable,
                format!(
                    "{at}: is a replica, which rejects writes (READONLY); name its master, or its sentinels by \
                     redis+sentinel://"
                ),
            ));
        }
        Ok(connection)
    }

    /// Connects and logs in; true when the server is a replica.
    pub(crate) async fn open_any(&self, at: &Address) -> Result<(Connection, bool), ServerError> {
        let limit = self.patience();
        let by = Instant::now() + limit;
        let silent = |_| {
            let hint = if self.tls.is_some() { "; does it speak TLS there?" } else { "" };
            let why = format!(
                "{at}: no connection within {limit:?}{hint}; where the network is that slow, raise {CONNECT_SETTING}"
            );
            ServerError::new(Cause::Silent, why)
        };
        let mut connection = timeout_at(by, self.connect(at)).await.map_err(silent)??;
        let logged_in = timeout_at(by, self.log_in(&mut connection)).await.map_err(silent)?;
        let replica = match logged_in {
            Ok(replica) => replica,
            Err(error) => return Err(self.at_login(at, error).await),
        };
        Ok((connection, replica))
    }

    /// The meaning of an `error` at login.
    async fn at_login(&self, at: &Address, error: ServerError) -> ServerError {
        if error.cause != Cause::Network {
            return error;
        }
        // TLS 1.3 reports it only then.
        if self.tls.is_some() && error.why.contains("CertificateRequired") {
            let hint = "it asks clients for a certificate: --store-tls-cert and --store-tls-key";
            return ServerError::new(
                Cause::Misconfigured,
                format!("{at}: TLS: {hint} (CertificateRequired)"),
            );
        }
        let again = async {
            let mut connection = self.connect(at).await.ok()?;
            Some(closes_at_hello_only(&mut connection).await)
        };
        if timeout(self.patience(), again).await.ok().flatten() == Some(true) {
            return closed_at_hello(&at.to_string());
        }
        match (at, &self.tls) {
            (Address::Tcp(_), None) => {
                let hint = "a server that speaks only TLS does so: then the URL begins with rediss";
                ServerError::new(Cause::Network, format!("{error} at the login; {hint}"))
            }
            (Address::Unix(_), _) => ServerError::new(Cause::Network, format!("{error} at the login")),
            (Address::Tcp(_), Some(_)) => error,
        }
    }

    /// One round trip in the time that a call has, of a script too: a server may answer `PING` while it lets
    /// scripts wait (`CLIENT PAUSE` does). A second one where the first was late: the machine may have been
    /// busy connecting.
    ///
    /// # Errors
    /// [`ServerError`] when the server cannot work, or answers too late.
    pub async fn probe(&self, connection: &mut Connection) -> Result<(), ServerError> {
        const SCRIPT: &[&[u8]] = &[b"EVAL", b"return 1", b"0"];
        let limit = patience(self.settings.deadline);
        let longest = self.patience();
        let commands: &[&[&[u8]]] = &[&[b"PING"], SCRIPT, &[b"CLUSTER", b"INFO"]];
        let commands = if self.settings.is_cluster() { commands } else { &commands[..2] };
        let mut waited = None;
        for _ in 0..2 {
            let asked = Instant::now();
            let Ok(replies) = timeout(longest, connection.ask(commands)).await else { break };
            for (nth, reply) in replies?.into_iter().enumerate() {
                match reply {
                    // A proxy may reject scripts without keys; real calls have keys.
                    Reply::Error(error) if nth == 1 && !is_about_the_server(&error) => {}
                    Reply::Error(error) if code(&error) != "NOPERM" => {
                        return Err(self.explained(connection, &error));
                    }
                    Reply::Value(value)
                        if value.text().is_some_and(|text| text.contains("cluster_state:fail")) =>
                    {
                        return Err(self.explained(connection, "CLUSTERDOWN"));
                    }
                    _ => {}
                }
            }
            let took = asked.elapsed();
            if took <= limit {
                connection.round_trip = took;
                return Ok(());
            }
            waited = Some(took);
        }
        let name = connection.name();
        let deadline = self.settings.deadline;
        let why = match waited {
            Some(waited) => format!(
                "{name}: too slow: answered after {waited:.0?}, and the deadline of a call is {deadline:?}; where the network is \
                 that slow, set {DEADLINE_SETTING} to {:?} or more",
                enough_for(waited)
            ),
            None => format!("{name}: no answer to a probe within {longest:?}"),
        };
        Err(ServerError::new(Cause::Silent, why))
    }

    pub(crate) async fn connect(&self, at: &Address) -> Result<Connection, ServerError> {
        let name: Arc<str> = at.to_string().into();
        let network = |error: &io::Error| ServerError::new(Cause::Network, format!("{at}: {error}"));
        if let Some(instead) = &self.network {
            let wire = instead.connect(at).await.map_err(|error| network(&error))?;
            return Ok(Connection::new(wire, name, false));
        }
        let host = match at {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| network(&error))?;
                return Ok(Connection::new(Box::new(stream), name, false));
            }
            Address::Tcp(host) => host,
        };
        let stream =
            TcpStream::connect((host.host.as_str(), host.port)).await.map_err(|error| network(&error))?;
        stream.set_nodelay(true).map_err(|error| network(&error))?;
        let Some(tls) = &self.tls else {
            return Ok(Connection::new(Box::new(stream), name, false));
        };
        let server = ServerName::try_from(host.host.clone()).map_err(|_| {
            ServerError::new(Cause::Misconfigured, format!("{at}: not a name that a certificate can contain"))
        })?;
        match TlsConnector::from(tls.config()).connect(server, stream).await {
            Ok(stream) => Ok(Connection::new(Box::new(stream), name, true)),
            Err(error) => {
                let said = error.to_string();
                let hint = if said.contains("InvalidContentType") {
                    "; it does not seem to speak TLS: then the URL begins with redis, not rediss"
                } else if said.contains("UnknownIssuer") {
                    "; --store-tls-ca names the authority to trust"
                } else {
                    ""
                };
                // Only data that TLS itself rejects is invalid; anything else is the network, or a server
                // that stops.
                let cause = if error.kind() == io::ErrorKind::InvalidData {
                    Cause::Misconfigured
                } else {
                    Cause::Network
                };
                Err(ServerError::new(cause, format!("{at}: TLS: {error}{hint}")))
            }
        }
    }

    /// Logs in; true when the server is a replica.
    async fn log_in(&self, connection: &mut Connection) -> Result<bool, ServerError> {
        let credentials = read_login(&self.settings.login)?;
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        if let Some(password) = &credentials.password {
            let username = credentials.username.as_deref().unwrap_or("default");
            hello.extend([b"AUTH".as_slice(), username.as_bytes(), password.as_bytes()]);
        }
        hello.extend([b"SETNAME".as_slice(), b"tollgate"]);
        let database = self.settings.database.to_string();
        let select: [&[u8]; 2] = [b"SELECT", database.as_bytes()];
        let commands: &[&[&[u8]]] = &[&hello, &select];
        // Connections begin in database 0.
        let commands = if self.settings.database == 0 { &commands[..1] } else { commands };
        let replies = connection.ask(commands).await?;
        for (at, reply) in replies.iter().enumerate() {
            if let Reply::Error(error) = reply {
                let auth = credentials.auth();
                if at == 0
                    && let Some(identified) = identify(connection, error, auth.as_deref()).await
                {
                    return Err(identified);
                }
                return Err(self.explained(connection, error));
            }
        }
        let field = |name| match &replies[0] {
            Reply::Value(Value::Map(pairs)) => pairs.iter().find_map(|(key, value)| {
                (key.text() == Some(name)).then(|| value.text()).flatten().map(str::to_owned)
            }),
            _ => None,
        };
        let wrong = |cause, why: &str| Err(ServerError::new(cause, format!("{}: {why}", connection.name())));
        match (field("mode").as_deref(), self.settings.is_cluster()) {
            (Some("sentinel"), _) => wrong(
                Cause::Misconfigured,
                "is a sentinel: write redis+sentinel://host:port/name-of-the-master",
            ),
            (Some("cluster"), false) => wrong(
                Cause::Misconfigured,
                "is a node of a Redis Cluster: the URL must begin with redis+cluster",
            ),
            (Some("standalone"), true) => wrong(
                Cause::Misconfigured,
                "is not a node of a Redis Cluster: the URL must begin with redis://",
            ),
            _ => Ok(field("role").is_some_and(|role| role == "replica" || role == "slave")),
        }
    }

    fn explained(&self, connection: &Connection, error: &str) -> ServerError {
        let (cause, why) = explain(error, self.settings.login.username.as_deref());
        ServerError::new(cause, format!("{}: {why}", connection.name()))
    }

    /// Asks the sentinels, in order, for the address of the master.
    pub(crate) async fn master(&self, sentinels: &[HostPort], master: &str) -> Result<HostPort, ServerError> {
        let mut whys = Vec::new();
        // If no sentinel will ever know it, trying again will not help.
        let mut cause = Cause::Misconfigured;
        // A silent sentinel must not use up the time of the others.
        let limit = self.settings.connect_timeout / 2;
        for sentinel in sentinels {
            match timeout(limit, self.ask_sentinel(sentinel, master)).await {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(error)) => {
                    if error.cause != Cause::Misconfigured {
                        cause = Cause::Network;
                    }
                    whys.push(error.why.to_string());
                }
                Err(_) => {
                    cause = Cause::Network;
                    whys.push(format!("{sentinel}: no answer within {limit:?}"));
                }
            }
        }
        let why = format!("no sentinel knows where `{master}` is: {}", whys.join("; "));
        Err(ServerError::new(cause, why))
    }

    async fn ask_sentinel(&self, at: &HostPort, master: &str) -> Result<HostPort, ServerError> {
        let mut connection = self.connect(&Address::Tcp(at.clone())).await?;
        let credentials = read_login(&self.settings.sentinel_login)?;
        if let Some(password) = &credentials.password {
            let mut auth = vec![b"AUTH".as_slice()];
            auth.extend(credentials.username.as_ref().map(|name| name.as_bytes()));
            auth.push(password.as_bytes());
            if let Reply::Error(error) = connection.ask_one(&auth).await? {
                let (cause, why) = explain(&error, credentials.username.as_deref());
                return Err(ServerError::new(cause, format!("the sentinel {at}: {why}")));
            }
        }
        let reply = connection.ask_one(&[b"SENTINEL", b"get-master-addr-by-name", master.as_bytes()]).await?;
        match &reply {
            Reply::Value(Value::Array(parts)) => {
                if let [host, port] = parts.as_slice()
                    && let Some(host) = host.text()
                    && let Some(Ok(port)) = port.text().map(str::parse)
                {
                    return Ok(HostPort::new(host, port));
                }
            }
            Reply::Value(Value::Nil) => {
                return Err(ServerError::new(
                    Cause::Misconfigured,
                    format!("{at}: does not know a master `{master}`"),
                ));
            }
            Reply::Error(error) => {
                let (cause, why) = explain(error, credentials.username.as_deref());
                return Err(ServerError::new(cause, format!("the sentinel {at}: {why}")));
            }
            Reply::Value(_) => {}
        }
        Err(ServerError::new(Cause::Misconfigured, format!("{at}: is not a sentinel")))
    }
}

/// A deadline that fits a round trip, with room for others before it and for jitter.
pub(crate) fn enough_for(round_trip: Duration) -> Duration {
    let ms = u64::try_from(round_trip.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis((ms.saturating_mul(3) / 2 + 5).next_multiple_of(5))
}

/// An error that any script would get at this moment.
fn is_about_the_server(error: &str) -> bool {
    matches!(code(error), "LOADING" | "BUSY" | "MASTERDOWN" | "NOAUTH")
}

fn read_login(login: &Login) -> Result<Credentials, ServerError> {
    let read = |file: &Path| match std::fs::read_to_string(file) {
        Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
        Err(error) => Err(ServerError::new(Cause::Misconfigured, format!("{}: {error}", file.display()))),
    };
    let username = match &login.username_file {
        Some(file) => Some(read(file)?),
        None => login.username.clone(),
    };
    let password = match &login.password_file {
        Some(file) => Some(read(file)?),
        None => login.password.as_ref().map(|password| password.reveal().to_owned()),
    };
    Ok(Credentials { username, password })
}
