//! What can be set, from four layers into types that cannot be wrong: flag over environment over file over default.
//!
//! Every setting is one row of [`SETTINGS`], which names its flag, its `TOLLGATE_*` name and its key in
//! `tollgate.yaml`. Between a `TOLLGATE_*` name and the file stand the names that envoyproxy/ratelimit reads, so that
//! its container can be swapped in place. All faults of all layers are reported at once, each with its place.
//! Not here: what the settings do.

mod file;
mod layers;
mod peer;
mod peer_store;
mod secret;
mod store;
mod table;
mod tls;
pub mod units;

use std::path::PathBuf;
use std::time::Duration;

use tracing::level_filters::LevelFilter;

use tollgate_envoy_rls::{HeaderNames, ReplyOptions};
use tollgate_headers::{Style, UnknownStyle};
use tollgate_limiter::{LimiterSettings, ObserveSettings};

use layers::Layers;
pub use layers::{Given, Origin, Sources};
pub use secret::Secret;
pub use store::StoreSettings;
pub use table::{Kind, SETTINGS, Setting, named};
pub use tls::{Surface, TlsFiles, TlsSettings};
pub use units::{Listen, LogFormat};

/// Everything that `serve` can be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Folders and files of rules.
    pub rules: Vec<PathBuf>,
    /// Several files may hold one domain.
    pub merge_domains: bool,
    /// Start also without usable rules.
    pub start_anyway: bool,
    /// The gRPC surface.
    pub grpc: Listen,
    /// The HTTP surface.
    pub http: Listen,
    /// The Redis protocol.
    pub resp: Listen,
    /// Threads that answer.
    pub workers: usize,
    /// Most connections at once on each surface.
    pub max_connections: usize,
    /// Connections that the system keeps until they are accepted, for each worker and surface.
    pub backlog: u32,
    /// Bytes of one request's body over HTTP, and of one argument over the Redis protocol.
    pub max_body: usize,
    /// Requests of one batch over HTTP.
    pub max_batch: usize,
    /// From the first byte of a header, a body or a command to its last.
    pub request_timeout: Duration,
    /// An HTTP connection without a request for so long is closed.
    pub idle_timeout: Duration,
    /// A connection of the Redis protocol without a command for so long is closed; zero is never.
    pub resp_idle_timeout: Duration,
    /// When a gRPC connection is asked to go away; `None` is never.
    pub max_connection_age: Option<Duration>,
    /// How long its calls may still take.
    pub max_connection_age_grace: Duration,
    /// Which surfaces speak TLS, and with what.
    pub tls: TlsSettings,
    /// What the routes for operators ask for.
    pub admin_token: Option<Secret>,
    /// What clients of the Redis protocol say first.
    pub resp_password: Option<Secret>,
    /// What holds for every decision.
    pub limiter: LimiterSettings,
    /// Fields that tell HTTP clients their limits.
    pub headers: Style,
    /// What goes into replies to Envoy besides the decision.
    pub replies: ReplyOptions,
    /// Where counters are kept.
    pub store: StoreSettings,
    /// Nodes that share a store which tells no node of others.
    pub store_nodes: u32,
    /// The process is ready only while the store answers.
    pub ready_needs_store: bool,
    /// Most bytes of counters in this process.
    pub memory_max: u64,
    /// The collector of traces.
    pub otlp: Option<String>,
    /// From the signal to the end of listening.
    pub drain_delay: Duration,
    /// From the end of listening to the end of calls.
    pub drain_timeout: Duration,
    /// How much is logged.
    pub log_level: LevelFilter,
    /// How log lines look.
    pub log_format: LogFormat,
    /// What the operator should hear once logs are up: names of the peer that do nothing here, and why.
    pub notes: Vec<String>,
    /// Names of the peer that were set and say something here.
    pub peer_names: Vec<String>,
}

/// One thing wrong with one setting. Nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Fault {
    /// `command line: --grpc`, `environment: TOLLGATE_GRPC` or `tollgate.yaml:3:7: grpc`.
    pub place: String,
    /// What is wrong; what to write instead.
    pub what: String,
}

