//! When the names of envoyproxy/ratelimit count.
//!
//! Platforms and other programs set `PORT`, `HOST`, `REDIS_URL` and such as well. Here these would open a
//! port to every machine, or move the counters. So by default they count only beside a name that only
//! envoyproxy/ratelimit has.

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
                        has, such as RUNTIME_ROOT), `ratelimit` (always) or `off`");
}

/// When the names of envoyproxy/ratelimit count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// If one of [`DISTINCTIVE`] is set.
    #[default]
    Auto,
    /// Always.
    Ratelimit,
    /// Never.
    Off,
}

/// Names that no other program is likely to have. With only `SHADOW_MODE` from elsewhere, nothing would be
/// limited, and `GRPC_HOST` is often a server that a client calls: such names are not in this list.
const DISTINCTIVE: [&str; 38] = [
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
    "GRPC_PORT",
    "GRPC_UDS",
    "GRPC_MAX_CONNECTION_AGE",
    "GRPC_MAX_CONNECTION_AGE_GRACE",
    "GRPC_SERVER_USE_TLS",
    "LIMIT_RESPONSE_HEADERS_ENABLED",
    "LIMIT_LIMIT_HEADER",
    "LIMIT_REMAINING_HEADER",
    "LIMIT_RESET_HEADER",
    "RESPONSE_DYNAMIC_METADATA",
    "NEAR_LIMIT_RATIO",
    "LOCAL_CACHE_SIZE_IN_BYTES",
    "EXPIRATION_JITTER_MAX_SECONDS",
    "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
    "BACKEND_TYPE",
    "REDIS_SOCKET_TYPE",
    "REDIS_PERSECOND",
    "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION",
    "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION",
    "REDIS_PIPELINE_WINDOW",
    "REDIS_PIPELINE_LIMIT",
    "REDIS_CLUSTER_PIPELINE_PARALLELISM",
    "REDIS_POOL_ON_EMPTY_BEHAVIOR",
    "MEMCACHE_HOST_PORT",
    "MEMCACHE_SRV",
    "USE_STATSD",
    "USE_DOG_STATSD",
    "USE_PROMETHEUS",
];

/// Whether `env` is that of envoyproxy/ratelimit.
pub(super) fn is_of_ratelimit(env: &Env) -> bool {
    // Kubernetes sets GRPC_PORT to an address if there is a Service called `grpc`.
    let is_set = |name| env.given(name).is_some_and(|value| !kubernetes::is_address(value));
    DISTINCTIVE.into_iter().any(is_set)
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
    fn each_distinctive_name_is_on_the_page_and_enough_by_itself() {
        let page = include_str!("../../../../../docs/envoy.md");
        for name in DISTINCTIVE {
            assert!(page.contains(&format!("`{name}`")), "{name} is not on the page");
            assert!(is_of_ratelimit(&Env([(name.to_owned(), "1".to_owned())].into())), "{name}");
        }
    }
}
