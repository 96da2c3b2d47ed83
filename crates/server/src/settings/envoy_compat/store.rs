//! The store of envoyproxy/ratelimit: one URL and one login from several names of its environment.
//!
//! Names that are one setting here (`CACHE_KEY_PREFIX`, `REDIS_TIMEOUT`, the TLS files) are in that setting's
//! row.

use super::env::Env;
use super::unused;
use crate::settings::fault::Fault;
use crate::settings::layer::{Given, Layer};
use crate::settings::store::{self, LoginRows};

/// Names that select a store in Redis, and the way to reach it.
const REDIS: [&str; 4] = ["REDIS_URL", "REDIS_TYPE", "REDIS_SOCKET_TYPE", "REDIS_TLS"];
/// Further names for a store in Redis.
const LOGIN: [&str; 3] = ["REDIS_AUTH", "REDIS_SENTINEL_AUTH", "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION"];
/// Names that select a store in memcached, and the way to reach it.
const MEMCACHE: [&str; 3] = ["MEMCACHE_HOST_PORT", "MEMCACHE_SRV", "MEMCACHE_TLS"];
/// Names for a store in memcached with TLS.
const MEMCACHE_TLS: [&str; 4] = [
    "MEMCACHE_TLS_CLIENT_CERT",
    "MEMCACHE_TLS_CLIENT_KEY",
    "MEMCACHE_TLS_CACERT",
    "MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION",
];

pub(super) fn read(env: &Env, layer: &mut Layer, faults: &mut Vec<Fault>, notes: &mut Vec<String>) {
    let kind = env.given("BACKEND_TYPE");
    let url = env.given("REDIS_URL");
    match (kind, url) {
        (Some("memory"), _) => layer.set(&store::STORE.setting, [Given::env("memory", "BACKEND_TYPE")]),
        (Some("memcache"), _) => memcache(env, layer, faults, notes),
        (Some("redis") | None, Some(url)) => redis(env, url, layer, faults, notes),
        (Some("redis"), None) => {
            let what = "needs REDIS_URL, such as 10.0.0.5:6379 or /run/redis.sock";
            faults.push(Fault::env("BACKEND_TYPE", what));
        }
        (None, None) => {}
        (Some(other), url) => {
            let what = format!("unknown store {other:?}: expected redis, memcache or memory");
            faults.push(Fault::env("BACKEND_TYPE", what));
            if let Some(url) = url {
                redis(env, url, layer, faults, notes); // so that its faults are reported too
            }
        }
    }
    if matches!(kind, Some("memory" | "memcache")) || url.is_none() {
        let why =
            kind.map_or_else(|| "without REDIS_URL".to_owned(), |kind| format!("with BACKEND_TYPE={kind}"));
        let names = REDIS.into_iter().chain(LOGIN).chain(unused::of_redis());
        note_unused(env, names, &why, notes);
    }
    if kind != Some("memcache") {
        let names = MEMCACHE.into_iter().chain(MEMCACHE_TLS).chain(unused::of_memcache());
        note_unused(env, names, "without BACKEND_TYPE=memcache", notes);
    }
}

/// Notes which of `names` have no effect for this reason.
fn note_unused<'n>(env: &Env, names: impl IntoIterator<Item = &'n str>, why: &str, notes: &mut Vec<String>) {
    let given: Vec<&str> = names.into_iter().filter(|name| env.given(name).is_some()).collect();
    if !given.is_empty() {
        notes.push(format!("{}: no effect {why}", given.join(", ")));
    }
}

fn memcache(env: &Env, layer: &mut Layer, faults: &mut Vec<Fault>, notes: &mut Vec<String>) {
    match env.given("MEMCACHE_HOST_PORT") {
        Some(hosts) => {
            let given = Given::env(format!("memcache://{hosts}"), "BACKEND_TYPE, MEMCACHE_HOST_PORT");
            layer.set(&store::STORE.setting, [given]);
            note_unused(env, ["MEMCACHE_SRV"], "beside MEMCACHE_HOST_PORT", notes);
        }
        None => {
            let what = "needs MEMCACHE_HOST_PORT, such as 10.0.0.5:11211; SRV records are not supported";
            faults.push(Fault::env("BACKEND_TYPE", what));
        }
    }
    if env.is_on("MEMCACHE_TLS", faults) {
        // Continuing in cleartext would be less safe than the requested configuration.
        let what =
            "TLS to memcached is not supported; unset it, and reach memcached over a network that you trust";
        faults.push(Fault::env("MEMCACHE_TLS", what));
    } else {
        note_unused(env, MEMCACHE_TLS, "without MEMCACHE_TLS=true", notes);
    }
    unused::note_memcache(env, faults, notes);
}

fn redis(env: &Env, url: &str, layer: &mut Layer, faults: &mut Vec<Fault>, notes: &mut Vec<String>) {
    let has_tls = env.is_on("REDIS_TLS", faults);
    let names = ["BACKEND_TYPE"].into_iter().chain(REDIS);
    let names: Vec<&str> = names.filter(|name| env.given(name).is_some()).collect();
    let url = redis_url(env, url, has_tls, faults);
    layer.set(&store::STORE.setting, [Given::env(url, names.join(", "))]);
    login(env, "REDIS_AUTH", &store::SERVER_LOGIN, layer);
    login(env, "REDIS_SENTINEL_AUTH", &store::SENTINEL_LOGIN, layer);
    if env.is_on("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", faults) && has_tls {
        let what = "a certificate is verified as a whole or not at all; unset it, or set \
                    TOLLGATE_STORE_TLS_INSECURE=true";
        faults.push(Fault::env("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", what));
    }
    unused::note_redis(env, faults, notes);
}

/// `REDIS_URL` and its type as one URL. envoyproxy/ratelimit uses a Unix socket unless the type is `tcp`;
/// here a path is one.
fn redis_url(env: &Env, url: &str, has_tls: bool, faults: &mut Vec<Fault>) -> String {
    let kind = one_of(env, "REDIS_TYPE", &["SINGLE", "SENTINEL", "CLUSTER"], faults);
    one_of(env, "REDIS_SOCKET_TYPE", &["tcp", "unix"], faults);
    if url.contains("://") {
        return url.to_owned();
    }
    let tls = if has_tls { "rediss" } else { "redis" };
    match kind {
        "SENTINEL" => {
            let (master, sentinels) = url.split_once(',').unwrap_or((url, ""));
            format!("{tls}+sentinel://{sentinels}/{master}")
        }
        "CLUSTER" => format!("{tls}+cluster://{url}"),
        _ if url.starts_with('/') => format!("unix://{url}"),
        _ => format!("{tls}://{url}"),
    }
}

/// Which of `known` the value of `name` is, in any case; the first if it is not set, or at fault.
fn one_of(env: &Env, name: &str, known: &[&'static str], faults: &mut Vec<Fault>) -> &'static str {
    let text = env.given(name).unwrap_or(known[0]);
    known.iter().copied().find(|known| known.eq_ignore_ascii_case(text)).unwrap_or_else(|| {
        let what = format!("unknown value {text:?}: expected {}", known.join(" or "));
        faults.push(Fault::env(name, what));
        known[0]
    })
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
