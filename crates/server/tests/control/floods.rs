//! Floods over real sockets, one kind after another. While one runs, an administrator logs in and publishes a
//! rule, the node enforces it, and its stream stays open. Each prints what it cost: the figures of
//! docs/control.md are from here. `TOLLGATE_FLOODED` is the path of another build to flood.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpSocket;
use tokio::runtime::{Builder, Runtime};
use tollgate_clock::MonotonicClock;
use tollgate_core::Clock as _;
use tollgate_fleet_agent::Endpoint;
use tollgate_fleet_proto::{FromNode, Hello, Report, RuleCounts, TopKey};
use tollgate_harness::processes::*;

use super::logged::Logged;

/// Logins and publications of the administrator during a flood.
const ROUNDS: usize = 2;
/// Longest wait for the administrator's page, also where all tests run at the same time. On a machine without
/// other load it is a tenth of a second: see the page.
const LONGEST: Duration = Duration::from_secs(30);
/// Memory of the control plane may grow by as much in any flood, in MiB.
const MOST_MEMORY: u64 = 600;

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\nSec-Fetch-Site: same-origin\r\n";
const JSON: &str = "Content-Type: application/json\r\n";

fn flooded() -> Command {
    let mut command = match std::env::var_os("TOLLGATE_FLOODED") {
        Some(binary) => Command::new(binary),
        None => Command::new(env!("CARGO_BIN_EXE_tollgate")),
    };
    command.env_clear().stdin(Stdio::null());
    command
}

