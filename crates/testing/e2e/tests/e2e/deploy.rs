//! `deploy/`: the files fit together, and the programs that they start work, without a container engine: each
//! program is started here with the arguments that `compose.yaml` gives it, on other ports.
//!
//! Not here: the images, which nothing here can pull.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tollgate_harness::processes::{self, Process};
use tollgate_testkit::redis::{Options, Redis, free_port};
use tollgate_testkit::yaml::{self, strings};

use crate::envoy::Running;
use crate::tollgate::{self, Start, Tollgate};
use crate::{calendar, http, skip};

/// Keys that a service may have, from
/// <https://github.com/compose-spec/compose-spec/blob/main/05-services.md>.
const KEYS: &[&str] = &[
    "image",
    "build",
    "command",
    "volumes",
    "secrets",
    "ports",
    "depends_on",
    "healthcheck",
    "restart",
    "stop_grace_period",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).expect(name)
}

/// The services of the composition by their names.
fn services() -> Vec<(String, Value)> {
    services_of("compose.yaml")
}

fn services_of(file: &str) -> Vec<(String, Value)> {
    let compose = yaml::read(&folder().join(file));
    compose["services"].as_object().expect("a map").clone().into_iter().collect()
}

/// The arguments of a service, with the names and paths of its container written as they are here.
fn args(service: &Value, store: SocketAddr) -> Vec<String> {
    let mut here: Vec<(String, String)> = mounts(service);
    here.push(("valkey:6379".to_owned(), store.to_string()));
    here.push(("=10ms".to_owned(), "=5s".to_owned())); // a busy machine may be slow, and this is about counts
    let arg = |arg: &str| here.iter().fold(arg.to_owned(), |arg, (there, here)| arg.replace(there, here));
    strings(&service["command"]).into_iter().map(arg).collect()
}

/// Parts of this folder that a service sees: the path in its container and the path here.
fn mounts(service: &Value) -> Vec<(String, String)> {
    let here = |path: &str| folder().join(path).canonicalize().expect(path).display().to_string();
    let mount = |text: &str| {
        let mut parts = text.split(':');
        let from = parts.next()?;
        let to = parts.next()?;
        from.starts_with("./").then(|| (to.to_owned(), here(from)))
    };
    let mut mounts: Vec<_> = strings(&service["volumes"]).into_iter().filter_map(mount).collect();
    for secret in strings(&service["secrets"]) {
        let file = yaml::read(&folder().join("compose.yaml"))["secrets"][secret]["file"].clone();
        mounts.push((format!("/run/secrets/{secret}"), here(file.as_str().expect("a file"))));
    }
    mounts
}

/// Ports that a service listens on, as its arguments or its files say.
fn listens(name: &str, service: &Value) -> Vec<u16> {
    let port = |text: &str| text.rsplit(':').next()?.parse().ok();
    match name {
        "valkey" => vec![6379],
        "prometheus" => vec![9090],
        "envoy" => {
            let config = yaml::read(&folder().join("envoy.yaml"));
            let mut ports = Vec::new();
            addresses(&config["admin"], &mut ports);
            config["static_resources"]["listeners"].as_array().expect("a list").iter().for_each(|listener| {
                addresses(&listener["address"], &mut ports);
            });
            ports.into_iter().map(|(_, port)| port).collect()
        }
        _ => {
            let address = |arg: &&str| arg.starts_with("--grpc=") || arg.starts_with("--http=");
            strings(&service["command"]).into_iter().filter(address).filter_map(port).collect()
        }
    }
}

/// Every `socket_address` in a part of Envoy's configuration.
fn addresses(value: &Value, found: &mut Vec<(String, u16)>) {
    if let (Some(host), Some(port)) = (value["address"].as_str(), value["port_value"].as_str()) {
        found.push((host.to_owned(), port.parse().expect("a port")));
    }
    let children: Vec<&Value> = match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    };
    children.into_iter().for_each(|child| addresses(child, found));
}

