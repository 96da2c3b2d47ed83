//! The environment of envoyproxy/ratelimit, so that its container can be replaced in place.
//!
//! Names that are one setting here are in that setting's row. This folder has those that are combined from
//! several, where it listens by default, and those without an effect here, with the reason for the operator.

mod addresses;
mod env;
mod mode;
mod store;
mod unused;

use std::collections::BTreeSet;

use super::control::NodeControl;
use super::fault::Fault;
use super::layer::{Given, Layer, Origin};
use super::layers::Layers;
use super::row::{Setting, SettingKind};
use super::{rules, telemetry, tls};
use crate::surfaces::grpc;
pub(super) use env::Env;
use mode::Mode;
pub(super) use mode::ROWS;

/// Names with an effect only together with others, or only with certain values.
const CONDITIONAL: [&str; 12] = [
    "BACKEND_TYPE",
    "REDIS_AUTH",
    "REDIS_SENTINEL_AUTH",
    "PROMETHEUS_PATH",
    "GRPC_SERVER_USE_TLS",
    "GRPC_SERVER_TLS_CERT",
    "GRPC_SERVER_TLS_KEY",
    "GRPC_CLIENT_TLS_CACERT",
    "GRPC_CLIENT_TLS_SAN",
    "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
    "RUNTIME_IGNOREDOTFILES",
    "TRACING_SAMPLING_RATE",
];