/// Peak of memory in MiB, and processor time in ms.
fn used(process: &Logged) -> (u64, u64) {
    let of =
        |name: &str| fs::read_to_string(format!("/proc/{}/{name}", process.child.id())).expect("of Linux");
    let status = of("status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    let peak: u64 = peak.expect("a number").trim().parse().expect("a number");
    let stat = of("stat");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
    let ticks: u64 = [11, 12].iter().map(|at| fields[*at].parse::<u64>().expect("ticks")).sum();
    (peak >> 10, ticks * 10)
}

/// A control plane with an administrator, a node that has joined, and users.
struct Scene {
    control: Logged,
    address: SocketAddr,
    admin: String,
    node: Logged,
    http: SocketAddr,
    folder: tempfile::TempDir,
    rules: AtomicUsize,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut command = flooded();
        command.args(["control", "--listen", &address.to_string(), "--data-dir"]).arg(path("data"));
        let control = Logged::start(command, path("control.log"));
        let admin = set_up(address, &control.says("setup"));
        let mut command = flooded();
        command.args(["serve", "--grpc", "off", "--resp", "off", "--http", "127.0.0.1:0", "--workers", "1"]);
        command.args(["--control", &format!("http://{address}"), "--control-token-file"]);
        command.arg(path("data/node-token")).arg("--state-dir").arg(path("node"));
        let node = Logged::start(command, path("node.log"));
        let http = node.says("http").parse().expect("an address");
        let scene = Self { control, address, admin, node, http, folder, rules: AtomicUsize::new(0) };
        scene.publish();
        wait("the node has reported", || {
            let shown: Value =
                serde_json::from_str(&scene.get(&scene.admin, "/api/v1/nodes").1).expect("JSON");
            (shown["nodes"][0]["new"] == false).then_some(())
        });
        scene
    }

    fn send(&self, cookie: &str, method: &str, path: &str, fields: &str, body: &str) -> (u16, String) {
        let fields = format!("Cookie: tollgate={cookie}\r\n{fields}");
        let (status, _, body) = send(self.address, method, path, &fields, body).expect("an answer");
        (status, body)
    }

    /// The status, or 0 if the connection was closed.
    fn asks(&self, cookie: &str, method: &str, path: &str, fields: &str, body: &str) -> u16 {
        let fields = format!("Cookie: tollgate={cookie}\r\n{fields}");
        send(self.address, method, path, &fields, body).map_or(0, |(status, ..)| status)
    }

    fn get(&self, cookie: &str, path: &str) -> (u16, String) {
        self.send(cookie, "GET", path, "", "")
    }

    /// Another user with this role, logged in.
    fn user(&self, name: &str, role: &str) -> String {
        let body = json!({"name": name, "role": role, "app": "shop"}).to_string();
        let (status, said) = self.send(&self.admin, "POST", "/api/v1/users", JSON, &body);
        assert_eq!(status, 201, "{said}");
        let made: Value = serde_json::from_str(&said).expect("JSON");
        let link = made["link"].as_str().expect("a link");
        let code = link.split("code=").nth(1).expect("a code");
        let form = format!("code={code}&password=another+good+password&again=another+good+password");
        let (status, head, said) = send(self.address, "POST", "/link", FORM, &form).expect("an answer");
        assert_eq!(status, 303, "{said}");
        let cookie = head.lines().find_map(|line| line.split_once("tollgate=")?.1.split(';').next());
        cookie.expect("a cookie").to_owned()
    }

    /// Publishes a rule, and waits until the node enforces it.
    fn publish(&self) {
        let key = format!("k{}", self.rules.fetch_add(1, Relaxed));
        let body = json!({"key": key, "max_permits": 1, "rate": 1}).to_string();
        let (status, said) = self.send(&self.admin, "POST", "/api/v1/apps/shop/rules", JSON, &body);
        assert_eq!(status, 201, "{said}");
        let path = format!("/v1/explain?domain=shop&entry=key={key}");
        wait(&format!("{key} is in force"), || {
            let (_, _, body) = send(self.http, "GET", &path, "", "").expect("an answer");
            body.contains(&format!("key={key}\"")).then_some(())
        });
    }

    fn log_in(&self) {
        let body = json!({"name": "ann", "password": "correct horse battery"}).to_string();
        let (status, _, said) = send(self.address, "POST", "/api/v1/login", JSON, &body).expect("an answer");
        assert_eq!(status, 200, "{said}");
    }

    /// Runs `flood` in this many threads, again and again, until the administrator has logged in and
    /// published a few times; each returns a status, which is counted.
    fn during(
        &self,
        name: &str,
        threads: usize,
        flood: impl Fn(usize) -> u16 + Sync,
    ) -> BTreeMap<u16, usize> {
        let clock = MonotonicClock::new();
        let stop = AtomicBool::new(false);
        let counts = Mutex::new(BTreeMap::new());
        let (peak, worked) = used(&self.control);
        let began = clock.now();
        let longest = std::thread::scope(|scope| {
            for thread in 0..threads {
                let flood = &flood;
                let stop = &stop;
                let counts = &counts;
                scope.spawn(move || {
                    for nth in 0.. {
                        let status = flood(nth * threads + thread);
                        *counts.lock().entry(status).or_insert(0) += 1;
                        if stop.load(Relaxed) {
                            return;
                        }
                    }
                });
            }
            wait("the flood has begun", || (!counts.lock().is_empty()).then_some(()));
            // However this ends, the flood does.
            let ends = Ends(&stop);
            let mut longest = [Duration::ZERO; 2];
            // A user has a bounded number of logins, so only a few.
            for _ in 0..ROUNDS {
                for (longest, act) in longest.iter_mut().zip([Self::log_in, Self::publish]) {
                    let began = clock.now();
                    act(self);
                    *longest = clock.now().since(began).max(*longest);
                }
            }
            drop(ends);
            longest
        });
        let took = clock.now().since(began);
        let counts = counts.into_inner();
        let (peak_after, worked_after) = used(&self.control);
        println!(
            "{name}: {counts:?} in {took:.1?}; longest login {:.0?}, publication in force {:.0?}; {} ms of a core, {} MiB more",
            longest[0],
            longest[1],
            worked_after.saturating_sub(worked),
            peak_after.saturating_sub(peak)
        );
        self.holds(name);
        assert!(longest.iter().all(|it| *it < LONGEST), "{name}: {longest:?}");
        assert!(
            peak_after.saturating_sub(peak) < MOST_MEMORY,
            "{name}: {} MiB more",
            peak_after.saturating_sub(peak)
        );
        counts
    }

    /// The node has kept its stream, and no page fails.
    fn holds(&self, name: &str) {
        let said = self.node.said();
        let connected = said.matches("connected to the control plane").count();
        assert_eq!(connected, 1, "{name}: the stream of the node was closed\n{said}");
        for page in ["/", "/rules", "/nodes", "/top", "/api/v1/problems"] {
            let (status, body) = self.get(&self.admin, page);
            assert_eq!(status, 200, "{name}: {page} {body}");
            assert!(body.len() < 2 << 20, "{name}: {page} has {} bytes", body.len());
        }
    }
}

struct Ends<'s>(&'s AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Sends a request and leaves it unfinished, or its reply unread.
fn opened(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.write_all(text.as_bytes()).expect("sent");
    stream
}

/// A connection from another address of this machine: an address has a share.
fn from_elsewhere(runtime: &Runtime, to: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, 9], 0)))?;
        socket.connect(to).await
    });
    let stream = stream?.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

fn only(counts: &BTreeMap<u16, usize>, allowed: &[u16]) {
    assert!(counts.keys().all(|status| allowed.contains(status)), "{counts:?}");
}

