//! In the place of envoyproxy/ratelimit: environments of real deployments, its name, Redis proxies, the pages
//! of its ports, and the configuration of Istio that docs/istio.md shows, in a real Envoy.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tollgate_testkit::redis::{Options, Redis, free_port};
use tollgate_testkit::yaml;

use crate::envoy::{Running, binary as envoy_binary, upstream};
use crate::http;
use crate::skip;
use crate::start::rules;
use crate::tollgate::{Start, binary};

const RULES: &str = "domain: contour
descriptors:
  - {key: generic_key, value: foo, rate_limit: {unit: hour, requests_per_unit: 1}}
";

/// The rules where `RUNTIME_ROOT=ROOT/data` and `RUNTIME_SUBDIRECTORY=ratelimit` have them.
fn runtime() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("data/ratelimit/config");
    std::fs::create_dir_all(&config).expect("a folder");
    std::fs::write(config.join("config.yaml"), RULES).expect("written");
    folder
}

/// The program by the name that it has in envoyproxy/ratelimit's image.
fn ratelimit(folder: &Path) -> PathBuf {
    let link = folder.join("ratelimit");
    std::os::unix::fs::symlink(std::fs::canonicalize(binary()).expect("it is there"), &link).expect("a link");
    link
}

/// A server in a network of its own, where all ports are free. Ended by its id when dropped.
struct Alone {
    child: Child,
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Exit code and output of a process that did not start.
type Refusal = (Option<i32>, String);

impl Alone {
    /// Starts `program` with nothing but `env`, and waits until it is ready or has ended.
    fn start(program: &Path, args: &[&str], env: &[(&str, &str)]) -> Result<Self, Refusal> {
        let mut child = Command::new("unshare")
            .args(["--net", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""])
            .arg(program)
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("unshare");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut stderr = child.stderr.take().expect("piped");
        // The process would block on a full pipe, so its output is read.
        let log = std::thread::spawn(move || {
            let mut log = String::new();
            stderr.read_to_string(&mut log).ok();
            log
        });
        let mut line = String::new();
        while stdout.read_line(&mut line).expect("text") > 0 {
            if line.trim() == "ready" {
                std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
                return Ok(Self { child });
            }
            line.clear();
        }
        let code = child.wait().expect("it was started").code();
        Err((code, log.join().expect("no panic")))
    }

    /// The addresses that it listens on, as the kernel has them.
    fn listens(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for file in ["tcp", "tcp6"] {
            let table = format!("/proc/{}/net/{file}", self.child.id());
            for line in std::fs::read_to_string(table).expect("it runs").lines().skip(1) {
                let fields: Vec<&str> = line.split_whitespace().collect();
                let (host, port) = fields[1].split_once(':').expect("an address");
                let port = u16::from_str_radix(port, 16).expect("a port");
                let host = match host {
                    "00000000" => "0.0.0.0",
                    "0100007F" => "127.0.0.1",
                    _ if host.bytes().all(|digit| digit == b'0') => "[::]",
                    other => other,
                };
                if fields[3] == "0A" {
                    found.insert(format!("{host}:{port}"));
                }
            }
        }
        found
    }

