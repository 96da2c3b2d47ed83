//! No input of a client switches a limit off: real proxies with the files of docs/proxies.md and
//! examples/envoy.yaml.
//!
//! Each proxy has a second listener without a limiter. It shows the proxy's own handling of a request: a
//! request that is forwarded there must be forwarded here while there are permits, and must be denied once
//! they are used up.
//!
//! `page` (the files), `proxy` (a process), `app` (behind it), `hostile` (the requests).

pub(crate) mod app;
pub(crate) mod hostile;
pub(crate) mod page;
pub(crate) mod proxy;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use app::App;
use hostile::{Case, Clients, Outcome};
use proxy::Proxy;

use crate::fleet::until;
use crate::nginx::Wait;
use crate::start::rules;
use crate::tollgate::Tollgate;
use crate::{caddy, envoy, haproxy, nginx};

/// Requests per address and per key, without end.
const PER_ADDRESS: usize = 3;
const PER_KEY: usize = 2;
const RULES: &str = "descriptors:
  - {key: remote_address, ipv6_prefix: 64, rate_limit: {unit: year, requests_per_unit: 3}}
  - {key: api_key, rate_limit: {unit: year, requests_per_unit: 2}}
";

/// A proxy in front of an application.
struct Way<'a> {
    name: &'a str,
    public: SocketAddr,
    open: SocketAddr,
    app: &'a App,
}

impl<'a> Way<'a> {
    fn new(name: &'a str, proxy: &Proxy, app: &'a App) -> Self {
        Self { name, public: proxy.public, open: proxy.open, app }
    }

    /// Outcome of a request, and how many requests reached the application.
    async fn send(&self, case: &Case, from: Ipv4Addr, to: SocketAddr) -> (Outcome, usize) {
        let before = self.app.reached();
        let outcome = case.send(from, to).await;
        (outcome, self.app.reached() - before)
    }

    /// The law for a limit per address.
    async fn assert_addresses_are_limited(&self, clients: &mut Clients) {
        let seed = seed();
        println!("{}: hostile requests of seed {seed}; TOLLGATE_TEST_SEED sets it", self.name);
        let plain = Case::plain();
        let used_up = clients.next();
        for _ in 0..PER_ADDRESS {
            assert_eq!(
                self.send(&plain, used_up, self.public).await,
                (Outcome::Status(200), 1),
                "{}",
                self.name
            );
        }
        assert_eq!(self.send(&plain, used_up, self.public).await, (Outcome::Status(429), 0), "{}", self.name);

        let mut wrong = Vec::new();
        let mut forwarded = 0;
        let mut rejected = 0;
        for case in hostile::cases(&mut fastrand::Rng::with_seed(seed), 60) {
            let open = self.send(&case, clients.next(), self.open).await;
            let fresh = self.send(&case, clients.next(), self.public).await;
            let denied = self.send(&case, used_up, self.public).await;
            let is_right = denied.1 == 0
                && if open.1 > 0 {
                    forwarded += 1;
                    fresh == open
                        && (denied.0.is_denial() || denied.0 == Outcome::Closed && open.0 == Outcome::Closed)
                } else {
                    rejected += 1;
                    denied.0.is_denial() || denied.0.is_rejection() || denied.0 == open.0
                };
            if !is_right {
                wrong.push(format!("{}: unlimited {open:?}, fresh {fresh:?}, used up {denied:?}", case.name));
            }
        }
        println!("{}: forwards {forwarded}, rejects {rejected}", self.name);
        assert!(wrong.is_empty(), "{}, seed {seed}:\n{}", self.name, wrong.join("\n"));
        assert!(
            forwarded > 100 && rejected > 10,
            "{}: {forwarded} forwarded, {rejected} rejected",
            self.name
        );
    }