#[test]
fn faulty_imports_of_a_user_without_rights_are_not_read() {
    let scene = Scene::new();
    let nobody = scene.user("nob", "viewer");
    let (status, said) =
        scene.send(&scene.admin, "POST", "/users/nob/roles/remove", FORM, "app=shop&role=viewer");
    assert_eq!(status, 303, "{said}");
    let import = format!("tollgate: 1\napp: shop\ncar:\n{}", "- key: a b\n".repeat(200_000));
    let counts = scene.during("faulty imports", 4, |_| {
        scene.asks(&nobody, "POST", "/api/v1/import?dry_run=true", "", &import)
    });
    only(&counts, &[0, 403, 429]);
    assert!(counts.contains_key(&403), "{counts:?}");
}

#[test]
fn a_viewer_explains_and_exports_a_large_app_without_end() {
    let scene = Scene::new();
    let viewer = scene.user("vic", "viewer");
    for file in 0..2 {
        let rules: String = (0..800)
            .map(|n| format!("  - {{key: k{n}, rate_limit: {{unit: second, requests_per_unit: 5}}}}\n"))
            .collect();
        let text = format!("domain: big{file}\ndescriptors:\n{rules}");
        let body = json!({"text": text}).to_string();
        let (status, said) = scene.send(&scene.admin, "POST", "/api/v1/apps/shop/files", JSON, &body);
        assert_eq!(status, 201, "{}", said.chars().take(300).collect::<String>());
    }
    let check = json!({"app": "shop", "ops": []}).to_string();
    let counts = scene.during("explain, check and export", 8, |nth| match nth % 3 {
        0 => scene.asks(&viewer, "GET", "/api/v1/explain?app=shop&domain=big0&entry=k7=x", "", ""),
        1 => scene.asks(&viewer, "POST", "/api/v1/check", JSON, &check),
        _ => scene.asks(&viewer, "GET", "/api/v1/export?app=shop", "", ""),
    });
    only(&counts, &[200, 422, 429]);
    assert!(counts.contains_key(&200), "{counts:?}");
}

#[test]
fn readers_of_events_and_bodies_that_hang_leave_room() {
    let scene = Scene::new();
    let viewer = scene.user("vic", "viewer");
    let head = |method: &str, path: &str, fields: &str| {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nCookie: tollgate={viewer}\r\n{fields}\r\n",
            scene.address
        )
    };
    let mut hanging: Vec<TcpStream> = Vec::new();
    let body = format!("Sec-Fetch-Site: same-origin\r\nContent-Length: {}\r\n", (64 << 20) - 1);
    hanging.extend((0..8).map(|_| opened(scene.address, &head("POST", "/api/v1/import", &body))));
    let login = format!("{FORM}Content-Length: 65536\r\n");
    let login = format!("POST /login HTTP/1.1\r\nHost: {}\r\n{login}\r\n", scene.address);
    let runtime = runtime();
    hanging.extend((0..600).map(|_| {
        let mut stream = from_elsewhere(&runtime, scene.address).expect("connected");
        stream.write_all(login.as_bytes()).expect("sent");
        stream
    }));
    let (_, events) = scene.get(&viewer, "/api/v1/events?topics=changes");
    let id = events.lines().find_map(|line| line.strip_prefix("id: ")).expect("an id").to_owned();
    let last = format!("Last-Event-ID: {id}\r\n");
    let counts = scene.during("events, and bodies that hang", 4, |_| {
        let waits = || opened(scene.address, &head("GET", "/api/v1/events?topics=rollouts", &last));
        let all: Vec<TcpStream> = (0..150).map(|_| waits()).collect();
        drop(all);
        scene.get(&viewer, "/api/v1/me").0
    });
    only(&counts, &[200]);
    drop(hanging);
}

#[test]
fn drafts_of_one_editor_do_not_keep_an_administrator_from_publishing() {
    let scene = Scene::new();
    let editor = scene.user("ed", "editor");
    let draft = |nth: usize| {
        let rule = json!({"key": format!("d{nth}"), "max_permits": 5});
        let op = json!({"op": "put", "key": format!("d{nth}"), "rule": rule});
        let body = json!({"app": "shop", "ops": [op]}).to_string();
        scene.asks(&editor, "POST", "/api/v1/changes", JSON, &body)
    };
    // As many as there is room for.
    let until_full = (0..600).map(draft).take_while(|status| *status == 201).count();
    assert!((200..=450).contains(&until_full), "{until_full} drafts");
    let counts = scene.during("drafts", 2, |nth| draft(1_000 + nth));
    only(&counts, &[409, 429]);
}

