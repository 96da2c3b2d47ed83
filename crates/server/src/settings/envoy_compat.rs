//! The environment of envoyproxy/ratelimit, so that its container can be replaced in place.
//!
//! Names that are one setting here are in that setting's row. This file has those that are combined from
//! several, and those without an effect here, with the reason for the operator. Not read are those whose
//! every value means what Tollgate does anyway: `RUNTIME_WATCH_ROOT` (both kinds of changes are seen),
//! `HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED` (always).

mod env;
mod mode;
mod store;

use std::collections::BTreeSet;

use super::fault::Fault;
use super::layer::{Given, Layer, Origin};
use super::layers::Layers;
use super::row::{Kind, Setting};
use super::{kubernetes, rules, telemetry, tls};
use crate::surfaces::{grpc, http};
pub(super) use env::Env;
use mode::Mode;
pub(super) use mode::ROWS;

/// Names with an effect only together with others, or only with certain values.
const CONDITIONAL: [&str; 11] = [
    "BACKEND_TYPE",
    "REDIS_AUTH",
    "REDIS_SENTINEL_AUTH",
    "GRPC_SERVER_USE_TLS",
    "GRPC_SERVER_TLS_CERT",
    "GRPC_SERVER_TLS_KEY",
    "GRPC_CLIENT_TLS_CACERT",
    "GRPC_CLIENT_TLS_SAN",
    "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
    "RUNTIME_IGNOREDOTFILES",
    "TRACING_SAMPLING_RATE",
];

