//! Where counters are kept, and how a shared store is used.
//!
//! Not here: the form of URLs, and which numbers and files go together: the stores check that when they are
//! created.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_policy::Countable;
use tollgate_store_memcache::MemcacheConfig;
use tollgate_store_redis::{HashTag, Login, RedisConfig, Secret as RedisSecret, Servers, StoreTime};

use super::layer::Origin;
use super::layers::Layers;
use super::parse;
use super::row::Heading::{Counters, SharedStore};
use super::row::{OptionalRow, Row, rows};
use super::secret::Secret;

rows! {
    /// The rows of this file.
    ROWS:
    STORE: Row<StoreKind> = Row::new("store", "URL", "memory", store)
        .envoy_compat(&["BACKEND_TYPE", "REDIS_URL", "REDIS_TYPE", "REDIS_SOCKET_TYPE", "REDIS_TLS", "MEMCACHE_HOST_PORT"])
        .help(Counters, "Where counters are kept: `memory` (of this process), or shared by all nodes with the same value: \
                         `redis://host:port/db`, `rediss://…` (TLS), `unix:///path`, \
                         `redis+sentinel://h1:26379,h2:26379/master`, `redis+cluster://h1:7000,h2:7000`, \
                         `memcache://h1:11211,h2:11211`");
    MEMORY_MAX: Row<u64> = Row::new("memory-max", "BYTES", "1GiB", parse::bytes)
        .help(Counters, "Maximum memory for counters of this process; above it the keys closest to a full quota are evicted \
                         first");
    MEMORY_REQUEST_SHARE: Row<f32> = Row::new("memory-request-share", "RATIO", "0.25", parse::ratio)
        .help(Counters, "Share of --memory-max for limits that come with the request (CL.THROTTLE and such); the rest is for \
                         rules. Neither evicts keys of the other");
    DEADLINE: Row<Duration> = Row::new("store-deadline", "DURATION", "10ms", parse::duration)
        .help(SharedStore, "Maximum wait for a reply of the store, 1ms to 60s; after it each rule decides by its \
                            on_store_failure");
    CONNECT_TIMEOUT: Row<Duration> = Row::new("store-connect-timeout", "DURATION", "500ms", parse::duration)
        .envoy_compat(&["REDIS_TIMEOUT"])
        .help(SharedStore, "Maximum time to connect and log in, per attempt");
    USERNAME: OptionalRow<String> = OptionalRow::new("store-username", "NAME", parse::any)
        .help(SharedStore, "ACL user to log in as; overrides the one in the URL");
    PASSWORD: OptionalRow<Secret> = OptionalRow::secret("store-password")
        .envoy_compat(&["REDIS_AUTH"])
        .help(SharedStore, "Password to log in with; overrides the one in the URL");
    PASSWORD_FILE: OptionalRow<PathBuf> = OptionalRow::new("store-password-file", "FILE", secret_file)
        .help(SharedStore, "File whose only line is the store's password, read at each connection; \
                            TOLLGATE_STORE_PASSWORD sets it directly");
    SENTINEL_USERNAME: OptionalRow<String> = OptionalRow::new("store-sentinel-username", "NAME", parse::any)
        .help(SharedStore, "ACL user at the sentinels");
    SENTINEL_PASSWORD: OptionalRow<Secret> = OptionalRow::secret("store-sentinel-password")
        .envoy_compat(&["REDIS_SENTINEL_AUTH"])
        .help(SharedStore, "Password of the sentinels");
    SENTINEL_PASSWORD_FILE: OptionalRow<PathBuf> =
        OptionalRow::new("store-sentinel-password-file", "FILE", secret_file)
            .help(SharedStore, "File whose only line is the password of the sentinels, read at each connection; \
                                TOLLGATE_STORE_SENTINEL_PASSWORD sets it directly");
    TLS_CA: OptionalRow<PathBuf> = OptionalRow::new("store-tls-ca", "FILE", parse::path)
        .envoy_compat(&["REDIS_TLS_CACERT"])
        .help(SharedStore, "Certificates, PEM, one of which must have signed the store's; read at each connection, as are \
                            the next two [default: those that the system trusts]");
    TLS_CERT: OptionalRow<PathBuf> = OptionalRow::new("store-tls-cert", "FILE", parse::path)
        .envoy_compat(&["REDIS_TLS_CLIENT_CERT"])
        .help(SharedStore, "Client certificate, PEM, if the store requires one");
    TLS_KEY: OptionalRow<PathBuf> = OptionalRow::new("store-tls-key", "FILE", parse::path)
        .envoy_compat(&["REDIS_TLS_CLIENT_KEY"])
        .help(SharedStore, "Its private key, PEM");
    TLS_INSECURE: Row<bool> = Row::switch("store-tls-insecure")
        .help(SharedStore, "Accept any certificate of the store, even for another host; for tests");
    PREFIX: Row<String> = Row::new("store-prefix", "TEXT", "tollgate:", parse::any)
        .envoy_compat(&["CACHE_KEY_PREFIX"])
        .help(SharedStore, "Prefix of every key in the store; nodes that share counters use the same");
    HASH_TAG: Row<HashTag> = Row::new("store-hash-tag", "PART", "counter", hash_tag)
        .one_of(&["counter", "domain", "first-entry"])
        .help(SharedStore, "Which counters share a slot of a Redis Cluster: `counter` (none), `domain` (those of a domain) \
                            or `first-entry` (those of a domain and first entry, so of one caller)");
    TIME: Row<StoreTime> = Row::new("store-time", "CLOCK", "store", time)
        .one_of(&["store", "node"])
        .help(SharedStore, "Which clock counts: `store` (the server's, the same for all nodes) or `node` (each node's own; \
                            they must agree)");
    MAX_QUEUED: Row<usize> = Row::new("store-max-queued", "N", "8192", |text| parse::number(text, 1, 1_000_000))
        .help(SharedStore, "Maximum calls waiting to be sent, per worker; further ones fail at once, and their rules \
                            decide as without the store");
    MAX_LEASED_KEYS: Row<usize> =
        Row::new("store-max-leased-keys", "N", "100000", |text| parse::number(text, 1, 100_000_000))
            .help(SharedStore, "Maximum keys with `sharing: leased` that this node tracks; the least recently used one is \
                                evicted and returns what it holds");
    NODES: Row<u32> = Row::new("store-nodes", "N", "1", |text| parse::number(text, 1, 100_000))
        .help(SharedStore, "Number of nodes that share a memcached, so that `on_store_failure: local` gives each its \
                            share; with Redis, nodes find each other");
    ALLOW_EVICTION: Row<bool> = Row::switch("store-allow-eviction")
        .help(SharedStore, "Start even if the maxmemory-policy of Redis evicts keys: counters may then be lost at any time");
    READY_NEEDS_STORE: Row<bool> = Row::switch("ready-needs-store")
        .envoy_compat(&["REDIS_HEALTH_CHECK_ACTIVE_CONNECTION"])
        .help(SharedStore, "Report not ready (/readyz 503, gRPC health NOT_SERVING) while the store is unavailable; \
                            otherwise only the body of /readyz reports it");
    READY_WAITS_FOR_STORE: Row<bool> = Row::switch("ready-waits-for-store")
        .help(SharedStore, "Report not ready until the store has replied for the first time; a later outage changes nothing. \
                            So a node with a wrong address, or one that does not know yet how many nodes share the \
                            counters, is not used");
}