#[test]
fn look_ups_wait_and_close_no_stream() {
    let scene = Scene::new();
    let viewer = scene.user("vic", "viewer");
    let counts = scene.during("look-ups of keys", 60, |nth| {
        scene.asks(&viewer, "GET", &format!("/api/v1/keys?domain=shop&entry=key=k{}", nth % 3), "", "")
    });
    only(&counts, &[200, 429]);
    assert!(counts.contains_key(&200), "{counts:?}");
}

#[test]
fn strangers_ask_for_the_description_try_passwords_and_hold_connections() {
    tollgate_net::raise_descriptor_limit();
    let scene = Scene::new();
    let counts = scene.during("the description of the API", 16, |_| {
        let status = scene.asks("", "GET", "/openapi.json", "Accept-Encoding: gzip\r\n", "");
        if status == 0 { 200 } else { status } // compressed, it is no text
    });
    only(&counts, &[200]);
    let runtime = runtime();
    let silent = Mutex::new(Vec::new());
    let counts = scene.during("wrong passwords", 4, |nth| {
        let body = json!({"name": format!("user{nth}"), "password": "not the password"}).to_string();
        let Ok(mut stream) = from_elsewhere(&runtime, scene.address) else { return 0 };
        let to = scene.address;
        let length = body.len();
        let request = format!(
            "POST /api/v1/login HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n{JSON}Content-Length: {length}\r\n\r\n{body}"
        );
        let mut text = String::new();
        let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut text));
        text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    });
    only(&counts, &[0, 401, 429]);
    let counts = scene.during("silent connections", 1, |_| {
        let stream = from_elsewhere(&runtime, scene.address);
        silent.lock().extend(stream.ok());
        1
    });
    assert!(counts[&1] > 100, "{counts:?}");
}

/// A stream of a made-up node that sends `says`. Returns the number of messages it received before the stream
/// ended or `most`.
async fn made_up(endpoint: &Endpoint, says: Vec<FromNode>, most: usize) -> usize {
    let (sender, outgoing) = tokio::sync::mpsc::channel(64);
    let Ok(mut stream) = endpoint.attach(outgoing).await else { return 0 };
    for message in says {
        if sender.send(message).await.is_err() {
            break;
        }
    }
    let mut got = 0;
    while got < most
        && let Ok(Some(_)) = stream.message().await
    {
        got += 1;
    }
    got
}

fn made_up_hello(id: String) -> Hello {
    let secret = id.as_bytes().to_vec();
    Hello { name: id.clone(), node: id, incarnation: 1, secret, language: 1, ..Hello::default() }
}

#[test]
fn a_holder_of_the_token_of_nodes_says_hello_claims_and_reports_without_end() {
    let scene = Scene::new();
    let endpoint = Endpoint {
        uri: format!("http://{}", scene.address).parse().expect("an address"),
        tls: None,
        token_file: Some(scene.folder.path().join("data/node-token")),
    };
    let runtime = runtime();
    let counts = scene.during("hellos of made-up nodes", 4, |nth| {
        let hello = FromNode::Hello(made_up_hello(format!("made-up-{nth}")));
        u16::from(runtime.block_on(made_up(&endpoint, vec![hello], 1)) > 0)
    });
    assert!(counts.contains_key(&1), "some are answered: {counts:?}");
    // Their descriptions of themselves are long, and their reports add up to more than numbers hold.
    let domain = "shop".to_owned();
    let key = |nth: usize| TopKey {
        domain: domain.clone(),
        rule: "key=k0".into(),
        key: format!("c{}", nth % 7),
        denied: 1 << 40,
    };
    let rule = |nth: usize| RuleCounts {
        domain: format!("d{}", nth % 1_200),
        rule: format!("r{nth}"),
        denied: 1 << 62,
        ..RuleCounts::default()
    };
    let report = |sequence: u64| {
        let top = (0..5_000).map(key).collect();
        let rules = (0..4_000).map(rule).collect();
        FromNode::Report(Report { sequence, span_ms: 5_000, top, rules, ..Report::default() })
    };
    let counts = scene.during("long texts and sums", 3, |nth| {
        let hello = Hello {
            local_domains: (0..1_000).map(|it| format!("{it}{}", "d".repeat(200))).collect(),
            ..made_up_hello(format!("long-{nth}"))
        };
        let says = vec![FromNode::Hello(hello), report(1), report(2), report(3)];
        u16::from(runtime.block_on(made_up(&endpoint, says, 3)) > 0)
    });
    assert!(counts.contains_key(&1), "some are answered: {counts:?}");
    let (_, problems) = scene.get(&scene.admin, "/api/v1/problems");
    assert!(!problems.contains("frozen_app"), "{problems}");
    let (status, history) = scene.get(&scene.admin, "/api/v1/apps/shop/rules/k0/history");
    assert!(status < 500, "{status} {history}");
}
