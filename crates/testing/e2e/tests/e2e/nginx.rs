//! The distribution's nginx asks the release binary by `auth_request`, with the configuration of
//! docs/proxies.md.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tollgate_testkit::redis::{Options, Redis, RedisReply};

use crate::fleet::{Fleet, store_state, until};
use crate::http::{self, Answer};
use crate::proxies::app::App;
use crate::proxies::page::{addressed, block, quoted_after, replace};
use crate::proxies::proxy::{Proxy, program};
use crate::skip;
use crate::start::rules;
use crate::tollgate::Tollgate;

const LIMIT: usize = 7;
const REQUESTS: usize = 40;
const RULES: &str = "domain: edge
descriptors:
  - {key: remote_address, rate_limit: {name: per_address, unit: year, requests_per_unit: 7}}
  - {key: api_key, rate_limit: {name: per_key, unit: year, requests_per_unit: 2}}
";

/// Timeout of the proxy's requests to Tollgate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The value on the page.
    OfPage,
    /// Long enough that a busy machine is not taken for a Tollgate that does not respond.
    Long,
}

/// nginx, with the configuration of the page and a second site without a limiter.
pub(crate) async fn start(
    binary: &Path,
    wait: Wait,
    (tollgate, app): (SocketAddr, &App),
    change: impl Fn(String) -> String,
) -> Proxy {
    Proxy::start(app, |folder, [public, open, _]| {
        let site = addressed(&block("nginx"), tollgate, app.at);
        let site = replace(&site, "listen 80;", &format!("listen {public};"));
        let site = if wait == Wait::Long { replace(&site, "100ms;", "60s;") } else { site };
        let base = folder.display();
        let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|kind| format!("{kind}_temp_path {base}/{kind};\n"))
            .collect();
        let text = format!(
            "daemon off; worker_processes 2; pid {base}/pid; error_log {base}/log;\n\
             events {{ worker_connections 512; }}\nhttp {{\naccess_log off;\n{temp}{site}\n\
             server {{ listen {open}; location ^~ / {{ proxy_pass http://app; }} }}\n}}\n"
        );
        let text = change(text);
        std::fs::write(folder.join("nginx.conf"), text).expect("it can be written");
        let mut command = Command::new(binary);
        command.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf"));
        command.arg("-e").arg(folder.join("log"));
        command
    })
    .await
}

/// The change of the page for a limit by API key.
pub(crate) fn by_key(config: String) -> String {
    let entry = quoted_after("- For a limit by API key, use ");
    let config = replace(&config, quoted_after("instead of\n  "), entry);
    let line = block("nginx api key");
    let config = replace(&config, "location / {", &format!("location / {{\n{line}"));
    replace(&config, "location = /tollgate {", &format!("location = /tollgate {{\n{line}"))
}

/// Where this machine has it.
pub(crate) fn nginx() -> Option<PathBuf> {
    let found = program("nginx");
    if found.is_none() {
        skip::skip("a real nginx", "it is not installed; on Debian: apt-get install nginx-light");
    }
    found
}

async fn get(nginx: &Proxy, path: &str, headers: &[(&str, &str)]) -> Answer {
    http::get(nginx.public, path, headers).await.expect("nginx answers")
}

/// Limit, remaining, reset and both waits, as the client sees them.
fn told(answer: &Answer) -> [Option<&str>; 5] {
    let names = ["limit", "remaining", "reset", "retry-after"].map(|name| format!("x-ratelimit-{name}"));
    let [limit, remaining, reset, wait] = names.each_ref().map(|name| answer.header(name));
    [limit, remaining, reset, wait, answer.header("retry-after")]
}

