//! When the names of envoyproxy/ratelimit count.
//!
//! Platforms and other programs also set `PORT`, `HOST`, `REDIS_URL`, `GRPC_PORT` and similar names, even for
//! all containers of a pod. Here these would open a port to every machine, or move the counters. So by
//! default they count only beside a name that no other program has.

use super::env::Env;
use crate::settings::kubernetes;
use crate::settings::row::Heading::Process;
use crate::settings::row::{Row, rows};

rows! {
    /// The rows of this file.
    ROWS:
    MODE: Row<Mode> = Row::new("compat", "MODE", "auto", mode)
        .one_of(&["auto", "ratelimit", "off"])
        .help(Process, "When the environment variables of envoyproxy/ratelimit are read: `auto` (if one is set that only it \
                        has, such as RUNTIME_ROOT), `ratelimit` (always) or `off`. Then the server also listens where \
                        envoyproxy/ratelimit does");
}

/// When the names of envoyproxy/ratelimit count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// If one of [`PROOFS`] is set.
    #[default]
    Auto,
    Ratelimit,
    Off,
}

/// Names that no other program is likely to have; one is enough. Not in this list: names of features that
/// many services have, such as a gRPC port, TLS, a kind of backend, statsd or Prometheus. An application has
/// these too, and several of them together.
pub(super) const PROOFS: [&str; 31] = [
    "RUNTIME_ROOT",
    "RUNTIME_SUBDIRECTORY",
    "RUNTIME_APPDIRECTORY",
    "RUNTIME_WATCH_ROOT",
    "RUNTIME_IGNOREDOTFILES",
    "MERGE_DOMAIN_CONFIG",
    "FORCE_START_WITHOUT_INITIAL_CONFIG",
    "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
    "CONFIG_GRPC_XDS_NODE_ID",
    "CONFIG_GRPC_XDS_SERVER_URL",
    "LIMIT_RESPONSE_HEADERS_ENABLED",
    "LIMIT_LIMIT_HEADER",
    "LIMIT_REMAINING_HEADER",
    "LIMIT_RESET_HEADER",
    "RESPONSE_DYNAMIC_METADATA",
    "NEAR_LIMIT_RATIO",
    "LOCAL_CACHE_SIZE_IN_BYTES",
    "EXPIRATION_JITTER_MAX_SECONDS",
    "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
    "REDIS_SOCKET_TYPE",
    "REDIS_PERSECOND",
    "REDIS_PERSECOND_SOCKET_TYPE",
    "REDIS_PERSECOND_TYPE",
    "REDIS_PERSECOND_URL",
    "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION",
    "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION",
    "REDIS_PIPELINE_WINDOW",
    "REDIS_PIPELINE_LIMIT",
    "REDIS_CLUSTER_PIPELINE_PARALLELISM",
    "REDIS_POOL_ON_EMPTY_BEHAVIOR",
    "USE_DOG_STATSD_MOGRIFIERS",
];

/// The names in `env` that only envoyproxy/ratelimit has.
pub(super) fn proofs(env: &Env) -> Vec<&'static str> {
    let is_set = |name: &&str| {
        env.not_text.contains(*name) || env.given(name).is_some_and(|value| !kubernetes::is_address(value))
    };
    PROOFS.into_iter().filter(is_set).collect()
}

fn mode(text: &str) -> Result<Mode, String> {
    match text.to_ascii_lowercase().as_str() {
        "auto" => Ok(Mode::Auto),
        "ratelimit" => Ok(Mode::Ratelimit),
        "off" => Ok(Mode::Off),
        _ => Err(format!("unknown mode {text:?}: expected auto, ratelimit or off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_that_proves_ratelimit_is_on_the_page_and_enough_by_itself() {
        let page = include_str!("../../../../../docs/envoy.md");
        for name in PROOFS {
            assert!(page.contains(&format!("`{name}`")), "{name} is not on the page");
            let env = Env { texts: [(name.to_owned(), "1".to_owned())].into(), ..Env::default() };
            assert_eq!(proofs(&env), [name]);
        }
    }
}
