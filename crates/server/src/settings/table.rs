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
    /// One value that is for the environment and the file only: a command line is shown to everyone by `ps`.
    Secret,
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
const GUARD: &str = "TLS, tokens";
const ANSWERS: &str = "How clients are answered";
const STORE: &str = "Counters";
const SHARED: &str = "Shared store";
const WATCH: &str = "What is observed";
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

const fn secret(name: &'static str, heading: &'static str, help: &'static str) -> Setting {
    Setting { name, kind: Kind::Secret, value: "SECRET", default: "", peer: &[], heading, help }
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
        "Address of Envoy's rate limit service over gRPC; port 0 takes a free one, `off` turns it off"),
    one("http", "ADDR", "127.0.0.1:8080", &["HOST", "PORT"], LISTEN,
        "Address of /v1/check, /json, /healthz, /readyz, /metrics and more; port 0 takes a free one, `off` turns it off"),
    one("resp", "ADDR", "127.0.0.1:6390", &[], LISTEN,
        "Address of the Redis protocol; port 0 takes a free one, `off` turns it off"),
    one("workers", "N", "", &[], LISTEN,
        "Threads that answer, each with its own socket on every address [default: one a core]"),
    one("max-connections", "N", "20000", &[], LISTEN,
        "Most connections at once on each address; further ones are closed at once"),
    one("backlog", "N", "4096", &[], LISTEN,
        "Connections that the system keeps for each worker and address until they are accepted; it caps this itself (net.core.somaxconn)"),
    one("max-body", "BYTES", "64KiB", &[], LISTEN,
        "Largest body of one request over HTTP, and largest argument over the Redis protocol; a batch over HTTP may have sixteen times that"),
    one("max-batch", "N", "1000", &[], LISTEN,
        "Most requests of one batch over HTTP"),
    one("request-timeout", "SPAN", "10s", &[], LISTEN,
        "How long a client may take to send a header, a body or a command over HTTP and the Redis protocol, and to take an answer of the latter"),
    one("idle-timeout", "SPAN", "75s", &[], LISTEN,
        "An HTTP connection without a request for so long is closed"),
    one("resp-idle-timeout", "SPAN", "0", &[], LISTEN,
        "A connection of the Redis protocol without a command for so long is closed; 0 is never"),
    one("max-connection-age", "SPAN", "24h", &["GRPC_MAX_CONNECTION_AGE"], LISTEN,
        "A gRPC connection this old is asked to go away, so that clients spread over new servers; 0 is never"),
    one("max-connection-age-grace", "SPAN", "1h", &["GRPC_MAX_CONNECTION_AGE_GRACE"], LISTEN,
        "How long calls on such a connection may still take"),

    one("tls-cert", "FILE", "", &["GRPC_SERVER_TLS_CERT"], GUARD,
        "Certificate and its chain, PEM; read again when it changes"),
    one("tls-key", "FILE", "", &["GRPC_SERVER_TLS_KEY"], GUARD,
        "Its private key, PEM; read again when it changes"),
    one("tls", "SURFACES", "", &["GRPC_SERVER_USE_TLS"], GUARD,
        "Surfaces that speak TLS, such as `grpc,resp` [default: all of them when there is a certificate]"),
    one("grpc-client-ca", "FILE", "", &["GRPC_CLIENT_TLS_CACERT"], GUARD,
        "Certificates, PEM, of which one must have signed each gRPC client's own (mTLS)"),
    secret("admin-token", GUARD,
        "What /v1/keys, /v1/rules and /debug ask for as `Authorization: Bearer …`; without, they answer on loopback only"),
    one("admin-token-file", "FILE", "", &[], GUARD,
        "File whose one line is the admin token, which /v1/keys, /v1/rules and /debug ask for; TOLLGATE_ADMIN_TOKEN gives it directly"),
    secret("resp-password", GUARD,
        "What clients of the Redis protocol must say by AUTH before anything else"),
    one("resp-password-file", "FILE", "", &[], GUARD,
        "File whose one line is the password of the Redis protocol; TOLLGATE_RESP_PASSWORD gives it directly"),

    one("headers", "STYLE", "legacy", &[], ANSWERS,
        "Fields that tell HTTP clients their limits: `off`, `legacy` (X-RateLimit-…), `draft-03`, `draft-07` or `draft-11` (RateLimit of the IETF), or both as `legacy,draft-11`"),
    switch("shadow-mode", &["SHADOW_MODE"], ANSWERS,
        "Count and report, but let every request pass"),
    switch("quota-mode", &["QUOTA_MODE"], ANSWERS,
        "Treat every rule as if it said `quota_mode: true`"),
    switch("response-headers", &["LIMIT_RESPONSE_HEADERS_ENABLED"], ANSWERS,
        "Tell Envoy to add limit, remaining and reset to responses as headers"),
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

    one("store", "URL", "memory", &["BACKEND_TYPE", "REDIS_URL", "REDIS_TYPE", "REDIS_SOCKET_TYPE", "REDIS_TLS", "MEMCACHE_HOST_PORT"], STORE,
        "Where counters are kept: `memory` (of this process), or shared by all nodes that name the same: `redis://host:port/db`, `rediss://…` (TLS), `unix:///path`, `redis+sentinel://h1:26379,h2:26379/master`, `redis+cluster://h1:7000,h2:7000`, `memcache://h1:11211,h2:11211`"),
    one("memory-max", "BYTES", "1GiB", &[], STORE,
        "Most memory for counters kept in this process; past it the keys nearest to a full quota are forgotten first"),
    one("max-reservations", "N", "100000", &[], STORE,
        "Most reservations open at once; past it /v1/reserve is refused"),
    one("longest-reservation", "SPAN", "1h", &[], STORE,
        "Longest time that a reservation may be held"),
    one("throttle-on-store-failure", "ANSWER", "allow", &[], STORE,
        "What becomes of a limit that came with the question (CL.THROTTLE and such) while the store is silent: `allow`, `deny` or `local`"),

    one("store-deadline", "SPAN", "10ms", &[], SHARED,
        "Longest wait for one answer of the store, 1ms to 60s; after it each rule decides as its on_store_failure says"),
    one("store-connect-timeout", "SPAN", "500ms", &["REDIS_TIMEOUT"], SHARED,
        "Longest time to connect and log in, for one attempt"),
    one("store-username", "NAME", "", &[], SHARED,
        "ACL user to log in as; wins over the one in the URL"),
    Setting { peer: &["REDIS_AUTH"], ..secret("store-password", SHARED,
        "Password to log in with; wins over the one in the URL") },
    one("store-password-file", "FILE", "", &[], SHARED,
        "File whose one line is the store's password, read again at each connection; TOLLGATE_STORE_PASSWORD gives it directly"),
    one("store-sentinel-username", "NAME", "", &[], SHARED,
        "ACL user at the sentinels"),
    Setting { peer: &["REDIS_SENTINEL_AUTH"], ..secret("store-sentinel-password", SHARED,
        "Password of the sentinels") },
    one("store-sentinel-password-file", "FILE", "", &[], SHARED,
        "File whose one line is the password of the sentinels, read again at each connection; TOLLGATE_STORE_SENTINEL_PASSWORD gives it directly"),
    one("store-tls-ca", "FILE", "", &["REDIS_TLS_CACERT"], SHARED,
        "Certificates, PEM, of which one must have signed the store's; read again at each connection, as are the next two [default: those that the system trusts]"),
    one("store-tls-cert", "FILE", "", &["REDIS_TLS_CLIENT_CERT"], SHARED,
        "Our certificate, PEM, where the store asks for one"),
    one("store-tls-key", "FILE", "", &["REDIS_TLS_CLIENT_KEY"], SHARED,
        "Its private key, PEM"),
    switch("store-tls-insecure", &[], SHARED,
        "Take any certificate of the store, also another host's; for tests"),
    one("store-prefix", "TEXT", "tollgate:", &["CACHE_KEY_PREFIX"], SHARED,
        "What every key in the store begins with; nodes that share counters have the same"),
    one("store-hash-tag", "PART", "counter", &[], SHARED,
        "Which counters share a slot of a Redis Cluster: `counter` (none), `domain` (those of a domain) or `first-entry` (those of a domain and first entry, so of one caller)"),
    one("store-time", "CLOCK", "store", &[], SHARED,
        "Whose clock counts: `store` (the server's, one for all nodes) or `node` (each node's own; they must agree)"),
    one("store-max-queued", "N", "8192", &[], SHARED,
        "Most calls that wait to be sent, for each worker; one more is refused at once, and its rule decides as without the store"),
    one("store-max-leased-keys", "N", "100000", &[], SHARED,
        "Most keys with `sharing: leased` that this node keeps in mind; the one used longest ago makes room and gives back what it holds"),
    one("store-nodes", "N", "1", &[], SHARED,
        "How many nodes share a memcached, so that `on_store_failure: local` gives each its part; the nodes of a Redis find each other"),
    switch("store-allow-eviction", &[], SHARED,
        "Start also with a Redis whose maxmemory-policy evicts keys: counters may then be forgotten at any time"),
    switch("ready-needs-store", &["REDIS_HEALTH_CHECK_ACTIVE_CONNECTION"], SHARED,
        "/readyz answers 503 and gRPC health NOT_SERVING while the store gives no answer; without, both stay good and /readyz says so in its body"),

    one("denial-log-level", "LEVEL", "error", &[], WATCH,
        "Level of the log line of a denial, or `off`; there is none in shadow mode"),
    one("denial-log-rate", "N", "10", &[], WATCH,
        "Most such lines a second; the next one tells how many were left out"),
    one("top-keys", "N", "16", &[], WATCH,
        "Keys that are watched for each rule to tell the most limited ones; 0 watches none"),
    one("otlp", "URL", "", &["TRACING_ENABLED", "OTEL_EXPORTER_OTLP_ENDPOINT"], WATCH,
        "OpenTelemetry collector that gets traces over gRPC, such as http://localhost:4317"),
    one("trace-ratio", "RATIO", "0.01", &["TRACING_SAMPLING_RATE"], WATCH,
        "Share of calls that are traced where the caller's traceparent does not say"),

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
