//! The distribution's nginx asks the release binary by `auth_request`, with the configuration of docs/proxies.md.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use tollgate_testkit::redis::{Options, Redis, Reply};

use crate::fleet::{Fleet, store_state, until};
use crate::http::{self, Answer};
use crate::skip;
use crate::start::rules;
use crate::tollgate::Tollgate;

const PAGE: &str = include_str!("../../../../docs/proxies.md");
const LIMIT: usize = 7;
const REQUESTS: usize = 40;
const RULES: &str = "domain: edge
descriptors:
  - {key: remote_address, rate_limit: {name: per_address, unit: year, requests_per_unit: 7}}
  - {key: api_key, rate_limit: {name: per_key, unit: year, requests_per_unit: 2}}
";

/// The block of the page that is marked with `kind`, its addresses and timeouts replaced.
fn block(kind: &str, listen: &str, tollgate: SocketAddr, app: SocketAddr) -> String {
    let (_, rest) = PAGE.split_once(&format!("\n```{kind}\n")).expect("it is there");
    let (text, _) = rest.split_once("\n```").expect("it ends");
    let replace = |text: &str, from: &str, to: &str| {
        assert!(text.contains(from), "{from} in the block of {kind}");
        text.replace(from, to)
    };
    let text = replace(text, "127.0.0.1:8080", &tollgate.to_string());
    let text = replace(&text, "127.0.0.1:3000", &app.to_string());
    let text = replace(&text, "100ms;", "60s;"); // a busy machine must not be taken for a silent Tollgate
    replace(&text, "listen 80;", listen)
}

/// A running nginx, ended by its id when dropped.
struct Nginx {
    child: Child,
    at: SocketAddr,
    folder: tempfile::TempDir,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Told to go it ends its workers; killed it would leave them behind.
        Command::new("kill").arg(self.child.id().to_string()).status().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            println!("nginx said:\n{}", self.log());
        }
    }
}

impl Nginx {
    /// nginx chooses no port by itself: one that was free a moment ago, another if it is not any more.
    async fn start(
        binary: &Path,
        change: impl Fn(String) -> String,
        tollgate: SocketAddr,
        app: SocketAddr,
    ) -> Self {
        for _ in 0..20 {
            let free = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("bound");
            let site = change(block("nginx", &format!("listen {free};"), tollgate, app));
            if let Some(nginx) = Self::try_start(binary, &site, free).await {
                return nginx;
            }
        }
        panic!("nginx finds no free port");
    }

    async fn try_start(binary: &Path, site: &str, at: SocketAddr) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().display();
        let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|kind| format!("{kind}_temp_path {base}/{kind};\n"))
            .collect();
        let text = format!(
            "daemon off; worker_processes 2; pid {base}/pid; error_log {base}/log;\n\
             events {{ worker_connections 512; }}\nhttp {{\naccess_log off;\n{temp}{site}\n}}\n"
        );
        let config = folder.path().join("nginx.conf");
        std::fs::write(&config, text).expect("it can be written");
        let child = Command::new(binary)
            .args(["-p".as_ref(), folder.path().as_os_str(), "-c".as_ref(), config.as_os_str()])
            .args(["-e".as_ref(), folder.path().join("log").as_os_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx can be started");
        let mut nginx = Nginx { child, at, folder };
        loop {
            if let Some(ended) = nginx.child.try_wait().expect("it was started") {
                assert!(
                    nginx.log().contains("Address already in use"),
                    "nginx ended with {ended}: {}",
                    nginx.log()
                );
                return None;
            }
            // Its own answer, without a question to Tollgate: the location is internal.
            if http::get(at, "/tollgate", &[]).await.is_ok_and(|answer| answer.status == 404) {
                return Some(nginx);
            }
            tokio::task::yield_now().await;
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        http::get(self.at, path, headers).await.expect("nginx answers")
    }
}

/// Where this machine has it.
fn nginx() -> Option<&'static Path> {
    ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx", "/opt/homebrew/bin/nginx"]
        .map(Path::new)
        .into_iter()
        .find(|path| path.exists())
}

/// An application: 403 for `/forbidden`, 500 for `/broken`, 200 for all else; counts what reaches it.
async fn app() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let reached = Arc::new(AtomicUsize::new(0));
    let counted = reached.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_each(stream, counted.clone()));
        }
    });
    (address, reached)
}

async fn answer_each(stream: TcpStream, reached: Arc<AtomicUsize>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut path, mut length, mut line) = (None, 0, String::new());
    while stream.read_line(&mut line).await? > 0 {
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        if line == "\r\n" {
            stream.read_exact(&mut vec![0; length]).await?;
            reached.fetch_add(1, Ordering::Relaxed);
            let status = match path.take().as_deref() {
                Some("/forbidden") => "403 Forbidden",
                Some("/broken") => "500 Internal Server Error",
                _ => "200 OK",
            };
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 3\r\n\r\napp");
            stream.write_all(answer.as_bytes()).await?;
            length = 0;
        } else if path.is_none() {
            path = line.split(' ').nth(1).map(str::to_owned);
        }
        line.clear();
    }
    Ok(())
}