    /// The law for a limit per key: whatever the application takes as the key, no key has more than its
    /// limit.
    async fn assert_keys_are_limited(&self, clients: &mut Clients) {
        let seed = seed();
        let used_up = "used-up";
        let start = self.app.reached();
        let key = Case::plain().field("X-Api-Key", used_up);
        for want in [(Outcome::Status(200), 1), (Outcome::Status(200), 1), (Outcome::Status(429), 0)] {
            assert_eq!(self.send(&key, clients.next(), self.public).await, want, "{}", self.name);
        }
        let mut wrong = Vec::new();
        for hostile::KeyCase { case, is_own, is_large } in
            hostile::keys(&mut fastrand::Rng::with_seed(seed), used_up)
        {
            let from = clients.next();
            let before = self.app.reached();
            let mut outcomes = Vec::new();
            for _ in 0..=PER_ADDRESS {
                outcomes.push(self.send(&case, from, self.public).await);
            }
            let seen = self.app.seen_since(before);
            let open = self.send(&case, clients.next(), self.open).await;
            let admitted = seen.len();
            let last = outcomes[PER_ADDRESS];
            let is_rejected = outcomes.iter().all(|it| *it == (Outcome::Status(400), 0));
            let is_right = if is_own && open.1 > 0 && !(is_large && is_rejected) {
                let wanted = [[open; PER_KEY].as_slice(), &[(Outcome::Status(429), 0); 2]].concat();
                admitted == PER_KEY && outcomes == wanted
            } else {
                last.1 == 0 && (last.0.is_denial() || last.0.is_rejection())
            };
            if !is_right || seen.iter().any(|it| it.keys.len() > 1) {
                let short = |key: &Vec<u8>| String::from_utf8_lossy(&key[..key.len().min(20)]).into_owned();
                let seen: Vec<Vec<_>> = seen.iter().map(|it| it.keys.iter().map(short).collect()).collect();
                wrong.push(format!("{}: unlimited {open:?}, {outcomes:?}, seen {seen:?}", case.name));
            }
            // Requests that the open listener let through say nothing about limits.
            self.app.forget_since(before + admitted);
        }
        let mut counts = HashMap::new();
        for seen in self.app.seen_since(start) {
            if let [key] = &seen.keys[..]
                && !key.is_empty()
            {
                *counts.entry(key.clone()).or_insert(0) += 1;
            }
        }
        wrong.extend(counts.into_iter().filter(|(_, count)| *count > PER_KEY).map(|(key, count)| {
            format!("the application saw {:?} {count} times", String::from_utf8_lossy(&key))
        }));
        assert!(wrong.is_empty(), "{}, seed {seed}:\n{}", self.name, wrong.join("\n"));
    }
}