/// State of the store that a node needs to be ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadyNeeds {
    /// Nothing: each rule says how to decide without it.
    #[default]
    Nothing,
    /// That it has replied once.
    FirstReply,
    /// That it is up.
    Store,
}

/// Where counters are kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum StoreKind {
    /// In the memory of this process.
    #[default]
    Memory,
    /// In Redis or Valkey.
    Redis(Box<RedisConfig>),
    Memcache(Box<MemcacheConfig>),
}

impl std::str::FromStr for StoreKind {
    type Err = String;

    /// As `--store` is written.
    fn from_str(text: &str) -> Result<Self, String> {
        store(text)
    }
}

impl StoreKind {
    /// Limits that the store can count.
    #[must_use]
    pub fn countable(&self) -> Countable {
        match self {
            Self::Memory | Self::Redis(_) => Countable::default(),
            Self::Memcache(_) => Countable::by(tollgate_store_memcache::supports).without_slots(
                "memcached runs no scripts, so it cannot keep slots; use sharing: local, or a redis store",
            ),
        }
    }
}

/// Where counters are kept, in this process and beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreSettings {
    pub kind: StoreKind,
    /// Nodes that share a store which does not know its nodes.
    pub nodes: u32,
    /// State of the store that the process needs to be ready.
    pub ready_needs: ReadyNeeds,
    /// Maximum bytes of counters in this process.
    pub memory_max: u64,
    /// The part of it for limits that come with the request.
    pub memory_request_share: f32,
}

