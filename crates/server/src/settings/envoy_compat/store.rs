//! The store of envoyproxy/ratelimit: one URL and one login from several names of its environment.
//!
//! Names that are one setting here (`CACHE_KEY_PREFIX`, `REDIS_TIMEOUT`, the TLS files) are in that setting's
//! row.

use super::env::Env;
use crate::settings::fault::Fault;
use crate::settings::layer::{Given, Layer};
use crate::settings::store::{self, LoginRows};

/// Names without an effect: calls that come together share a round trip, on one connection per worker.
const POOLS: [&str; 7] = [
    "REDIS_POOL_SIZE",
    "REDIS_PIPELINE_WINDOW",
    "REDIS_PIPELINE_LIMIT",
    "REDIS_CLUSTER_PIPELINE_PARALLELISM",
    "REDIS_POOL_ON_EMPTY_BEHAVIOR",
    "MEMCACHE_MAX_IDLE_CONNS",
    "MEMCACHE_SRV_REFRESH",
];

pub(super) fn read(env: &Env, layer: &mut Layer, faults: &mut Vec<Fault>, notes: &mut Vec<String>) {
    let mut reject = |name: &str, what: &str| faults.push(Fault::new(format!("environment: {name}"), what));
    let kind = env.given("BACKEND_TYPE");
    let store = match kind {
        Some("memory") => Some(("BACKEND_TYPE", "memory".to_owned())),
        Some("memcache") => match env.given("MEMCACHE_HOST_PORT") {
            Some(hosts) => Some(("MEMCACHE_HOST_PORT", format!("memcache://{hosts}"))),
            None => {
                let what = "needs MEMCACHE_HOST_PORT, such as 10.0.0.5:11211; SRV records are not supported";
                reject("BACKEND_TYPE", what);
                None
            }
        },
        Some("redis") | None => match env.given("REDIS_URL") {
            Some(url) => Some(("REDIS_URL", redis(env, url))),
            None => {
                if kind.is_some() {
                    reject("BACKEND_TYPE", "needs REDIS_URL, such as 10.0.0.5:6379 or /run/redis.sock");
                }
                None
            }
        },
        Some(other) => {
            reject("BACKEND_TYPE", &format!("unknown store {other:?}: expected redis, memcache or memory"));
            None
        }
    };
    let Some((name, url)) = store else { return };
    layer.set(&store::STORE.setting, [Given::env(url, name)]);
    if name != "REDIS_URL" {
        return;
    }
    login(env, "REDIS_AUTH", &store::SERVER_LOGIN, layer);
    login(env, "REDIS_SENTINEL_AUTH", &store::SENTINEL_LOGIN, layer);
    if env.is_on("REDIS_TLS") && env.is_on("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION") {
        let what = "a certificate is verified as a whole or not at all; unset it, or set \
                    TOLLGATE_STORE_TLS_INSECURE=true";
        reject("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", what);
    }
    if env.is_on("REDIS_PERSECOND") {
        notes.push("REDIS_PERSECOND: no effect: all counters are kept in the store of REDIS_URL".to_owned());
    }
    let pools: Vec<&str> = POOLS.into_iter().filter(|name| env.given(name).is_some()).collect();
    if !pools.is_empty() {
        let names = pools.join(", ");
        notes.push(format!(
            "{names}: no effect: calls that come together share a round trip, on one connection per worker"
        ));
    }
}

/// `REDIS_URL` and its type as one URL. envoyproxy/ratelimit uses a Unix socket unless the type is `tcp`;
/// here a path is one.
fn redis(env: &Env, url: &str) -> String {
    if url.contains("://") {
        return url.to_owned();
    }
    let tls = if env.is_on("REDIS_TLS") { "rediss" } else { "redis" };
    let kind = env.get("REDIS_TYPE").map(str::to_ascii_uppercase);
    match kind.as_deref() {
        Some("SENTINEL") => {
            let (master, sentinels) = url.split_once(',').unwrap_or((url, ""));
            format!("{tls}+sentinel://{sentinels}/{master}")
        }
        Some("CLUSTER") => format!("{tls}+cluster://{url}"),
        _ if url.starts_with('/') => format!("unix://{url}"),
        _ => format!("{tls}://{url}"),
    }
}

/// `password` or `user:password`.
fn login(env: &Env, name: &str, rows: &LoginRows, layer: &mut Layer) {
    let Some(auth) = env.given(name) else { return };
    let (user, password) =
        auth.split_once(':').map_or((None, auth), |(user, password)| (Some(user), password));
    layer.set(&rows.password.setting, [Given::env(password, name)]);
    if let Some(user) = user.filter(|user| !user.is_empty()) {
        layer.set(&rows.username.setting, [Given::env(user, name)]);
    }
}
