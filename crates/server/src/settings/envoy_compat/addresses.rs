//! Where envoyproxy/ratelimit listens: on every address, unless its environment says otherwise.

use super::env::Env;
use crate::settings::fault::Fault;
use crate::settings::layer::{Given, Layer};
use crate::settings::row::Setting;
use crate::settings::{kubernetes, parse};
use crate::surfaces::{debug_pages, grpc, http, metrics};

/// The names that make one address.
#[derive(Clone, Copy, Debug)]
struct Address {
    setting: &'static Setting,
    host: &'static str,
    port: &'static str,
    default_port: &'static str,
}

const ADDRESSES: [Address; 3] = [
    Address { setting: &grpc::LISTEN.setting, host: "GRPC_HOST", port: "GRPC_PORT", default_port: "8081" },
    Address { setting: &http::LISTEN.setting, host: "HOST", port: "PORT", default_port: "8080" },
    Address {
        setting: &debug_pages::LISTEN.setting,
        host: "DEBUG_HOST",
        port: "DEBUG_PORT",
        default_port: "6070",
    },
];

/// A socket counts before a host and a port, as there.
const SOCKET: &str = "GRPC_UDS";

/// The addresses that `env` names.
pub(super) fn read(env: &Env, layer: &mut Layer, faults: &mut Vec<Fault>, notes: &mut Vec<String>) {
    for address in ADDRESSES {
        if let Some(given) = address.read(env, faults) {
            layer.set(address.setting, [given]);
        }
    }
    if let Some(path) = env.given(SOCKET) {
        let unused: Vec<&str> =
            ["GRPC_HOST", "GRPC_PORT"].into_iter().filter(|name| env.given(name).is_some()).collect();
        if !unused.is_empty() {
            notes.push(format!("{}: no effect: {SOCKET} counts before them", unused.join(", ")));
        }
        layer.set(&grpc::LISTEN.setting, [Given::env(format!("unix:{path}"), SOCKET)]);
    }
    prometheus(env, layer, faults, notes);
}

/// Where it listens without a word in its environment.
pub(super) fn defaults() -> impl Iterator<Item = (&'static Setting, String)> {
    ADDRESSES.into_iter().map(|address| (address.setting, join("0.0.0.0", address.default_port)))
}

impl Address {
    fn read(self, env: &Env, faults: &mut Vec<Fault>) -> Option<Given> {
        // Kubernetes sets GRPC_PORT to an address if there is a Service called `grpc`.
        let port = env.given(self.port).filter(|port| !kubernetes::is_address(port));
        let host = env.given(self.host);
        if let Some(host) = host {
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            if let Err(what) = parse::host(bare) {
                faults.push(Fault::env(self.host, what));
            }
        }
        if let Some(port) = port
            && port.parse::<u16>().is_err()
        {
            let what = format!("invalid port {port:?}: expected a number from 0 to 65535");
            faults.push(Fault::env(self.port, what));
        }
        let (text, names) = match (host, port) {
            (None, None) => return None,
            (Some(host), None) => (join(host, self.default_port), self.host.to_owned()),
            (None, Some(port)) => (join("0.0.0.0", port), self.port.to_owned()),
            (Some(host), Some(port)) => (join(host, port), format!("{}, {}", self.host, self.port)),
        };
        // A value that is at fault is reported once.
        parse::listen(&text).is_ok().then(|| Given::env(text, names))
    }
}

fn join(host: &str, port: &str) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Its exporter has a port of its own, if it is on.
fn prometheus(env: &Env, layer: &mut Layer, faults: &mut Vec<Fault>, notes: &mut Vec<String>) {
    let switch = "USE_PROMETHEUS";
    let address = "PROMETHEUS_ADDR";
    let path = "PROMETHEUS_PATH";
    if !env.is_on(switch, faults) {
        let unused: Vec<&str> =
            [address, path].into_iter().filter(|name| env.given(name).is_some()).collect();
        if !unused.is_empty() {
            notes.push(format!("{}: no effect without {switch}=true", unused.join(", ")));
        }
        return;
    }
    let names = match env.given(address) {
        Some(_) => format!("{switch}, {address}"),
        None => switch.to_owned(),
    };
    // Without a host it means every address.
    let text = env.given(address).unwrap_or(":9090");
    let text = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    layer.set(&metrics::LISTEN.setting, [Given::env(text, names)]);
    if let Some(text) = env.given(path) {
        layer.set(&metrics::PATH.setting, [Given::env(text, path)]);
    }
}
