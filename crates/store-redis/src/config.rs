//! What a store of counters in Redis must know: where the servers are, how to speak to them, and how long to wait.
//!
//! Not here: the form of URLs (`url`), and whether the server is fit for counters (`check`).

use std::path::PathBuf;
use std::time::Duration;

use tollgate_store::remote::{Breaker, HostPort};

/// Where the counters are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Servers {
    /// One server, over TCP.
    Single(HostPort),
    /// One server, over a socket of this machine.
    Unix(PathBuf),
    /// Whatever server the sentinels name as the master.
    Sentinel {
        /// The sentinels; asked in order until one answers.
        sentinels: Vec<HostPort>,
        /// What they call the master.
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

/// Who to log in as.
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

/// How to encrypt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// PEM file of the authorities to trust; those of the system when absent.
    pub ca_file: Option<PathBuf>,
    /// PEM file of our certificate, where the server asks for one; goes with `key_file`.
    pub certificate_file: Option<PathBuf>,
    /// PEM file of our certificate's key.
    pub key_file: Option<PathBuf>,
    /// Take any certificate, also another host's. For tests.
    pub insecure: bool,
}

/// Whose clock counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreTime {
    /// The Redis server's: one clock for all nodes.
    #[default]
    Store,
    /// The caller's, as handed in with each take: the nodes' clocks must agree.
    Node,
}

/// What of a counter key goes between the braces, that is: which keys of a Cluster share a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashTag {
    /// The whole counter key: counters spread evenly.
    #[default]
    Counter,
    /// The domain: all counters of a domain share a slot, so `charge: together` is one script.
    Domain,
    /// The domain and the first entry: the counters of one caller share a slot.
    FirstEntry,
}

/// Settings of a [`RedisStore`](crate::RedisStore). Made by [`RedisConfig::parse_url`], then changed by field.
///
/// # Example
/// ```
/// use tollgate_store_redis::{RedisConfig, Servers, HostPort};
///
/// let config = RedisConfig::parse_url("redis://:secret@10.0.0.7/2")?;
/// assert_eq!(config.servers, Servers::Single(HostPort::new("10.0.0.7", 6379)));
/// assert_eq!(config.database, 2);
/// assert!(!format!("{config:?}").contains("secret"));
/// # Ok::<(), tollgate_store_redis::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisConfig {
    /// Where the counters are.
    pub servers: Servers,
    /// Who to log in as.
    pub login: Login,
    /// Who to log in as at the sentinels.
    pub sentinel_login: Login,
    /// Encryption; none when absent.
    pub tls: Option<Tls>,
    /// Number of the database; a Cluster has only 0.
    pub database: u32,
    /// What every key begins with. Nodes that share counters have the same.
    pub prefix: String,
    /// Which keys of a Cluster share a slot.
    pub hash_tag: HashTag,
    /// Whose clock counts.
    pub time: StoreTime,
    /// Longest wait of a call, from the moment it is made.
    pub deadline: Duration,
    /// Longest time to connect and log in, for one attempt.
    pub connect_timeout: Duration,
    /// Most calls that wait to be sent, per connection; one more is refused at once.
    pub max_queued: usize,
    /// Most calls that one round trip carries, per connection.
    pub max_flight: usize,
    /// Most leased keys that this node keeps in mind; what was used longest ago makes room, and gives back what it holds.
    pub max_leased_keys: usize,
    /// When to stop asking.
    pub breaker: Breaker,
    /// Do not refuse a server that may evict counters when its memory is full.
    pub allow_eviction: bool,
    /// How long a node counts as alive after it was last heard of; nodes tell that they live three times as often.
    pub node_timeout: Duration,
}

impl RedisConfig {
    /// Settings for `servers`, everything else as by default: no login, no TLS, database 0, prefix `tollgate:`, the server's
    /// clock, 10 ms a call, 500 ms to connect, 8,192 calls queued, 1,024 in a flight, 100,000 leased keys, nodes alive for 3 s.
    #[must_use]
    pub fn new(servers: Servers) -> Self {
        Self {
            servers,
            login: Login::default(),
            sentinel_login: Login::default(),
            tls: None,
            database: 0,
            prefix: "tollgate:".to_owned(),
            hash_tag: HashTag::default(),
            time: StoreTime::default(),
            deadline: Duration::from_millis(10),
            connect_timeout: Duration::from_millis(500),
            max_queued: 8192,
            max_flight: 1024,
            max_leased_keys: 100_000,
            breaker: Breaker::default(),
            allow_eviction: false,
            node_timeout: Duration::from_secs(3),
        }
    }

    /// Reads `redis://[user:password@]host[:port][/database]`, `rediss://…` (TLS), `redis+sentinel://h1:26379,h2:26379/master[/database]`,
    /// `redis+cluster://h1:7000,h2:7000`, `unix:///path`; the two with several hosts also as `rediss+…`.
    /// User and password are percent-decoded.
    ///
    /// # Errors
    /// [`ConfigError`] when it is none of these; it never shows the password.
    pub fn parse_url(url: &str) -> Result<Self, ConfigError> {
        crate::url::parse(url)
    }

    /// True when the servers are a Redis Cluster.
    #[must_use]
    pub const fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// Looks for settings that cannot work.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let wrong = |what: &str| Err(ConfigError::Setting { what: what.to_owned() });
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
        if self.breaker.failures == 0 || self.breaker.longest_pause.is_zero() {
            return wrong("the breaker must allow at least one failure and a pause");
        }
        if self.node_timeout < Duration::from_millis(100) {
            return wrong("a node must count as alive for at least 100 ms");
        }
        if self.prefix.len() > 256 || self.prefix.contains(['{', '}']) {
            return wrong("the prefix may have 256 bytes, and no braces, which mark what decides the slot");
        }
        if let Some(tls) = &self.tls
            && tls.certificate_file.is_some() != tls.key_file.is_some()
        {
            return wrong("a certificate goes with its key: give both files or none");
        }
        Ok(())
    }
}

/// Why settings cannot work. Never shows a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The URL is none that we know.
    #[error("store URL: {what}")]
    Url {
        /// What is wrong, and what to write instead.
        what: String,
    },
    /// A setting's value.
    #[error("store: {what}")]
    Setting {
        /// What is wrong, and what to write instead.
        what: String,
    },
    /// A certificate or key that cannot be used.
    #[error("store TLS: {}: {what}", .file.display())]
    Tls {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}