#[tokio::test(flavor = "multi_thread")]
async fn nginx_admits_exactly_the_limit_and_returns_retry_after_with_each_denial() {
    let Some(binary) = nginx() else { return };
    let rules = rules(RULES);
    let mut server = Tollgate::start(rules.path());
    let app = App::start().await;
    let nginx = start(&binary, Wait::Long, (server.http, &app), |site| site).await;

    // Exactly N of M, from eight tasks at once.
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let at = nginx.public;
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
    assert_eq!(app.reached(), LIMIT, "no denied request reaches the application");

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
    let answer = http::post(nginx.public, "/", &"x".repeat(100_000)).await.expect("nginx answers");
    assert_eq!(answer.status, 429, "{answer:?}");

    // Tollgate is gone: nginx admits requests, as it is configured, without fields.
    server.kill();
    let before = app.reached();
    for _ in 0..3 {
        let answer = get(&nginx, "/", &[]).await;
        assert_eq!((answer.status, told(&answer)), (200, [None; 5]), "{answer:?}");
    }
    assert_eq!(app.reached(), before + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_nginx_a_clients_header_counts_as_it_is_and_the_applications_own_errors_stay() {
    let Some(binary) = nginx() else { return };
    let rules = rules(RULES);
    let mut server = Tollgate::start(rules.path());
    let app = App::start().await;
    let change = |config: String| {
        let config = replace(&by_key(config), "error_page 502 504 = @unlimited;", "");
        let denied = "location /denied { deny all; error_page 403 = @limited; }\n    location / {";
        replace(&config, "    location / {", denied)
    };
    let nginx = start(&binary, Wait::Long, (server.http, &app), change).await;

    // A key that looks like a part of a URL is a key like any other.
    for key in ["alice", "a&entry=api_key=b", "%61lice", "a b", "客户"] {
        for want in [200, 200, 429] {
            assert_eq!(get(&nginx, "/", &[("X-Api-Key", key)]).await.status, want, "{key}: {}", nginx.log());
        }
    }
    // An error that is not Tollgate's denial is not shown as one.
    assert_eq!(get(&nginx, "/forbidden", &[("X-Api-Key", "bob")]).await.status, 403);
    assert_eq!(get(&nginx, "/broken", &[("X-Api-Key", "bob")]).await.status, 500);
    assert_eq!(get(&nginx, "/forbidden", &[("X-Api-Key", "bob")]).await.status, 429);
    assert_eq!(get(&nginx, "/denied", &[]).await.status, 403);
    // Clients cannot reach Tollgate by its location.
    assert_eq!(get(&nginx, "/tollgate?&hits=0", &[("X-Api-Key", "dora")]).await.status, 404);

    // Without the line that lets pass, a limiter that does not answer denies.
    server.kill();
    assert_eq!(get(&nginx, "/", &[("X-Api-Key", "carol")]).await.status, 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_zones_of_one_request_are_both_enforced() {
    let Some(binary) = nginx() else { return };
    // A zone an address and a zone a server, as with two limits on one location.
    let rules = rules(
        "domain: edge\ncharge: together\ndescriptors:
  - {key: remote_address, rate_limit: {name: perip, unit: year, requests_per_unit: 5}}
  - {key: host, rate_limit: {name: perserver, unit: year, requests_per_unit: 3}}
",
    );
    let server = Tollgate::start(rules.path());
    let app = App::start().await;
    let change = |config: String| {
        let sentence = "by address and by host name, use\n  ";
        let config = replace(&config, "entry=remote_address=$remote_addr", quoted_after(sentence));
        let line = quoted_after("with a rule for each key, and\n  add ");
        replace(&config, "location = /tollgate {", &format!("location = /tollgate {{\n{line}"))
    };
    let nginx = start(&binary, Wait::Long, (server.http, &app), change).await;
    for (host, want) in [
        ("a.example", [200, 200, 200, 429]), // its server's three
        ("b.example", [200, 200, 429, 429]), // the address's five
        ("a.example", [429, 429, 429, 429]),
        ("c&hits=0", [429, 429, 429, 429]), // a name, and no part of the URL
        ("c&domain=other", [429, 429, 429, 429]),
    ] {
        for (nth, want) in want.into_iter().enumerate() {
            let answer = get(&nginx, "/", &[("host", host)]).await;
            assert_eq!(answer.status, want, "{host}, request {nth}: {}", nginx.log());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_by_the_next_node_is_a_denial() {
    let Some(binary) = nginx() else { return };
    let rules = rules(RULES);
    let server = Tollgate::start(rules.path());
    let app = App::start().await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
    let two = |config: String| {
        let node = format!("server {};", server.http);
        replace(&config, &node, &format!("server {closed}; {node}"))
    };
    let nginx = start(&binary, Wait::Long, (server.http, &app), two).await;
    let check = "/v1/check?domain=edge&entry=remote_address=127.0.0.1&hits=7";
    assert_eq!(http::get(server.http, check, &[]).await.expect("an answer").status, 200);
    for _ in 0..4 {
        let answer = get(&nginx, "/", &[]).await;
        assert_eq!(answer.status, 429, "{answer:?}");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
    }
    assert_eq!(app.reached(), 0);
    assert!(nginx.log().contains("Connection refused"), "the first node was asked: {}", nginx.log());
}

/// The whole way of a request: nginx, either of two nodes, the counter and its time in Redis; then the
/// application, a denial, or a place in the queue.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_goes_through_nginx_and_a_node_to_its_counter_in_redis_and_is_forwarded_denied_or_queued() {
    let Some(binary) = nginx() else { return };
    let Some(store) = Redis::start(&Options::new()) else { return };
    let rules = "domain: edge\ndescriptors:
  - {key: remote_address, rate_limit: {unit: year, requests_per_unit: 7, algorithm: token_bucket}}
  - {key: queue, on_limit: queue, max_wait: 30s, rate_limit: {rate: 10/s burst 1, algorithm: token_bucket}}
";
    let fleet = Fleet::start(2, rules, &store.url(), &[]);
    fleet.wait_for_store("up").await;
    let [one, other] = fleet.addresses()[..] else { panic!("two nodes") };
    let app = App::start().await;
    let queued = |site: String| site.replace("entry=remote_address=$remote_addr", "entry=queue=orders");
    let denying = [
        start(&binary, Wait::Long, (one, &app), |it| it).await,
        start(&binary, Wait::Long, (other, &app), |it| it).await,
    ];
    let queueing = [
        start(&binary, Wait::Long, (one, &app), queued).await,
        start(&binary, Wait::Long, (other, &app), queued).await,
    ];

    // Forwarded or denied: seven of forty, whichever node is asked.
    let ask = |servers: &[Proxy; 2], count: usize| {
        let mut asking = tokio::task::JoinSet::new();
        for request in 0..count {
            let at = servers[request % 2].public;
            asking.spawn(async move { http::get(at, "/", &[]).await.expect("nginx answers") });
        }
        asking.join_all()
    };
    let answers = ask(&denying, REQUESTS).await;
    let passed = answers.iter().filter(|answer| answer.status == 200).count();
    let denied = answers.iter().filter(|answer| answer.status == 429).count();
    assert_eq!((passed, denied), (LIMIT, REQUESTS - LIMIT), "{}{}", denying[0].log(), denying[1].log());
    assert_eq!(app.reached(), LIMIT, "no denied request reaches the application");
    let waits = answers.iter().filter(|answer| answer.status == 429).map(|answer| told(answer)[4]);
    assert!(waits.flatten().count() == denied, "every denial says when to come back");
    // The count and the time of the last request are one number in Redis, which expires when the bucket is
    // full.
    let key = "tollgate:{edge|remote_address=127.0.0.1|token_bucket}";
    assert_eq!(store.command(&["EXISTS", key]), RedisReply::Int(1));
    assert!(matches!(store.command(&["PTTL", key]), RedisReply::Int(1..)), "{key} does not expire");

    // Queued: all of twelve reach the application, one every 100 ms from both nodes together.
    let began = tokio::time::Instant::now();
    let answers = ask(&queueing, 12).await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    assert_eq!(app.reached(), LIMIT + 12);
    assert!(began.elapsed() >= std::time::Duration::from_millis(1_050), "{:?}", began.elapsed());

    // An additional node has no counts of its own: it denies when the others have used up the limit.
    let third = fleet.node();
    let late = start(&binary, Wait::Long, (third.http, &app), |it| it).await;
    until("the third node to have the store", async || {
        (store_state(&third).await.as_deref() == Some("up")).then_some(())
    })
    .await;
    assert_eq!(get(&late, "/", &[]).await.status, 429);
}