/// Limit, remaining, reset and both waits, as the client sees them.
fn told(answer: &Answer) -> [Option<&str>; 5] {
    let names = ["limit", "remaining", "reset", "retry-after"].map(|name| format!("x-ratelimit-{name}"));
    let [limit, remaining, reset, wait] = names.each_ref().map(|name| answer.header(name));
    [limit, remaining, reset, wait, answer.header("retry-after")]
}

#[tokio::test(flavor = "multi_thread")]
async fn nginx_admits_exactly_the_limit_and_returns_retry_after_with_each_denial() {
    let Some(binary) = nginx() else {
        return skip::skip("a real nginx", "it is not installed; on Debian: apt-get install nginx-light");
    };
    let rules = rules(RULES);
    let mut server = Tollgate::start(rules.path());
    let (app, reached) = app().await;
    let nginx = Nginx::start(binary, |site| site, server.http, app).await;

    // Exactly N of M, from eight tasks at once.
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let at = nginx.at;
        asking.spawn(async move {
            let mut answers = Vec::new();
            for _ in 0..REQUESTS / 8 {
                answers.push(http::get(at, "/", &[]).await.expect("nginx answers"));
            }
            answers
        });
    }
    let answers = asking.join_all().await.concat();
    let (passed, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!((passed.len(), refused.len()), (LIMIT, REQUESTS - LIMIT), "{}", nginx.log());
    assert_eq!(reached.load(Ordering::Relaxed), LIMIT, "no denied request reaches the application");

    // The fields reach the client, on both.
    let mut left: Vec<&str> = passed.iter().filter_map(|answer| told(answer)[1]).collect();
    left.sort_unstable();
    assert_eq!(left, ["0", "1", "2", "3", "4", "5", "6"]);
    for answer in passed {
        let [limit, _, reset, waits @ ..] = told(answer);
        assert_eq!((limit, waits), (Some("7"), [None, None]), "{answer:?}");
        assert!(reset.is_some_and(|seconds| seconds.parse::<u64>().is_ok()), "{answer:?}");
    }
    for answer in refused {
        let [limit, remaining, reset, wait, standard] = told(answer);
        assert_eq!((answer.status, limit, remaining), (429, Some("7"), Some("0")), "{answer:?}");
        let seconds: u64 = wait.and_then(|seconds| seconds.parse().ok()).expect("seconds");
        assert!((1..=31_536_000).contains(&seconds), "{answer:?}");
        assert_eq!((wait, wait), (standard, reset), "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        let problem: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        assert_eq!((&problem["status"], &problem["retry_after"]), (&429.into(), &seconds.into()));
    }
    assert_eq!(nginx.log(), "", "a refusal is no error to nginx");

    // A body goes to the application only, and a denial does not wait for it.
    let answer = http::post(nginx.at, "/", &"x".repeat(100_000)).await.expect("nginx answers");
    assert_eq!(answer.status, 429, "{answer:?}");

    // Tollgate is gone: nginx lets pass, as it is configured, without fields.
    server.kill();
    let before = reached.load(Ordering::Relaxed);
    for _ in 0..3 {
        let answer = nginx.get("/", &[]).await;
        assert_eq!((answer.status, told(&answer)), (200, [None; 5]), "{answer:?}");
    }
    assert_eq!(reached.load(Ordering::Relaxed), before + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_nginx_a_clients_header_counts_as_it_is_and_the_applications_own_errors_stay() {
    let Some(binary) = nginx() else {
        return skip::skip("a real nginx", "it is not installed; on Debian: apt-get install nginx-light");
    };
    let rules = rules(RULES);
    let mut server = Tollgate::start(rules.path());
    let (app, _) = app().await;
    let change = |site: String| {
        let site = site.replace("entry=remote_address=$remote_addr", "entry_header=api_key=X-Api-Key");
        let site = site.replace("error_page 500 = @unlimited;", "");
        site.replace(
            "location / {",
            "location /denied { deny all; error_page 403 = @limited; }\nlocation / {",
        )
    };
    let nginx = Nginx::start(binary, change, server.http, app).await;

    // A key that looks like a part of a URL is a key like any other.
    for key in ["alice", "a&entry=api_key=b", "%61lice", "a b", "客户"] {
        for want in [200, 200, 429] {
            assert_eq!(nginx.get("/", &[("X-Api-Key", key)]).await.status, want, "{key}: {}", nginx.log());
        }
    }
    // An error that is not Tollgate's denial is not shown as one.
    assert_eq!(nginx.get("/forbidden", &[("X-Api-Key", "bob")]).await.status, 403);
    assert_eq!(nginx.get("/broken", &[("X-Api-Key", "bob")]).await.status, 500);
    assert_eq!(nginx.get("/forbidden", &[("X-Api-Key", "bob")]).await.status, 429);
    assert_eq!(nginx.get("/denied", &[]).await.status, 403);

    // Without the line that lets pass, a limiter that does not answer denies.
    server.kill();
    assert_eq!(nginx.get("/", &[("X-Api-Key", "carol")]).await.status, 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_zones_of_one_request_are_both_enforced() {
    let Some(binary) = nginx() else {
        return skip::skip("a real nginx", "it is not installed; on Debian: apt-get install nginx-light");
    };
    // A zone an address and a zone a server, as with two limits on one location.
    let rules = rules(
        "domain: edge\ncharge: together\ndescriptors:
  - {key: remote_address, rate_limit: {name: perip, unit: year, requests_per_unit: 5}}
  - {key: host, rate_limit: {name: perserver, unit: year, requests_per_unit: 3}}
",
    );
    let server = Tollgate::start(rules.path());
    let (app, _) = app().await;
    let address = "entry=remote_address=$remote_addr";
    let both = format!("{address}&descriptor&entry=host=$host");
    let nginx = Nginx::start(binary, |site| site.replace(address, &both), server.http, app).await;
    for (host, want) in [
        ("a.example", [200, 200, 200, 429]), // its server's three
        ("b.example", [200, 200, 429, 429]), // the address's five
        ("a.example", [429, 429, 429, 429]),
    ] {
        for (nth, want) in want.into_iter().enumerate() {
            let answer = nginx.get("/", &[("host", host)]).await;
            assert_eq!(answer.status, want, "{host}, request {nth}: {}", nginx.log());
        }
    }
}

/// The whole way of a request: nginx, either of two nodes, the counter and its time in Redis; then the application,
/// a denial, or a place in the queue.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_goes_through_nginx_and_a_node_to_its_counter_in_redis_and_is_forwarded_denied_or_queued() {
    let Some(binary) = nginx() else {
        return skip::skip("a real nginx", "it is not installed; on Debian: apt-get install nginx-light");
    };
    let Some(store) = Redis::start(&Options::new()) else { return };
    let rules = "domain: edge\ndescriptors:
  - {key: remote_address, rate_limit: {unit: year, requests_per_unit: 7, algorithm: token_bucket}}
  - {key: queue, on_limit: queue, max_wait: 30s, rate_limit: {rate: 10/s burst 1, algorithm: token_bucket}}
";
    let fleet = Fleet::start(2, rules, &store.url(), &[]);
    fleet.wait_for_store("up").await;
    let [one, other] = fleet.addresses()[..] else { panic!("two nodes") };
    let (app, reached) = app().await;
    let queued = |site: String| site.replace("entry=remote_address=$remote_addr", "entry=queue=orders");
    let denying =
        [Nginx::start(binary, |it| it, one, app).await, Nginx::start(binary, |it| it, other, app).await];
    let queueing =
        [Nginx::start(binary, queued, one, app).await, Nginx::start(binary, queued, other, app).await];

    // Forwarded or denied: seven of forty, whichever node is asked.
    let ask = |servers: &[Nginx; 2], count: usize| {
        let mut asking = tokio::task::JoinSet::new();
        for request in 0..count {
            let at = servers[request % 2].at;
            asking.spawn(async move { http::get(at, "/", &[]).await.expect("nginx answers") });
        }
        asking.join_all()
    };
    let answers = ask(&denying, REQUESTS).await;
    let passed = answers.iter().filter(|answer| answer.status == 200).count();
    let denied = answers.iter().filter(|answer| answer.status == 429).count();
    assert_eq!((passed, denied), (LIMIT, REQUESTS - LIMIT), "{}{}", denying[0].log(), denying[1].log());
    assert_eq!(reached.load(Ordering::Relaxed), LIMIT, "no denied request reaches the application");
    let waits = answers.iter().filter(|answer| answer.status == 429).map(|answer| told(answer)[4]);
    assert!(waits.flatten().count() == denied, "every denial says when to come back");
    // The count and the time of the last request are one number in Redis, which expires when the bucket is full.
    let key = "tollgate:{edge|remote_address=127.0.0.1|token_bucket}";
    assert_eq!(store.command(&["EXISTS", key]), Reply::Int(1));
    assert!(matches!(store.command(&["PTTL", key]), Reply::Int(1..)), "{key} does not expire");

    // Queued: all of twelve reach the application, one every 100 ms from both nodes together.
    let began = tokio::time::Instant::now();
    let answers = ask(&queueing, 12).await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    assert_eq!(reached.load(Ordering::Relaxed), LIMIT + 12);
    assert!(began.elapsed() >= std::time::Duration::from_millis(1_050), "{:?}", began.elapsed());

    // A node more has no counts of its own: it denies what the others have used up.
    let third = fleet.node();
    let late = Nginx::start(binary, |it| it, third.http, app).await;
    until("the third node to have the store", async || {
        (store_state(&third).await.as_deref() == Some("up")).then_some(())
    })
    .await;
    assert_eq!(late.get("/", &[]).await.status, 429);
}