#[test]
fn the_composed_files_ports_and_names_refer_to_what_is_there() {
    let services = services();
    let names: Vec<_> = services.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["envoy", "prometheus", "tollgate-1", "tollgate-2", "valkey"]);
    let listening = |host: &str, port: u16| {
        services.iter().any(|(name, service)| name == host && listens(name, service).contains(&port))
    };
    let mut published = Vec::new();
    for (name, service) in &services {
        let keys: Vec<_> = service.as_object().expect("keys").keys().map(String::as_str).collect();
        let unknown: Vec<_> = keys.iter().filter(|key| !KEYS.contains(key)).collect();
        assert!(unknown.is_empty(), "{name}: no keys of a service: {unknown:?}");
        assert_eq!(service["restart"], "unless-stopped", "{name}");
        // Programs that the tests of the commands themselves do not start.
        for (program, flag) in [("envoy", "--config-path"), ("prometheus", "--config.file")] {
            let args = strings(&service["command"]).into_iter().filter(|arg| arg.starts_with('-'));
            let others: Vec<_> =
                args.filter(|arg| name == program && arg.split('=').next() != Some(flag)).collect();
            assert!(others.is_empty(), "{name}: {others:?}");
        }
        let mounts = mounts(service); // each source is there, or this panics
        for arg in strings(&service["command"]) {
            let path = arg.split('=').next_back().filter(|it| it.starts_with('/'));
            let known = |path: &str| mounts.iter().any(|(there, _)| there == path);
            assert!(path.is_none_or(known), "{name}: nothing is mounted at {arg}");
        }
        for port in strings(&service["ports"]) {
            let parts: Vec<_> = port.split(':').collect();
            let [host, outer, inner] = parts[..] else { panic!("{name}: {port}") };
            assert_eq!(host, "127.0.0.1", "{name}: open to others");
            assert!(listening(name, inner.parse().expect("a port")), "{name}: nothing listens on {inner}");
            published.push(outer.to_owned());
        }
        let waits = strings(&service["depends_on"]);
        assert!(waits.iter().all(|it| names.contains(it)), "{name} waits for {waits:?}");
        let build = &service["build"]["dockerfile"];
        assert!(build.as_str().is_none_or(|file| folder().join("..").join(file).exists()), "{build}");
        if name.starts_with("tollgate") {
            assert!(
                args(service, ([127, 0, 0, 1], 1).into()).iter().any(|it| it.contains("@127.0.0.1:1")),
                "{name}"
            );
        }
    }
    let all = published.len();
    published.sort();
    published.dedup();
    assert_eq!(published.len(), all, "a port is published twice: {published:?}");

    let cargo = std::fs::read_to_string(folder().join("../Cargo.toml")).expect("the workspace");
    let version = cargo.lines().find_map(|line| line.strip_prefix("rust-version = ")).expect("a version");
    let image = format!("FROM rust:{}-", version.trim_matches('"'));
    assert!(read("Dockerfile").contains(&image), "the image has another Rust than {image}");

    let envoy = yaml::read(&folder().join("envoy.yaml"));
    let mut asked = Vec::new();
    addresses(&envoy["static_resources"]["clusters"], &mut asked);
    let own = |port: u16| listening("envoy", port);
    assert!(asked.iter().all(|(host, port)| if host == "127.0.0.1" {
        own(*port)
    } else {
        listening(host, *port)
    }));
    for node in ["tollgate-1", "tollgate-2"] {
        assert!(asked.iter().any(|(host, _)| host == node), "{node} is never asked");
    }

    let prometheus = yaml::read(&folder().join("prometheus.yml"));
    for job in prometheus["scrape_configs"].as_array().expect("jobs") {
        for target in strings(&job["static_configs"][0]["targets"]) {
            let (host, port) = target.split_once(':').expect("a port");
            assert!(listening(host, port.parse().expect("a port")), "{target}");
        }
    }
    for file in strings(&prometheus["rule_files"]) {
        let groups = &yaml::read(&folder().join(file))["groups"];
        assert!(groups[0]["rules"].as_array().is_some_and(|rules| !rules.is_empty()), "{file}");
    }
}