/// Sets which hostile requests are mixed.
fn seed() -> u64 {
    std::env::var("TOLLGATE_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn rules_of(domain: &str) -> tempfile::TempDir {
    rules(&format!("domain: {domain}\n{RULES}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn in_nginx_no_request_passes_a_limit_that_is_used_up() {
    let Some(binary) = nginx::nginx() else { return };
    let rules = rules_of("edge");
    let server = Tollgate::start(rules.path());
    let app = App::start().await;
    let mut clients = Clients::default();
    let by_address = nginx::start(&binary, Wait::Long, (server.http, &app), |it| it).await;
    Way::new("nginx", &by_address, &app).assert_addresses_are_limited(&mut clients).await;
    let by_key = nginx::start(&binary, Wait::Long, (server.http, &app), nginx::by_key).await;
    Way::new("nginx by key", &by_key, &app).assert_keys_are_limited(&mut clients).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_haproxy_no_request_passes_a_limit_that_is_used_up() {
    let Some(binary) = haproxy::haproxy() else { return };
    let rules = rules_of("edge");
    let server = Tollgate::start(rules.path());
    let app = App::start().await;
    let mut clients = Clients::default();
    let by_address = haproxy::start(&binary, Wait::Long, (server.http, &app), |cfg, lua| (cfg, lua)).await;
    Way::new("HAProxy", &by_address, &app).assert_addresses_are_limited(&mut clients).await;
    let by_key = haproxy::start(&binary, Wait::Long, (server.http, &app), haproxy::by_key).await;
    Way::new("HAProxy by key", &by_key, &app).assert_keys_are_limited(&mut clients).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_caddy_no_request_passes_a_limit_that_is_used_up() {
    let Some(binary) = caddy::caddy() else { return };
    let rules = rules_of("edge");
    let server = Tollgate::start(rules.path());
    let app = App::start().await;
    let mut clients = Clients::default();
    for kind in ["short", "long"] {
        let proxy = caddy::start(&binary, (kind, Wait::Long), (server.http, &app), |it| it).await;
        Way::new("Caddy", &proxy, &app).assert_addresses_are_limited(&mut clients).await;
    }
    let by_key = |site| caddy::by_key(&binary, site);
    let proxy = caddy::start(&binary, ("long", Wait::Long), (server.http, &app), by_key).await;
    Way::new("Caddy by key", &proxy, &app).assert_keys_are_limited(&mut clients).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_envoy_no_request_passes_a_limit_that_is_used_up() {
    let Some(binary) = envoy::binary() else { return };
    let rules = rules_of("shop");
    let server = Tollgate::start(rules.path());
    let app = App::start().await;
    let mut clients = Clients::default();
    let config = envoy::example(Wait::Long, server.grpc, app.at);
    let (_envoy, [public, open]) = envoy::Running::start(&binary, &config, ["public", "open"]).await;
    let way = Way { name: "Envoy", public, open, app: &app };
    way.assert_addresses_are_limited(&mut clients).await;
    way.assert_keys_are_limited(&mut clients).await;
}

/// Opens `count` connections of one client, or as many as the proxy takes, then sends a plain request on
/// each.
async fn flood(way: &Way<'_>, from: Ipv4Addr, count: usize) -> JoinSet<Outcome> {
    let mut streams = Vec::new();
    let mut flood = JoinSet::new();
    for _ in 0..count {
        match timeout(Duration::from_millis(500), hostile::connect(from, way.public)).await {
            Ok(stream) => streams.push(stream),
            Err(_) => break,
        }
    }
    for stream in streams {
        flood.spawn(async move { Case::plain().send_on(stream).await });
    }
    flood
}

/// Uses up the permits of one client.
async fn use_up(way: &Way<'_>, client: Ipv4Addr) {
    for _ in 0..PER_ADDRESS {
        assert_eq!(
            way.send(&Case::plain(), client, way.public).await,
            (Outcome::Status(200), 1),
            "{}",
            way.name
        );
    }
}

/// A proxy that cannot ask Tollgate since it has no connections left must not forward.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_connections_switches_no_limit_off() {
    let edge = rules_of("edge");
    let shop = rules_of("shop");
    let mut clients = Clients::default();
    let app = App::start().await;
    let used_up = clients.next();
    if let Some(binary) = nginx::nginx() {
        let server = Tollgate::start(edge.path());
        let few = |config: String| page::replace(&config, "worker_connections 512", "worker_connections 24");
        let proxy = nginx::start(&binary, Wait::Long, (server.http, &app), few).await;
        let way = Way::new("nginx", &proxy, &app);
        use_up(&way, used_up).await;
        let outcomes = flood(&way, used_up, 100).await.join_all().await;
        assert!(outcomes.iter().all(|it| it.is_rejection()), "{outcomes:?}");
        assert_eq!(app.reached(), PER_ADDRESS, "{outcomes:?}");
        app.forget_since(0);
    }
    if let Some(binary) = haproxy::haproxy() {
        let server = Tollgate::start(edge.path());
        let few = |config: String, lua| {
            let config = page::replace(&config, "maxconn 4000", "maxconn 40");
            (page::replace(&config, "maxconn 2000", "maxconn 20"), lua)
        };
        let proxy = haproxy::start(&binary, Wait::Long, (server.http, &app), few).await;
        let way = Way::new("HAProxy", &proxy, &app);
        use_up(&way, used_up).await;
        let outcomes = flood(&way, used_up, 100).await.join_all().await;
        assert!(outcomes.iter().all(|it| it.is_denial()), "{outcomes:?}");
        assert_eq!(app.reached(), PER_ADDRESS);
        app.forget_since(0);
    }
    if let Some(binary) = envoy::binary() {
        let server = Tollgate::start(shop.path());
        let config = envoy::example(Wait::Long, server.grpc, app.at);
        let (envoy, [public, open]) = envoy::Running::start(&binary, &config, ["public", "open"]).await;
        let way = Way { name: "Envoy", public, open, app: &app };
        use_up(&way, used_up).await;
        // More than the 1,024 calls that Envoy has in flight by default.
        server.signal("STOP");
        let asking = flood(&way, used_up, 1_500).await;
        until("all to be in Envoy", async || {
            let count = envoy.statistic("http.public.downstream_rq_total").await?;
            (count >= PER_ADDRESS as u64 + 1_500).then_some(())
        })
        .await;
        server.signal("CONT");
        let outcomes = asking.join_all().await;
        assert!(outcomes.iter().all(|it| it.is_denial()), "{outcomes:?}");
        assert_eq!(app.reached(), PER_ADDRESS);
    }
}

/// Asserts the page's statements about a Tollgate that does not respond: stopped, so that nothing answers, or
/// ended, so that nothing listens.
async fn assert_outage(
    way: &Way<'_>,
    mut server: Tollgate,
    stopped: (Outcome, usize),
    gone: (Outcome, usize),
) {
    server.signal("STOP");
    until("it to be stopped", async || server.is_stopped().then_some(())).await;
    let began = Instant::now();
    let client = Ipv4Addr::LOCALHOST;
    assert_eq!(
        way.send(&Case::plain(), client, way.public).await,
        stopped,
        "{} while it is stopped",
        way.name
    );
    // Far above every timeout on the page, and below those that proxies have by default.
    assert!(began.elapsed() < Duration::from_secs(20), "{}: {:?}", way.name, began.elapsed());
    server.kill();
    for _ in 0..3 {
        assert_eq!(way.send(&Case::plain(), client, way.public).await, gone, "{} when it is gone", way.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_proxy_does_what_the_page_says_while_tollgate_does_not_respond() {
    let edge = rules_of("edge");
    let shop = rules_of("shop");
    let app = App::start().await;
    let forwarded = (Outcome::Status(200), 1);
    let rejected = |status| (Outcome::Status(status), 0);
    if let Some(binary) = nginx::nginx() {
        let without_the_line = |config: String| {
            let line = config.lines().find(|line| line.contains("= @unlimited;")).expect("it is there");
            page::replace(&config, line, "")
        };
        let server = Tollgate::start(edge.path());
        let proxy = nginx::start(&binary, Wait::OfPage, (server.http, &app), |it| it).await;
        assert_outage(&Way::new("nginx", &proxy, &app), server, forwarded, forwarded).await;
        let server = Tollgate::start(edge.path());
        let proxy = nginx::start(&binary, Wait::OfPage, (server.http, &app), without_the_line).await;
        assert_outage(&Way::new("strict nginx", &proxy, &app), server, rejected(500), rejected(500)).await;
    }
    if let Some(binary) = haproxy::haproxy() {
        let strict = |config, lua: String| {
            let line = lua.lines().find(|line| line.contains("Or reject: ")).expect("it is there");
            let (_, instead) = line.split_once("Or reject: ").expect("it is there");
            (config, page::replace(&lua, line, instead))
        };
        let server = Tollgate::start(edge.path());
        let proxy = haproxy::start(&binary, Wait::OfPage, (server.http, &app), |cfg, lua| (cfg, lua)).await;
        assert_outage(&Way::new("HAProxy", &proxy, &app), server, forwarded, forwarded).await;
        let server = Tollgate::start(edge.path());
        let proxy = haproxy::start(&binary, Wait::OfPage, (server.http, &app), strict).await;
        assert_outage(&Way::new("strict HAProxy", &proxy, &app), server, rejected(503), rejected(503)).await;
    }
    if let Some(binary) = caddy::caddy() {
        for (kind, stopped, gone) in [("short", rejected(504), rejected(502)), ("long", forwarded, forwarded)]
        {
            let server = Tollgate::start(edge.path());
            let proxy = caddy::start(&binary, (kind, Wait::OfPage), (server.http, &app), |it| it).await;
            assert_outage(&Way::new("Caddy", &proxy, &app), server, stopped, gone).await;
        }
    }
    if let Some(binary) = envoy::binary() {
        let strict = "failure_mode_deny: true";
        let unavailable =
            format!("{strict}\n                      status_on_error: {{code: ServiceUnavailable}}");
        for (mode, want) in
            [("failure_mode_deny: false", forwarded), (strict, rejected(500)), (&unavailable, rejected(503))]
        {
            let server = Tollgate::start(shop.path());
            let config = envoy::example(Wait::OfPage, server.grpc, app.at);
            let config = page::replace(&config, "failure_mode_deny: false", mode);
            let (_envoy, [public, open]) = envoy::Running::start(&binary, &config, ["public", "open"]).await;
            assert_outage(&Way { name: "Envoy", public, open, app: &app }, server, want, want).await;
        }
    }
}

/// Accepts connections and reads, but never answers. Counts the requests for a check.
async fn silent() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("bound");
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let counted = counted.clone();
            tokio::spawn(async move {
                let mut lines = BufReader::new(stream).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    counted.fetch_add(usize::from(line.starts_with("GET /v1/check?")), Ordering::Relaxed);
                }
            });
        }
    });
    (at, count)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_asks_once_so_that_a_late_reply_is_charged_once() {
    let app = App::start().await;
    for name in ["nginx", "HAProxy", "Caddy"] {
        let (tollgate, asked) = silent().await;
        let ways = (tollgate, &app);
        let proxy = match name {
            "nginx" => match nginx::nginx() {
                Some(binary) => nginx::start(&binary, Wait::OfPage, ways, |it| it).await,
                None => continue,
            },
            "HAProxy" => match haproxy::haproxy() {
                Some(binary) => haproxy::start(&binary, Wait::OfPage, ways, |cfg, lua| (cfg, lua)).await,
                None => continue,
            },
            _ => match caddy::caddy() {
                Some(binary) => caddy::start(&binary, ("long", Wait::OfPage), ways, |it| it).await,
                None => continue,
            },
        };
        let way = Way::new(name, &proxy, &app);
        let got = way.send(&Case::plain(), Ipv4Addr::LOCALHOST, way.public).await;
        assert_eq!(got, (Outcome::Status(200), 1), "{name}");
        until("the request to arrive", async || (asked.load(Ordering::Relaxed) > 0).then_some(())).await;
        assert_eq!(asked.load(Ordering::Relaxed), 1, "{name}");
    }
}