impl ReadyNeeds {
    fn read(layers: &mut Layers) -> Self {
        match (layers.one(&READY_NEEDS_STORE), layers.one(&READY_WAITS_FOR_STORE)) {
            (true, _) => Self::Store,
            (false, true) => Self::FirstReply,
            (false, false) => Self::Nothing,
        }
    }
}

impl StoreSettings {
    pub(super) fn read(layers: &mut Layers) -> Self {
        Self {
            kind: read_kind(layers),
            nodes: layers.one(&NODES),
            ready_needs: ReadyNeeds::read(layers),
            memory_max: layers.one(&MEMORY_MAX),
            memory_request_share: layers.one(&MEMORY_REQUEST_SHARE),
        }
    }
}

fn read_kind(layers: &mut Layers) -> StoreKind {
    let mut store = layers.one(&STORE);
    // Read even if it is not used, so that its faults are reported.
    let mut unused = RedisConfig::new(Servers::Cluster(Vec::new()));
    match &mut store {
        StoreKind::Memory => fill(layers, &mut unused),
        StoreKind::Redis(config) => fill(layers, config),
        StoreKind::Memcache(config) => {
            fill(layers, &mut unused);
            let RedisConfig { link, prefix, .. } = unused;
            (config.deadline, config.connect_timeout) = (link.deadline, link.connect_timeout);
            (config.prefix, config.max_queued) = (prefix, link.max_queued);
        }
    }
    if store != StoreKind::Memory {
        warn_of_visible_password(layers);
    }
    store
}

fn fill(layers: &mut Layers, config: &mut RedisConfig) {
    config.link.deadline = layers.one(&DEADLINE);
    config.link.connect_timeout = layers.one(&CONNECT_TIMEOUT);
    config.link.waits_to_connect = false; // no call waits longer than --store-deadline
    config.prefix = layers.one(&PREFIX);
    config.hash_tag = layers.one(&HASH_TAG);
    config.time = layers.one(&TIME);
    config.max_leased_keys = layers.one(&MAX_LEASED_KEYS);
    config.link.max_queued = layers.one(&MAX_QUEUED);
    config.allow_eviction = layers.one(&ALLOW_EVICTION);
    SERVER_LOGIN.read(layers, &mut config.link.login);
    SENTINEL_LOGIN.read(layers, &mut config.link.sentinel_login);
    let ca = layers.maybe(&TLS_CA);
    let cert = layers.maybe(&TLS_CERT);
    let key = layers.maybe(&TLS_KEY);
    let insecure = layers.one(&TLS_INSECURE);
    let is_wanted = ca.is_some() || cert.is_some() || key.is_some() || insecure;
    if is_wanted && config.link.tls.is_none() {
        layers.note(
            "store: --store-tls-… has no effect, since TLS is used only with a URL that begins with rediss",
        );
    }
    if let Some(tls) = &mut config.link.tls {
        (tls.ca_file, tls.certificate_file, tls.key_file, tls.insecure) = (ca, cert, key, insecure);
    }
}