#[test]
fn envoy_and_tollgate_accept_their_composed_files() {
    let rules = folder().join("rules").display().to_string();
    let (status, out, err) = tollgate::run(&["check", &rules]);
    assert!(status.success(), "{out}{err}");

    match std::env::var("ENVOY_BIN") {
        Ok(binary) if !binary.is_empty() => {
            let config = folder().join("envoy.yaml");
            let ended = Command::new(binary)
                .args(["--mode", "validate", "--config-path"])
                .arg(config)
                .output()
                .expect("envoy");
            assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        }
        _ => skip::skip("deploy/envoy.yaml", "ENVOY_BIN names no binary"),
    }
}

/// The store as it is composed: with its users and its memory.
fn store() -> Option<Redis> {
    let services = services();
    let (_, service) = services.iter().find(|(name, _)| name == "valkey").expect("a store");
    let words = strings(&service["command"]);
    let mut options = Options::new();
    for pair in words[1..].chunks(2) {
        let [name, value] = pair else { panic!("{pair:?}") };
        options = match name.strip_prefix("--").expect("a flag") {
            "aclfile" => read("users.acl")
                .lines()
                .fold(options, |it, line| it.user(line.strip_prefix("user ").expect("a user"))),
            name => options.set(name, value),
        };
    }
    Redis::start(&options)
}

/// Starts a Tollgate as it is composed, on other ports.
fn start(name: &str, store: SocketAddr) -> Tollgate {
    start_with(name, store, &[])
}

/// The same with more flags.
fn start_with(name: &str, store: SocketAddr, more: &[&str]) -> Tollgate {
    let services = services();
    let (_, service) = services.iter().find(|(it, _)| it == name).expect(name);
    let port = |arg: &String| !["--grpc=", "--http=", "--resp="].iter().any(|it| arg.starts_with(it));
    Start::command(args(service, store).into_iter().filter(port)).args(more.iter().copied()).go()
}

/// Envoy as it is composed, before these nodes, on other ports; and its public listener.
async fn start_envoy(binary: &str, nodes: &[Tollgate; 2]) -> (Running, SocketAddr) {
    let mut config = read("envoy.yaml")
        .replace("port_value: 9901", "port_value: 0")
        .replace("port_value: 10000", "port_value: 0")
        .replace("port_value: 10001", &format!("port_value: {}", free_port()))
        .replace(" timeout: 0.05s", " timeout: 5s");
    for (name, node) in ["tollgate-1", "tollgate-2"].iter().zip(nodes) {
        let at = format!("address: 127.0.0.1, port_value: {}", node.grpc.port());
        config = config.replace(&format!("address: {name}, port_value: 8081"), &at);
    }
    let (envoy, [public]) = Running::start(binary, &config, ["public"]).await;
    (envoy, public)
}

/// A figure of Envoy's cluster of nodes.
async fn of_cluster(envoy: &Running, name: &str) -> Option<u64> {
    let answer = http::get(envoy.admin, "/stats?filter=^cluster.tollgate.", &[]).await.ok()?;
    let line = |line: &str| {
        line.strip_prefix("cluster.tollgate.")?.strip_prefix(name)?.strip_prefix(": ")?.parse().ok()
    };
    answer.body.lines().find_map(line)
}

