//! The store of envoyproxy/ratelimit, as its environment names it: one URL and one login of ours from a handful of names.
//!
//! Names that are another setting of ours word for word (`CACHE_KEY_PREFIX`, `REDIS_TIMEOUT`, the TLS files) stand in the table.

use super::Fault;
use super::layers::{Given, Layer, Origin};
use super::peer::{Env, is_on};

/// What we do in another way, whatever it says: calls that come together share a round trip, on one connection a worker.
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
    let said = |name: &str| env.get(name).map(String::as_str).filter(|text| !text.is_empty());
    let mut refuse = |name: &str, what: &str| {
        faults.push(Fault { place: format!("environment: {name}"), what: what.to_owned() });
    };
    let kind = said("BACKEND_TYPE");
    let store = match kind {
        Some("memory") => Some(("BACKEND_TYPE", "memory".to_owned())),
        Some("memcache") => match said("MEMCACHE_HOST_PORT") {
            Some(hosts) => Some(("MEMCACHE_HOST_PORT", format!("memcache://{hosts}"))),
            None => {
                let what = "wants MEMCACHE_HOST_PORT, such as 10.0.0.5:11211; SRV records are not looked up";
                refuse("BACKEND_TYPE", what);
                None
            }
        },
        Some("redis") | None => match said("REDIS_URL") {
            Some(url) => Some(("REDIS_URL", redis(env, url))),
            None => {
                if kind.is_some() {
                    refuse("BACKEND_TYPE", "wants REDIS_URL, such as 10.0.0.5:6379 or /run/redis.sock");
                }
                None
            }
        },
        Some(_) => {
            refuse("BACKEND_TYPE", "is none of redis, memcache and memory");
            None
        }
    };
    let Some((name, url)) = store else { return };
    layer.insert("store", vec![Given::new(url, Origin::Env(name.to_owned()))]);
    if name != "REDIS_URL" {
        return;
    }
    login(env, "REDIS_AUTH", ["store-username", "store-password"], layer);
    login(env, "REDIS_SENTINEL_AUTH", ["store-sentinel-username", "store-sentinel-password"], layer);
    if is_on(env, "REDIS_TLS") && is_on(env, "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION") {
        let what = "this release checks a certificate whole or not at all; unset it, or set TOLLGATE_STORE_TLS_INSECURE=true";
        refuse("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", what);
    }
    if is_on(env, "REDIS_PERSECOND") {
        notes.push("REDIS_PERSECOND: no effect: all counters are kept in the store of REDIS_URL".to_owned());
    }
    let pools: Vec<&str> = POOLS.into_iter().filter(|name| said(name).is_some()).collect();
    if !pools.is_empty() {
        let names = pools.join(", ");
        notes.push(format!(
            "{names}: no effect: calls that come together share a round trip, on one connection a worker"
        ));
    }
}

/// `REDIS_URL` and its type as one URL. The peer dials a Unix socket unless it is told `tcp`; here a path is one.
fn redis(env: &Env, url: &str) -> String {
    if url.contains("://") {
        return url.to_owned();
    }
    let tls = if is_on(env, "REDIS_TLS") { "rediss" } else { "redis" };
    let kind = env.get("REDIS_TYPE").map(|kind| kind.to_ascii_uppercase());
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
fn login(env: &Env, name: &str, [user_row, password_row]: [&'static str; 2], layer: &mut Layer) {
    let Some(auth) = env.get(name).filter(|auth| !auth.is_empty()) else { return };
    let (user, password) =
        auth.split_once(':').map_or((None, auth.as_str()), |(user, rest)| (Some(user), rest));
    let given = |text: &str| vec![Given::new(text, Origin::Env(name.to_owned()))];
    layer.insert(password_row, given(password));
    if let Some(user) = user.filter(|user| !user.is_empty()) {
        layer.insert(user_row, given(user));
    }
}