impl Settings {
    /// Reads every layer of `sources`.
    ///
    /// # Example
    /// ```
    /// # use tollgate_server::settings::{Listen, Settings, Sources};
    /// let mut sources = Sources { cores: 2, ..Sources::default() };
    /// sources.flags.insert("rules".into(), vec!["examples/rules".into()]);
    /// sources.env = vec![("TOLLGATE_HTTP".into(), "off".into())];
    /// let settings = Settings::read(&sources).expect("no fault");
    /// assert_eq!(settings.http, Listen::Off);
    /// assert_eq!(settings.grpc, Listen::At("127.0.0.1:8081".into()));
    /// ```
    ///
    /// # Errors
    /// Every fault of every layer.
    pub fn read(sources: &Sources) -> Result<Self, Vec<Fault>> {
        let mut layers = Layers::gather(sources);
        let headers = HeaderNames {
            limit: layers.one("limit-header", units::header_name),
            remaining: layers.one("remaining-header", units::header_name),
            reset: layers.one("reset-header", units::header_name),
        };
        let response_headers = layers.one("response-headers", units::switch).then_some(headers);
        let otlp = layers.maybe("otlp", units::collector);
        // Nobody samples where nobody takes the spans.
        let trace_ratio = layers.one("trace-ratio", units::ratio);
        let trace_ratio = if otlp.is_some() { f64::from(trace_ratio) } else { 0.0 };
        let age = layers.one("max-connection-age", units::span);
        let mut settings = Self {
            rules: layers.many("rules", |text| Ok(PathBuf::from(text))),
            merge_domains: layers.one("merge-domains", units::switch),
            start_anyway: layers.one("start-anyway", units::switch),
            grpc: layers.one("grpc", units::listen),
            http: layers.one("http", units::listen),
            resp: layers.one("resp", units::listen),
            workers: layers.maybe("workers", |text| units::number(text, 1, 1024)).unwrap_or(sources.cores),
            max_connections: layers.one("max-connections", |text| units::number(text, 1, 10_000_000)),
            max_body: layers.one("max-body", body),
            max_batch: layers.one("max-batch", |text| units::number(text, 1, 100_000)),
            request_timeout: layers.one("request-timeout", timeout),
            idle_timeout: layers.one("idle-timeout", timeout),
            resp_idle_timeout: layers.one("resp-idle-timeout", units::span),
            backlog: layers
                .one("backlog", |text| units::number(text, 1, 1 << 20).map(|number| number as u32)),
            max_connection_age: Some(age).filter(|age| !age.is_zero()),
            max_connection_age_grace: layers.one("max-connection-age-grace", units::span),
            tls: tls::read(&mut layers),
            admin_token: secret(&mut layers, "admin-token", "admin-token-file"),
            resp_password: secret(&mut layers, "resp-password", "resp-password-file"),
            limiter: LimiterSettings {
                shadow_mode: layers.one("shadow-mode", units::switch),
                quota_mode: layers.one("quota-mode", units::switch),
                throttle_on_store_failure: layers.one("throttle-on-store-failure", units::on_store_failure),
                max_reservations: layers.one("max-reservations", |text| units::number(text, 0, 10_000_000)),
                longest_reservation: layers.one("longest-reservation", units::span),
                observe: ObserveSettings {
                    near_limit_ratio: layers.one("near-limit-ratio", units::ratio),
                    top_keys: layers.one("top-keys", |text| units::number(text, 0, 1024)),
                    denial_log: layers
                        .maybe("denial-log-level", units::log_level)
                        .and_then(|it| it.into_level()),
                    denial_log_lines: layers.one("denial-log-rate", |text| units::number(text, 1, 1_000_000))
                        as u32,
                    trace_ratio,
                    ..ObserveSettings::default()
                },
            },
            headers: layers
                .one("headers", |text| text.parse().map_err(|error: UnknownStyle| error.to_string())),
            replies: ReplyOptions {
                headers: response_headers,
                dynamic_metadata: layers.one("dynamic-metadata", units::switch),
            },
            store: store::read(&mut layers),
            store_nodes: layers
                .one("store-nodes", |text| units::number(text, 1, 100_000).map(|number| number as u32)),
            ready_needs_store: layers.one("ready-needs-store", units::switch),
            memory_max: layers.one("memory-max", units::bytes),
            otlp,
            drain_delay: layers.one("drain-delay", units::span),
            drain_timeout: layers.one("drain-timeout", units::span),
            log_level: layers.maybe("log-level", units::log_level).unwrap_or(LevelFilter::INFO),
            log_format: layers.one("log-format", units::log_format),
            notes: layers.take_notes(),
            peer_names: layers.peer_names(),
        };
        // Where everything passes, nothing is denied.
        if settings.limiter.shadow_mode {
            settings.limiter.observe.denial_log = None;
        }
        if settings.rules.is_empty() {
            layers.fault("settings", "no rules are named; add --rules FOLDER");
        }
        if [&settings.grpc, &settings.http, &settings.resp].into_iter().all(|listen| *listen == Listen::Off) {
            layers.fault("settings", "grpc, http and resp are all off, so nobody could ask; turn one on");
        }
        layers.finish(settings)
    }
}

/// The secret called `name`, or the one in the file that `file_name` names.
fn secret(layers: &mut Layers, name: &str, file_name: &str) -> Option<Secret> {
    let value = layers.maybe(name, |text| text.parse::<Secret>().map_err(str::to_owned));
    let file = layers.maybe(file_name, |path| Secret::from_file(path.as_ref()));
    if value.is_some() && file.is_some() {
        layers.fault("settings", &format!("{name} and {file_name} are both given; keep one"));
    }
    value.or(file)
}

/// From 1 KiB to 64 MiB, so that sixteen times that is still a number of bytes.
fn body(text: &str) -> Result<usize, String> {
    match usize::try_from(units::bytes(text)?) {
        Ok(bytes) if (1 << 10..=64 << 20).contains(&bytes) => Ok(bytes),
        _ => Err(format!("{text} is not between 1KiB and 64MiB")),
    }
}

/// More than nothing: nobody could ask in no time at all.
fn timeout(text: &str) -> Result<Duration, String> {
    match units::span(text)? {
        Duration::ZERO => Err("0 leaves no time at all; write a span such as 10s".to_owned()),
        span => Ok(span),
    }
}
