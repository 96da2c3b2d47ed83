//! A real HAProxy asks this API for every request, with the configuration of docs/proxies.md.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]
#![allow(clippy::print_stdout, reason = "the line SKIPPED")]

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::common::{Client, Reply, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate_http_api::HttpSettings;

const PAGE: &str = include_str!("../../../../docs/proxies.md");
const RULES: &str = "domain: edge
descriptors:
  - {key: remote_address, rate_limit: {name: per_address, unit: minute, requests_per_unit: 3}}
  - {key: api_key, rate_limit: {name: per_key, unit: minute, requests_per_unit: 2}}
";

/// The first block of the page in this language.
fn block(language: &str) -> String {
    let (_, rest) = PAGE.split_once(&format!("\n```{language}\n")).expect("it is there");
    rest.split_once("\n```").expect("it ends").0.to_owned() + "\n"
}

fn replace(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} in {text}");
    text.replace(from, to)
}

/// Where this machine has one that can run Lua; users other than root often lack `sbin` in their path.
fn binary() -> Option<&'static str> {
    ["haproxy", "/usr/sbin/haproxy"].into_iter().find(|binary| {
        let version = Command::new(binary).arg("-vv").stdin(Stdio::null()).output();
        version.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains("+LUA"))
    })
}

/// A running HAProxy, ended by its id when dropped.
struct Haproxy {
    child: Child,
    at: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Haproxy {
    /// `None` if this machine has none. `change` is applied to the program in Lua.
    async fn start(change: impl Fn(String) -> String, tollgate: SocketAddr) -> Option<Self> {
        let Some(binary) = binary() else {
            println!(
                "SKIPPED a real HAProxy: none with Lua is installed; on Debian: apt-get install haproxy"
            );
            return None;
        };
        let app = app().await;
        let lua = replace(&block("lua"), "127.0.0.1:8080", &tollgate.to_string());
        // A busy machine must not be taken for a silent Tollgate.
        let lua = change(replace(&lua, "timeout = 100", "timeout = 60000"));
        for _ in 0..20 {
            // It chooses no port by itself: one that was free a moment ago, another if it is not any more.
            let free = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("bound");
            if let Some(haproxy) = Self::try_start(binary, &lua, free, app).await {
                return Some(haproxy);
            }
        }
        panic!("HAProxy finds no free port");
    }

    async fn try_start(binary: &str, lua: &str, at: SocketAddr, app: SocketAddr) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let (program, config) = (folder.path().join("tollgate.lua"), folder.path().join("haproxy.cfg"));
        let text = replace(&block("haproxy"), "/etc/haproxy/tollgate.lua", &program.display().to_string());
        let text = replace(&text, "bind :80", &format!("bind {at}\n    monitor-uri /alive"));
        let text = replace(&text, "127.0.0.1:3000", &app.to_string());
        std::fs::write(&program, lua).expect("written");
        std::fs::write(&config, text).expect("written");
        let child = Command::new(binary)
            .arg("-f")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it can be started");
        let mut haproxy = Self { child, at, _folder: folder };
        loop {
            if haproxy.child.try_wait().expect("it was started").is_some() {
                let mut said = String::new();
                let mut log = haproxy.child.stderr.take().expect("piped");
                std::io::Read::read_to_string(&mut log, &mut said).expect("text");
                assert!(said.contains("Address already in use"), "HAProxy ended: {said}");
                return None;
            }
            if TcpStream::connect(at).await.is_ok() && haproxy.get("/alive", "").await.status == 200 {
                return Some(haproxy);
            }
            tokio::task::yield_now().await;
        }
    }

    async fn get(&self, path: &str, headers: &str) -> Reply {
        let stream = TcpStream::connect(self.at).await.expect("it listens");
        Client { stream, rest: Vec::new() }.ask("GET", path, headers, "").await
    }
}

/// An application that answers every request with 200 and `app`.
async fn app() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut head, mut chunk) = (Vec::new(), [0; 4096]);
                while let Ok(read @ 1..) = stream.read(&mut chunk).await {
                    head.extend_from_slice(&chunk[..read]);
                    if head.ends_with(b"\r\n\r\n") {
                        head.clear();
                        let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\napp";
                        stream.write_all(reply).await.ok();
                    }
                }
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn haproxy_admits_the_limit_and_returns_tollgates_reply_to_a_denied_client() {
    let server = Server::start(RULES, HttpSettings::default()).await;
    let Some(haproxy) = Haproxy::start(|lua| lua, server.address).await else { return };
    for left in ["2", "1", "0"] {
        let reply = haproxy.get("/any?x=1", "").await;
        let fields = ["limit", "remaining", "reset"].map(|name| reply.header(&format!("x-ratelimit-{name}")));
        assert_eq!((reply.status, reply.text()), (200, "app"), "{reply:?}");
        assert_eq!(fields, [Some("3"), Some(left), Some("40")], "{reply:?}");
        assert_eq!(reply.header("retry-after"), None);
    }
    for _ in 0..2 {
        let reply = haproxy.get("/", "").await;
        let fields = ["x-ratelimit-remaining", "retry-after", "x-ratelimit-retry-after", "content-type"];
        let want = ["0", "40", "40", "application/problem+json"];
        assert_eq!(reply.status, 429, "{reply:?}");
        assert_eq!(fields.map(|name| reply.header(name)), want.map(Some), "{reply:?}");
        assert_eq!(reply.json()["violated-policies"][0], "per_address");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_haproxy_a_clients_header_counts_as_it_is_and_a_silent_tollgate_admits() {
    let by_key = |lua: String| {
        let (_, rest) = PAGE
            .split_once("- For a limit by API key, use `entry_header=api_key=X-Api-Key` in the URL")
            .unwrap();
        let argument = rest.split('`').nth(1).expect("the headers");
        let lua = replace(&lua, "entry=remote_address=%s", "entry_header=api_key=X-Api-Key");
        replace(&lua, "timeout =", &format!("{argument}, timeout ="))
    };
    let server = Server::start(RULES, HttpSettings::default()).await;
    let Some(haproxy) = Haproxy::start(by_key, server.address).await else { return };
    for key in ["alice", "a&entry=api_key=b", "%61lice", "a b"] {
        for want in [200, 200, 429] {
            let reply = haproxy.get("/", &format!("x-api-key: {key}\r\n")).await;
            assert_eq!(reply.status, want, "{key}: {reply:?}");
        }
    }
    // Nothing listens there any more.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
    let Some(haproxy) = Haproxy::start(|lua| lua, closed).await else { return };
    for _ in 0..4 {
        let reply = haproxy.get("/", "").await;
        assert_eq!((reply.status, reply.header("x-ratelimit-limit")), (200, None), "{reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_url_of_the_ingress_is_a_check_of_the_clients_address() {
    let server = Server::start(RULES, HttpSettings::default()).await;
    let ingress = block("yaml ingress");
    let url = ingress.split('"').find(|text| text.starts_with("http://")).expect("the URL");
    let (_, target) = url.split_once(":8080").expect("the port");
    let mut client = server.client().await;
    for (address, status) in
        [("192.0.2.7", 200), ("192.0.2.7", 200), ("192.0.2.7", 200), ("192.0.2.7", 403), ("192.0.2.8", 200)]
    {
        let reply = client.ask("GET", target, &format!("x-real-ip: {address}\r\n"), "").await;
        assert_eq!(
            (reply.status, reply.header("retry-after").is_some()),
            (status, status == 403),
            "{reply:?}"
        );
    }
}