/// The rows of one login.
#[derive(Debug)]
pub(super) struct LoginRows {
    pub(super) username: OptionalRow<String>,
    pub(super) password: OptionalRow<Secret>,
    file: OptionalRow<PathBuf>,
}

pub(super) const SERVER_LOGIN: LoginRows =
    LoginRows { username: USERNAME, password: PASSWORD, file: PASSWORD_FILE };
pub(super) const SENTINEL_LOGIN: LoginRows =
    LoginRows { username: SENTINEL_USERNAME, password: SENTINEL_PASSWORD, file: SENTINEL_PASSWORD_FILE };

impl LoginRows {
    fn read(&self, layers: &mut Layers, login: &mut Login) {
        if let Some(name) = layers.maybe(&self.username) {
            login.username = Some(name);
        }
        let password = layers.maybe(&self.password);
        let file = layers.maybe(&self.file);
        if password.is_some() && file.is_some() {
            let password = self.password.setting.name;
            let file = self.file.setting.name;
            layers.conflict(format!("{password} and {file} are both given; keep one"));
        }
        if let Some(password) = password {
            login.password = Some(RedisSecret::new(password.reveal()));
        }
        if file.is_some() {
            login.password_file = file;
        }
    }
}

/// A file that is read at each connection; its errors are already reported now.
fn secret_file(path: &str) -> Result<PathBuf, String> {
    Secret::from_file(Path::new(path)).map(|_| PathBuf::from(path))
}

fn store(text: &str) -> Result<StoreKind, String> {
    match text.split_once("://") {
        None if text == "memory" => Ok(StoreKind::Memory),
        None => {
            Err(format!("unknown store {text:?}: expected memory, or a URL such as redis://127.0.0.1:6379"))
        }
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("memcache") => {
            let config = MemcacheConfig::parse_url(text).map_err(|error| error.to_string())?;
            Ok(StoreKind::Memcache(Box::new(config)))
        }
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("memcached") => {
            Err(format!("unknown scheme `{scheme}`: expected memcache://h1:11211,h2:11211"))
        }
        Some(_) => match RedisConfig::parse_url(text) {
            Ok(config) => Ok(StoreKind::Redis(Box::new(config))),
            Err(error) => Err(error.to_string()),
        },
    }
}

fn hash_tag(text: &str) -> Result<HashTag, String> {
    match text {
        "counter" => Ok(HashTag::Counter),
        "domain" => Ok(HashTag::Domain),
        "first-entry" => Ok(HashTag::FirstEntry),
        _ => Err(format!("unknown part of a key {text:?}: expected counter, domain or first-entry")),
    }
}

fn time(text: &str) -> Result<StoreTime, String> {
    match text {
        "store" => Ok(StoreTime::Store),
        "node" => Ok(StoreTime::Node),
        _ => Err(format!("unknown clock {text:?}: expected store or node")),
    }
}

/// Everyone on the machine can read a command line.
fn warn_of_visible_password(layers: &mut Layers) {
    let given = layers.given(&STORE.setting);
    let is_flag = given.is_some_and(|given| matches!(given.origin, Origin::Flag(_)));
    let login = given.and_then(|given| given.text.split_once("://")?.1.rsplit_once('@'));
    if is_flag && login.is_some_and(|(login, _)| login.contains(':')) {
        layers.note(
            "store: the password is on the command line and visible in `ps`; use TOLLGATE_STORE, \
             TOLLGATE_STORE_PASSWORD or --store-password-file",
        );
    }
}
