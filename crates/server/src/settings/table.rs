//! Every setting, once: its flag, its environment name, its key in `tollgate.yaml`, its default and its help come from
//! one row here.
//!
//! `memory-max` is `--memory-max`, `TOLLGATE_MEMORY_MAX` and `memory_max:`. Rows hold text only; what a text means is
//! said where [`Settings`](super::Settings) are made of it.

/// How often a setting may be given, and whether it needs a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One value.
    One,
    /// Any number of values: the flag again and again, a list in the file, `:` between them in the environment.
    Many,
    /// On or off; the bare flag means on.
    Switch,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The flag, without its two dashes.
    pub name: &'static str,
    /// How often, and whether with a value.
    pub kind: Kind,
    /// What help calls the value.
    pub value: &'static str,
    /// The default as one would write it; empty where there is none.
    pub default: &'static str,
    /// The names by which envoyproxy/ratelimit reads the same setting from its environment.
    pub peer: &'static [&'static str],
    /// Under which heading help shows it.
    pub heading: &'static str,
    /// One or two sentences.
    pub help: &'static str,
}

impl Setting {
    /// `TOLLGATE_MEMORY_MAX`.
    #[must_use]
    pub fn env(&self) -> String {
        format!("TOLLGATE_{}", self.name.replace('-', "_").to_ascii_uppercase())
    }

    /// `memory_max`.
    #[must_use]
    pub fn key(&self) -> String {
        self.name.replace('-', "_")
    }
}

const RULES: &str = "Rules";
const LISTEN: &str = "Where it listens";
const ANSWERS: &str = "How Envoy is answered";
const STORE: &str = "Counters";
const LIFE: &str = "Start, stop, logs";

const fn one(
    name: &'static str,
    value: &'static str,
    default: &'static str,
    peer: &'static [&'static str],
    heading: &'static str,
    help: &'static str,
) -> Setting {
    Setting { name, kind: Kind::One, value, default, peer, heading, help }
}

const fn switch(
    name: &'static str,
    peer: &'static [&'static str],
    heading: &'static str,
    help: &'static str,
) -> Setting {
    Setting { name, kind: Kind::Switch, value: "BOOL", default: "false", peer, heading, help }
}

/// Every setting, in the order of the help text.
#[rustfmt::skip]
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "rules", kind: Kind::Many, value: "PATH", default: "", heading: RULES,
        peer: &["RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY"],
        help: "Folder or file of rules; may be given more than once. Changes are in force within a second, without a restart",
    },
    switch("merge-domains", &["MERGE_DOMAIN_CONFIG"], RULES,
        "Let several files hold rules of one domain"),
    switch("start-anyway", &["FORCE_START_WITHOUT_INITIAL_CONFIG"], RULES,
        "Start also with faulty or missing rules: not ready, and calls fail, until they are right"),

    one("grpc", "ADDR", "127.0.0.1:8081", &["GRPC_HOST", "GRPC_PORT"], LISTEN,
        "Address of Envoy's rate limit service; port 0 takes a free one, `off` turns it off"),
    one("http", "ADDR", "127.0.0.1:8080", &["HOST", "PORT"], LISTEN,
        "Address of /json, /healthz, /readyz and /metrics; port 0 takes a free one, `off` turns it off"),
    one("workers", "N", "", &[], LISTEN,
        "Threads that answer gRPC, each with its own listening socket [default: one a core]"),
    one("max-connections", "N", "20000", &[], LISTEN,
        "Most connections at once on each address; further ones are closed at once"),
    one("max-connection-age", "SPAN", "24h", &["GRPC_MAX_CONNECTION_AGE"], LISTEN,
        "A gRPC connection this old is asked to go away, so that clients spread over new servers; 0 is never"),
    one("max-connection-age-grace", "SPAN", "1h", &["GRPC_MAX_CONNECTION_AGE_GRACE"], LISTEN,
        "How long calls on such a connection may still take"),

    switch("shadow-mode", &["SHADOW_MODE"], ANSWERS,
        "Count and report, but let every request pass"),
    switch("quota-mode", &["QUOTA_MODE"], ANSWERS,
        "Treat every rule as if it said `quota_mode: true`"),
    switch("response-headers", &["LIMIT_RESPONSE_HEADERS_ENABLED"], ANSWERS,
        "Tell clients limit, remaining and reset in headers"),
    one("limit-header", "NAME", "RateLimit-Limit", &["LIMIT_LIMIT_HEADER"], ANSWERS,
        "Name of the header with the limit"),
    one("remaining-header", "NAME", "RateLimit-Remaining", &["LIMIT_REMAINING_HEADER"], ANSWERS,
        "Name of the header with what remains"),
    one("reset-header", "NAME", "RateLimit-Reset", &["LIMIT_RESET_HEADER"], ANSWERS,
        "Name of the header with the seconds until the window ends"),
    switch("dynamic-metadata", &["RESPONSE_DYNAMIC_METADATA"], ANSWERS,
        "Tell Envoy as dynamic metadata which descriptors were asked about"),
    one("near-limit-ratio", "RATIO", "0.8", &["NEAR_LIMIT_RATIO"], ANSWERS,
        "Above this share of a limit, an admitted hit counts as near it in the metrics"),

    one("store", "URL", "memory", &["BACKEND_TYPE"], STORE,
        "Where counters are kept; this release has `memory`"),
    one("memory-max", "BYTES", "1GiB", &[], STORE,
        "Most memory for counters; past it the keys nearest to a full quota are forgotten first"),

    one("drain-delay", "SPAN", "5s", &[], LIFE,
        "After SIGTERM: how long calls are still taken while /readyz already says no"),
    one("drain-timeout", "SPAN", "30s", &[], LIFE,
        "After the delay: how long calls under way may still take"),
    one("log-level", "LEVEL", "info", &["LOG_LEVEL"], LIFE,
        "off, error, warn, info, debug or trace"),
    one("log-format", "FORMAT", "text", &["LOG_FORMAT"], LIFE,
        "text or json, one line an event, on stderr"),
];

/// The row called `name`.
#[must_use]
pub fn named(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}
