//! The rows about the store: where counters are kept, and how a shared store is asked.
//!
//! Not here: the form of URLs, and which numbers and files go together: the stores check that themselves when they are made.

use std::path::{Path, PathBuf};

use tollgate_policy::Countable;
use tollgate_store_memcache::MemcacheConfig;
use tollgate_store_redis::{HashTag, Login, RedisConfig, Secret as RedisSecret, Servers, StoreTime};

use super::layers::{Layers, Origin};
use super::{Secret, units};

/// Where counters are kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum StoreSettings {
    /// In the memory of this process.
    #[default]
    Memory,
    /// In Redis or Valkey.
    Redis(Box<RedisConfig>),
    /// In memcached.
    Memcache(Box<MemcacheConfig>),
}

impl std::str::FromStr for StoreSettings {
    type Err = String;

    /// As `--store` is written.
    fn from_str(text: &str) -> Result<Self, String> {
        parse(text)
    }
}

impl StoreSettings {
    /// What that store can count.
    #[must_use]
    pub fn countable(&self) -> Countable {
        match self {
            Self::Memory | Self::Redis(_) => Countable::default(),
            Self::Memcache(_) => Countable::by(tollgate_store_memcache::supports),
        }
    }
}

/// Who to log in as, as three rows say it.
struct Rows {
    username: &'static str,
    password: &'static str,
    file: &'static str,
}

const SERVER: Rows =
    Rows { username: "store-username", password: "store-password", file: "store-password-file" };
const SENTINELS: Rows = Rows {
    username: "store-sentinel-username",
    password: "store-sentinel-password",
    file: "store-sentinel-password-file",
};

pub(super) fn read(layers: &mut Layers) -> StoreSettings {
    let mut store = layers.one("store", parse);
    // Read also where nothing comes of it, so that what is wrong in it is told.
    let mut unused = RedisConfig::new(Servers::Cluster(Vec::new()));
    match &mut store {
        StoreSettings::Memory => fill(layers, &mut unused),
        StoreSettings::Redis(config) => fill(layers, config),
        StoreSettings::Memcache(config) => {
            fill(layers, &mut unused);
            let RedisConfig { link, prefix, .. } = unused;
            (config.deadline, config.connect_timeout) = (link.deadline, link.connect_timeout);
            (config.prefix, config.max_queued) = (prefix, link.max_queued);
        }
    }
    if store != StoreSettings::Memory {
        warn_of_shown_password(layers);
    }
    store
}

fn fill(layers: &mut Layers, config: &mut RedisConfig) {
    config.link.deadline = layers.one("store-deadline", units::span);
    config.link.connect_timeout = layers.one("store-connect-timeout", units::span);
    config.prefix = layers.one("store-prefix", |text| Ok(text.to_owned()));
    config.hash_tag = layers.one("store-hash-tag", hash_tag);
    config.time = layers.one("store-time", time);
    config.max_leased_keys = layers.one("store-max-leased-keys", |text| units::number(text, 1, 100_000_000));
    config.link.max_queued = layers.one("store-max-queued", |text| units::number(text, 1, 1_000_000));
    config.allow_eviction = layers.one("store-allow-eviction", units::switch);
    login(layers, &SERVER, &mut config.link.login);
    login(layers, &SENTINELS, &mut config.link.sentinel_login);
    let path = |text: &str| Ok(PathBuf::from(text));
    let ca = layers.maybe("store-tls-ca", path);
    let cert = layers.maybe("store-tls-cert", path);
    let key = layers.maybe("store-tls-key", path);
    let insecure = layers.one("store-tls-insecure", units::switch);
    let is_wanted = ca.is_some() || cert.is_some() || key.is_some() || insecure;
    if is_wanted && config.link.tls.is_none() {
        layers.note("store: what --store-tls-… say has no effect, since only a URL that begins with rediss is spoken to in TLS");
    }
    if let Some(tls) = &mut config.link.tls {
        (tls.ca_file, tls.certificate_file, tls.key_file, tls.insecure) = (ca, cert, key, insecure);
    }
}

fn login(layers: &mut Layers, rows: &Rows, login: &mut Login) {
    if let Some(name) = layers.maybe(rows.username, |text| Ok(text.to_owned())) {
        login.username = Some(name);
    }
    let password = layers.maybe(rows.password, |text| text.parse::<Secret>().map_err(str::to_owned));
    // Read at each connection; what is wrong with it now is told now.
    let file =
        layers.maybe(rows.file, |path| Secret::from_file(Path::new(path)).map(|_| PathBuf::from(path)));
    if password.is_some() && file.is_some() {
        let what = format!("{} and {} are both given; keep one", rows.password, rows.file);
        layers.fault("settings", &what);
    }
    if let Some(password) = password {
        login.password = Some(RedisSecret::new(password.reveal()));
    }
    if file.is_some() {
        login.password_file = file;
    }
}

fn parse(text: &str) -> Result<StoreSettings, String> {
    match text.split_once("://") {
        None if text == "memory" => Ok(StoreSettings::Memory),
        None => Err(format!("{text:?} is no store; write memory, or a URL such as redis://127.0.0.1:6379")),
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("memcache") => {
            let config = MemcacheConfig::parse_url(text).map_err(|error| error.to_string())?;
            Ok(StoreSettings::Memcache(Box::new(config)))
        }
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("memcached") => {
            Err(format!("the scheme `{scheme}` is not known; write memcache://h1:11211,h2:11211"))
        }
        Some(_) => match RedisConfig::parse_url(text) {
            Ok(config) => Ok(StoreSettings::Redis(Box::new(config))),
            Err(error) => Err(error.to_string()),
        },
    }
}

fn hash_tag(text: &str) -> Result<HashTag, String> {
    match text {
        "counter" => Ok(HashTag::Counter),
        "domain" => Ok(HashTag::Domain),
        "first-entry" => Ok(HashTag::FirstEntry),
        _ => Err(format!("{text:?} is no part of a key; write counter, domain or first-entry")),
    }
}

fn time(text: &str) -> Result<StoreTime, String> {
    match text {
        "store" => Ok(StoreTime::Store),
        "node" => Ok(StoreTime::Node),
        _ => Err(format!("{text:?} is nobody's clock; write store or node")),
    }
}

/// Everyone on the machine can read a command line.
fn warn_of_shown_password(layers: &mut Layers) {
    let given = layers.given("store");
    let is_flag = given.is_some_and(|given| matches!(given.origin, Origin::Flag(_)));
    let login = given.and_then(|given| given.text.split_once("://")?.1.rsplit_once('@'));
    if is_flag && login.is_some_and(|(login, _)| login.contains(':')) {
        layers.note(
            "store: the password stands on the command line, where `ps` shows it; give TOLLGATE_STORE, or \
             TOLLGATE_STORE_PASSWORD, or --store-password-file",
        );
    }
}
