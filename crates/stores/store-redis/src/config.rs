//! The settings of a store of counters in Redis: the way to the servers, the names of keys, and the clock
//! that counts.
//!
//! Not here: the form of URLs (`redis-link`), and whether the server is fit for counters (`check`).

use std::time::Duration;

use tollgate_redis_link::{LinkSettings, Servers};
use tollgate_store::remote::ConfigError;

/// The clock that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreTime {
    /// The Redis server's: one clock for all nodes.
    #[default]
    Store,
    /// The caller's, as handed in with each take: the nodes' clocks must agree.
    Node,
}

/// The part of a counter key between the braces; keys of a Cluster with the same part share a slot.
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

/// Settings of a [`RedisStore`](crate::RedisStore). Made by [`RedisConfig::parse_url`], then changed by
/// field; the two times also by [`with_deadline`](Self::with_deadline) and
/// [`with_connect_timeout`](Self::with_connect_timeout).
///
/// # Example
/// ```
/// use tollgate_store_redis::{RedisConfig, Servers, HostPort};
///
/// let config = RedisConfig::parse_url("redis://:secret@10.0.0.7/2")?;
/// assert_eq!(config.link.servers, Servers::Single(HostPort::new("10.0.0.7", 6379)));
/// assert_eq!(config.link.database, 2);
/// assert_eq!(config.prefix, "tollgate:");
/// assert!(!format!("{config:?}").contains("secret"));
/// # Ok::<(), tollgate_store_redis::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisConfig {
    /// The servers, and the settings of the connections to them.
    pub link: LinkSettings,
    /// Prefix of every key. Nodes that share counters have the same.
    pub prefix: String,
    /// The part of a counter key that chooses its slot in a Cluster.
    pub hash_tag: HashTag,
    /// The clock by which counters are counted.
    pub time: StoreTime,
    /// Most leased keys that this node remembers; the least recently used make room, and their permits are
    /// given back.
    pub max_leased_keys: usize,
    /// Accept a server that may evict counters when its memory is full.
    pub allow_eviction: bool,
    /// Time for which a node counts as alive after its last heartbeat; nodes send three in that time.
    pub node_timeout: Duration,
}

impl RedisConfig {
    /// Settings for `servers`, with defaults for everything else: 1 s for a call and 2 s to connect, so that
    /// a store in another region works; the others of [`LinkSettings::new`], prefix `tollgate:`, the server's
    /// clock, 100,000 leased keys, nodes alive for 3 s.
    #[must_use]
    pub fn new(servers: Servers) -> Self {
        Self::over(LinkSettings::new(servers))
    }

    /// Reads a URL as [`LinkSettings::parse_url`] does.
    ///
    /// # Errors
    /// [`ConfigError`] when it has none of the known forms; it never shows the password.
    pub fn parse_url(url: &str) -> Result<Self, ConfigError> {
        LinkSettings::parse_url(url).map(Self::over)
    }

    /// The longest wait of a call, from 1 ms to 60 s; 1 s by default. A call needs a round trip to the store,
    /// two at first. Connecting does not count: see [`with_connect_timeout`](Self::with_connect_timeout).
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Duration) -> Self {
        self.link.deadline = deadline;
        self
    }

    /// The longest time to connect and log in, from 1 ms to 60 s; 2 s by default. Connecting takes three
    /// round trips, and two more with TLS. Calls without a connection wait for it before their deadline
    /// begins.
    #[must_use]
    pub const fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.link.connect_timeout = timeout;
        self
    }

    fn over(mut link: LinkSettings) -> Self {
        link.deadline = Duration::from_secs(1);
        link.connect_timeout = Duration::from_secs(2);
        link.waits_to_connect = true;
        Self {
            link,
            prefix: "tollgate:".to_owned(),
            hash_tag: HashTag::default(),
            time: StoreTime::default(),
            max_leased_keys: 100_000,
            allow_eviction: false,
            node_timeout: Duration::from_secs(3),
        }
    }

    /// Checks for settings that cannot work.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        self.link.validate()?;
        if self.node_timeout < Duration::from_millis(100) {
            return Err(ConfigError::setting("a node must count as alive for at least 100 ms"));
        }
        if self.prefix.len() > 256 || self.prefix.contains(['{', '}']) {
            return Err(ConfigError::setting(
                "the prefix may have 256 bytes, and no braces, which mark what decides the slot",
            ));
        }
        Ok(())
    }
}
