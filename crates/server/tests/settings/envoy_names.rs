//! All names of envoyproxy/ratelimit, in any combination and with any value: they are recognized correctly,
//! and each is accounted for.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;

/// Names that other programs have too, each with a value that they may give it, and one that means the same
/// in both.
const SHARED: &[(&str, &str)] = &[
    ("HOST", "0.0.0.0"),
    ("PORT", "3000"),
    ("PROTO", "https"),
    ("DEBUG_HOST", "0.0.0.0"),
    ("DEBUG_PORT", "9229"),
    ("GRPC_HOST", "10.0.0.7"),
    ("GRPC_PORT", "50051"),
    ("GRPC_UDS", "/run/app.sock"),
    ("GRPC_MAX_CONNECTION_AGE", "30m"),
    ("GRPC_MAX_CONNECTION_AGE_GRACE", "10s"),
    ("GRPC_SERVER_USE_TLS", "true"),
    ("GRPC_SERVER_TLS_CERT", "/tls/tls.crt"),
    ("GRPC_SERVER_TLS_KEY", "/tls/tls.key"),
    ("GRPC_CLIENT_TLS_CACERT", "/tls/ca.crt"),
    ("GRPC_CLIENT_TLS_SAN", "app.internal"),
    ("LOG_LEVEL", "verbose"),
    ("LOG_FORMAT", "logfmt"),
    ("CONFIG_TYPE", "yaml"),
    ("BACKEND_TYPE", "postgres"),
    ("REDIS_URL", "redis://app-cache:6379/1"),
    ("REDIS_TYPE", "cluster"),
    ("REDIS_AUTH", "s3cret"),
    ("REDIS_SENTINEL_AUTH", "s3cret"),
    ("REDIS_TLS", "true"),
    ("REDIS_TLS_CACERT", "/tls/ca.crt"),
    ("REDIS_TLS_CLIENT_CERT", "/tls/tls.crt"),
    ("REDIS_TLS_CLIENT_KEY", "/tls/tls.key"),
    ("REDIS_TIMEOUT", "5"),
    ("REDIS_POOL_SIZE", "50"),
    ("CACHE_KEY_PREFIX", "app"),
    ("MEMCACHE_HOST_PORT", "memcached:11211"),
    ("MEMCACHE_SRV", "_memcache._tcp.app"),
    ("MEMCACHE_TLS", "true"),
    ("SHADOW_MODE", "true"),
    ("QUOTA_MODE", "true"),
    ("USE_STATSD", "true"),
    ("STATSD_HOST", "statsd"),
    ("STATSD_PORT", "8125"),
    ("USE_DOG_STATSD", "true"),
    ("USE_PROMETHEUS", "true"),
    ("PROMETHEUS_ADDR", ":9102"),
    ("PROMETHEUS_PATH", "/prom"),
    ("DISABLE_STATS", "true"),
    ("TRACING_ENABLED", "true"),
    ("TRACING_EXPORTER_PROTOCOL", "grpc"),
    ("TRACING_SERVICE_NAME", "app"),
    ("TRACING_SAMPLING_RATE", "1"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317"),
];

/// Names that only envoyproxy/ratelimit has.
const OWN: &[(&str, &str)] = &[
    ("RUNTIME_ROOT", "/data"),
    ("RUNTIME_SUBDIRECTORY", "ratelimit"),
    ("RUNTIME_APPDIRECTORY", "limits"),
    ("RUNTIME_WATCH_ROOT", "false"),
    ("RUNTIME_IGNOREDOTFILES", "true"),
    ("MERGE_DOMAIN_CONFIG", "true"),
    ("FORCE_START_WITHOUT_INITIAL_CONFIG", "false"),
    ("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "true"),
    ("CONFIG_GRPC_XDS_NODE_ID", "default"),
    ("CONFIG_GRPC_XDS_SERVER_URL", "localhost:18000"),
    ("LIMIT_RESPONSE_HEADERS_ENABLED", "true"),
    ("LIMIT_LIMIT_HEADER", "X-Limit"),
    ("LIMIT_REMAINING_HEADER", "X-Remaining"),
    ("LIMIT_RESET_HEADER", "X-Reset"),
    ("RESPONSE_DYNAMIC_METADATA", "true"),
    ("NEAR_LIMIT_RATIO", "0.9"),
    ("LOCAL_CACHE_SIZE_IN_BYTES", "1000000"),
    ("EXPIRATION_JITTER_MAX_SECONDS", "300"),
    ("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "true"),
    ("REDIS_SOCKET_TYPE", "tcp"),
    ("REDIS_PERSECOND", "true"),
    ("REDIS_PERSECOND_URL", "redis-2:6379"),
    ("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", "false"),
    ("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "true"),
    ("REDIS_PIPELINE_WINDOW", "75us"),
    ("REDIS_PIPELINE_LIMIT", "8"),
    ("REDIS_CLUSTER_PIPELINE_PARALLELISM", "4"),
    ("REDIS_POOL_ON_EMPTY_BEHAVIOR", "WAIT"),
    ("USE_DOG_STATSD_MOGRIFIERS", "FOO"),
];

/// All other names that it reads.
const REST: &[&str] = &[
    "CONFIG_GRPC_XDS_NODE_METADATA",
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
    "EXTRA_TAGS",
    "STATS_FLUSH_INTERVAL",
    "PROMETHEUS_MAPPER_YAML",
    "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS",
    "REDIS_PERSECOND_SOCKET_TYPE",
    "REDIS_PERSECOND_TYPE",
    "REDIS_PERSECOND_POOL_SIZE",
    "REDIS_PERSECOND_AUTH",
    "REDIS_PERSECOND_SENTINEL_AUTH",
    "REDIS_PERSECOND_TLS",
    "REDIS_PERSECOND_TIMEOUT",
    "REDIS_PERSECOND_PIPELINE_WINDOW",
    "REDIS_PERSECOND_PIPELINE_LIMIT",
    "REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM",
    "REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR",
    "REDIS_STARTUP_INITIAL_INTERVAL",
    "REDIS_STARTUP_MAX_INTERVAL",
    "REDIS_STARTUP_MAX_ELAPSED_TIME",
    "REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR",
    "MEMCACHE_MAX_IDLE_CONNS",
    "MEMCACHE_SRV_REFRESH",
    "MEMCACHE_TLS_CLIENT_CERT",
    "MEMCACHE_TLS_CLIENT_KEY",
    "MEMCACHE_TLS_CACERT",
    "MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION",
    "TRACING_SERVICE_NAMESPACE",
    "TRACING_SERVICE_INSTANCE_ID",
];

fn all_names() -> Vec<&'static str> {
    let with_values = SHARED.iter().chain(OWN).map(|(name, _)| *name);
    with_values.chain(REST.iter().copied()).collect()
}

fn read_os(flags: &[(&str, &str)], env: &[(&str, OsString)]) -> Result<Settings, Vec<Fault>> {
    let mut sources = Sources { cores: 3, ..Sources::default() };
    for (name, value) in flags {
        sources.flags.entry((*name).to_owned()).or_default().push((*value).to_owned());
    }
    sources.env = env.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
    Settings::read(&sources)
}

/// Values that are no value of anything, or of something else.
fn garbage() -> impl Strategy<Value = OsString> {
    prop_oneof![
        Just(OsString::from("garbage")),
        Just(OsString::from(" ")),
        Just(OsString::from("-1")),
        Just(OsString::from("tcp://10.0.0.11:8081")),
        Just(OsString::from("99999999999999999999")),
        Just(OsString::from("true")),
        Just(OsString::from("/")),
        Just(OsString::from(":")),
        Just(OsString::from(",")),
        Just(OsString::from("://")),
        Just(OsString::from("[::1")),
        Just(OsString::from("x".repeat(70_000))),
        "\\PC{0,12}".prop_map(OsString::from),
        prop::collection::vec(1..=255_u8, 0..12).prop_map(OsString::from_vec),
    ]
}

/// Is `name` among the names at the beginning of `line`: `A, B: no effect…`?
fn is_named(line: &str, name: &str) -> bool {
    let names = line.split_once(": ").map_or(line, |(names, _)| names);
    names.split(", ").any(|other| other == name)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_company_of_names_that_programs_share_is_taken_for_envoyproxy_ratelimit(
        shared in subsequence(SHARED, 0..=SHARED.len()),
        rules in select(&["rules", "elsewhere"][..]),
    ) {
        let plain = read(&[("rules", rules)], &[], None).expect("no fault");
        let settings = read(&[("rules", rules)], &shared, None);
        let settings = settings.map_err(|faults| TestCaseError::fail(format!("{faults:?}")))?;
        // One line names those that are ignored.
        let notes = settings.notes.clone();
        prop_assert!(notes.len() <= 1, "{:?}", notes);
        for (name, _) in &shared {
            let would_count = ["HOST", "PORT", "GRPC_PORT", "REDIS_URL", "SHADOW_MODE", "GRPC_SERVER_USE_TLS"];
            // A socket counts before a port.
            let is_hidden = *name == "GRPC_PORT" && shared.iter().any(|(name, _)| *name == "GRPC_UDS");
            if would_count.contains(name) && !is_hidden {
                prop_assert!(notes.iter().any(|note| is_named(note, name)), "{} of {:?}", name, notes);
            }
        }
        prop_assert_eq!(Settings { notes: Vec::new(), ..settings }, plain);
    }

    #[test]
    fn one_name_of_its_own_among_any_others_proves_envoyproxy_ratelimit(
        shared in subsequence(SHARED, 0..=SHARED.len()),
        own in subsequence(OWN, 1..=OWN.len()),
    ) {
        let mut env = shared.clone();
        env.extend(&own);
        let mut flags = vec![("rules", "rules")];
        match read(&flags, &env, None) {
            Ok(settings) => {
                let by = settings.envoy_compat.clone().unwrap_or_default();
                prop_assert!(own.iter().all(|(name, _)| by.split(", ").any(|it| it == *name)), "{} of {:?}", by, own);
                prop_assert_ne!(settings.surface("http").map(|it| it.listen().clone()), Some(at("127.0.0.1:8080")));
            }
            // Some of the others' values are invalid for it; then nothing is started.
            Err(faults) => prop_assert!(faults.iter().all(|it| {
                it.place.starts_with("environment: ") || it.place == "settings"
            }), "{:?}", faults),
        }
        flags.push(("compat", "off"));
        let off = read(&flags, &env, None).expect("no fault");
        prop_assert_eq!(off, read(&[("rules", "rules")], &[], None).expect("no fault"));
    }

    #[test]
    fn each_name_that_is_set_is_in_effect_or_at_fault_or_noted(
        picked in subsequence(all_names(), 1..=12),
        values in prop::collection::vec(garbage(), 12),
    ) {
        let env: Vec<(&str, OsString)> = picked.iter().copied().zip(values).collect();
        let flags = [("rules", "rules"), ("compat", "ratelimit")];
        let (faults, settings) = match read_os(&flags, &env) {
            Ok(settings) => (Vec::new(), Some(settings)),
            Err(faults) => (faults, None),
        };
        let at_fault: BTreeSet<String> = faults
            .iter()
            .filter_map(|it| it.place.strip_prefix("environment: "))
            .flat_map(|names| names.split(", "))
            .map(str::to_owned)
            .collect();
        prop_assert!(settings.is_some() || !faults.is_empty());
        let Some(settings) = settings else {
            // Everything at once: each of these values alone is at fault too.
            for (name, value) in &env {
                let Err(alone) = read_os(&flags, &[(*name, value.clone())]) else { continue };
                if alone.iter().any(|it| it.place == format!("environment: {name}")) {
                    prop_assert!(at_fault.contains(*name), "{} of {:?}", name, faults);
                }
            }
            return Ok(());
        };
        for (name, value) in &env {
            let text = value.to_str().unwrap_or_default();
            // Not set, or what happens anyway, or an address that Kubernetes sets.
            let is_silent = text.is_empty()
                || ["RUNTIME_WATCH_ROOT", "RUNTIME_IGNOREDOTFILES", "REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR",
                    "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "OTEL_EXPORTER_OTLP_ENDPOINT"].contains(name)
                || (name.ends_with("PORT") && text.starts_with("tcp://"));
            let is_noted = settings.notes.iter().any(|note| is_named(note, name));
            prop_assert!(
                is_silent || is_noted || settings.envoy_compat_names.iter().any(|it| it == name)
                    // An off switch has no effect, as there.
                    || tollgate_is_off(text),
                "{}={:?} is lost: in effect {:?}, noted {:?}", name, text, settings.envoy_compat_names, settings.notes
            );
        }
    }
}

fn tollgate_is_off(text: &str) -> bool {
    ["false", "f", "0", "no", "off"].contains(&text.to_ascii_lowercase().as_str())
}

#[test]
fn every_name_set_to_garbage_is_reported_at_once() {
    let env: Vec<_> = all_names().into_iter().map(|name| (name, OsString::from("gar bage"))).collect();
    let faults = read_os(&[], &env).expect_err("faults");
    let at_fault: BTreeSet<&str> = faults
        .iter()
        .filter_map(|it| it.place.strip_prefix("environment: "))
        .flat_map(|names| names.split(", "))
        .collect();
    // Names that take any text, or have no effect, cannot be at fault.
    for name in [
        "HOST",
        "PORT",
        "DEBUG_HOST",
        "DEBUG_PORT",
        "GRPC_HOST",
        "GRPC_PORT",
        "GRPC_MAX_CONNECTION_AGE",
        "GRPC_MAX_CONNECTION_AGE_GRACE",
        "GRPC_SERVER_USE_TLS",
        "LOG_LEVEL",
        "LOG_FORMAT",
        "CONFIG_TYPE",
        "BACKEND_TYPE",
        "REDIS_TIMEOUT",
        "SHADOW_MODE",
        "QUOTA_MODE",
        "USE_STATSD",
        "USE_DOG_STATSD",
        "USE_PROMETHEUS",
        "DISABLE_STATS",
        "TRACING_ENABLED",
        "RUNTIME_WATCH_ROOT",
        "RUNTIME_IGNOREDOTFILES",
        "MERGE_DOMAIN_CONFIG",
        "FORCE_START_WITHOUT_INITIAL_CONFIG",
        "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
        "LIMIT_RESPONSE_HEADERS_ENABLED",
        "LIMIT_LIMIT_HEADER",
        "LIMIT_REMAINING_HEADER",
        "LIMIT_RESET_HEADER",
        "RESPONSE_DYNAMIC_METADATA",
        "NEAR_LIMIT_RATIO",
        "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
        "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION",
    ] {
        assert!(at_fault.contains(name), "{name} of {faults:?}");
    }
    // Each name is reported once.
    let mut places: Vec<&str> = faults.iter().map(|it| it.place.as_str()).collect();
    places.sort_unstable();
    let all = places.len();
    places.dedup();
    assert_eq!(places.len(), all, "{faults:?}");
}