/// Adds the layers of `env` for the settings of `table`, if its names count: its values after the first
/// `stronger` layers, and the defaults of envoyproxy/ratelimit before our own. If its names do not count, a
/// note lists those that would have had an effect: that none of the stronger layers overrides.
pub(super) fn add(env: &Env, table: &[&'static Setting], stronger: usize, layers: &mut Layers) {
    let mode = layers.one(&mode::MODE);
    let proofs = mode::proofs(env);
    match mode {
        Mode::Off => {}
        Mode::Auto if proofs.is_empty() => note_ignored(env, table, stronger, layers),
        Mode::Auto | Mode::Ratelimit => {
            let values = read(env, table, &mut layers.faults, &mut layers.notes);
            reject_what_is_not_text(env, table, &mut layers.faults);
            layers.compat_names = in_effect(&values, stronger, layers);
            layers.compat = Some(match mode {
                Mode::Auto => proofs.join(", "),
                _ => "--compat ratelimit".to_owned(),
            });
            let defaults = defaults(env, table, stronger, layers);
            let weakest = layers.layers.len() - 1;
            layers.layers.insert(weakest, defaults);
            layers.layers.insert(stronger, values);
        }
    }
}

fn note_ignored(env: &Env, table: &[&'static Setting], stronger: usize, layers: &mut Layers) {
    let is_given =
        |setting: &Setting| layers.layers.iter().take(stronger).any(|layer| layer.get(setting).is_some());
    let settings: Vec<_> = table.iter().copied().filter(|setting| !is_given(setting)).collect();
    let ignored = effective(env, table, &settings);
    if !ignored.is_empty() {
        let names = ignored.into_iter().collect::<Vec<_>>().join(", ");
        layers.note(format!(
            "{names}: ignored, since other programs use such names too; --compat ratelimit reads the names of \
             envoyproxy/ratelimit, --compat off ignores them without this line"
        ));
    }
}

/// The names of `env` that would have an effect on `settings`, or be at fault.
fn effective(env: &Env, table: &[&'static Setting], settings: &[&'static Setting]) -> BTreeSet<String> {
    let mut faults = Vec::new();
    let layer = read(env, table, &mut faults, &mut Vec::new());
    let given = settings.iter().filter_map(|setting| layer.get(setting)).flatten();
    let faulty = faults.iter().filter_map(|fault| fault.place.strip_prefix("environment: "));
    given.flat_map(names).chain(faulty.flat_map(|names| names.split(", "))).map(str::to_owned).collect()
}

/// The names that make a value of the environment.
fn names(given: &Given) -> impl Iterator<Item = &str> {
    let names = match &given.origin {
        Origin::Env(names) => names.as_str(),
        Origin::Flag(_) | Origin::File(_) | Origin::Default => "",
    };
    names.split(", ").filter(|name| !name.is_empty())
}

/// The names whose values count, sorted. Names that a stronger layer overrides are noted, with the overriding
/// place.
fn in_effect(values: &Layer, stronger: usize, layers: &mut Layers) -> Vec<String> {
    let mut count = BTreeSet::new();
    let mut overridden = Vec::new();
    for (setting, given) in values.by_setting() {
        let names = given.iter().flat_map(names).map(str::to_owned);
        match layers.layers.iter().take(stronger).find_map(|layer| layer.get_named(setting)?.first()) {
            None => count.extend(names),
            Some(by) => {
                let by = match &by.origin {
                    Origin::Flag(name) => format!("--{name}"),
                    other => other.to_string().replace("environment: ", ""),
                };
                overridden.push((names.collect::<Vec<_>>(), by));
            }
        }
    }
    for (names, by) in overridden {
        // A name that is in force elsewhere, such as a switch of several settings, is not without an effect.
        let without: Vec<String> = names.into_iter().filter(|name| !count.contains(name)).collect();
        if !without.is_empty() {
            layers.note(format!("{}: no effect: {by} overrides it", without.join(", ")));
        }
    }
    count.into_iter().collect()
}

/// Values that are not UTF-8 cannot be read, and are not left out in silence.
fn reject_what_is_not_text(env: &Env, table: &[&'static Setting], faults: &mut Vec<Fault>) {
    let of_rows = table.iter().flat_map(|setting| setting.envoy_compat.iter().copied());
    let names: BTreeSet<&str> = of_rows.chain(mode::PROOFS).chain(["CONFIG_TYPE"]).collect();
    for name in names.into_iter().filter(|name| env.not_text.contains(*name)) {
        faults.push(Fault::env(name, "is not UTF-8 text"));
    }
}

/// Defaults of envoyproxy/ratelimit, for names that its environment does not set.
fn defaults(env: &Env, table: &[&'static Setting], stronger: usize, layers: &Layers) -> Layer {
    let mut defaults = Layer::default();
    let has_control = NodeControl::is_given(layers);
    let rules = (&rules::PATHS.setting, rule_path(&Env::default()).to_string_lossy().into_owned());
    let rules = Some(rules).filter(|_| !has_control);
    let dot_files = (&rules::DOT_FILES.setting, "true".to_owned());
    let dot_files = Some(dot_files).filter(|_| reads_dot_files(env, table, stronger, layers));
    for (setting, text) in addresses::defaults().chain(rules).chain(dot_files) {
        if table.iter().any(|it| it.name == setting.name) {
            defaults.set(setting, [Given::new(text, Origin::Default)]);
        }
    }
    defaults
}

/// It reads files with a dot where it looks for its rules, unless its environment says otherwise.
fn reads_dot_files(env: &Env, table: &[&'static Setting], stronger: usize, layers: &Layers) -> bool {
    let paths = &rules::PATHS.setting;
    let is_given = |layers: &[Layer]| layers.iter().any(|layer| layer.get(paths).is_some());
    let weakest = layers.layers.len() - 1;
    let is_there = match RULE_PATH.iter().any(|name| env.get(name).is_some()) {
        true => !is_given(&layers.layers[..stronger]),
        // A command that is given its rules has no row for them.
        false => table.iter().any(|it| it.name == paths.name) && !is_given(&layers.layers[..weakest]),
    };
    is_there && env.given(DOT_FILES).is_none()
}

/// The layer of `env`, for the settings of `table`.
fn read(env: &Env, table: &[&'static Setting], faults: &mut Vec<Fault>, notes: &mut Vec<String>) -> Layer {
    let mut layer = Layer::default();
    for setting in table.iter().filter(|setting| setting.kind != SettingKind::Many) {
        if let [name] = setting.envoy_compat
            && !CONDITIONAL.contains(name)
            && let Some(value) = env.given(name)
        {
            layer.set(setting, [Given::env(value, *name)]);
        }
    }
    addresses::read(env, &mut layer, faults, notes);
    let name = "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT";
    if env.is_on(name, faults) {
        layer.set(&rules::CHARGE.setting, [Given::env("spare_others", name)]);
    }
    let given: Vec<&str> = RULE_PATH.into_iter().filter(|name| env.get(name).is_some()).collect();
    if !given.is_empty() {
        let path = rule_path(env);
        layer.set(&rules::PATHS.setting, [Given::env(path.to_string_lossy(), given.join(", "))]);
    }
    // There it says the opposite.
    if env.given(DOT_FILES).is_some() && !env.is_on(DOT_FILES, faults) {
        layer.set(&rules::DOT_FILES.setting, [Given::env("true", DOT_FILES)]);
    }
    read_tls(env, &mut layer, faults, notes);
    store::read(env, &mut layer, faults, notes);
    read_traces(env, &mut layer, faults, notes);
    unused::note(env, faults, notes);
    // Starting anyway would be less safe than the requested configuration.
    if env.given("CONFIG_TYPE").is_some_and(|text| text != "FILE") {
        faults.push(Fault::env("CONFIG_TYPE", "rules are read from files only; set FILE"));
    }
    layer
}

/// There the switch is for gRPC only; its HTTP port has no TLS. Without the switch, the files have no effect.
fn read_tls(env: &Env, layer: &mut Layer, faults: &mut Vec<Fault>, notes: &mut Vec<String>) {
    let files = [
        ("GRPC_SERVER_TLS_CERT", &tls::CERT.setting),
        ("GRPC_SERVER_TLS_KEY", &tls::KEY.setting),
        ("GRPC_CLIENT_TLS_CACERT", &grpc::CLIENT_CA.setting),
        ("GRPC_CLIENT_TLS_SAN", &grpc::CLIENT_NAME.setting),
    ];
    let given = files.into_iter().filter_map(|(name, setting)| Some((name, setting, env.given(name)?)));
    if !env.is_on("GRPC_SERVER_USE_TLS", faults) {
        let unused: Vec<&str> = given.map(|(name, ..)| name).collect();
        if !unused.is_empty() {
            notes.push(format!("{}: no effect without GRPC_SERVER_USE_TLS=true", unused.join(", ")));
        }
        return;
    }
    layer.set(&tls::SURFACES.setting, [Given::env("grpc", "GRPC_SERVER_USE_TLS")]);
    for (name, setting, text) in given {
        layer.set(setting, [Given::env(text, name)]);
    }
}

/// Where traces would be sent, if the protocol is one that Tollgate has.
fn read_traces(env: &Env, layer: &mut Layer, faults: &mut Vec<Fault>, notes: &mut Vec<String>) {
    let switch = "TRACING_ENABLED";
    let protocol = "TRACING_EXPORTER_PROTOCOL";
    let rate = "TRACING_SAMPLING_RATE";
    let given = |names: &[&'static str]| {
        let given = names.iter().copied().filter(|name| env.given(name).is_some());
        given.collect::<Vec<_>>().join(", ")
    };
    if !env.is_on(switch, faults) {
        let unused = given(&[protocol, rate]);
        if !unused.is_empty() {
            notes.push(format!("{unused}: no effect without {switch}=true"));
        }
        return;
    }
    match env.given(protocol).unwrap_or("http") {
        "grpc" => {}
        "http" => {
            let names = given(&[switch, protocol, rate]);
            notes.push(format!("{names}: no effect: traces are sent by OTLP over gRPC; set --otlp"));
            return;
        }
        other => {
            let what = format!("unknown protocol {other:?}: expected grpc");
            return faults.push(Fault::env(protocol, what));
        }
    }
    let name = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let url = env.given(name).unwrap_or("http://localhost:4317");
    let names = given(&[switch, protocol, name]);
    layer.set(&telemetry::OTLP.setting, [Given::env(url, names)]);
    let (ratio, names) = match env.given(rate) {
        Some(ratio) => (ratio, rate),
        None => ("1", switch),
    };
    layer.set(&telemetry::TRACE_RATIO.setting, [Given::env(ratio, names)]);
}

/// Whether files whose names begin with a dot are left out.
const DOT_FILES: &str = "RUNTIME_IGNOREDOTFILES";

/// The names that make the folder of the rules.
const RULE_PATH: [&str; 3] = ["RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY"];

/// `RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY`, with the defaults of envoyproxy/ratelimit for
/// those that are not set.
fn rule_path(env: &Env) -> std::path::PathBuf {
    let defaults = ["/srv/runtime_data/current", "", "config"];
    let parts = RULE_PATH.into_iter().zip(defaults).map(|(name, default)| env.get(name).unwrap_or(default));
    parts.enumerate().map(|(i, part)| if i == 0 { part } else { part.trim_start_matches('/') }).collect()
}