/// The named volumes of a service as folders in `root`: the path in its container and the path here.
fn volumes(service: &Value, root: &Path) -> Vec<(String, String)> {
    let volume = |text: &str| {
        let (name, at) = text.split_once(':').expect("a volume and its path");
        let at = at.strip_suffix(":ro").unwrap_or(at);
        let here = root.join(name);
        std::fs::create_dir_all(&here).expect("a folder");
        (at.to_owned(), here.display().to_string())
    };
    let named = strings(&service["volumes"]).into_iter().filter(|text| !text.starts_with('.'));
    named.map(volume).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_composed_control_plane_is_joined_by_the_composed_nodes() {
    let Some(store) = store() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let services = services_of("compose.control.yaml");
    let service =
        |name: &str| &services.iter().find(|(it, _)| it == name).unwrap_or_else(|| panic!("no {name}")).1;
    let known: Vec<_> = services_of("compose.yaml").into_iter().map(|(name, _)| name).collect();
    for (name, service) in &services {
        let is_added = ["prepare", "control"].contains(&name.as_str());
        assert!(is_added != known.contains(name), "{name} adds to a service that there is");
        let keys = service.as_object().expect("keys").keys();
        let unknown: Vec<_> = keys
            .filter(|key| !KEYS.contains(&key.as_str()) && *key != "entrypoint" && *key != "environment")
            .collect();
        assert!(unknown.is_empty(), "{name}: no keys of a service: {unknown:?}");
        for port in strings(&service["ports"]) {
            assert!(port.starts_with("127.0.0.1:"), "{name}: open to others");
        }
    }
    let translated = |text: &str, here: &[(String, String)]| {
        here.iter().fold(text.to_owned(), |text, (there, here)| text.replace(there.as_str(), here))
    };
    // The volumes are prepared as in the composition, except that the image's user does not exist here.
    let prepare = service("prepare");
    assert_eq!(strings(&prepare["entrypoint"]), ["sh", "-c"]);
    let script = translated(strings(&prepare["command"])[0], &volumes(prepare, folder.path()));
    let prepared =
        Command::new("sh").args(["-c", &script.replace("chown -R 65532:65532", "ls")]).output().expect("sh");
    if !prepared.status.success() && String::from_utf8_lossy(&prepared.stderr).contains("not found") {
        return skip::skip("the composed control plane", "there is no openssl on this machine");
    }
    assert!(prepared.status.success(), "{}", String::from_utf8_lossy(&prepared.stderr));

    let port = free_port();
    let mut here = volumes(service("control"), folder.path());
    here.push(("0.0.0.0:8070".to_owned(), format!("127.0.0.1:{port}")));
    let args: Vec<String> =
        strings(&service("control")["command"]).into_iter().map(|arg| translated(arg, &here)).collect();
    let mut command = processes::tollgate();
    command.args(args);
    let mut control = Process::start(command);
    for name in ["tollgate-1", "tollgate-2"] {
        let mut here = volumes(service(name), folder.path());
        here.push(("control:8070".to_owned(), format!("localhost:{port}")));
        let services = self::services();
        let (_, base) = services.iter().find(|(it, _)| it == name).expect(name);
        let port = |arg: &String| !["--grpc=", "--http=", "--resp="].iter().any(|it| arg.starts_with(it));
        let mut start = Start::command(self::args(base, store.address()).into_iter().filter(port));
        for (variable, value) in service(name)["environment"].as_object().expect("variables") {
            start = start.env(variable, &translated(value.as_str().expect("text"), &here));
        }
        let node = start.go();
        let mut ready = String::new();
        while !ready.contains(r#""connected":true"#) {
            assert!(control.child.try_wait().expect("it was started").is_none(), "the control plane ended");
            ready = http::get(node.http, "/readyz", &[]).await.expect("an answer").body;
            assert!(!ready.contains("certificate"), "{ready}");
        }
    }
}

/// Does something that takes far less than 20 s within one window of `seconds`, the next one if this ends
/// sooner.
async fn within_a_window<T>(seconds: u64, does: impl AsyncFnOnce() -> T) -> T {
    if calendar::until_end(seconds) <= 20 {
        calendar::next_window(seconds).await;
    }
    let window = calendar::window(seconds);
    let done = does().await;
    assert_eq!(calendar::window(seconds), window, "so slow that a window ended meanwhile");
    done
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_composed_admits_the_limit_whichever_node_is_asked() {
    let Some(store) = store() else { return };
    let nodes = ["tollgate-1", "tollgate-2"].map(|name| start(name, store.address()));
    let metrics = http::get(nodes[0].http, "/metrics", &[]).await.expect("an answer").body;
    for name in read("alerts.yml").split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        let known = || metrics.contains(name.trim_end_matches("_total"));
        // Those of the control plane are checked by a test of its own.
        let is_here = name.starts_with("tollgate_") && !name.starts_with("tollgate_control_");
        assert!(!is_here || known(), "an alert is about {name}, which is no metric");
    }
    let admitted = within_a_window(60, async || {
        let mut admitted = 0;
        for turn in 0..24 {
            let body = r#"{"domain":"edge","descriptors":[[{"key":"api_key","value":"bob"}]]}"#;
            let answer = http::post(nodes[turn % 2].http, "/v1/check", body).await.expect("an answer");
            let answer: Value = serde_json::from_str(&answer.body).expect("JSON");
            assert_eq!(answer["degraded"], Value::Null, "{answer}");
            admitted += usize::from(answer["outcome"] == "admit");
        }
        admitted
    });
    assert_eq!(admitted.await, 10, "by both nodes, asked in turn");
    match std::env::var("ENVOY_BIN") {
        Ok(binary) if !binary.is_empty() => {
            let (_envoy, public) = start_envoy(&binary, &nodes).await;
            let ask = async |client: &str| http::get(public, "/", &[("x-api-key", client)]).await;
            let mut heard = 0; // Envoy does not listen, and then lets all pass, until it has found both nodes well
            while heard < 4 {
                let limited = ask("probe").await.is_ok_and(|it| it.header("x-ratelimit-limit").is_some());
                heard = if limited { heard + 1 } else { 0 };
            }
            let outcome = |answer: http::Answer| match answer.status {
                200 => true,
                429 => false,
                _ => panic!("{answer:?}"),
            };
            let admitted = within_a_window(60, async || {
                let mut admitted = 0;
                for _ in 0..24 {
                    admitted += usize::from(outcome(ask("alice").await.expect("envoy answers")));
                }
                admitted
            });
            assert_eq!(admitted.await, 10);
            // A query is no way around the limit of a path.
            let admitted = within_a_window(3_600, async || {
                let mut admitted = 0;
                for x in 0..11 {
                    let answer = http::get(public, &format!("/sign-up?x={x}"), &[]).await;
                    admitted += usize::from(outcome(answer.expect("envoy answers")));
                }
                admitted
            });
            assert_eq!(admitted.await, 5);
        }
        _ => skip::skip("the composed Envoy", "ENVOY_BIN names no binary"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stops_before_the_first_request_is_noticed_while_it_still_answers() {
    let binary = match std::env::var("ENVOY_BIN") {
        Ok(binary) if !binary.is_empty() => binary,
        _ => return skip::skip("a node that stops behind the composed Envoy", "ENVOY_BIN names no binary"),
    };
    let Some(store) = store() else { return };
    // Far longer than two of Envoy's checks, and half of the time between two that it makes by default
    // without traffic.
    let drains = ["--drain-delay=30s"];
    let mut nodes = ["tollgate-1", "tollgate-2"].map(|name| start_with(name, store.address(), &drains));
    let (envoy, public) = start_envoy(&binary, &nodes).await;
    while of_cluster(&envoy, "health_check.success").await.is_none_or(|checks| checks < 2) {}
    assert_eq!(of_cluster(&envoy, "membership_healthy").await, Some(2));

    nodes[1].signal("TERM");
    while of_cluster(&envoy, "membership_healthy").await != Some(1) {
        assert!(nodes[1].runs(), "it is gone, and Envoy still asks it");
    }
    assert!(nodes[1].runs());
    nodes[1].kill();
    for client in 0..12 {
        let client = client.to_string();
        let answer = http::get(public, "/", &[("x-api-key", &client)]).await.expect("envoy answers");
        assert!(answer.header("x-ratelimit-limit").is_some(), "it was decided by the other node: {answer:?}");
    }

    // The alert about undecided requests has the names that Envoy has.
    nodes[0].kill();
    let answer = http::get(public, "/", &[("x-api-key", "bob")]).await.expect("envoy answers");
    assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (200, None));
    let metrics = http::get(envoy.admin, "/stats/prometheus", &[]).await.expect("metrics").body;
    let alerts = read("alerts.yml");
    let asked: Vec<&str> = alerts
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("envoy_") && *word != "envoy_cluster_name")
        .collect();
    assert!(asked.len() >= 2, "{asked:?}");
    for name in asked {
        let series = format!("{name}{{envoy_cluster_name=\"application\"}} ");
        assert!(metrics.contains(&series), "an alert is about {series}, which Envoy does not have");
    }
}
