//! The environment names of envoyproxy/ratelimit, so that its container can be swapped in place.
//!
//! Names that mean one setting of ours stand in the table; here are those that are put together from several, and
//! those that do nothing here, with the reason that the operator is told. Not looked at are those whose every value
//! means what we do anyway: `RUNTIME_WATCH_ROOT` (both kinds of changes are seen), `RUNTIME_IGNOREDOTFILES` (always),
//! `HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED` (always).

use std::collections::BTreeMap;

use super::Fault;
use super::layers::{Given, Layer, Origin};
use super::table::{Kind, SETTINGS};

/// Names that mean something here only together with others, or only with certain values.
const CONDITIONAL: [&str; 8] = [
    "BACKEND_TYPE",
    "REDIS_AUTH",
    "REDIS_SENTINEL_AUTH",
    "GRPC_SERVER_USE_TLS",
    "GRPC_SERVER_TLS_CERT",
    "GRPC_SERVER_TLS_KEY",
    "GRPC_CLIENT_TLS_CACERT",
    "TRACING_SAMPLING_RATE",
];

pub(super) type Env = BTreeMap<String, String>;

pub(super) fn read(env: &Env, faults: &mut Vec<Fault>, notes: &mut Vec<String>) -> Layer {
    let mut layer = Layer::new();
    for setting in SETTINGS.iter().filter(|setting| setting.kind != Kind::Many) {
        if let [name] = setting.peer
            && !CONDITIONAL.contains(name)
            && let Some(value) = env.get(*name).filter(|value| !value.is_empty())
        {
            layer.insert(setting.name, vec![Given::new(value, Origin::Env((*name).to_owned()))]);
        }
    }
    let addresses = [("grpc", "GRPC_HOST", "GRPC_PORT", "8081"), ("http", "HOST", "PORT", "8080")];
    for (setting, host, port, default_port) in addresses {
        if let Some(given) = address(env, host, port, default_port) {
            layer.insert(setting, vec![given]);
        }
    }
    if let Some(given) = rules(env) {
        layer.insert("rules", vec![given]);
    }
    tls(env, &mut layer);
    super::peer_store::read(env, &mut layer, faults, notes);
    traces(env, &mut layer, notes);
    remark(env, faults, notes);
    layer
}

pub(super) fn is_on(env: &Env, name: &str) -> bool {
    env.get(name).is_some_and(|text| super::units::switch(text) == Ok(true))
}

/// The peer's switch is for gRPC; its HTTP port knows no TLS. Without the switch, the files mean nothing.
fn tls(env: &Env, layer: &mut Layer) {
    if !is_on(env, "GRPC_SERVER_USE_TLS") {
        return;
    }
    let mut give = |setting: &'static str, name: &str, text: &str| {
        layer.insert(setting, vec![Given::new(text, Origin::Env(name.to_owned()))]);
    };
    give("tls", "GRPC_SERVER_USE_TLS", "grpc");
    let files = [
        ("tls-cert", "GRPC_SERVER_TLS_CERT"),
        ("tls-key", "GRPC_SERVER_TLS_KEY"),
        ("grpc-client-ca", "GRPC_CLIENT_TLS_CACERT"),
    ];
    for (setting, name) in files {
        if let Some(path) = env.get(name).filter(|path| !path.is_empty()) {
            give(setting, name, path);
        }
    }
}

/// Where the peer would send traces, as far as we speak its protocol.
fn traces(env: &Env, layer: &mut Layer, notes: &mut Vec<String>) {
    if !is_on(env, "TRACING_ENABLED") {
        return;
    }
    if env.get("TRACING_EXPORTER_PROTOCOL").is_none_or(|protocol| protocol != "grpc") {
        notes.push("TRACING_ENABLED: no effect: traces are sent by OTLP over gRPC; set --otlp".to_owned());
        return;
    }
    let name = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let (url, origin) = match env.get(name).filter(|url| !url.is_empty()) {
        Some(url) => (url.as_str(), format!("TRACING_ENABLED, {name}")),
        None => ("http://localhost:4317", "TRACING_ENABLED".to_owned()),
    };
    layer.insert("otlp", vec![Given::new(url, Origin::Env(origin))]);
    let ratio = env.get("TRACING_SAMPLING_RATE").map_or("1", String::as_str);
    layer.insert("trace-ratio", vec![Given::new(ratio, Origin::Env("TRACING_SAMPLING_RATE".to_owned()))]);
}

