//! The settings of a client: addresses of the servers, login, and waits. Not here: the form of URLs (`url`).

use std::path::PathBuf;
use std::time::Duration;

use tollgate_store::remote::{BreakerSettings, ConfigError, HostPort};
use tollgate_tls::TlsClientFiles;

/// The server or servers to use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Servers {
    /// One server, over TCP.
    Single(HostPort),
    /// One server, over a socket of this machine.
    Unix(PathBuf),
    /// The server that the sentinels name as the master.
    Sentinel {
        /// The sentinels; asked in order until one answers.
        sentinels: Vec<HostPort>,
        /// The name by which they know the master.
        master: String,
    },
    /// A Redis Cluster, found by any of these nodes.
    Cluster(Vec<HostPort>),
}

impl std::fmt::Display for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |f: &mut std::fmt::Formatter<'_>, hosts: &[HostPort]| {
            hosts.iter().enumerate().try_for_each(|(at, host)| {
                if at > 0 {
                    f.write_str(",")?;
                }
                write!(f, "{host}")
            })
        };
        match self {
            Self::Single(at) => write!(f, "{at}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Sentinel { sentinels, master } => {
                write!(f, "{master} of the sentinels ")?;
                list(f, sentinels)
            }
            Self::Cluster(nodes) => {
                f.write_str("cluster ")?;
                list(f, nodes)
            }
        }
    }
}

/// A password: shown as `***` by `Debug`, and by nothing else at all.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text` from being shown.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// The login at a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// ACL user; `default` when absent and there is a password.
    pub username: Option<String>,
    /// Password; no login takes place when it is absent.
    pub password: Option<Secret>,
    /// File to read the user from at each connection, so that it can be rotated; wins over `username`.
    pub username_file: Option<PathBuf>,
    /// File to read the password from at each connection, so that it can be rotated; wins over `password`.
    pub password_file: Option<PathBuf>,
}

/// Settings of a [`Client`](crate::Client). Made by [`LinkSettings::parse_url`], then changed by field.
///
/// # Example
/// ```
/// use tollgate_redis_link::{LinkSettings, Servers};
/// use tollgate_store::remote::HostPort;
///
/// let settings = LinkSettings::parse_url("redis://:secret@10.0.0.7/2")?;
/// assert_eq!(settings.servers, Servers::Single(HostPort::new("10.0.0.7", 6379)));
/// assert_eq!(settings.database, 2);
/// assert!(!format!("{settings:?}").contains("secret"));
/// # Ok::<(), tollgate_store::remote::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkSettings {
    /// The servers to use.
    pub servers: Servers,
    /// The login at the servers.
    pub login: Login,
    /// The login at the sentinels.
    pub sentinel_login: Login,
    /// Encryption; `None` for plain connections.
    pub tls: Option<TlsClientFiles>,
    /// Number of the database; a Cluster has only 0.
    pub database: u32,
    /// Longest wait of a call, from the moment it is made; or, if calls
    /// [wait to connect](LinkSettings::waits_to_connect), from when there is a connection.
    pub deadline: Duration,
    /// Longest time to connect and log in, for one attempt.
    pub connect_timeout: Duration,
    /// A call without a connection waits for the attempt to connect, and its deadline begins after that.
    pub waits_to_connect: bool,
    /// Most calls that wait to be sent, per connection; one more fails at once.
    pub max_queued: usize,
    /// Most calls that one round trip carries, per connection.
    pub max_flight: usize,
    /// The failures after which a server is not asked for a while.
    pub breaker: BreakerSettings,
}

/// The name of a call's deadline in messages: for users of the server, and for those of the library.
pub(crate) const DEADLINE_SETTING: &str = "--store-deadline (in the library: RedisConfig::with_deadline)";
/// The same for the time to connect.
pub(crate) const CONNECT_SETTING: &str =
    "--store-connect-timeout (in the library: RedisConfig::with_connect_timeout)";

impl LinkSettings {
    /// Settings for `servers`, everything else as by default: no login, no TLS, database 0, 10 ms a call, of
    /// which connecting is a part, 500 ms to connect, 8,192 calls queued, 1,024 in a flight.
    #[must_use]
    pub fn new(servers: Servers) -> Self {
        Self {
            servers,
            login: Login::default(),
            sentinel_login: Login::default(),
            tls: None,
            database: 0,
            deadline: Duration::from_millis(10),
            connect_timeout: Duration::from_millis(500),
            waits_to_connect: false,
            max_queued: 8192,
            max_flight: 1024,
            breaker: BreakerSettings::default(),
        }
    }

    /// True when the servers are a Redis Cluster.
    #[must_use]
    pub const fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// Checks for settings that cannot work.
    ///
    /// # Errors
    /// [`ConfigError`] names the setting, and the remedy.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let wrong = |what: &str| Err(ConfigError::setting(what));
        if self.is_cluster() && self.database != 0 {
            return wrong("a Redis Cluster has only database 0");
        }
        if self.deadline < Duration::from_millis(1) || self.deadline > Duration::from_secs(60) {
            return wrong("the deadline of a call must be from 1 ms to 60 s");
        }
        if self.connect_timeout < Duration::from_millis(1) || self.connect_timeout > Duration::from_secs(60) {
            return wrong("the time to connect must be from 1 ms to 60 s");
        }
        if self.max_queued == 0 || self.max_flight == 0 {
            return wrong("the queue and the flights must hold at least one call");
        }
        if let Some(fault) = self.breaker.fault() {
            return wrong(fault);
        }
        if let Some(tls) = &self.tls
            && tls.certificate_file.is_some() != tls.key_file.is_some()
        {
            return wrong("a certificate goes with its key: give both files or none");
        }
        Ok(())
    }
}