    /// Response to curl in that network: the status and the body.
    fn curl(&self, args: &[&str]) -> (String, String) {
        let pid = self.child.id().to_string();
        let ran = Command::new("nsenter")
            .args(["--target", &pid, "--net", "curl", "-s", "-w", "\n%{http_code}"])
            .args(args)
            .output()
            .expect("nsenter");
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        let (body, status) = said.rsplit_once('\n').unwrap_or_default();
        (status.to_owned(), body.to_owned())
    }
}

/// Whether this machine lets a test have a network of its own.
fn has_networks() -> bool {
    let ran = Command::new("unshare")
        .args(["--net", "sh", "-c", "ip link set lo up && nsenter --version"])
        .output();
    let works = ran.is_ok_and(|ran| ran.status.success());
    if !works {
        skip::skip("default ports", "unshare, ip and nsenter, as root, make a network where they are free");
    }
    works
}

#[test]
fn environments_of_real_deployments_listen_where_envoyproxy_ratelimit_does() {
    if !has_networks() {
        return;
    }
    let folder = runtime();
    let root = folder.path().join("data").display().to_string();
    let usual = [
        ("USE_STATSD", "false"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("RUNTIME_ROOT", root.as_str()),
        ("RUNTIME_SUBDIRECTORY", "ratelimit"),
        ("RUNTIME_WATCH_ROOT", "false"),
        ("RUNTIME_IGNOREDOTFILES", "true"),
    ];
    let ratelimit = ratelimit(folder.path());
    let peer = ["0.0.0.0:8080", "0.0.0.0:8081", "0.0.0.0:6070", "127.0.0.1:6390"];
    // Deployment, name of the program, additional environment, and addresses that it listens on.
    type Row<'a> = (&'a str, bool, &'a [(&'a str, &'a str)], &'a [&'a str]);
    let rows: [Row<'_>; 7] = [
        ("Contour", true, &[("LOG_LEVEL", "debug"), ("REDIS_URL", "localhost:6379")], &peer),
        ("the same without its command", false, &[("REDIS_URL", "localhost:6379")], &peer),
        (
            "Istio",
            true,
            &[("REDIS_URL", "redis:6379"), ("HOST", "::"), ("GRPC_HOST", "::")],
            &["[::]:8080", "[::]:8081", "0.0.0.0:6070", "127.0.0.1:6390"],
        ),
        (
            "wikimedia",
            true,
            &[
                ("REDIS_SOCKET_TYPE", "unix"),
                ("REDIS_URL", "/var/run/nutcracker/redis.sock"),
                ("USE_STATSD", "true"),
                ("STATSD_PORT", "9125"),
                ("CACHE_KEY_PREFIX", "rest:"),
            ],
            &peer,
        ),
        (
            "Prometheus and other ports",
            true,
            &[
                ("GRPC_PORT", "8090"),
                ("PORT", "8091"),
                ("DEBUG_PORT", "8092"),
                ("USE_PROMETHEUS", "true"),
                ("PROMETHEUS_ADDR", ":19001"),
            ],
            &["0.0.0.0:8090", "0.0.0.0:8091", "0.0.0.0:8092", "0.0.0.0:19001", "127.0.0.1:6390"],
        ),
        (
            "loopback, as asked for",
            false,
            &[("HOST", "127.0.0.1"), ("GRPC_HOST", "127.0.0.1"), ("DEBUG_HOST", "127.0.0.1")],
            &["127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:6070", "127.0.0.1:6390"],
        ),
        (
            "with --compat off",
            false,
            &[("TOLLGATE_COMPAT", "off"), ("TOLLGATE_RULES", root.as_str())],
            &["127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:6390"],
        ),
    ];
    for (who, by_name, more, want) in rows {
        let env: Vec<_> = usual.into_iter().chain(more.iter().copied()).collect();
        let (program, args): (&Path, &[&str]) =
            if by_name { (&ratelimit, &[]) } else { (binary(), &["serve"]) };
        let server = Alone::start(program, args, &env).unwrap_or_else(|ended| panic!("{who}: {ended:?}"));
        let want: BTreeSet<String> = want.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(server.listens(), want, "{who}");
        let http = want.iter().find(|it| it.ends_with(":8080") || it.ends_with(":8091")).expect("an address");
        let http = http.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]");
        if who.contains("off") {
            continue;
        }
        assert_eq!(
            server.curl(&[&format!("http://{http}/healthcheck")]),
            ("200".into(), "OK".into()),
            "{who}"
        );
        let ask = r#"{"domain":"contour","descriptors":[{"entries":[{"key":"generic_key","value":"foo"}]}]}"#;
        // Without a store each rule admits.
        let (status, body) = server.curl(&["-d", ask, &format!("http://{http}/json")]);
        assert_eq!(status, "200", "{who}: {body}");
        let debug =
            want.iter().find(|it| it.ends_with(":6070") || it.ends_with(":8092")).expect("an address");
        let debug = format!("http://{}", debug.replace("0.0.0.0", "127.0.0.1"));
        let (status, dump) = server.curl(&[&format!("{debug}/rlconfig")]);
        assert_eq!(status, "200", "{who}: {dump}");
        let line =
            "contour.generic_key_foo: unit=HOUR requests_per_unit=1, shadow_mode: false, quota_mode: false";
        assert_eq!(dump.trim(), line, "{who}");
        let (_, stats) = server.curl(&[&format!("{debug}/stats")]);
        assert!(
            stats.contains("ratelimit.service.rate_limit.contour.generic_key_foo.total_hits: 1\n"),
            "{stats}"
        );
        let (_, index) = server.curl(&[&format!("{debug}/")]);
        assert!(
            ["/rlconfig: ", "/stats: ", "/healthcheck: "].iter().all(|page| index.contains(page)),
            "{index}"
        );
        for (path, want) in [("/healthcheck", "200"), ("/debug/pprof/", "404"), ("/debug/pprof/heap", "404")]
        {
            assert_eq!(server.curl(&[&format!("{debug}{path}")]).0, want, "{who}: {path}");
        }
        if want.contains("0.0.0.0:19001") {
            let (status, metrics) = server.curl(&["http://127.0.0.1:19001/metrics"]);
            assert_eq!(status, "200", "{who}");
            let series =
                r#"ratelimit_service_rate_limit_total_hits{domain="contour",key1="generic_key_foo"} 1"#;
            assert!(metrics.contains(series), "{metrics}");
            assert_eq!(server.curl(&["http://127.0.0.1:19001/"]).0, "404", "{who}");
        }
    }
}

#[test]
fn the_environment_of_envoy_gateway_ends_the_start_since_its_rules_come_over_xds() {
    let folder = runtime();
    let root = folder.path().join("data").display().to_string();
    let ended = Start::command(["serve"])
        .env("RUNTIME_ROOT", &root)
        .env("RUNTIME_SUBDIRECTORY", "ratelimit")
        .env("CONFIG_TYPE", "GRPC_XDS_SOTW")
        .env("CONFIG_GRPC_XDS_SERVER_URL", "envoy-gateway:18001")
        .env("CONFIG_GRPC_XDS_NODE_ID", "envoy-ratelimit")
        .env("REDIS_SOCKET_TYPE", "tcp")
        .env("REDIS_URL", "redis:6379")
        .env("USE_PROMETHEUS", "true")
        .env("PROMETHEUS_ADDR", ":19001")
        .try_go()
        .err()
        .expect("it does not start");
    assert_eq!(ended.status.code(), Some(2), "{}", ended.printed);
    assert!(
        ended.printed.contains("environment: CONFIG_TYPE: rules are read from files only"),
        "{}",
        ended.printed
    );
    assert!(ended.printed.contains("1 error in the settings"), "{}", ended.printed);
}

/// An application's environment, shared by all containers of its pod.
#[test]
fn the_ports_and_the_redis_of_an_application_in_the_same_pod_are_not_taken() {
    if !has_networks() {
        return;
    }
    let folder = rules(RULES);
    let args = ["serve", "--rules", folder.path().to_str().expect("text")];
    let loopback = ["127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:6390"].map(str::to_owned).into();
    for env in [
        &[("GRPC_PORT", "50051"), ("PORT", "3000"), ("REDIS_URL", "redis://app-cache:6379/1")][..],
        &[
            ("GRPC_PORT", "9090"),
            ("USE_PROMETHEUS", "true"),
            ("BACKEND_TYPE", "redis"),
            ("REDIS_URL", "c:6379"),
        ],
        &[("GRPC_PORT", "tcp://10.0.0.11:8081"), ("GRPC_PORT_8081_TCP", "tcp://10.0.0.11:8081")],
    ] {
        let server = Alone::start(binary(), &args, env).unwrap_or_else(|ended| panic!("{ended:?}"));
        assert_eq!(server.listens(), loopback, "{env:?}");
    }
}

#[test]
fn every_name_set_to_garbage_ends_the_start_with_all_errors_at_once() {
    let names = [
        "HOST",
        "PORT",
        "GRPC_PORT",
        "DEBUG_PORT",
        "GRPC_MAX_CONNECTION_AGE",
        "GRPC_SERVER_USE_TLS",
        "LOG_LEVEL",
        "LOG_FORMAT",
        "CONFIG_TYPE",
        "BACKEND_TYPE",
        "REDIS_TYPE",
        "REDIS_SOCKET_TYPE",
        "REDIS_URL",
        "REDIS_TLS",
        "REDIS_TIMEOUT",
        "SHADOW_MODE",
        "QUOTA_MODE",
        "USE_STATSD",
        "USE_PROMETHEUS",
        "NEAR_LIMIT_RATIO",
        "MERGE_DOMAIN_CONFIG",
        "LIMIT_LIMIT_HEADER",
        "RUNTIME_WATCH_ROOT",
    ];
    let mut command = Command::new(binary());
    command.arg("serve").env_clear().envs(names.iter().map(|name| (name, "gar bage\u{1b}")));
    // Not UTF-8, and no text at all.
    use std::os::unix::ffi::OsStringExt as _;
    command.env("RUNTIME_ROOT", std::ffi::OsString::from_vec(vec![b'/', 0xff, 0xfe]));
    command.env("TRACING_SAMPLING_RATE", "").env("TRACING_ENABLED", "yes please");
    let ran = command.stdin(Stdio::null()).output().expect("it can be started");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(2), "{said}");
    for name in names.into_iter().chain(["RUNTIME_ROOT", "TRACING_ENABLED"]) {
        let is_named = |line: &str| {
            line.strip_prefix("environment: ")
                .and_then(|rest| rest.split_once(": "))
                .is_some_and(|(names, _)| names.split(", ").any(|it| it == name))
        };
        assert!(said.lines().any(is_named), "{name} in {said}");
    }
    assert!(!said.contains("panicked") && !said.contains('\u{1b}'), "{said}");
}

/// nutcracker in front of a Redis, ended by its id when dropped.
struct Nutcracker {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Drop for Nutcracker {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Nutcracker {
    /// Starts one that listens on these addresses, the last of which asks for a password.
    fn start(listen: &[String; 3], redis: SocketAddr) -> Option<Self> {
        let binary = ["nutcracker", "/usr/sbin/nutcracker"]
            .into_iter()
            .find(|binary| Command::new(binary).arg("--version").stderr(Stdio::null()).status().is_ok());
        let Some(binary) = binary else {
            skip::skip("nutcracker", "there is no nutcracker on this machine");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = String::new();
        for (name, (listen, auth)) in ["a", "b", "c"].iter().zip(listen.iter().zip([false, false, true])) {
            let auth = if auth { "  redis_auth: sesame\n" } else { "" };
            config +=
                &format!("{name}:\n  listen: {listen}\n  redis: true\n{auth}  servers:\n   - {redis}:1\n");
        }
        let path = folder.path().join("nutcracker.yml");
        std::fs::write(&path, config).expect("written");
        let child = Command::new(binary)
            .arg("--conf-file")
            .arg(&path)
            .args(["--stats-port", &free_port().to_string(), "--stats-addr", "127.0.0.1"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nutcracker");
        Some(Self { child, _folder: folder })
    }
}

/// Waits until something listens there.
async fn until_open(address: &str) {
    loop {
        let is_open = match address.strip_prefix('/') {
            Some(_) => tokio::net::UnixStream::connect(address).await.is_ok(),
            None => tokio::net::TcpStream::connect(address).await.is_ok(),
        };
        if is_open {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// The start of a server whose store is behind `store` ends with exit code 2, and says that it is a proxy.
fn is_rejected(what: &str, env: &[(&str, &str)]) {
    let folder = rules(RULES);
    let start = Start::new(folder.path()).env("TOLLGATE_STORE_CONNECT_TIMEOUT", "20s");
    let start = env.iter().fold(start, |start, (name, value)| start.env(name, value));
    match start.try_go() {
        Ok(server) => panic!("{what}: it started:\n{}", server.printed()),
        Err(ended) => {
            assert_eq!(ended.status.code(), Some(2), "{what}: {}", ended.printed);
            for words in ["is a proxy in front of Redis", "give the address of Redis behind the proxy"] {
                assert!(ended.printed.contains(words), "{what}: {words:?} in {}", ended.printed);
            }
            let why = ended.printed.lines().find(|line| line.contains("is a proxy")).expect("it was found");
            assert!(!why.contains("TLS"), "{what}: {why}");
            assert!(!ended.printed.contains("sesame"), "{what}: {}", ended.printed);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_nutcracker_in_front_of_redis_ends_the_start_over_tcp_and_over_a_socket() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("ratelimit.sock").display().to_string();
    let [tcp, with_password] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let listen = [tcp.clone(), format!("{socket} 0666"), with_password.clone()];
    let Some(_nutcracker) = Nutcracker::start(&listen, redis.address()) else {
        return;
    };
    for address in [&tcp, &socket, &with_password] {
        until_open(address).await;
    }
    tokio::task::block_in_place(|| {
        is_rejected("TCP", &[("TOLLGATE_STORE", &format!("redis://{tcp}"))]);
        is_rejected("a database", &[("TOLLGATE_STORE", &format!("redis://{tcp}/3"))]);
        is_rejected("a socket", &[("TOLLGATE_STORE", &format!("unix://{socket}"))]);
        is_rejected("a password", &[("TOLLGATE_STORE", &format!("redis://:sesame@{with_password}"))]);
        is_rejected("no password", &[("TOLLGATE_STORE", &format!("redis://{with_password}"))]);
        // As envoyproxy/ratelimit's own default has it.
        is_rejected("REDIS_URL", &[("REDIS_SOCKET_TYPE", "unix"), ("REDIS_URL", &socket)]);
    });
    // The proxy alone can be asked when its server is gone; it is still the proxy that must not be used.
    drop(redis);
    tokio::task::block_in_place(|| {
        is_rejected("without its server", &[("TOLLGATE_STORE", &format!("redis://{tcp}"))]);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_envoy_in_front_of_redis_ends_the_start() {
    let Some(envoy) = envoy_binary() else { return };
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let listener = |name: &str, password: Option<&str>| {
        let mut proxy = json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy",
            "stat_prefix": name,
            "settings": {"op_timeout": "5s"},
            "prefix_routes": {"catch_all_route": {"cluster": "redis"}},
        });
        if let Some(password) = password {
            proxy["downstream_auth_passwords"] = json!([{"inline_string": password}]);
        }
        json!({
            "name": name,
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
            "filter_chains": [{"filters": [{"name": "envoy.filters.network.redis_proxy", "typed_config": proxy}]}],
        })
    };
    let redis = redis.address();
    let config = json!({
        "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}},
        "static_resources": {
            "listeners": [listener("plain", None), listener("closed", Some("sesame"))],
            "clusters": [cluster("redis", redis, false)],
        },
    });
    let (_running, [plain, closed]) = Running::start(&envoy, &config.to_string(), ["plain", "closed"]).await;
    tokio::task::block_in_place(|| {
        is_rejected("Envoy", &[("TOLLGATE_STORE", &format!("redis://{plain}"))]);
        is_rejected("a password", &[("TOLLGATE_STORE", &format!("redis://:sesame@{closed}"))]);
        is_rejected("no password", &[("REDIS_SOCKET_TYPE", "tcp"), ("REDIS_URL", &closed.to_string())]);
    });
}

/// A cluster of Envoy with one address; gRPC needs HTTP/2.
fn cluster(name: &str, to: SocketAddr, is_grpc: bool) -> Value {
    let address = json!({"socket_address": {"address": to.ip().to_string(), "port_value": to.port()}});
    let mut cluster = json!({
        "name": name,
        "connect_timeout": "20s",
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
    });
    if is_grpc {
        let options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
        cluster["typed_extension_protocol_options"] = json!({
            options: {
                "@type": format!("type.googleapis.com/{options}"),
                "explicit_http_config": {"http2_protocol_options": {}},
            },
        });
    }
    cluster
}

const ISTIO: &str = include_str!("../../../../../docs/istio.md");

/// The blocks of the page that are marked with `kind`, each as a document.
fn blocks(page: &str, kind: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let fence = format!("\n```{kind}\n");
    let parts = page.split(&fence).skip(1);
    let blocks = parts.map(|rest| {
        let (text, _) = rest.split_once("\n```").expect("it ends");
        let file = folder.path().join("block.yaml");
        std::fs::write(&file, text).expect("written");
        yaml::read_typed(&file)
    });
    blocks.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_patches_for_istio_limit_in_a_real_envoy() {
    let rule = ISTIO.split_once("\n```yaml rules\n").expect("rules").1.split_once("\n```").expect("an end").0;
    let folder =
        rules(&rule.replace("unit: minute, requests_per_unit: 100", "unit: year, requests_per_unit: 3"));
    assert!(std::fs::read_to_string(folder.path().join("rules.yaml")).expect("text").contains("year"));
    let [filter] = &blocks(ISTIO, "yaml envoyfilter")[..] else { panic!("one EnvoyFilter") };
    assert_eq!(
        (&filter["apiVersion"], &filter["kind"]),
        (&json!("networking.istio.io/v1alpha3"), &json!("EnvoyFilter"))
    );
    let patches = filter["spec"]["configPatches"].as_array().expect("patches");
    let value = |kind: &str| {
        let patch = patches.iter().find(|patch| patch["applyTo"] == kind).expect("a patch");
        patch["patch"]["value"].clone()
    };
    let mut http_filter = value("HTTP_FILTER");
    let host = value("VIRTUAL_HOST");
    let Some(envoy) = envoy_binary() else { return };
    http_filter["typed_config"]["timeout"] = json!("20s"); // a busy machine must not be taken for a silent Tollgate
    let service = &http_filter["typed_config"]["rate_limit_service"]["grpc_service"]["envoy_grpc"];
    let name = service["cluster_name"].as_str().expect("a cluster").to_owned();
    assert_eq!(name, "outbound|8081||tollgate.tollgate.svc.cluster.local");

    let server = Start::new(folder.path()).go();
    // Istio's result of the patches: the filter before the router, and the descriptors in the virtual host.
    let mut virtual_host = json!({
        "name": "shop.example.com:80",
        "domains": ["*"],
        "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "app"}}],
    });
    for (key, value) in host.as_object().expect("a patch of a virtual host") {
        virtual_host[key] = value.clone();
    }
    let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "gateway",
        "http_filters": [http_filter, {"name": "envoy.filters.http.router", "typed_config": {"@type": router}}],
        "route_config": {"virtual_hosts": [virtual_host]},
    });
    let manager = json!({"name": "envoy.filters.network.http_connection_manager", "typed_config": manager});
    let config = json!({
        "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}},
        "static_resources": {
            "listeners": [{
                "name": "gateway",
                "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
                "filter_chains": [{"filters": [manager]}],
            }],
            "clusters": [cluster(&name, server.grpc, true), cluster("app", upstream().await, false)],
        },
    });
    let (_running, [gateway]) = Running::start(&envoy, &config.to_string(), ["gateway"]).await;
    for sent in 1..=5 {
        let answer = http::get(gateway, "/", &[("x-api-key", "alice")]).await.expect("envoy answers");
        assert_eq!(answer.status, if sent > 3 { 429 } else { 200 }, "{answer:?}");
    }
    assert_eq!(http::get(gateway, "/", &[("x-api-key", "bob")]).await.expect("envoy answers").status, 200);
}

#[test]
fn the_resources_of_the_istio_page_are_of_their_kinds_and_agree_with_each_other() {
    let kinds = |blocks: &[Value]| -> Vec<String> {
        blocks.iter().map(|it| it["kind"].as_str().expect("a kind").to_owned()).collect()
    };
    let contour = blocks(ISTIO, "yaml contour");
    assert_eq!(kinds(&contour), ["ExtensionService", "ConfigMap", "HTTPProxy"]);
    let [service, config, proxy] = &contour[..] else { panic!("{contour:?}") };
    assert_eq!(service["spec"]["protocol"], "h2c");
    assert_eq!(service["spec"]["services"][0]["port"], 8081);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("contour.yaml");
    std::fs::write(&file, config["data"]["contour.yaml"].as_str().expect("text")).expect("written");
    let limits = yaml::read_typed(&file)["rateLimitService"].clone();
    let name = format!(
        "{}/{}",
        service["metadata"]["namespace"].as_str().expect("text"),
        service["metadata"]["name"].as_str().expect("text")
    );
    assert_eq!((&limits["extensionService"], &limits["domain"]), (&json!(name), &json!("shop")));
    let global = &proxy["spec"]["virtualhost"]["rateLimitPolicy"]["global"]["descriptors"];
    assert_eq!(global[0]["entries"][0]["requestHeader"]["descriptorKey"], "api_key");

    assert_eq!(kinds(&blocks(ISTIO, "yaml istiooperator")), ["IstioOperator"]);
    let [gateway] = &blocks(ISTIO, "yaml gateway-api")[..] else { panic!("one EnvoyFilter") };
    let labels = &gateway["spec"]["workloadSelector"]["labels"];
    assert_eq!(labels["gateway.networking.k8s.io/gateway-name"], "shop");
}

/// The Deployment of docs/coming-from.md, before and after: its environment and its command start Tollgate.
#[test]
fn the_deployment_of_envoyproxy_ratelimit_on_the_page_starts_with_another_image() {
    let page = include_str!("../../../../../docs/coming-from.md");
    let [before] = &blocks(page, "yaml before")[..] else { panic!("one Deployment") };
    let container = &before["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["command"], json!(["/bin/ratelimit"]));
    let folder = runtime();
    let root = folder.path().join("data").display().to_string();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let env: Vec<(String, String)> = container["env"]
        .as_array()
        .expect("variables")
        .iter()
        .map(|it| (text(&it["name"]), text(&it["value"]).replace("/data", &root)))
        .collect();
    if !has_networks() {
        return;
    }
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let server =
        Alone::start(&ratelimit(folder.path()), &[], &env).unwrap_or_else(|ended| panic!("{ended:?}"));
    let listens = server.listens();
    for port in container["ports"].as_array().expect("ports") {
        let port = format!("0.0.0.0:{}", port["containerPort"]);
        assert!(listens.contains(&port), "{port} of {listens:?}");
    }
    let probe = &container["livenessProbe"]["httpGet"]["path"];
    let url = format!("http://127.0.0.1:8080{}", probe.as_str().expect("a path"));
    assert_eq!(server.curl(&[&url]).0, "200");
    for path in ["/readyz", "/healthz"] {
        assert!(page.contains(&format!("path: {path}")), "{path}");
        assert_eq!(server.curl(&[&format!("http://127.0.0.1:8080{path}")]).0, "200");
    }
}