/// The peer listens on every interface where it is told only a port. Some shells export `HOST` as the machine's name,
/// so that one counts only where it is a number or comes with a port.
fn address(env: &Env, host: &str, port: &str, default_port: &str) -> Option<Given> {
    let said_host = env.get(host).filter(|value| !value.is_empty());
    let said_port = env.get(port).filter(|value| !value.is_empty());
    let said_host = said_host.filter(|text| said_port.is_some() || text.parse::<std::net::IpAddr>().is_ok());
    let (text, name) = match (said_host, said_port) {
        (None, None) => return None,
        (Some(host_text), None) => (join(host_text, default_port), host.to_owned()),
        (None, Some(port_text)) => (join("0.0.0.0", port_text), port.to_owned()),
        (Some(host_text), Some(port_text)) => (join(host_text, port_text), format!("{host}, {port}")),
    };
    Some(Given::new(text, Origin::Env(name)))
}

fn join(host: &str, port: &str) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// `RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY`, with the peer's defaults for those that are not set.
fn rules(env: &Env) -> Option<Given> {
    let names = ["RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY"];
    let given: Vec<&str> = names.into_iter().filter(|name| env.contains_key(*name)).collect();
    if given.is_empty() {
        return None;
    }
    let part = |name: &str, default: &'static str| env.get(name).map_or(default, String::as_str).to_owned();
    let parts = [part(names[0], "/srv/runtime_data/current"), part(names[1], ""), part(names[2], "config")];
    let path: std::path::PathBuf = parts
        .iter()
        .enumerate()
        .map(|(i, part)| if i == 0 { part } else { part.trim_start_matches('/') })
        .collect();
    Some(Given::new(path.to_string_lossy(), Origin::Env(given.join(", "))))
}

/// What becomes of a name that means nothing here.
enum Remark {
    /// The operator relies on something that this release does not do.
    Note(&'static str),
    /// Going on would be less safe than what was asked for.
    Refuse(&'static str),
}

/// Names that matter only with certain values.
fn remark(env: &Env, faults: &mut Vec<Fault>, notes: &mut Vec<String>) {
    let on = |name: &str| is_on(env, name);
    let said = |name: &str| env.get(name).is_some_and(|text| !text.is_empty());
    let mut remarks: Vec<(&str, Remark)> = Vec::new();
    if env.get("CONFIG_TYPE").is_some_and(|text| !text.is_empty() && text != "FILE") {
        remarks.push(("CONFIG_TYPE", Remark::Refuse("this release reads rules from files only; write FILE")));
    }
    if on("GRPC_SERVER_USE_TLS") && said("GRPC_CLIENT_TLS_SAN") {
        let why = "this release checks who signed a client's certificate, not its names; unset it";
        remarks.push(("GRPC_CLIENT_TLS_SAN", Remark::Refuse(why)));
    }
    if said("GRPC_UDS") {
        remarks.push((
            "GRPC_UDS",
            Remark::Refuse("this release listens on TCP only; set GRPC_HOST and GRPC_PORT"),
        ));
    }
    if on("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT") {
        remarks.push((
            "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
            Remark::Note(
                "no effect: write `charge: together` in a domain to charge nobody when one limit denies",
            ),
        ));
    }
    for name in ["USE_STATSD", "USE_DOG_STATSD"] {
        if on(name) {
            remarks.push((name, Remark::Note("no effect: metrics are at /metrics on the HTTP port")));
        }
    }
    for (name, remark) in remarks {
        match remark {
            Remark::Note(why) => notes.push(format!("{name}: {why}")),
            Remark::Refuse(why) => {
                faults.push(Fault { place: format!("environment: {name}"), what: why.to_owned() });
            }
        }
    }
}
