//! Names of envoyproxy/ratelimit without an effect here, each with the reason, so that an operator learns of
//! it once, at the start.

use super::env::Env;
use crate::settings::fault::Fault;

/// Names that have no effect for one reason.
struct Unused {
    names: &'static [&'static str],
    /// Values that have an effect in envoyproxy/ratelimit.
    when: When,
    why: &'static str,
}

/// Which values would have had an effect there.
#[derive(Clone, Copy)]
enum When {
    /// Every value has an effect.
    Given,
    /// A switch that is on.
    On,
    /// A number other than 0.
    Above0,
}

const METRICS: &str = "metrics are at /metrics on the HTTP port, for Prometheus";
const POOLS: &str = "calls that come together share a round trip, on one connection per worker";

const UNUSED: &[Unused] = &[
    Unused { names: &["USE_STATSD"], when: When::On, why: METRICS },
    Unused { names: &["USE_DOG_STATSD"], when: When::On, why: METRICS },
    Unused { names: &["DISABLE_STATS"], when: When::On, why: "metrics cost nothing that could be saved" },
    Unused {
        names: &[
            "USE_DOG_STATSD_MOGRIFIERS",
            "STATSD_HOST",
            "STATSD_PORT",
            "EXTRA_TAGS",
            "STATS_FLUSH_INTERVAL",
            "PROMETHEUS_MAPPER_YAML",
        ],
        when: When::Given,
        why: METRICS,
    },
    Unused {
        names: &["PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS"],
        when: When::On,
        why: "ratelimit_service_response_time_seconds is in seconds",
    },
    Unused {
        names: &[
            "CONFIG_GRPC_XDS_NODE_ID",
            "CONFIG_GRPC_XDS_NODE_METADATA",
            "CONFIG_GRPC_XDS_SERVER_URL",
            "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
            "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS",
            "CONFIG_GRPC_XDS_SERVER_USE_TLS",
            "CONFIG_GRPC_XDS_CLIENT_TLS_CERT",
            "CONFIG_GRPC_XDS_CLIENT_TLS_KEY",
            "CONFIG_GRPC_XDS_SERVER_TLS_CACERT",
            "CONFIG_GRPC_XDS_SERVER_TLS_SAN",
            "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL",
            "XDS_CLIENT_BACKOFF_MAX_INTERVAL",
            "XDS_CLIENT_BACKOFF_RANDOM_FACTOR",
            "XDS_CLIENT_BACKOFF_JITTER",
            "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES",
        ],
        when: When::Given,
        why: "rules are read from files",
    },
    Unused {
        names: &["LOCAL_CACHE_SIZE_IN_BYTES"],
        when: When::Above0,
        why: "denials are not kept apart from the counters; `sharing: leased` in a rule saves round trips to the store",
    },
    Unused {
        names: &["EXPIRATION_JITTER_MAX_SECONDS"],
        when: When::Given,
        why: "a key in the store expires with its window",
    },
    Unused {
        names: &["TRACING_SERVICE_NAME", "TRACING_SERVICE_NAMESPACE", "TRACING_SERVICE_INSTANCE_ID"],
        when: When::Given,
        why: "OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES name the service in traces",
    },
];

/// The same of a store in Redis.
const OF_REDIS: &[Unused] = &[
    Unused {
        names: &["REDIS_PERSECOND"],
        when: When::On,
        why: "all counters are kept in the store of REDIS_URL",
    },
    Unused {
        names: &[
            "REDIS_PERSECOND_SOCKET_TYPE",
            "REDIS_PERSECOND_TYPE",
            "REDIS_PERSECOND_URL",
            "REDIS_PERSECOND_POOL_SIZE",
            "REDIS_PERSECOND_AUTH",
            "REDIS_PERSECOND_SENTINEL_AUTH",
            "REDIS_PERSECOND_TLS",
            "REDIS_PERSECOND_TIMEOUT",
            "REDIS_PERSECOND_PIPELINE_WINDOW",
            "REDIS_PERSECOND_PIPELINE_LIMIT",
            "REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM",
            "REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR",
        ],
        when: When::Given,
        why: "all counters are kept in the store of REDIS_URL",
    },
    Unused {
        names: &[
            "REDIS_POOL_SIZE",
            "REDIS_PIPELINE_WINDOW",
            "REDIS_PIPELINE_LIMIT",
            "REDIS_CLUSTER_PIPELINE_PARALLELISM",
            "REDIS_POOL_ON_EMPTY_BEHAVIOR",
        ],
        when: When::Given,
        why: POOLS,
    },
    Unused {
        names: &[
            "REDIS_STARTUP_INITIAL_INTERVAL",
            "REDIS_STARTUP_MAX_INTERVAL",
            "REDIS_STARTUP_MAX_ELAPSED_TIME",
        ],
        when: When::Given,
        why: "ports open also while the store is down, and it is tried until it is up",
    },
];

/// The same of a store in memcached.
const OF_MEMCACHE: &[Unused] =
    &[Unused { names: &["MEMCACHE_MAX_IDLE_CONNS", "MEMCACHE_SRV_REFRESH"], when: When::Given, why: POOLS }];

/// Every value of these means what happens anyway, but only a switch is one.
const AS_ALWAYS: [&str; 3] = [
    "RUNTIME_WATCH_ROOT",
    "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
    "REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR",
];

/// Notes the names in `env` that have no effect.
pub(super) fn note(env: &Env, faults: &mut Vec<Fault>, notes: &mut Vec<String>) {
    for name in AS_ALWAYS {
        env.is_on(name, faults);
    }
    note_all(UNUSED, env, faults, notes);
    if env.given("PROTO").is_some_and(|text| !text.eq_ignore_ascii_case("tcp")) {
        notes.push("PROTO: no effect: addresses are host:port, or unix:/path".to_owned());
    }
}

/// The names that would matter for a store in Redis.
pub(super) fn of_redis() -> impl Iterator<Item = &'static str> {
    OF_REDIS.iter().flat_map(|unused| unused.names.iter().copied())
}

/// The names that would matter for a store in memcached.
pub(super) fn of_memcache() -> impl Iterator<Item = &'static str> {
    OF_MEMCACHE.iter().flat_map(|unused| unused.names.iter().copied())
}

/// The same as [`note`] of names of a store in Redis.
pub(super) fn note_redis(env: &Env, faults: &mut Vec<Fault>, notes: &mut Vec<String>) {
    note_all(OF_REDIS, env, faults, notes);
}

/// The same as [`note`] of names of a store in memcached.
pub(super) fn note_memcache(env: &Env, faults: &mut Vec<Fault>, notes: &mut Vec<String>) {
    note_all(OF_MEMCACHE, env, faults, notes);
}

fn note_all(unused: &[Unused], env: &Env, faults: &mut Vec<Fault>, notes: &mut Vec<String>) {
    for Unused { names, when, why } in unused {
        let mut is_set = |name: &&str| match when {
            When::Given => env.given(name).is_some(),
            When::On => env.is_on(name, faults),
            When::Above0 => env.given(name).is_some_and(|text| text.trim() != "0"),
        };
        let names: Vec<&str> = names.iter().copied().filter(|name| is_set(name)).collect();
        if !names.is_empty() {
            notes.push(format!("{}: no effect: {why}", names.join(", ")));
        }
    }
}