/// The layer of `env`, for the settings of `table`, if its names count. If not, a note lists those that would
/// have had an effect: that none of the first `stronger` layers overrides.
pub(super) fn layer(env: &Env, table: &[&'static Setting], stronger: usize, layers: &mut Layers) -> Layer {
    match layers.one(&mode::MODE) {
        Mode::Off => Layer::default(),
        Mode::Auto if !mode::is_of_ratelimit(env) => {
            let is_given = |setting: &Setting| {
                layers.layers.iter().take(stronger).any(|layer| layer.get(setting).is_some())
            };
            let settings: Vec<_> = table.iter().copied().filter(|setting| !is_given(setting)).collect();
            let ignored = effective(env, table, &settings);
            if !ignored.is_empty() {
                let names = ignored.into_iter().collect::<Vec<_>>().join(", ");
                layers.note(format!(
                    "{names}: ignored, since other programs use such names too; --compat ratelimit reads the names of \
                     envoyproxy/ratelimit, --compat off ignores them without this line"
                ));
            }
            Layer::default()
        }
        Mode::Auto | Mode::Ratelimit => read(env, table, &mut layers.faults, &mut layers.notes),
    }
}

/// The names of `env` that would have an effect on `settings`, or be at fault.
fn effective(env: &Env, table: &[&'static Setting], settings: &[&'static Setting]) -> BTreeSet<String> {
    let mut faults = Vec::new();
    let layer = read(env, table, &mut faults, &mut Vec::new());
    let given = settings.iter().filter_map(|setting| layer.get(setting)).flatten();
    let names = given.filter_map(|given| match &given.origin {
        Origin::Env(names) => Some(names.as_str()),
        Origin::Flag(_) | Origin::File(_) | Origin::Default => None,
    });
    let faulty = faults.iter().filter_map(|fault| fault.place.strip_prefix("environment: "));
    names.chain(faulty).flat_map(|names| names.split(", ")).map(str::to_owned).collect()
}

/// The layer of `env`, for the settings of `table`.
fn read(env: &Env, table: &[&'static Setting], faults: &mut Vec<Fault>, notes: &mut Vec<String>) -> Layer {
    let mut layer = Layer::default();
    for setting in table.iter().filter(|setting| setting.kind != Kind::Many) {
        if let [name] = setting.envoy_compat
            && !CONDITIONAL.contains(name)
            && let Some(value) = env.given(name)
        {
            layer.set(setting, [Given::env(value, *name)]);
        }
    }
    let addresses = [
        (&grpc::LISTEN, Address { host: "GRPC_HOST", port: "GRPC_PORT", default_port: "8081" }),
        (&http::LISTEN, Address { host: "HOST", port: "PORT", default_port: "8080" }),
    ];
    for (row, address) in addresses {
        if let Some(given) = address.read(env) {
            layer.set(&row.setting, [given]);
        }
    }
    // There too it counts before the host and the port.
    let name = "GRPC_UDS";
    if let Some(path) = env.given(name) {
        layer.set(&grpc::LISTEN.setting, [Given::env(format!("unix:{path}"), name)]);
    }
    let name = "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT";
    if env.is_on(name) {
        layer.set(&rules::CHARGE.setting, [Given::env("together", name)]);
    }
    if let Some(given) = rule_path(env) {
        if env.given("RUNTIME_IGNOREDOTFILES").is_none() {
            let read = Given::new("true", Origin::Default); // as there
            layer.set(&rules::DOT_FILES.setting, [read]);
        }
        layer.set(&rules::PATHS.setting, [given]);
    }
    // There it says the opposite, and files with a dot are read without it.
    let name = "RUNTIME_IGNOREDOTFILES";
    if env.given(name).is_some() && !env.is_on(name) {
        layer.set(&rules::DOT_FILES.setting, [Given::env("true", name)]);
    }
    read_tls(env, &mut layer);
    store::read(env, &mut layer, faults, notes);
    read_traces(env, &mut layer, notes);
    remark(env, faults, notes);
    layer
}

/// There the switch is for gRPC only; its HTTP port has no TLS. Without the switch, the files have no effect.
fn read_tls(env: &Env, layer: &mut Layer) {
    if !env.is_on("GRPC_SERVER_USE_TLS") {
        return;
    }
    layer.set(&tls::SURFACES.setting, [Given::env("grpc", "GRPC_SERVER_USE_TLS")]);
    let files = [
        (&tls::CERT, "GRPC_SERVER_TLS_CERT"),
        (&tls::KEY, "GRPC_SERVER_TLS_KEY"),
        (&grpc::CLIENT_CA, "GRPC_CLIENT_TLS_CACERT"),
    ];
    let settings = files.map(|(row, name)| (&row.setting, name));
    for (setting, name) in settings.into_iter().chain([(&grpc::CLIENT_NAME.setting, "GRPC_CLIENT_TLS_SAN")]) {
        if let Some(text) = env.given(name) {
            layer.set(setting, [Given::env(text, name)]);
        }
    }
}

/// Where traces would be sent, if the protocol is one that Tollgate has.
fn read_traces(env: &Env, layer: &mut Layer, notes: &mut Vec<String>) {
    if !env.is_on("TRACING_ENABLED") {
        return;
    }
    if env.get("TRACING_EXPORTER_PROTOCOL") != Some("grpc") {
        notes.push("TRACING_ENABLED: no effect: traces are sent by OTLP over gRPC; set --otlp".to_owned());
        return;
    }
    let name = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let (url, names) = match env.given(name) {
        Some(url) => (url, format!("TRACING_ENABLED, {name}")),
        None => ("http://localhost:4317", "TRACING_ENABLED".to_owned()),
    };
    layer.set(&telemetry::OTLP.setting, [Given::env(url, names)]);
    let name = "TRACING_SAMPLING_RATE";
    layer.set(&telemetry::TRACE_RATIO.setting, [Given::env(env.get(name).unwrap_or("1"), name)]);
}

/// The names that make one address.
#[derive(Clone, Copy, Debug)]
struct Address {
    host: &'static str,
    port: &'static str,
    default_port: &'static str,
}

impl Address {
    /// With only a port, envoyproxy/ratelimit listens on every interface. Some shells export `HOST` as the
    /// machine's name, so it counts only if it is a number or comes with a port.
    fn read(self, env: &Env) -> Option<Given> {
        // Kubernetes sets GRPC_PORT to an address if there is a Service called `grpc`.
        let port = env.given(self.port).filter(|port| !kubernetes::is_address(port));
        let host = env.given(self.host);
        let host = host.filter(|text| port.is_some() || text.parse::<std::net::IpAddr>().is_ok());
        let (text, names) = match (host, port) {
            (None, None) => return None,
            (Some(host), None) => (join(host, self.default_port), self.host.to_owned()),
            (None, Some(port)) => (join("0.0.0.0", port), self.port.to_owned()),
            (Some(host), Some(port)) => (join(host, port), format!("{}, {}", self.host, self.port)),
        };
        Some(Given::env(text, names))
    }
}

fn join(host: &str, port: &str) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// `RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY`, with the defaults of envoyproxy/ratelimit for
/// those that are not set.
fn rule_path(env: &Env) -> Option<Given> {
    let names = ["RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY"];
    let given: Vec<&str> = names.into_iter().filter(|name| env.get(name).is_some()).collect();
    if given.is_empty() {
        return None;
    }
    let part = |name: &str, default: &'static str| env.get(name).unwrap_or(default).to_owned();
    let parts = [part(names[0], "/srv/runtime_data/current"), part(names[1], ""), part(names[2], "config")];
    let path: std::path::PathBuf = parts
        .iter()
        .enumerate()
        .map(|(i, part)| if i == 0 { part } else { part.trim_start_matches('/') })
        .collect();
    Some(Given::env(path.to_string_lossy(), given.join(", ")))
}

/// Names that matter only with certain values.
fn remark(env: &Env, faults: &mut Vec<Fault>, notes: &mut Vec<String>) {
    // Starting anyway would be less safe than what was asked for.
    let mut reject = |name: &str, what: &str| faults.push(Fault::new(format!("environment: {name}"), what));
    if env.given("CONFIG_TYPE").is_some_and(|text| text != "FILE") {
        reject("CONFIG_TYPE", "rules are read from files only; set FILE");
    }
    for name in ["USE_STATSD", "USE_DOG_STATSD"] {
        if env.is_on(name) {
            notes.push(format!("{name}: no effect: metrics are at /metrics on the HTTP port"));
        }
    }
}
